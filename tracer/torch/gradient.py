"""`tracer.torch.value_and_grad`: a loss and its gradient as one program within a byte limit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tracer.compilation.comparison import Check
from tracer.compilation.importing import named
from tracer.errors import ArgumentError, DTypeError
from tracer.optimizer.plan import Plan
from tracer.torch.arguments import Call, module_key_of, read_call
from tracer.torch.capture import Joint, capture
from tracer.torch.check import compare
from tracer.torch.derivatives import gradients, recording_lines
from tracer.torch.limited import Programs, checked_options, plain_function, require_data
from tracer.torch.program import Program


class ValueAndGrad:
    """A loss with its gradient, within a byte limit; made by `value_and_grad`."""

    def __init__(
        self,
        function: Callable[..., Any],
        argnums: int | tuple[int, ...],
        has_aux: bool,
        options: dict[str, Any],
    ) -> None:
        functools.update_wrapper(self, plain_function(function), updated=())
        self._function, self._argnums, self._has_aux = function, argnums, has_aux
        self._programs = Programs(named(function), options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the loss and its gradient; with `has_aux` (loss, rest) and the gradient."""
        call, targets = self._read(args, kwargs)
        require_data(call)
        value, found = self._program(call, targets)(call.tensors)
        return value, targets.gradient(found)

    def backward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the loss, and add gradients to `.grad`, as `loss.backward()` does.

        All leaves that require a gradient get one: parameters of modules that are arguments or
        that the function closes over, and arguments.
        """
        call = read_call(args, kwargs)
        require_data(call)
        program = self._backward_program(call)
        value, found = program(call.tensors)
        with torch.no_grad():
            for leaf, gradient in zip(_leaves_of(program, call), found, strict=True):
                if gradient is not None:
                    _accumulate(leaf, gradient)
        return value

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """Return the plan of a call for these arguments; runs nothing.

        Raises
        ------
        MemoryLimitError
            The limit cannot be met.
        """
        call, targets = self._read(args, kwargs)
        return self._program(call, targets).plan()

    def check(self, *args: Any, **kwargs: Any) -> Check:
        """Compare loss and gradient with those of eager torch, as `LimitedFunction.check`."""
        call, targets = self._read(args, kwargs)
        program = self._program(call, targets)
        return compare(self._eager, self, args, kwargs, program.captured.written_tensors)

    def _read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Call, _Targets]:
        call = read_call(args, kwargs)
        if isinstance(self._function, torch.nn.Module):
            return call, _Targets(self._function, call)
        numbers = self._argnums if isinstance(self._argnums, tuple) else (self._argnums,)
        for number in numbers:
            if not -len(args) <= number < len(args):
                raise ArgumentError(
                    f"argnums={self._argnums}, and {len(args)} arguments by position were given",
                    mend="pass what is differentiated by position, or give its position",
                )
        wanted = tuple(args[i] for i in numbers)
        return call, _Targets(wanted if isinstance(self._argnums, tuple) else wanted[0], call)

    def _program(self, call: Call, targets: _Targets) -> Program:
        def derived(function: Callable[..., Any], _: Any) -> Joint:
            def joint(_: Any, tensors: Sequence[torch.Tensor]) -> Any:
                leaves = [
                    x.detach().requires_grad_(i in targets.arguments) for i, x in enumerate(tensors)
                ]
                with recording_lines():
                    result = function(*leaves)
                    loss = self._loss_of(result)
                wanted = [*targets.parameters, *(leaves[i] for i in targets.arguments)]
                return result, gradients([loss], wanted)

            return joint

        return self._made(("call", targets.key, call.key), call, derived)

    def _backward_program(self, call: Call) -> Program:
        def derived(function: Callable[..., Any], closed_over: Sequence[torch.Tensor]) -> Joint:
            def joint(_: Any, tensors: Sequence[torch.Tensor]) -> Any:
                leaves = [
                    x.detach().requires_grad_(given.requires_grad)
                    for x, given in zip(tensors, call.tensors, strict=True)
                ]
                with recording_lines():
                    result = function(*leaves)
                    loss = self._loss_of(result)
                return result, gradients([loss], _requiring((*closed_over, *leaves)))

            return joint

        return self._made(("backward", call.key), call, derived)

    def _made(self, key: Any, call: Call, derived: Any) -> Program:
        def make() -> Any:
            with torch.enable_grad():
                return capture(call.bound(self._function), call.tensors, derived), call.tensors

        return self._programs.find((key, module_key_of(self._function)), make)

    def _loss_of(self, result: Any) -> torch.Tensor:
        loss = result[0] if self._has_aux else result
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or loss.is_complex():
            what = f"{loss.dtype}{list(loss.shape)}" if isinstance(loss, torch.Tensor) else loss
            raise ArgumentError(
                f"{self._programs.name} returns {what}, not a loss",
                mend="return a real tensor of one element (and with has_aux=True a second thing)",
            )
        return loss

    def _eager(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the same with eager torch."""
        call, targets = self._read(args, kwargs)
        leaves = [
            x.detach().requires_grad_(i in targets.arguments) for i, x in enumerate(call.tensors)
        ]
        with torch.enable_grad():
            result = call.bound(self._function)(*leaves)
            wanted = [*targets.parameters, *(leaves[i] for i in targets.arguments)]
            found = gradients([self._loss_of(result)], wanted)
        return pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, result), targets.gradient(
            found
        )

    def __repr__(self) -> str:
        return f"<limited value and gradient of {self._programs.name}>"


