"""Programs in files: found instead of planned and compiled, and kept when they were.

A file of a compiled function is what its plan says in JSON, the graph's text and the executable; a
file of an operation outside of compiled functions is the executable alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from tracer import lowering
from tracer.compilation.log import log
from tracer.compilation.made import Made, minimum_of
from tracer.compilation.retracing import PLAIN, Mode
from tracer.compilation.stored.files import FileStore
from tracer.compilation.stored.folder import current_store
from tracer.compilation.stored.key import graph_key, key_of, walk
from tracer.compilation.stored.record import Sources, graph_from, graph_text, plain, restored
from tracer.compilation.task import Task
from tracer.errors import StorageError
from tracer.ir import Graph

_LENGTH = 8


def found_or_made(task: Task, make: Callable[[Task], Made]) -> Made:
    """Return the program of a task from the folder, or make it and keep it there."""
    store = current_store()
    key = None if store is None else key_of(task)
    if store is None or key is None:
        return make(task)
    content = store.read(key)
    if content is not None:
        found = _read(content, task)
        if found is not None:
            return found
        store.warn(f"a program in {store.folder} cannot be read: it is made again")
    made = make(task)
    _keep(store, key, made)
    return made


def found_or_compiled(
    kind: str, graph: Graph, device: lowering.Device, compile: Callable[[], lowering.Executable]
) -> lowering.Executable:
    """Return the executable of a graph from the folder, or compile it and keep it there.

    The kind says what is done to a graph when it is compiled.
    """
    store = current_store()
    key = None if store is None else graph_key(kind, graph, device)
    if store is None or key is None:
        return compile()
    # Equal graphs are read once, as they are compiled once.
    return lowering.remembered(key, partial(_found_or_compiled, store, key, device, compile))


def _found_or_compiled(
    store: FileStore, key: str, device: lowering.Device, compile: Callable[[], lowering.Executable]
) -> lowering.Executable:
    content = store.read(key)
    if content is not None:
        found = lowering.deserialize(content, device)
        if found is not None:
            return found
        store.warn(f"a program in {store.folder} cannot be read: it is made again")
    made = compile()
    written = lowering.serialize(made)
    if written is not None:
        store.write(key, written)
    return made


def _keep(store: FileStore, key: str, made: Made) -> None:
    sources, graph = Sources(), made.find_graph()
    executable, text = lowering.serialize(made.execute), graph_text(graph, sources)
    if executable is None or text is None:
        log.debug("the program for %s... is not kept: it cannot be written", key[:8])
        return
    written, places = text[0].encode(), text[1]
    record = {
        "mode": [made.mode.large_bytes, made.mode.in_segments],
        "traced": made.traced.graph.fingerprint,
        "limit": made.limit,
        "facts": plain(made.facts, sources),
        "places": places,
        "graph_bytes": len(written),
    }
    # Last, when all lines are known.
    record["lines"] = sources.lines
    head = json.dumps(record).encode()
    store.write(key, b"".join((len(head).to_bytes(_LENGTH, "little"), head, written, executable)))


def _read(content: bytes, task: Task) -> Made | None:
    """Return what a file says; None if it is no such file, or for another trace of the function."""
    start = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
    try:
        record = json.loads(content[_LENGTH:start])
        return _restored(record, memoryview(content)[start:], task)
    except (
        AttributeError,
        IndexError,
        KeyError,
        OverflowError,
        RecursionError,
        TypeError,
        ValueError,
    ):
        return None


def _restored(record: dict[str, Any], rest: memoryview, task: Task) -> Made | None:
    mode, traced = Mode(*record["mode"]), task.traced
    if mode != PLAIN:
        traced = task.call.traced_to_keep_less(mode.large_bytes, in_segments=mode.in_segments)
    if traced.graph.fingerprint != record["traced"]:
        return None
    text, written = rest[: record["graph_bytes"]], rest[record["graph_bytes"] :]
    execute = lowering.deserialize(bytes(written), task.device)
    sources = Sources(record["lines"], (node.source for node in walk(traced.graph)))
    if execute is None:
        return None
    return Made(
        traced,
        mode,
        record["limit"],
        execute,
        partial(_graph, bytes(text), record["places"], sources),
        restored(record["facts"], sources),
        partial(minimum_of, task),
    )


def _graph(text: bytes, places: list[int | None], sources: Sources) -> Graph:
    try:
        return graph_from(text.decode(), places, sources)
    except (IndexError, TypeError, ValueError) as error:
        raise StorageError(
            f"the graph of a program that was kept cannot be read: {error}",
            mend="empty the folder that was given to tracer.set_cache_dir",
        ) from error


__all__ = ["found_or_compiled", "found_or_made"]
