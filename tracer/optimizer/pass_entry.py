"""What a row of the table of passes is, and what passes are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from tracer.optimizer.loops.split import LoopRow, SplitCache, SplitSettings
from tracer.optimizer.passes import Pass
from tracer.optimizer.remat import Rematerialiser
from tracer.target import DEFAULT_TARGET, Target


@dataclass(frozen=True)
class PlannerOptions:
    """What the user asked the planner for, in bytes.

    `threshold_bytes` and `split_bytes` are the two options of the paper. `machine` is what the
    device can do; `split` is False when nothing is to be computed in slices. Values of more than
    `sink_bytes` that loops and branches do not change are computed inside of these; None: they
    are handed in. Passes and rules whose names (with hyphens) are in `disabled` are left out;
    `with_rules` is True where the rewrite rules are applied.
    """

    limit_bytes: int | None = None
    threshold_bytes: int | None = None
    split_bytes: int | None = None
    machine: Target = DEFAULT_TARGET
    split: bool = True
    with_rules: bool = False
    disabled: frozenset[str] = frozenset()
    donated: frozenset[int] = frozenset()
    sink_bytes: int | None = None


class Stage(Enum):
    """When a pass runs. The text is in docs/passes.md."""

    TRACE_AGAIN = "tracing again"
    AS_TRACED = "the whole program"
    DEVICES = "parts for devices"
    LOOPS = "loops over slices"
    UNSPLIT = "the unsplit candidate"
    OVER_LIMIT = "a candidate above the limit"
    ORDER = "order"
    LANES = "programs for cores"
    LANE = "one core's program"
    SHARED = "shared values"
    CALLS = "calls"
    IN_PLACE = "memory in place"
    TARGET = "the device"


@dataclass(frozen=True)
class Context:
    """Everything that passes are made from. Apart from the options, each is for one stage's passes.

    Attributes
    ----------
    options : PlannerOptions
    settings : SplitSettings or None
        Which values are cut, and how small.
    loops : list of LoopRow
        Receives a row for each loop that is written.
    alike : SplitCache or None
        What the split pass found before.
    devices : int
        How many devices share the program.
    rematerialiser : Rematerialiser or None
        What computes values again.
    room : int
        The bytes until which it does; or of the largest shared value that is stored, 0 for any.
    on_mesh : bool
        Whether XLA's partitioner cuts the program for a mesh.
    """

    options: PlannerOptions = field(default_factory=PlannerOptions)
    settings: SplitSettings | None = None
    loops: list[LoopRow] = field(default_factory=list)
    alike: SplitCache | None = None
    devices: int = 1
    rematerialiser: Rematerialiser | None = None
    room: int = 0
    on_mesh: bool = False

    @property
    def limit(self) -> int | None:
        """The user's limit, in bytes."""
        return self.options.limit_bytes


def _always(_: Context) -> bool:
    return True


@dataclass(frozen=True)
class PassEntry:
    """A row of the table.

    Attributes
    ----------
    option : str
        The pass's name with hyphens, by which it is switched off.
    stage : Stage
    what : str
        What it does.
    why_here : str
        Why at this place.
    exact : str
        "yes" where results are the same bit for bit, else "no" and what may differ.
    make : callable or None
        `Context -> Pass`; None for what is no rewrite of one graph into another.
    when : str
        The condition, where there is one.
    condition : callable
        The same as far as the context tells it.
    is_optional : bool
        Whether it can be switched off.
    is_per_limit : bool
        The result is found again for every limit; what comes before is found once.
    """

    option: str
    stage: Stage
    what: str
    why_here: str
    exact: str
    make: Callable[[Context], Pass] | None
    when: str = ""
    condition: Callable[[Context], bool] = _always
    is_optional: bool = True
    is_per_limit: bool = False


__all__ = ["Context", "PassEntry", "PlannerOptions", "Stage"]
