"""`f.check(*args)`: compare the program as planned with the program as written.

Each pass promises the same values up to rounding, and our XLA options change only speed and memory.
This module tests both promises on the user's arguments and says which one was broken. The results
of the program as planned are compared with those of the traced graph, compiled with XLA's own
options. If a difference is above rounding (`comparison`), the graphs between the passes are
compiled with XLA's own options too, and the first wrong one names the pass. If all are right, an
option of ours is the cause, and each is switched off in turn.

References
----------
Comparing values after each rewrite: pytensor's DebugMode. Measuring rounding by moving arguments
and by other precisions: Vignes, "Discrete stochastic arithmetic", Numerical Algorithms 37 (2004).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property

import numpy as np

from tracer import lowering, tree
from tracer.array.array import Array
from tracer.compilation.candidate_compiler import CompiledCandidate
from tracer.compilation.candidates import CandidateSearch, predicted_for
from tracer.compilation.comparison import Check, Evidence, Host
from tracer.compilation.options import CompileOptions
from tracer.compilation.precision import FEWER_DIGITS, MORE_DIGITS, Dtypes, in_dtype, in_precision
from tracer.compilation.retracing import PLAIN
from tracer.compilation.signature import Call
from tracer.compilation.task import Choice, read_task
from tracer.errors import OutOfMemoryError
from tracer.ir import Graph, interpret
from tracer.ops.rules import dtype_kind
from tracer.optimizer.model.liveness import graph_flops
from tracer.optimizer.passes import PassManager
from tracer.optimizer.rewrite.expand import EXPAND
from tracer.optimizer.trail import Step, kept_trail, steps_to
from tracer.units import format_bytes

_INTERPRETED_FLOPS = 10**8
"""Programs of so many operations, and without loops, the interpreter computes in a moment."""
_MOVES = 4
"""How often arguments are moved: what one number does to a result is small by chance."""
_SHARE_OF_FREE = 0.9
_SHOWN_REWRITES = 3


def check(
    call: Call,
    options: CompileOptions,
    name: str,
    run: Callable[[], Mapping[int, Array]],
    like: Choice | None = None,
) -> Check:
    """Compare a program as planned with the same program as written.

    Parameters
    ----------
    call : Call
        The function and its arguments.
    options : CompileOptions
        What it is compiled with.
    name : str
        The function's name.
    run : callable
        Runs the program as planned on these arguments, or copies of them; returns the outputs of
        its graph by their positions.
    like : Choice, optional
        The way in which it was tried to make the program first.

    Returns
    -------
    Check

    Raises
    ------
    OutOfMemoryError
        The program as written does not fit into the free memory of the device.
    """
    written = _Written(call, options, name)
    evidence = written.evidence()
    paths = _paths(call)
    outputs = [
        evidence.checked(paths[position], position, np.asarray(array))
        for position, array in sorted(run().items())
    ]
    found = Check(name, tuple(outputs), written.reference, notes=tuple(written.notes))
    if found.ok:
        return found
    cause = _Blame(call, options, name, written, evidence, like).cause()
    return Check(name, found.outputs, found.reference, cause, found.notes)


def _paths(call: Call) -> list[str]:
    """Return the names of the outputs of a call's graph."""
    traced = call.traced
    own = range(traced.out_tree.num_leaves)
    paths = tree.flatten_with_paths(tree.unflatten(traced.out_tree, own))[0]
    more = [f"what is written into {call.names[i]}" for i, k in traced.written if k >= len(own)]
    return [*(f"result{path}" for path in paths), *more]


class _Written:
    """The program as written, and everything else that runs on the same arguments."""

    def __init__(self, call: Call, options: CompileOptions, name: str) -> None:
        self.name = name
        spread = options.spread
        first = None if spread is None else spread.mesh.flat[0]
        self.device = lowering.find_device(options.device) if first is None else first
        self.traced = call.traced
        self.hosts = [np.asarray(array) for array in (*call.leaves, *self.traced.captured)]
        self.notes: list[str] = []
        self.reference = ""

    @cached_property
    def graph(self) -> Graph:
        """The traced graph, with the ops that have no lowering written out."""
        return _expanded(self.traced.graph)

    def evidence(self) -> Evidence:
        """Run the program as written, and measure how far rounding goes."""
        found = Evidence(self.results(self.graph, self.hosts))
        found.moved = [self.results(self.graph, _moved(self.hosts, seed)) for seed in range(_MOVES)]
        small = graph_flops(self.graph) <= _INTERPRETED_FLOPS
        small = small and not any(node.body_graphs for node in self.graph.nodes)
        if small:
            found.interpreted = self._interpreted(self.graph, self.hosts)
        found.more = self._in_precision(MORE_DIGITS, small)
        digits = "as written" if found.more is None else "in float64"
        self.reference = f"the program {digits}" + (", interpreted by NumPy" if small else "")
        if any(type.dtype in FEWER_DIGITS for type in self.graph.output_types):
            found.fewer = self._in_precision(FEWER_DIGITS, small)
        if not small:
            self.notes.append("loops, or too large for the NumPy interpreter: XLA computed all")
        return found

    def results(self, graph: Graph, hosts: Sequence[Host], *, ours: bool = False) -> list[Host]:
        """Compile a graph with XLA's own options, or with ours, and run it.

        Raises
        ------
        OutOfMemoryError
            It takes more memory than is free.
        """
        with nullcontext() if ours else lowering.xla_defaults():
            execute = lowering.compile_graph(graph, device=self.device)
        needed, free = execute.memory.peak_bytes, lowering.free_bytes(self.device)
        if needed > _SHARE_OF_FREE * free:
            raise OutOfMemoryError(
                f"{self.name} as written takes {format_bytes(needed)}, and {format_bytes(free)} "
                "are free: there is nothing to compare the planned program with",
                mend="check it with smaller arguments, and a limit lowered accordingly, so "
                "that the same passes act",
            )
        buffers = [lowering.to_device(host, self.device) for host in hosts]
        return [lowering.to_host(buffer).copy() for buffer in execute(*buffers)]

    def _in_precision(self, dtypes: Dtypes, small: bool) -> list[Host] | None:
        """Return the results in other dtypes; None if nothing changes or it does not fit."""
        graph = in_precision(self.graph, dtypes)
        if graph is self.graph:
            return None
        hosts = [in_dtype(host, dtypes) for host in self.hosts]
        if small:
            return self._interpreted(graph, hosts)
        try:
            return self.results(graph, hosts)
        except OutOfMemoryError as error:
            self.notes.append(f"not computed in other digits: {error.what}")
            return None

    def _interpreted(self, graph: Graph, hosts: Sequence[Host]) -> list[Host]:
        with np.errstate(all="ignore"):
            return interpret(graph, hosts)


