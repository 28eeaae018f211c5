"""From a function of tensors to one flat, functional graph of core ATen ops.

The function runs twice on tensors without data. The first run finds the tensors that it closes over
(parameters and buffers of modules, mostly): they become inputs of the graph. The second one is
traced (`make_fx`), with torch's own derivatives in it where a gradient is wanted, and the graph is
traced again to be made functional (`torch.func.functionalize`): what the function writes to is a
result then.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.distributions import Distribution
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta, set_stack_trace
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tracer.compilation.importing import named
from tracer.errors import UnsupportedError
from tracer.torch.decompositions import decompositions
from tracer.torch.derivatives import is_backward
from tracer.torch.draws import Draw, Seeds, draw_of, firsts, is_draw, is_drawing
from tracer.torch.effects import (
    RefusingData,
    is_reshaping,
    refuse_assignments,
    refuse_reshaping,
)
from tracer.torch.equalities import Equalities
from tracer.torch.failures import in_our_words
from tracer.torch.guards import ModuleState, watching_modules
from tracer.torch.sources import current_line

Joint = Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], Any]
"""Of what the function closes over, and its arguments."""


@dataclass(frozen=True)
class Captured:
    """A function of tensors as a graph.

    Attributes
    ----------
    module : GraphModule
        Takes `closed_over`, then the arguments.
    closed_over : tuple of Tensor
        Read at each call, as they are then.
    written : dict of int to int
        Inputs that the function writes to, each with the position of its new value among the
        results; these come behind the function's own.
    draws : dict of Node to Draw
        Nodes that draw random numbers.
    same_draws : dict of Node to Node
        For each node that draws, the one whose numbers it has.
    structure : TreeSpec
        Of the function's result.
    fixed : dict of int to object
        Leaves of the result that are no tensors.
    modules : tuple of ModuleState
        The modules that ran, as they were.
    """

    module: torch.fx.GraphModule
    closed_over: tuple[torch.Tensor, ...]
    written: dict[int, int]
    draws: dict[Any, Draw]
    same_draws: dict[Any, Any]
    structure: Any
    fixed: dict[int, Any]
    modules: tuple[ModuleState, ...]

    @property
    def written_tensors(self) -> list[torch.Tensor]:
        """The tensors that the function closes over and writes to."""
        count = len(self.closed_over)
        return [self.closed_over[i] for i in self.written if i < count]


class _Watch(TorchDispatchMode):  # type: ignore[misc] # Any where torch is not installed
    """Gives ops what stands for real tensors and the user's line, and counts draws."""

    supports_higher_order_operators = True

    def __init__(
        self,
        stand_for: Callable[[torch.Tensor], torch.Tensor],
        seeds: Seeds,
        check: Callable[[Any, Any], None] = lambda func, args: None,
    ) -> None:
        super().__init__()
        self.stand_for, self.seeds, self.check, self.known = stand_for, seeds, check, Equalities()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.ops.aten.lift_fresh.default:  # That is how numbers become tensors.
            args, kwargs = pytree.tree_map_only(torch.Tensor, self.stand_for, (args, kwargs or {}))
        self.check(func, args)
        if func is torch.ops.aten.equal.default:
            decided = self.known.decide(*args)
            if decided is not None:
                return decided
        if is_drawing(func, args, kwargs):
            self.seeds.note(func, kwargs)
        line = current_line()
        if line is not None and not is_backward():
            set_stack_trace([line])
        result = func(*args, **(kwargs or {}))
        self.known.note(func, args, kwargs or {}, result)
        return result


