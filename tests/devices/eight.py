"""Meshes of eight CPU devices, for the files that run where these are (`test_eight_devices.py`)."""

from __future__ import annotations

from typing import Any

import tracer
from tracer.sharding import Mesh, NamedSharding, PartitionSpec, make_mesh

P = PartitionSpec
DEVICES = tracer.devices("cpu")
LINE = Mesh(DEVICES, "x")
GRID = make_mesh((4, 2), ("a", "b"))
TURNED = make_mesh((2, 4), ("a", "b"))
BACKWARDS = Mesh(DEVICES[::-1], "x")


def on(mesh: Mesh, *parts: Any) -> NamedSharding:
    return NamedSharding(mesh, P(*parts))