def _expanded(graph: Graph) -> Graph:
    return PassManager().run(graph, (EXPAND,))


def _moved(hosts: Sequence[Host], seed: int) -> list[Host]:
    """Return arguments of which every float is the next one, up or down."""
    random = np.random.default_rng(seed)
    return [_next(host, random) if dtype_kind(host.dtype) in "fc" else host for host in hosts]


def _next(host: Host, random: np.random.Generator) -> Host:
    if host.dtype.kind == "c":
        found = np.empty_like(host)
        found.real, found.imag = _next(host.real, random), _next(host.imag, random)
        return found
    towards = np.where(random.random(host.shape) < 0.5, -np.inf, np.inf).astype(host.dtype)
    with np.errstate(all="ignore"):
        # Zeros stay: a mask is exact, and the number next to 0 is no rounding of it.
        return np.where(host == 0, host, np.nextafter(host, towards)).astype(host.dtype)


class _Blame:
    """Finds the cause of a difference beyond rounding."""

    def __init__(
        self,
        call: Call,
        options: CompileOptions,
        name: str,
        written: _Written,
        evidence: Evidence,
        like: Choice | None,
    ) -> None:
        self.call, self.options, self.name, self.like = call, options, name, like
        self.written, self.evidence = written, evidence

    def cause(self) -> str:
        """Return the first pass after which results are beyond rounding, or another cause."""
        if not self.evidence.is_within(self.evidence.written):
            return (
                "the program as written is, compiled with XLA's own options: XLA, or how an op is "
                "lowered; please report it"
            )
        if self.options.spread is not None:
            return "on a mesh; compile without the mesh to have the pass named"
        found, steps = self._replanned()
        for step in steps:
            if not self._is_right(step.after):
                return f"first after the pass {_described(step)}"
        if not self._is_right(found.graph):
            return "tracing again for the limit (recompute-in-loops, segment-scans)"
        return self._option(found.graph) or (
            "after the last pass: loops in lanes (loop-interchange), donated memory, or the "
            "options for a limit"
        )

    def _replanned(self) -> tuple[CompiledCandidate, list[Step]]:
        """Plan anew, and keep what every pass makes."""
        task = read_task(self.call, self.options, self.name, self.like)
        with predicted_for(task.device), kept_trail() as steps:
            found = CandidateSearch(task).compile()
        return found, [*self._traced_again(found), *steps_to(found.graph, steps)]

    def _traced_again(self, found: CompiledCandidate) -> Iterator[Step]:
        compiler = found.compiler
        if compiler.mode is not PLAIN:
            names = ", ".join(sorted(compiler.mode.options))
            yield Step(names, self.call.traced.graph, compiler.traced.graph, ("traced again",))

    def _is_right(self, graph: Graph, *, ours: bool = False) -> bool:
        graph = _expanded(graph)
        return self.evidence.is_within(self.written.results(graph, self.written.hosts, ours=ours))

    def _option(self, graph: Graph) -> str | None:
        """Return which of our options is to blame, if the graph is right without them."""
        if self._is_right(graph, ours=True):
            return None
        for name in lowering.SETTINGS:
            with lowering.without(name):
                if self._is_right(graph, ours=True):
                    return f"XLA's options did it: right without the setting {name!r}"
        return "XLA's options did it: right with XLA's own"


def _described(step: Step) -> str:
    shown = "; ".join(step.applied[:_SHOWN_REWRITES])
    more = len(step.applied) - _SHOWN_REWRITES
    rest = f"; and {more} more" if more > 0 else ""
    return f"{step.name!r}" + (f" ({shown}{rest})" if shown else "")


__all__ = ["check"]