class _Found:
    """The real tensors that a function uses, and what stands for them."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self.mode = mode
        self.real: list[torch.Tensor] = []
        self.stand_ins: dict[int, torch.Tensor] = {}
        self.given: Sequence[torch.Tensor] = ()

    def keep_axes(self, func: Any, args: Any) -> None:
        """Refuse ops that change the axes or the memory of a tensor of the caller's."""
        if not is_reshaping(func):
            return
        if any(args[0] is x for x in (*self.given, *self.stand_ins.values())):
            refuse_reshaping(func)

    def discover(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor without data for a real one, which is remembered."""
        if isinstance(tensor, FakeTensor):
            return tensor
        if id(tensor) not in self.stand_ins:
            self.real.append(tensor)
            self.stand_ins[id(tensor)] = self.mode.from_tensor(tensor.detach())
        return self.stand_ins[id(tensor)]

    def bind(self, tensors: Sequence[torch.Tensor]) -> None:
        """From now on, let other tensors stand for the real ones."""
        pairs = zip(self.real, tensors, strict=True)
        self.stand_ins = {id(real): tensor for real, tensor in pairs}

    def known(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return what stands for a real tensor; one that the function just made is a constant."""
        return self.stand_ins.get(id(tensor), tensor)


def capture(
    function: Callable[..., Any],
    tensors: Sequence[torch.Tensor],
    derived: Callable[[Callable[..., Any], Sequence[torch.Tensor]], Joint] | None = None,
) -> Captured:
    """Trace a function of tensors.

    Parameters
    ----------
    function : callable
        Takes tensors, returns a container of tensors.
    tensors : sequence of Tensor
        Arguments; no data is read.
    derived : callable, optional
        Is given the function and the real tensors that it closes over; returns what is traced
        instead, a function of what stands for these, and of the arguments.

    Raises
    ------
    TracingError
        The function needs numbers that are not there yet.
    UnsupportedError
        It makes random numbers in a way that cannot be planned, or shapes that depend on values.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    found, seeds = _Found(mode), Seeds()
    with settings(), in_our_words(function), watching_modules() as modules:
        given = [mode.from_tensor(x.detach()).requires_grad_(x.requires_grad) for x in tensors]
        found.given = given
        with mode, seeds.counting(), _Watch(found.discover, seeds, found.keep_axes), RefusingData():
            pytree.tree_map_only(torch.Tensor, found.discover, function(*given))
        _refuse_backward(function, (*found.real, *given))
        refuse_assignments(function, modules, found.stand_ins)
        traced = derived(function, found.real) if derived else _plain(function)
        result = _Result()
        first = _traced(_of_stand_ins(traced, found, seeds, result), found.real, tensors)
        functional = _functional(first, found.real, tensors)
    draws = [draw_of(node) for node in first.graph.nodes if is_draw(node.target)]
    kept = _Kept(tuple(found.real), draws, seeds.order, result, tuple(modules.states.values()))
    return _finished(functional, kept)


def _refuse_backward(function: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> None:
    """Raise `UnsupportedError` where the function set `.grad`, of which no program knows."""
    marked = [x for x in tensors if x.is_leaf and isinstance(x.grad, FakeTensor)]
    for tensor in marked:
        tensor.grad = None
    if marked:
        raise UnsupportedError(
            f"{named(function)} calls backward(), which sets .grad of tensors",
            mend="return the loss, and use tracer.torch.value_and_grad(loss).backward; or use "
            "torch.autograd.grad, which returns gradients",
        )


def _plain(function: Callable[..., Any]) -> Joint:
    return lambda _, tensors: function(*tensors)


class _Result:
    """What a function returned, without its tensors."""

    structure: Any = None
    fixed: dict[int, Any]


def _of_stand_ins(joint: Joint, found: _Found, seeds: Seeds, result: _Result) -> Any:
    def run(closed_over: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> Any:
        found.bind(closed_over)
        with preserve_node_meta(), seeds.counting(), _Watch(found.known, seeds):
            leaves, result.structure = pytree.tree_flatten(joint(closed_over, tensors))
        is_tensor = [isinstance(leaf, torch.Tensor) for leaf in leaves]
        result.fixed = {i: x for i, x in enumerate(leaves) if not is_tensor[i]}
        return [found.known(x).detach() for x, kept in zip(leaves, is_tensor, strict=True) if kept]

    return run


def _traced(
    function: Any, closed_over: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]
) -> torch.fx.GraphModule:
    leaves = [x.detach().requires_grad_(x.requires_grad) for x in tensors]
    return make_fx(
        function,
        decomposition_table=decompositions(),
        tracing_mode="fake",
        _allow_non_fake_inputs=True,
    )([x.detach() for x in closed_over], leaves)


def _functional(
    module: torch.fx.GraphModule,
    closed_over: Sequence[torch.Tensor],
    tensors: Sequence[torch.Tensor],
) -> torch.fx.GraphModule:
    """Trace a graph again, without writes, and with the lines of the user's code."""

    def run(closed_over: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> Any:
        with preserve_node_meta(), torch.no_grad():
            return torch.fx.Interpreter(module).run(*closed_over, *tensors)

    module.graph.set_codegen(torch.fx.graph.CodeGen())
    return make_fx(
        functionalize(run),
        decomposition_table=decompositions(),
        tracing_mode="fake",
        _allow_non_fake_inputs=True,
    )([x.detach() for x in closed_over], [x.detach() for x in tensors])


@dataclass(frozen=True)
class _Kept:
    """What is known of a function beside its functional graph."""

    closed_over: tuple[torch.Tensor, ...]
    draws: Sequence[Draw]
    order: Sequence[int]
    result: _Result
    modules: tuple[ModuleState, ...]


def _finished(module: torch.fx.GraphModule, kept: _Kept) -> Captured:
    graph = module.graph
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    output = next(node for node in graph.nodes if node.op == "output")
    results = list(output.args[0])
    written = {}
    for node in list(graph.nodes):
        if node.target is torch.ops.aten.copy_.default and node.args[0] in inputs:
            written[inputs.index(node.args[0])] = len(results)
            results.append(node.args[1])
            graph.erase_node(node)
    output.args = (results,)
    drawing = [node for node in graph.nodes if is_draw(node.target)]
    same = firsts(drawing, kept.order)
    pairs = zip(drawing, kept.draws, strict=True)
    return Captured(
        module,
        kept.closed_over,
        written,
        {node: draw for node, draw in pairs if same[node] is node},
        same,
        kept.result.structure,
        kept.result.fixed,
        kept.modules,
    )


@contextmanager
def settings() -> Iterator[None]:
    """Have torch use functions that consist of core ops: no fused attention or encoder layers.

    Distributions do not check their arguments, which have no values yet.
    """
    fast, checked = torch.backends.mha.get_fastpath_enabled(), Distribution._validate_args
    with ExitStack() as stack:
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="Anomaly Detection has been enabled")
        torch.backends.mha.set_fastpath_enabled(False)
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
        Distribution.set_default_validate_args(False)
        stack.callback(Distribution.set_default_validate_args, checked)
        yield