class _Targets:
    """What a gradient is taken by: tensors among the arguments, and parameters of modules."""

    def __init__(self, wanted: Any, call: Call) -> None:
        self.leaves, self.structure = pytree.tree_flatten(wanted)
        places = {id(x): i for i, x in enumerate(call.tensors)}
        self.parameters: list[torch.Tensor] = []
        self.arguments: list[int] = []
        self.names: list[list[str] | None] = []
        for leaf in self.leaves:
            if isinstance(leaf, torch.nn.Module):
                items = [(n, p) for n, p in leaf.named_parameters() if p.requires_grad]
                self.names.append([name for name, _ in items])
                self.parameters += [p for _, p in items]
            else:
                self.names.append(None)
                self.arguments.append(places[id(_differentiable(leaf))])
        self.tensors = [*self.parameters, *(call.tensors[i] for i in self.arguments)]

    @property
    def key(self) -> Any:
        """What tells these targets from others."""
        return tuple(map(id, self.parameters)), tuple(self.arguments), str(self.structure)

    def gradient(self, found: Sequence[torch.Tensor | None]) -> Any:
        """Return gradients in the containers of the targets; zeros for what is not used."""
        whole = [
            torch.zeros_like(x) if gradient is None else gradient
            for x, gradient in zip(self.tensors, found, strict=True)
        ]
        by_parameter = iter(whole[: len(self.parameters)])
        by_argument = iter(whole[len(self.parameters) :])
        leaves = [
            next(by_argument) if names is None else {name: next(by_parameter) for name in names}
            for names in self.names
        ]
        return pytree.tree_unflatten(leaves, self.structure)


def _differentiable(leaf: Any) -> torch.Tensor:
    if not isinstance(leaf, torch.Tensor) or not (leaf.is_floating_point() or leaf.is_complex()):
        what = leaf.dtype if isinstance(leaf, torch.Tensor) else type(leaf).__name__
        raise DTypeError(
            f"cannot differentiate by {what}",
            mend="give floating tensors, or modules, at the positions of argnums",
        )
    return leaf


def _requiring(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [x for x in tensors if x.requires_grad and x.is_leaf]


def _leaves_of(program: Program, call: Call) -> list[torch.Tensor]:
    """Return the tensors whose gradients a program computes.

    Raises
    ------
    ArgumentError
        A tensor has a history: what it was computed from would get no gradient.
    """
    tensors = (*program.captured.closed_over, *call.tensors)
    if any(x.requires_grad and not x.is_leaf for x in tensors):
        raise ArgumentError(
            f"a tensor that {program.name} uses was computed from others that require gradients; "
            "they would get none",
            mend="compute it within the function, or pass x.detach()",
        )
    return _requiring(tensors)


def _accumulate(leaf: torch.Tensor, gradient: torch.Tensor) -> None:
    if leaf.grad is None:
        leaf.grad = gradient
    else:
        leaf.grad += gradient


def value_and_grad(
    fn: Callable[..., Any],
    *,
    memory_limit: float | str | None = None,
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    split: str = "auto",
    passes: str | Sequence[str] | None = None,
) -> ValueAndGrad:
    """Compile a loss with its gradient, to run within a byte limit.

    Both are one program, planned together, which `torch.compile` cannot do. The derivatives are
    torch's own (`torch.autograd.Function`, `torch.no_grad()` and `detach()` count).

    Parameters
    ----------
    fn : callable
        Returns a loss: a function of containers of tensors and of modules, or a
        `torch.nn.Module`.
    memory_limit : int, float or str, optional
        Bytes for the whole program, as for `limit`.
    argnums : int or tuple of int
        Which arguments to differentiate by: tensors in containers, or modules. Where `fn` is a
        module it is differentiated by its parameters.
    has_aux : bool
        `fn` returns a pair of a loss and anything else.
    split, passes : optional
        As for `tracer.compile`.

    Returns
    -------
    ValueAndGrad
        A call returns the loss and the gradient; that by a module is a dict by the parameters'
        names. Its `backward` returns the loss and adds to `.grad` of everything that requires a
        gradient. It has `plan` and `check`.

    Raises
    ------
    UnsupportedError, MemoryLimitError, TracingError
        As `limit`.
    ArgumentError
        At the call: `fn` returns no loss.

    Examples
    --------
    >>> import torch
    >>> import tracer.torch
    >>> step = tracer.torch.value_and_grad(lambda x: (x**2).sum(), memory_limit="1MB")
    >>> step(torch.arange(3.0))
    (tensor(5.), tensor([0., 2., 4.]))
    """
    options = checked_options(fn, "value_and_grad", memory_limit, split, passes)
    return ValueAndGrad(fn, argnums, has_aux, options)
