"""Ways to trace a function again that store less and compute more, if a limit is not met."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tracer.ir import Graph
from tracer.optimizer.passes import PassRow
from tracer.optimizer.pipeline import RECOMPUTE_IN_LOOPS, SEGMENT_SCANS
from tracer.optimizer.planner import Planner

_SHARE = 16
"""First, loops compute values again that would take more than this part of the room."""
_SMALL_BYTES = 1 << 16
"""Then all that are larger than this, whatever the limit."""


@dataclass(frozen=True)
class Mode:
    """A way to trace a function.

    Attributes
    ----------
    large_bytes : int or None
        Loops compute larger invariants themselves, and backward steps compute larger residuals
        again; None: they keep them.
    in_segments : bool
        Scans are differentiated in segments, so that every step is computed twice.
    """

    large_bytes: int | None = None
    in_segments: bool = False

    @property
    def options(self) -> frozenset[str]:
        """The names that switch off what it does."""
        names = {RECOMPUTE_IN_LOOPS: self.large_bytes is not None, SEGMENT_SCANS: self.in_segments}
        return frozenset(name for name, on in names.items() if on)

    def row(self, before: Planner, after: Planner) -> PassRow:
        """Return the line of the plan's table for what the mode changed."""
        means = {
            "loops compute large invariants and residuals again": self.large_bytes is not None,
            "scans are differentiated in segments": self.in_segments,
        }
        old, new = before.rows[0], after.rows[0]
        return PassRow(
            name=", ".join(name.replace("-", " ") for name in sorted(self.options)),
            seconds=0.0,
            peak_bytes_before=old.peak_bytes_before,
            peak_bytes_after=new.peak_bytes_before,
            flops_before=old.flops_before,
            flops_after=new.flops_before,
            nodes_before=old.nodes_before,
            nodes_after=new.nodes_before,
            applied=("traced again: " + "; ".join(text for text, on in means.items() if on),),
            refusals=(),
        )


PLAIN = Mode()


def modes(room: int) -> Iterator[Mode]:
    """Yield the modes that are tried after the plain one, those that recompute least first.

    Parameters
    ----------
    room : int
        The bytes of the limit that arguments and results leave.
    """
    if room // _SHARE > _SMALL_BYTES:
        yield Mode(large_bytes=room // _SHARE)
    yield from FRUGAL_MODES


FRUGAL_MODES = (Mode(_SMALL_BYTES), Mode(None, True), Mode(_SMALL_BYTES, True))
"""Those that depend on no limit: the smallest program is one of theirs, or the plain one."""


def has_loops(graph: Graph) -> bool:
    """Tell whether there is a loop or a branch, at any depth: without, all modes are the same."""
    for node in graph.nodes:
        if node.op is not None and node.op.invariants is not None:
            return True
        if any(map(has_loops, node.body_graphs)):
            return True
    return False


__all__ = ["FRUGAL_MODES", "PLAIN", "Mode", "has_loops", "modes"]
