"""Indices out of bounds in programs that are cut for a limit, and in loops that write in place."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.beyond import cut, padded, sent_beyond

pytestmark = pytest.mark.xla

N, M = 1501, 203
RNG = np.random.default_rng(0)
X, W, V = RNG.normal(size=N), RNG.normal(size=M), RNG.normal(size=M)
ROWS = RNG.integers(-2 * N, 2 * N, 300)
COLUMNS = RNG.integers(-2 * M, 2 * M, (N, 3))
FEW = np.array([M - 1, M, N, -M, -M - 1, -1])
SEGMENTS = np.arange(N) % 11 - 3


def table(x):
    """Return an array that is larger than the limits."""
    return tnp.tanh(x[:, None] * W)


TABLE = np.tanh(X[:, None] * W)


def added(x, index, value, update=np.add):
    """Return what NumPy's `ufunc.at` makes of it, the part out of bounds dropped."""
    result = padded(x, 0)
    update.at(result, sent_beyond(index, x.shape), value)
    return cut(result)


def read(x, index):
    return padded(x, np.nan)[sent_beyond(index, x.shape)]


LINE = np.arange(N)[:, None]
PROGRAMS = {
    "rows added": (
        lambda x, i: table(x).at[i].add(V).sum(1),
        ROWS,
        lambda: added(TABLE, (ROWS,), V).sum(1),
    ),
    "few elements": (
        lambda x, i: table(x).at[i, i].max(2.0).sum(1),
        FEW,
        lambda: added(TABLE, (FEW, FEW), 2.0, np.maximum).sum(1),
    ),
    "a row beyond": (lambda x, i: table(x).at[i].set(V).sum(1), N, lambda: TABLE.sum(1)),
    "a row before": (lambda x, i: table(x).at[i].set(V).sum(0), -N - 1, lambda: TABLE.sum(0)),
    "the last row": (
        lambda x, i: table(x).at[i].add(V).sum(1),
        -1,
        lambda: TABLE.sum(1) + np.where(np.arange(N) == N - 1, V.sum(), 0),
    ),
    "a column beyond": (lambda x, i: table(x).at[:, i].set(x).sum(1), M, lambda: TABLE.sum(1)),
    "into segments": (
        lambda x, i: tnp.zeros((6, M)).at[i].add(table(x)),
        SEGMENTS,
        lambda: added(np.zeros((6, M)), (SEGMENTS,), TABLE),
    ),
    "rows taken": (
        lambda x, i: tnp.take(table(x), i, axis=0).sum(1),
        ROWS,
        lambda: read(TABLE, (ROWS,)).sum(1),
    ),
    "taken along": (
        lambda x, i: tnp.take_along_axis(table(x), i, 1).sum(1),
        COLUMNS,
        lambda: read(TABLE, (LINE, COLUMNS)).sum(1),
    ),
    "gradient of what is taken": (
        tracer.grad(lambda x, i: tnp.nansum(tnp.take_along_axis(table(x), i, 1))),
        COLUMNS,
        lambda: (added(np.zeros((N, M)), (LINE, COLUMNS), 1.0) * ((1 - TABLE**2) * W)).sum(1),
    ),
    "gradient of a dropped row": (
        tracer.grad(lambda x, i: (table(x).at[i].set(V) ** 2).sum()),
        N,
        lambda: (2 * TABLE * (1 - TABLE**2) * W).sum(1),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_cut_programs_drop_and_fill_as_whole_ones(name):
    function, index, expected = PROGRAMS[name]
    for limit in ("600kB", "150kB"):
        planned = tracer.compile(function, memory_limit=limit)
        np.testing.assert_allclose(planned(X, index), expected(), rtol=1e-9, atol=1e-9)


def test_scatters_are_cut_at_all():
    names = ("rows added", "few elements", "a row beyond", "into segments")
    for name in names:
        function, index, _ = PROGRAMS[name]
        plan = tracer.compile(function, memory_limit="150kB").plan(X, index)
        assert plan.loops, name


LENGTH = 50_000
LOOPS = {
    "set": lambda i, x: x.at[i].set(i * 1.0),
    "add": lambda i, x: x.at[3 * i - 20].add(2.0),
    "set of what was read": lambda i, x: x.at[i].set(2 * x[i] + x[i + 1]),
    "apply": lambda i, x: x.at[i].apply(tnp.sin).at[i].divide(3.0).at[i].power(2.0),
    "assignment": lambda i, x: (x.__setitem__(i, 1.0), x)[1],
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_write_in_place(name):
    def run(x):
        return tracer.fori_loop(0, 40, LOOPS[name], x)

    x = np.zeros(LENGTH)
    compiled = tracer.compile(run, donate_argnums=0)
    text = compiled.hlo(x)
    assert "dynamic-update-slice" in text
    assert not re.search(rf"f64\[{LENGTH}\]\S* copy\(", text)
    assert compiled.plan(x).compiled_bytes < x.nbytes + 4096


def test_rows_are_written_in_place():
    def run(x):
        return tracer.fori_loop(0, 40, lambda i, x: x.at[i + 90].set(tnp.sin(x[i])), x)

    x = np.ones((100, 400))
    compiled = tracer.compile(run, donate_argnums=0)
    assert not re.search(r"f64\[100,400\]\S* copy\(", compiled.hlo(x))
    assert compiled.plan(x).compiled_bytes < x.nbytes + 2 * 400 * 8 + 4096
    expected = np.ones((100, 400))
    expected[90:] = np.sin(expected[:10])
    np.testing.assert_allclose(compiled(x), expected, rtol=1e-12)
