"""Which stored values share a buffer, and how long each buffer lives.

XLA writes a result over an operand that nothing reads afterwards, if the kernel reads it element by
element in the result's order. It keeps a loop's carries in place. It allocates the results of a
program before it runs, so they exist from the beginning but may hold temporaries until they are
written (`HloDataflowAnalysis::CanShareOperandBufferWithUser`, `BufferAssigner`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tracer.ir import ShapeDtype, Value

# More buffers than this are not tried in the place of a result that is not there yet.
_MOST_TRIED = 256


@dataclass(eq=False)
class Buffer:
    """Memory that one or more values have, one after the other.

    Attributes
    ----------
    nbytes : int
    birth, death : int
        Positions in the schedule of the first write and the last read.
    is_argument : bool
        It belongs to the caller, and exists from beginning to end.
    values : list of Value
        The values in it, in order.
    """

    nbytes: int
    birth: int
    death: int
    is_argument: bool = False
    values: list[Value] = field(default_factory=list)

    def holds(self, type: ShapeDtype) -> bool:
        """Tell whether a result of this type may be written over the last value."""
        last = self.values[-1].type
        return last.size == type.size and last.dtype == type.dtype

    def split(self, value: Value, written: int) -> Buffer:
        """Give a value, written at that position, and those after it a buffer of their own."""
        place = self.values.index(value)
        moved = Buffer(value.type.nbytes, written, self.death, values=self.values[place:])
        self.values, self.death = self.values[:place], written
        return moved

    def before(self, value: Value) -> list[Value]:
        """Return what it holds before a value."""
        return self.values[: self.values.index(value)]


def places_in(available: list[Buffer], types: Sequence[ShapeDtype]) -> list[Buffer | None]:
    """Return for each result of a kernel the first free buffer that holds it, or None."""
    places: list[Buffer | None] = []
    for type in types:
        place = next((buffer for buffer in available if buffer.holds(type)), None)
        if place is not None:
            available.remove(place)
        places.append(place)
    return places


def move_into_results(
    temporaries: Iterable[Buffer], results: Iterable[Buffer]
) -> dict[Buffer, Buffer]:
    """Place temporaries, the largest first, into results that are written later.

    Returns
    -------
    dict
        The result for each temporary that has a place.
    """
    free = {result: [(result.birth, result.death)] for result in results if result.birth > 0}
    places: dict[Buffer, Buffer] = {}
    if not free:
        return places
    largest = max(result.nbytes for result in free)
    candidates = [found for found in temporaries if found.nbytes <= largest]
    candidates.sort(key=lambda found: -found.nbytes)
    for temporary in candidates[:_MOST_TRIED]:
        for result, taken in free.items():
            if temporary.nbytes <= result.nbytes and _is_free(temporary, taken):
                taken.append((temporary.birth, temporary.death))
                places[temporary] = result
                break
    return places


def _is_free(buffer: Buffer, taken: list[tuple[int, int]]) -> bool:
    return all(buffer.death < birth or death < buffer.birth for birth, death in taken)


def live_bytes(buffers: Iterable[Buffer], steps: int) -> list[int]:
    """Return the bytes of the buffers that are alive at each step of a schedule."""
    change = [0] * (steps + 2)
    for buffer in buffers:
        change[max(0, buffer.birth)] += buffer.nbytes
        change[min(buffer.death, steps) + 1] -= buffer.nbytes
    live, total = [], 0
    for difference in change[:steps]:
        total += difference
        live.append(total)
    return live
