"""What a plan says of arguments and results in storage: how often they are read, and how much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tracer import ops
from tracer.array.stored import StoredType
from tracer.compilation.signature import Call
from tracer.ir import Graph, Node, Value
from tracer.ops.storage import ACCESSES, READS, TIMES_MEMORY
from tracer.optimizer.model.trip_counts import run_count
from tracer.target.record import Prices
from tracer.units import format_bytes


def storage_notes(call: Call, graph: Graph, prices: Prices) -> tuple[str, ...]:
    """Return a note for each argument in storage of a compiled graph, and for what it writes.

    Steps of loops whose number is not known count once.
    """
    rate, notes = prices.memory_rate / TIMES_MEMORY, []
    for (is_read, place), nbytes in sorted(_moved(graph).items()):
        seconds = f"about {nbytes / rate:.1f} s" if nbytes >= rate / 10 else "less than 0.1 s"
        if not is_read:
            notes.append(f"writes {format_bytes(nbytes)} to storage: {seconds}")
            continue
        type = call.signatures[place]
        assert isinstance(type, StoredType)
        times = f"{nbytes / max(1, type.type.nbytes):.3g} times"
        notes.append(
            f"reads {call.names[place]}, {type}, {times}: {format_bytes(nbytes)}, {seconds}"
        )
    return tuple(notes)


def bytes_read(graph: Graph) -> int:
    """Return what a compiled graph reads from storage; steps that are not known count once."""
    return sum(nbytes for (is_read, _), nbytes in _moved(graph).items() if is_read)


def _moved(graph: Graph) -> dict[tuple[bool, int], int]:
    """Return the bytes of what is read (True) or written, by the input that its number is."""
    inputs = {value: i for i, value in enumerate(graph.inputs)}
    moved: dict[tuple[bool, int], int] = {}
    for node, place, count in _moves(graph, inputs, 1):
        key = node.op in READS, place
        moved[key] = moved.get(key, 0) + count * _block_bytes(node)
    return moved


def _block_bytes(node: Node) -> int:
    return node.types[0].nbytes if node.op in READS else node.operand_types[1].nbytes


def _moves(graph: Graph, known: Mapping[Value, int], count: int) -> Iterator[tuple[Node, int, int]]:
    """Yield what reads and writes, the input that its number comes from, and how often it runs."""
    for node in graph.nodes:
        if node.op in ACCESSES:
            place = _input_of(node.operands[0], known)
            if place is not None:
                yield node, place, count
        for body in node.body_graphs:
            yield from _moves(body, _given(node.operands, body, known), count * _times(node))


def _times(node: Node) -> int:
    """Return how often a body runs: in each trip of a loop, or on each device."""
    return node.params["count"] if node.op is ops.shard else run_count(node)


def _input_of(value: Value, known: Mapping[Value, int]) -> int | None:
    """Return the input that a number is, also behind a barrier."""
    while value not in known and value.node.op is ops.optimization_barrier:
        value = value.node.operands[value.index]
    return known.get(value)


def _given(operands: Sequence[Value], body: Graph, known: Mapping[Value, int]) -> dict[Value, int]:
    """Return the inputs of a body that are inputs of the program; bodies take the last operands."""
    found = {}
    given = operands[len(operands) - len(body.inputs) :]
    for inner, outer in zip(body.inputs, given, strict=False):
        place = _input_of(outer, known)
        if place is not None:
            found[inner] = place
    return found


__all__ = ["bytes_read", "storage_notes"]
