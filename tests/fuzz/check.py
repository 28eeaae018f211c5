"""Everything that must hold of one program."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tracer
from tests.fuzz import frameworks
from tests.fuzz.blame import lowering_culprit, plain_results
from tests.fuzz.differences import off_differences
from tests.fuzz.evaluate import Array, Noise, difference, in_own_dtypes, quiet, values
from tests.fuzz.failure import Failure
from tests.fuzz.program import Program
from tests.fuzz.small_machine import small_machine
from tests.fuzz.steps import first_wrong_step, takes
from tests.fuzz.stored import numbers, stored
from tests.fuzz.watch import Watch, watching, without_overflows
from tracer.array.trace import Traced, trace
from tracer.errors import ExecutionError, LoweringError, MemoryLimitError, TracerError, VerifyError
from tracer.ir import Graph

JUDGING = "judging"
"""The checker's own work: where it takes long, that says nothing against the package."""
CONFIGS = ("none", "never", "1.3", "0.5", "0.25", "minimum", "stored", "small machine")
_SHARE_STORED = 0.5
"""Of the peak in memory, as the limit of a program whose arguments are in storage."""
_BUGS = (LoweringError, VerifyError, ExecutionError)
"""Errors of ours that say that the fault is not the user's."""
_LARGEST = 1e12
"""Programs with larger numbers say nothing about digits."""
_ROUNDING = {np.dtype("float32"): 1e-3, np.dtype("float64"): 1e-9}
"""Relative differences that rounding may explain at all, where a reference shows as large ones."""
_PEERS_ROUNDING = 2.0**-49
"""Of a result's largest element: 8 roundings of float64, in which peers compute."""


@dataclass
class Verdict:
    """What was found out about a program."""

    failures: list[Failure] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    """Why parts were not compared, and differences that rounding explains."""


