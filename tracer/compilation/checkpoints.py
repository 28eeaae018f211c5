"""`compile(..., checkpoint=folder)`: loops that keep what they carry, and go on after a failure."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tracer import lowering, ops
from tracer.array.array import Array
from tracer.array.stored import StoredType
from tracer.errors import StorageError, UnsupportedError
from tracer.ir import Builder, Graph, Node, Value, mapped_bodies, rebuild, storage
from tracer.ops import helpers
from tracer.ops.storage import ACCESSES
from tracer.storage import Checkpoints

if TYPE_CHECKING:
    from tracer.compilation.program import Program


def with_checkpoints(graph: Graph, keeper: Checkpoints) -> Graph:
    """Return a graph whose outermost loops, and those that read or write storage, are kept."""
    return _kept(graph, keeper, itertools.count(), ())


def _kept(
    graph: Graph, keeper: Checkpoints, numbers: Iterator[int], inside: tuple[int, ...]
) -> Graph:
    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if inside and not _uses_storage(node):
            return None
        if node.op is ops.small_call:  # One function of XLA's, which cannot call Python.
            return builder.inline(_kept(node.params["body"], keeper, numbers, inside), operands)
        if node.op is not ops.while_:
            changed = mapped_bodies(node, lambda body: _kept(body, keeper, numbers, inside))
            return builder.copy(node, operands, **changed) if changed else None
        number = next(numbers)
        body = _kept(node.params["body"], keeper, numbers, (*inside, number))
        return _kept_loop(builder, node, operands, body, _Loop(keeper, number, inside))

    return rebuild(graph, rewrite)


def _uses_storage(node: Node) -> bool:
    if node.op in ACCESSES:
        return True
    return any(_uses_storage(inner) for body in node.body_graphs for inner in body.nodes)


@dataclass(frozen=True)
class _Loop:
    """A loop by its number, and the numbers of those around it, the outermost first."""

    keeper: Checkpoints
    number: int
    inside: tuple[int, ...]

    def restored(self, carry: Sequence[Value]) -> Sequence[Value]:
        """Emit what it begins with."""
        found: Sequence[Value] = ops.restore_carry(
            *carry, function=self.keeper.restoring, loop=self.number, inside=self.inside
        )
        return found[1:]

    def save_if_due(self, carry: Sequence[Value], *, is_over: bool) -> None:
        """Emit the end of a trip, or of the loop."""
        due = ops.checkpoint_due(function=self.keeper.timing, loop=self.number, is_over=is_over)
        branches = (self._branch(carry, is_saved=False), self._branch(carry, is_saved=True))
        ops.case(due, *carry, branches=branches)

    def _branch(self, carry: Sequence[Value], *, is_saved: bool) -> Graph:
        with Builder() as builder:
            inputs = [builder.input(value.type) for value in carry]
            if not is_saved:
                return builder.finish([helpers.scalar(0, np.dtype(np.int32))])
            done = ops.save_carry(
                *inputs, function=self.keeper.saving, loop=self.number, inside=self.inside
            )
        return builder.finish([done])


def _kept_loop(
    builder: Builder, node: Node, operands: Sequence[Value], body: Graph, loop: _Loop
) -> Sequence[Value]:
    """Add a loop that begins where it was kept, and keeps what its trips change."""
    places = [i for i, x in enumerate(body.inputs) if body.outputs[i] is not x]
    begin = list(operands)
    for place, value in zip(places, loop.restored([begin[i] for i in places]), strict=True):
        begin[place] = value
    results = builder.copy(node, tuple(begin), body=_with_saves(body, places, loop))
    loop.save_if_due([results[i] for i in places], is_over=True)
    return results


def _with_saves(body: Graph, places: Sequence[int], loop: _Loop) -> Graph:
    with Builder() as builder:
        inputs = [builder.input(type) for type in body.input_types]
        outputs = builder.inline(body, inputs)
        loop.save_if_due([outputs[i] for i in places], is_over=False)
    return builder.finish(outputs)


def key_of(program: Program, arrays: Sequence[Array]) -> str:
    """Return what a call is known by: its program, and its arguments by their values.

    Arguments in storage are known by their name, size and the time of their last change.

    Raises
    ------
    StorageError
        Of an argument in storage it cannot be told whether it was changed.
    UnsupportedError
        The program takes values of a Python function, which may be another one next time.
    """
    _refuse_callbacks(program.graph)
    parts: list[Any] = [program.graph.fingerprint, lowering.compiler_identity(program.device)]
    signatures = [*program.call.signatures, *(None for _ in program.captured)]
    for array, signature in zip([*arrays, *program.captured], signatures, strict=True):
        if isinstance(signature, StoredType):
            parts.append(_identity(storage.find(int(array))))
        else:
            data = np.ascontiguousarray(np.asarray(array)).reshape(-1).view(np.uint8).data
            parts.append(hashlib.blake2b(data, digest_size=16).hexdigest())
    return digest(parts)


def _refuse_callbacks(graph: Graph) -> None:
    for node in graph.nodes:
        if node.op is ops.pure_callback:
            raise UnsupportedError(
                f"{node.params['function'].name} gives values to a program with checkpoints, which "
                "cannot tell whether it is the same function when the call goes on",
                mend="leave checkpoint= out, or compute its values before the call",
                where=node.source,
            )
        for body in node.body_graphs:
            _refuse_callbacks(body)


def _identity(stored: Any) -> tuple[Any, ...]:
    if stored.identity[-1] is None:
        raise StorageError(
            f"{stored!r} does not say when it was changed, and a checkpoint is for the same "
            "arguments only",
            mend="open it by its path, with tracer.open(path), or leave checkpoint= out",
        )
    return stored.identity  # type: ignore[no-any-return]


def digest(parts: Sequence[Any]) -> str:
    """Return a short text that depends on the texts of all parts."""
    text = repr([str(part) for part in parts])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


__all__ = ["digest", "key_of", "with_checkpoints"]
