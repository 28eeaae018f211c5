"""What pytest must know before it looks for examples in docstrings."""

import importlib.util
import inspect
import sys

import pytest

# tracer.jax cannot be imported without JAX, and tracer.torch not without PyTorch;
# tests/jax/test_examples.py and tests/torch/test_examples.py run their examples.
collect_ignore = [
    f"tracer/{name}" for name in ("jax", "torch") if importlib.util.find_spec(name) is None
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run examples where a function is defined, not again where it is public.

    There other names of the module hide Python's own, such as `round` and `print`.
    """
    items[:] = [item for item in items if not _is_found_again(item)]


def _is_found_again(item: pytest.Item) -> bool:
    module, _, name = item.name.rpartition(".")
    found = getattr(sys.modules.get(module), name, None)
    is_wrapped = isinstance(item, pytest.DoctestItem) and hasattr(found, "__wrapped__")
    return is_wrapped and inspect.unwrap(found).__module__ != module
