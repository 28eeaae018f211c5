"""A machine so small that programs of the fuzzer's sizes take the forms of large arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

from tracer.lowering.devices import hardware
from tracer.target import host_target
from tracer.target.products import EigenTimes
from tracer.target.scans import Scans
from tracer.target.spectra import Spectra
from tracer.target.tiles import Tiles
from tracer.target.transforms import Transforms


@contextmanager
def small_machine() -> Iterator[None]:
    """Plan for such a machine, inside of the context."""
    found = host_target()
    kernels = replace(
        found.kernels,
        tiles=Tiles(columns_bytes=1 << 9, tile_bytes=1 << 8, least_rows=1),
        eigen=EigenTimes(worth=math.inf),
        counted_elements=1 << 6,
        counted_steps=64,
    )
    assert found.reductions is not None
    lanes = replace(
        found.reductions.lanes,
        shortest=5,
        shortest_wide=5,
        few=4,
        many=4,
        least_elements=1,
        stored_bytes=0,
        least_itemsize=1,
    )
    reductions = replace(found.reductions, lanes=lanes)
    scans = Scans(paired_elements=12, behind=2, paired_rows=12, piece=30, fewest=3)
    transforms = Transforms(turned_elements=1, elements=1, lines=1, line=1)
    small = replace(
        found,
        cache_bytes=1 << 12,
        kernels=kernels,
        reductions=reductions,
        scans=scans,
        transforms=transforms,
        spectra=Spectra(elements=1),
    )
    with mock.patch.object(hardware, "host_target", return_value=small):
        yield
