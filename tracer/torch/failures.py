"""What torch says where it cannot trace, in our words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from tracer.compilation.importing import named
from tracer.errors import TracingError, UnsupportedError
from tracer.torch.sources import source_of_error


@contextmanager
def in_our_words(function: Callable[..., Any]) -> Iterator[None]:
    """Say where the user's function did what cannot be traced.

    Raises
    ------
    TracingError
        The function needs the value of a tensor.
    UnsupportedError
        A shape depends on values, or torch does not know what an op would return.
    """
    try:
        yield
    except (DataDependentOutputException, GuardOnDataDependentSymNode) as error:
        raise TracingError(
            f"{named(function)} needs the value of a tensor while it is traced ({error})",
            mend="use torch.where for what depends on values, and keep .item(), float(), bool() "
            "and .tolist() out of the function",
            where=source_of_error(error),
        ) from error
    except DynamicOutputShapeException as error:
        raise UnsupportedError(
            f"torch's {error} makes a tensor whose shape depends on values",
            mend="use torch.where with the whole tensor, or do this outside of the function",
            where=source_of_error(error),
        ) from error
    except UnsupportedOperatorException as error:
        raise UnsupportedError(
            f"torch's {error} cannot be traced",
            mend="write it with other functions of torch",
            where=source_of_error(error),
        ) from error
