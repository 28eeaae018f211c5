"""`tracer.torch.limit`: a function or module of torch within a byte limit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tracer.compilation.comparison import Check
from tracer.compilation.function import compile
from tracer.compilation.importing import named
from tracer.errors import ArgumentError, DTypeError
from tracer.optimizer.plan import Plan
from tracer.torch.arguments import Call, module_key_of, read_call
from tracer.torch.capture import capture
from tracer.torch.check import compare
from tracer.torch.program import Program


class Programs:
    """The programs of one function, one for each kind of call."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.name, self.options = name, options
        self._programs: dict[Any, list[Program]] = {}

    def find(self, key: Any, make: Callable[[], tuple[Any, Sequence[torch.Tensor]]]) -> Program:
        """Return the program of a key, made again where modules are not as they were."""
        known = self._programs.setdefault(key, [])
        for program in known:
            if program.is_current():
                return program
        captured, tensors = make()
        program = Program(captured, tensors, self.name, self.options)
        known.append(program)
        return program


class LimitedFunction:
    """A function of tensors that runs within a byte limit; made by `limit`.

    Calling it does what the function does. Its programs are made once for each kind of call: shapes
    and dtypes of tensors, values of all other arguments, and the modes of modules.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, plain_function(function), updated=())
        self._function = function
        self._programs = Programs(named(function), options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on tensors; returns what the function returns."""
        call = read_call(args, kwargs)
        require_data(call)
        program = self._program(call)
        _require_no_gradient(program, call)
        return program(call.tensors)

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """Return the plan for these arguments; runs nothing.

        Tensors on the device "meta" have no data: `torch.empty(shape, device="meta")`.

        Raises
        ------
        MemoryLimitError
            The limit cannot be met.
        """
        return self._program(read_call(args, kwargs)).plan()

    def check(self, *args: Any, **kwargs: Any) -> Check:
        """Compare the results with those of eager torch, which takes the memory that it takes.

        Parameters
        ----------
        *args, **kwargs
            Those of a call. Nothing is written to.

        Returns
        -------
        Check
            True where all results are within rounding; print it for a table.
        """
        written = self._program(read_call(args, kwargs)).captured.written_tensors
        return compare(self._function, self, args, kwargs, written)

    def _program(self, call: Call) -> Program:
        def make() -> Any:
            return capture(call.bound(self._function), call.tensors), call.tensors

        return self._programs.find((call.key, module_key_of(self._function)), make)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Bind to an instance, which is the first argument."""
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<limited {self._programs.name}>"


def plain_function(function: Any) -> Any:
    """Return what has the name and documentation of a function or module."""
    return function.forward if isinstance(function, torch.nn.Module) else function


def require_data(call: Call) -> None:
    """Raise `ArgumentError` for tensors without data."""
    if any(tensor.is_meta for tensor in call.tensors):
        raise ArgumentError(
            "cannot run on a tensor of the device meta: it has no data",
            mend="pass tensors with data, or use .plan(...)",
        )


def _require_no_gradient(program: Program, call: Call) -> None:
    """Refuse what eager torch would differentiate: the result has no history."""
    if not torch.is_grad_enabled():
        return
    if any(x.requires_grad for x in (*program.captured.closed_over, *call.tensors)):
        raise ArgumentError(
            f"{program.name} is called where torch records gradients, and a tensor that it uses "
            "requires one: the result would have no history",
            mend="call it under torch.no_grad(), or use tracer.torch.value_and_grad for "
            "gradients within the limit",
        )


def limit(
    fn: Callable[..., Any],
    *,
    memory_limit: float | str | None = None,
    split: str = "auto",
    passes: str | Sequence[str] | None = None,
) -> LimitedFunction:
    """Compile a function or module of torch, to run within a byte limit.

    Parameters
    ----------
    fn : callable
        A `torch.nn.Module`, or a function of containers of tensors. Tensors that it closes over,
        such as parameters of modules, are read at each call.
    memory_limit : int, float or str, optional
        Bytes for the whole program: arguments, parameters, results, temporaries and library
        scratch. As for `tracer.compile`.
    split, passes : optional
        As for `tracer.compile`.

    Returns
    -------
    LimitedFunction
        Call it like `fn`: it takes and returns tensors, which share their memory with the
        program's. It has `plan` and `check`.

    Raises
    ------
    UnsupportedError
        At the first call (or `plan`): the function uses something that tracer does not have.
        The message names all such ops of ATen and the lines.
    MemoryLimitError
        At the first call (or `plan`): the limit cannot be met; nothing has run then.
    TracingError
        The function needs the value of a tensor while it is traced.
    ArgumentError
        It is called where torch records gradients of what it uses.

    Examples
    --------
    >>> import torch
    >>> import tracer.torch
    >>> def kernel_product(x, v):
    ...     return torch.exp(-((x[:, None] - x[None, :]) ** 2)) @ v
    >>> f = tracer.torch.limit(kernel_product, memory_limit="1MB")
    >>> f(torch.zeros(1000), torch.ones(1000))[:2]
    tensor([1000., 1000.])
    """
    return LimitedFunction(fn, checked_options(fn, "limit", memory_limit, split, passes))


def checked_options(
    fn: Any, name: str, memory_limit: Any, split: str, passes: Any
) -> dict[str, Any]:
    """Return the options of `tracer.compile`, checked now, not at the first call."""
    if not callable(fn):
        raise DTypeError(
            f"tracer.torch.{name} takes a function, not {type(fn).__name__}",
            mend=f"pass the function itself: tracer.torch.{name}(f), not tracer.torch.{name}(f(x))",
        )
    options = {"memory_limit": memory_limit, "split": split, "passes": passes}
    compile(lambda: None, **options)
    return options