class Checker:
    """Checks one program; `configs` are the ways in which it is compiled."""

    def __init__(
        self,
        program: Program,
        configs: Sequence[str],
        peers: Sequence[str],
        doing: Callable[[str], None],
    ) -> None:
        self.program, self.configs, self.peers = program, tuple(configs), tuple(peers)
        self.doing = doing
        self.verdict = Verdict()
        self.arguments = frameworks.arguments(program)
        self.function = frameworks.transformed(program, frameworks.tracer_names())
        self.outputs: list[Array] = []
        self.given = self.arguments
        """To the compiled program."""

    def run(self) -> Verdict:
        """Return all that is wrong; the first fault of the compiled programs ends the search."""
        traced = self._guarded("", self._trace)
        if traced is None:
            return self.verdict
        self.traced: Traced = traced
        self.arrays = [*self.arguments, *map(np.asarray, traced.captured)]
        self.doing(JUDGING)
        self.exact = values(traced.graph, self.arrays)
        if not self._is_telling():
            return self.verdict
        self.noise = Noise(traced.graph, self.arrays, self.exact, self.program.dtype)
        self._compare_peers()
        self._compare_differences()
        with watching() as watch:
            for config in self._ways(watch):
                if self.verdict.failures:
                    break
                self.doing(f"compiling, {config}")
                self._guarded(config, lambda config=config: self._compiled(config, watch))
        self.verdict.fired.update(set(watch.fired))
        self.doing(JUDGING)
        self._check_steps(watch)
        return self.verdict

    def _trace(self) -> Traced:
        return trace(self.function, self.arguments)

    def _is_telling(self) -> bool:
        finite = [np.abs(a[np.isfinite(a)]) for a in self.exact if a.dtype.kind in "fc"]
        if any(a.size and a.max() > _LARGEST for a in finite):
            self.verdict.notes["numbers too large"] += 1
            return False
        total = sum(a.size for a in self.exact)
        if total and not sum(a.size for a in finite) and self.exact[0].dtype.kind in "fc":
            self.verdict.notes["nothing is finite"] += 1
            return False
        return True

    def _ways(self, watch: Watch) -> Iterator[str]:
        """Yield the ways to compile; limits are shares of what the first one takes."""
        self.peak = 0
        yield from self.configs

    # Compiled programs

    def _compiled(self, config: str, watch: Watch) -> None:
        self.given = stored(self.arguments) if config == "stored" else self.arguments
        compiled = self._compile(config)
        if compiled is None:
            return
        found = frameworks.leaves(compiled(*self.given))
        plan = compiled.plan(*self.given)
        if config == "none":
            self.peak = plan.compiled_bytes
        self.final = compiled.graph(*self.given)
        self.doing(JUDGING)
        self._compare(config, found, watch)

    def _compile(self, config: str) -> Any:
        if config in ("none", "never"):
            return tracer.compile(self.function, split="never" if config == "never" else "auto")
        if config == "small machine":
            compiled = tracer.compile(self.function)
            with small_machine():
                compiled.plan(*self.given)
            return compiled
        limit = self._limit(config)
        if limit is None:
            return None
        compiled = tracer.compile(self.function, memory_limit=limit)
        try:
            compiled.plan(*self.given)
        except MemoryLimitError as error:
            self.verdict.notes["limit refused"] += 1
            if error.minimum_bytes <= limit:
                said = f"{limit} bytes refused, {error.minimum_bytes} said to be enough"
                self._fail("limit", config, "planner", said)
            return None
        return compiled

    def _limit(self, config: str) -> int | None:
        if config != "minimum":
            share = _SHARE_STORED if config == "stored" else float(config)
            return max(1, int(share * self.peak)) if self.peak else None
        try:
            tracer.compile(self.function, memory_limit=1).plan(*self.arguments)
        except MemoryLimitError as error:
            return error.minimum_bytes
        return None

    def _compare(self, config: str, found: Sequence[Any], watch: Watch) -> None:
        off = self._off(found)
        if off is None or self._is_rounding(found, off) or self._gains_numbers(found, watch):
            return
        if self._overflows_as_written(found):
            return
        relative, share, position = off
        step = first_wrong_step(watch, self._inputs, self.exact, self.program)
        culprit = step or self._guarded(config, self._lowering_culprit) or "unknown"
        detail = f"result {position}: {relative:.2g} of the largest, {share:.1%} of the elements"
        self._fail("wrong", config, culprit, detail)

    def _off(self, found: Sequence[Any]) -> tuple[float, float, int] | None:
        """Return the largest difference, the share of elements and the result, if any is off."""
        if self.noise.is_plainly_right(found):
            return None
        # Not `JUDGING`: a difference that nobody has the time to explain must not be forgotten.
        self.doing("explaining a difference")
        worst = None
        for draws in (3, 20):  # A rare tie or a cancelling sum shows in more draws only.
            self.noise.draw(max(0, draws - self.noise.draws))
            worst = self._worst(found)
            if worst is None:
                break
        return worst

    def _worst(self, found: Sequence[Any]) -> tuple[float, float, int] | None:
        rows = []
        for position, (array, true) in enumerate(zip(found, self.exact, strict=True)):
            off = difference(np.asarray(array), true, self.noise.tolerance(position))
            if off is not None and not self.noise.has_digits(position):
                self.verdict.notes["not judged: roundings leave no digits"] += 1
            elif off is not None:
                rows.append((*off, position))
        return max(rows, default=None)

    def _is_rounding(self, found: Sequence[Any], off: tuple[float, float, int]) -> bool:
        """Tell whether a small difference is what a reference evaluation shows too."""
        if off[0] > self._most_rounding():
            return False
        planned = Noise(self.final, self._inputs, self.exact, self.program.dtype).draw(3)
        if all(
            difference(np.asarray(a), true, planned.tolerance(i)) is None
            for i, (a, true) in enumerate(zip(found, self.exact, strict=True))
        ):
            self.verdict.notes["digits lost by passes, as documented"] += 1
            return True
        return self._is_lost_by_xla(found)

    def _gains_numbers(self, found: Sequence[Any], watch: Watch) -> bool:
        """Tell whether numbers stand only where a rule that fired is documented to have some.

        The program as written has NaN of 0 * inf there, or has overflowed.
        """
        lost = [watch.may_gain_numbers(true) for true in self.exact]
        return any(
            self._has_numbers_of(found, graph, where)
            for graph, where in (
                (self.final, lost),
                *self._without_overflows(self.final, lost),
                *self._without_overflows(self.traced.graph, lost),
            )
        )

    @property
    def _inputs(self) -> list[Array]:
        """What the compiled program's graph takes."""
        return [*numbers(self.given), *self.arrays[len(self.given) :]]

    def _without_overflows(
        self, graph: Graph, lost: list[Array]
    ) -> Iterator[tuple[Graph, list[Array]]]:
        """Yield a graph in XLA's forms, if it has any, and where these may have numbers."""
        simple = without_overflows(graph)
        if simple is not graph:
            rows = zip(lost, self.exact, strict=True)
            yield simple, [where | ~np.isfinite(true) for where, true in rows]

    def _has_numbers_of(self, found: Sequence[Any], graph: Graph, lost: list[Array]) -> bool:
        """Tell whether results are a graph's where the program as written may have lost them."""
        if not any(where.any() for where in lost):
            return False
        arrays = self._inputs if takes(graph, self._inputs) else self.arrays
        planned = values(graph, arrays)
        moved = Noise(graph, arrays, planned, self.program.dtype).draw(3)
        rows = zip(found, planned, self.exact, lost, strict=True)
        for i, (array, own, true, where) in enumerate(rows):
            expected = np.where(where, own, true)
            room = moved.tolerance(i) if moved.has_digits(i) else np.inf
            tolerance = np.where(where, room, self.noise.tolerance(i))
            if difference(np.asarray(array), expected, tolerance) is not None:
                return False
        self.verdict.notes["numbers in place of 0 * inf or overflow, as documented"] += 1
        return True

    def _overflows_as_written(self, found: Sequence[Any]) -> bool:
        """Tell whether a difference is only where the program overflows in its own dtype.

        The interpreter computes in float64, where it does not. XLA's default program takes
        subnormal numbers for 0, and overflows in their logarithms and reciprocals too.
        """
        own = in_own_dtypes(self.traced.graph, self.arrays)
        plain = map(np.asarray, plain_results(self.traced.graph, self.arrays))
        expected = [
            np.where(np.isfinite(mine) & np.isfinite(xlas), true, xlas)
            for mine, xlas, true in zip(own, plain, self.exact, strict=True)
        ]
        rows = zip(found, expected, strict=True)
        if any(
            difference(np.asarray(array), wanted, self.noise.tolerance(i)) is not None
            for i, (array, wanted) in enumerate(rows)
        ):
            return False
        self.verdict.notes["overflows in its own dtype, as written"] += 1
        return True

    def _most_rounding(self) -> float:
        return _ROUNDING[np.dtype(self.program.dtype).type(0).real.dtype]

    def _is_lost_by_xla(self, found: Sequence[Any]) -> bool:
        """Tell whether XLA's default program is as far from what the interpreter computes."""
        reference = plain_results(self.traced.graph, self.arrays)
        for i, (array, plain, true) in enumerate(zip(found, reference, self.exact, strict=True)):
            with quiet():
                error = np.nanmax(np.abs(np.asarray(plain) - true), initial=0.0)
            if difference(np.asarray(array), true, self.noise.tolerance(i) + 8 * error):
                return False
        self.verdict.notes["digits lost by XLA's default program too"] += 1
        return True

    def _lowering_culprit(self) -> str:
        return lowering_culprit(self.final, self._inputs, lambda got: self._off(got) is not None)

    # Graphs and peers

    def _check_steps(self, watch: Watch) -> None:
        if self.verdict.failures:
            return
        step = first_wrong_step(watch, self.arrays, self.exact, self.program)
        if step is None and self.given is not self.arguments:
            step = first_wrong_step(watch, self._inputs, self.exact, self.program)
        if step is not None:
            self._fail("pass", "", step, "the graph after it computes other values, in float64")

    def _compare_peers(self) -> None:
        if "numpy" in self.peers and self.program.is_numpy:
            self._peer("numpy", frameworks.numpy_names())
        if "jax" in self.peers and frameworks.has_jax():
            self._peer("jax", frameworks.jax_names())

    def _peer(self, name: str, names: dict[str, Any]) -> None:
        """Compare with a framework, in float64: its own faults and refusals are only counted."""
        program = self.program
        wide = program.with_dtype(
            {"float32": "float64", "complex64": "complex128"}.get(program.dtype, program.dtype)
        )
        # The same numbers, so not drawn again: those of float32 are rounded.
        given = [a.astype(wide.dtype) if a.dtype.kind in "fc" else a for a in self.arguments]
        try:
            with quiet():
                function = frameworks.transformed(wide, names)
                fastest = frameworks.jitted(function) if name == "jax" else function
                found = frameworks.leaves(fastest(*given))
        except Exception as error:
            self.verdict.notes[f"{name} refuses: {type(error).__name__}"] += 1
            return
        off = self._off_peer(found)
        # Terms that cancel in ours from the start may leave a rounding in theirs.
        is_rounding = off is None or off[0] <= _PEERS_ROUNDING
        # NumPy, which the interpreter computes with, may be the one that loses digits.
        if is_rounding or (off[0] <= self._most_rounding() and self._is_lost_by_xla(found)):
            self.verdict.notes[f"compared with {name}"] += 1
            return
        if name == "jax" and self._agrees_op_by_op(function, given):
            self.verdict.notes["jax.jit is wrong: JAX op by op computes our values"] += 1
            return
        relative, share, position = off
        detail = f"result {position}: {relative:.2g} of the largest, {share:.1%} of the elements"
        self._fail(name, "", f"values differ from {name}'s", detail)

    def _off_peer(self, found: Sequence[Any]) -> tuple[float, float, int] | None:
        return self._off(found) if len(found) == len(self.exact) else (float("inf"), 1.0, 0)

    def _agrees_op_by_op(self, function: Callable[..., Any], given: Sequence[np.ndarray]) -> bool:
        """Tell whether JAX computes our values when it compiles each operation by itself.

        XLA has faults that need a fusion: products contracted to one rounding in one kernel and
        not in another, results written over what is still read (docs/values.md). Bodies of loops
        are compiled here, too. Where JAX needs `jit` for a program, nothing speaks for our values.
        """
        try:
            with quiet():
                found = frameworks.leaves(frameworks.op_by_op(function)(*given))
        except Exception as error:
            self.verdict.notes[f"jax refuses op by op: {type(error).__name__}"] += 1
            return False
        return self._off_peer(found) is None

    def _compare_differences(self) -> None:
        off = self._guarded("", lambda: off_differences(self.program, self.arguments, self.exact))
        if off is not None:
            self._fail("derivative", "", "gradient", off)

    # Errors

    def _guarded(self, config: str, work: Callable[[], Any]) -> Any:
        """Run something; keep an error that a user must not see as a failure."""
        try:
            with quiet():
                return work()
        except _BUGS as error:
            self._fail("error", config, type(error).__name__, _short(error))
        except TracerError as error:
            self.verdict.notes[f"refused: {type(error).__name__}: {error.what[:80]}"] += 1
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{place.filename.rpartition('/')[2]} in {place.name}"
            self._fail("error", config, f"{type(error).__name__} from {where}", _short(error))
        return None

    def _fail(self, kind: str, config: str, culprit: str, detail: str) -> None:
        self.verdict.failures.append(Failure(kind, config, culprit, detail))


def _short(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return lines[0][:300]


def check(
    program: Program,
    configs: Sequence[str] = CONFIGS,
    peers: Sequence[str] = ("numpy",),
    doing: Callable[[str], None] = lambda work: None,
) -> Verdict:
    """Check one program; see `Checker`."""
    return Checker(program, configs, peers, doing).run()
