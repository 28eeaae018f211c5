"""What our model says of shared memory in one program: for the plan's report."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tracer.ir import Graph
from tracer.optimizer.alias.donations import Alias, Donations, match_donations
from tracer.optimizer.alias.report import UpdateRow, updates_of


@dataclass(frozen=True, eq=False)
class Sharing:
    """A program and the inputs that are donated to it; each answer is found when it is asked for.

    Attributes
    ----------
    graph : Graph
        The program as it is compiled.
    donated : frozenset of int
        Positions of inputs.
    argument_count : int
        Inputs from here on are captured.
    """

    graph: Graph
    donated: frozenset[int]
    argument_count: int

    @cached_property
    def donations(self) -> Donations:
        """What the compiler is asked to do with donated inputs."""
        return match_donations(self.graph, self.donated)

    @cached_property
    def possible(self) -> tuple[Alias, ...]:
        """What results could take over if all arguments were donated, of those that are not."""
        found = match_donations(self.graph, range(self.argument_count)).aliases
        return tuple(alias for alias in found if alias.argument not in self.donated)

    @cached_property
    def updates(self) -> tuple[UpdateRow, ...]:
        """Values that are written over others, the largest first."""
        return updates_of(self.graph, self.donated)


__all__ = ["Sharing"]
