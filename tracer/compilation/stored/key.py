"""The name of a program's file: a hash of all that the program and its plan depend on.

It is known when the function is traced, before anything is planned.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tracer import lowering, ops
from tracer.compilation.task import Task
from tracer.errors import Source
from tracer.ir import Graph, Node, Op

_PACKAGE = Path(__file__).parents[2]
_LIBRARIES = ("jaxlib", "numpy", "ml_dtypes", "networkx", "scipy", "opt_einsum")
_PLAIN = (bool, int, float, complex, str, type(None), np.dtype, np.generic)


def key_of(task: Task) -> str | None:
    """Return the key of a task; None for one whose program is not kept.

    Programs of a mesh, for what is no CPU of this process, under a limit that depends on what is
    free, and those with an op that is not tracer's own.
    """
    options, graph = task.options, task.traced.graph
    is_fixed = options.spread is None and not isinstance(options.limit, str)
    if not is_fixed or not _can_be_kept(graph, task.device):
        return None
    return _hash(
        task.device,
        {
            "kind": "compiled function",
            "graph": graph.fingerprint,
            "lines": _lines(graph),
            "name": task.name,
            "arguments": task.call.names,
            "types": [str(signature) for signature in task.call.signatures],
            "limit": task.limit,
            "donated": task.donated,
            "threshold": options.threshold_bytes,
            "slice": options.split_bytes,
            "split": options.split,
            "planning seconds": options.planning_seconds,
            "switched off": sorted(options.disabled),
        },
    )


def graph_key(kind: str, graph: Graph, device: lowering.Device) -> str | None:
    """Return the key of a graph that is not planned; None if it is not kept."""
    if not _can_be_kept(graph, device):
        return None
    return _hash(device, {"kind": kind, "graph": graph.fingerprint})


def walk(graph: Graph) -> Iterator[Node]:
    """Yield the nodes of a graph and of its bodies, in the order of the graph's text."""
    for node in graph.nodes:
        yield node
        for body in node.body_graphs:
            yield from walk(body)


def _hash(device: lowering.Device, facts: dict[str, Any]) -> str:
    every = {
        **facts,
        "source": _source_digest(),
        "libraries": _versions(),
        "compiler": lowering.compiler_identity(device),
        "target": repr(lowering.target_of(device)),
        "tuned": lowering.is_tuned(),
    }
    return hashlib.sha256(json.dumps(every, sort_keys=True).encode()).hexdigest()


def _can_be_kept(graph: Graph, device: lowering.Device) -> bool:
    own = _own_ops()
    # What calls Python is tied to this process, also where only arrays in storage are read.
    return (
        lowering.can_be_serialized(device)
        and not graph.calls_host
        and all(
            id(node.op) in own and all(map(_is_plain, node.params.values())) for node in walk(graph)
        )
    )


@cache
def _own_ops() -> frozenset[int]:
    """Return the ops whose records are tracer's: their source is in the key."""
    return frozenset(id(op) for op in vars(ops).values() if isinstance(op, Op))


def _is_plain(value: Any) -> bool:
    """Tell whether a parameter's value is in the graph's fingerprint, and not its address."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, (*_PLAIN, np.ndarray, Graph))


def _lines(graph: Graph) -> str:
    """Return a hash of the user's lines, as plans show them."""
    digest = hashlib.sha256()
    shown: dict[Source | None, str] = {}
    for node in walk(graph):
        if node.source not in shown:
            shown[node.source] = str(node.source)
        digest.update(f"{shown[node.source]}\n".encode())
    return digest.hexdigest()


@cache
def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in _LIBRARIES}}


@cache
def _source_digest() -> str:
    """Return a hash of tracer's own source: a planner that was changed makes other plans."""
    digest = hashlib.sha256()
    for file in sorted(_PACKAGE.rglob("*.py")):
        digest.update(f"{file.relative_to(_PACKAGE)}\n".encode() + file.read_bytes())
    return digest.hexdigest()


__all__ = ["graph_key", "key_of", "walk"]
