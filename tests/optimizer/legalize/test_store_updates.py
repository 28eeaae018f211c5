"""Updates that read the array which they are written into: what is written, and its values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import rewritten
from tracer.optimizer.legalize.updates import stored_updates_pass
from tracer.target import current_target

pytestmark = pytest.mark.xla
Function = Callable[[Any], Any]


def shifted(x: Any) -> Any:
    """Each row and the one before."""
    return x.at[1:].add(x[:-1])


def expected(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.concatenate([x[:1], x[1:] + x[:-1]])


def smoothed(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    x = x.copy()
    for i in range(1, len(x) - 1):
        x[i] = x[i - 1] + x[i + 1]
    return x


def scattered(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Sums of pairs of rows, in the first half."""
    return np.concatenate([np.add.reduceat(x, np.arange(0, len(x), 2)), 0 * x[: len(x) // 2]])


def scattered_columns(x: Any) -> Any:
    """What a trip writes is less than a kilobyte: no barrier so small is kept in a loop."""

    def column(nothing: Any, i: Any) -> Any:
        found = shifted(x[:, i][:, None])
        return nothing, tnp.zeros((len(x), 1)).at[tnp.arange(len(x)) // 2].add(found)[:, 0]

    return tracer.scan(column, 0, tnp.arange(x.shape[1]))[1].T


FORMS: dict[str, tuple[Function, Function]] = {
    "none": (shifted, expected),
    "new axis": (lambda x: shifted(x)[None], lambda x: expected(x)[None]),
    "inner axis": (lambda x: shifted(x)[:, None], lambda x: expected(x)[:, None]),
    "computed": (lambda x: shifted(tnp.sin(x))[:, None], lambda x: expected(np.sin(x))[:, None]),
    "set": (
        lambda x: x.at[:-1].set(x[1:] * 2)[:, None],
        lambda x: np.concatenate([x[1:] * 2, x[-1:]])[:, None],
    ),
    "reversed": (
        lambda x: x.at[1:].set(x[1:][::-1])[:, None],
        lambda x: np.concatenate([x[:1], x[1:][::-1]])[:, None],
    ),
    "columns": (lambda x: shifted(x.T).T[:, None], lambda x: expected(x.T).T[:, None]),
    "a view": (lambda x: shifted(x.reshape(-1))[None], lambda x: expected(x.reshape(-1))[None]),
    "scattered": (
        lambda x: tnp.zeros_like(x).at[tnp.arange(len(x)) // 2].add(shifted(x)),
        lambda x: scattered(expected(x)),
    ),
    "columns of a loop": (scattered_columns, lambda x: scattered(expected(x))),
    "batch": (
        lambda x: tracer.vmap(shifted)(tnp.stack([x, 2 * x]))[:, None],
        lambda x: np.stack([expected(x), expected(2 * x)])[:, None],
    ),
    "gradient": (
        lambda x: tracer.grad(lambda x: (shifted(x)[None] ** 2).sum())(x),
        lambda x: 2 * expected(x) + np.concatenate([2 * expected(x)[1:], 0 * x[:1]]),
    ),
    "loop": (
        lambda x: tracer.fori_loop(
            1, len(x) - 1, lambda i, x: x.at[i].set(x[i - 1] + x[i + 1])[None][0], x
        ),
        smoothed,
    ),
}


@pytest.mark.filterwarnings("ignore::tracer.DonationWarning")
@pytest.mark.parametrize("donated", [(), (0,)], ids=["kept", "donated"])
@pytest.mark.parametrize("shape", [(2, 1), (5, 4), (8, 8), (64, 32), (129, 3), (301, 20)])
@pytest.mark.parametrize("form", FORMS)
def test_every_element_is_read_before_it_is_written(
    form: str, shape: tuple[int, ...], donated: tuple[int, ...]
) -> None:
    function, reference = FORMS[form]
    x = np.random.default_rng(0).standard_normal(shape)
    found = tracer.compile(function, donate_argnums=donated)(tnp.asarray(x.copy()))
    np.testing.assert_allclose(np.asarray(found), reference(x), rtol=1e-12, atol=1e-12)


def placed(x: Any, index: Any, rows: Any) -> Any:
    """Return the array with a row in another's place, as NumPy does."""
    x = x.copy()
    x[index] = rows
    return x


ONE = np.array([1])

ONE_INDEX: dict[str, tuple[Function, Function]] = {
    "another row": (
        lambda x: x.at[ONE].set(x[::-1][ONE] * x.mean(0))[None],
        lambda x: placed(x, ONE, x[::-1][ONE] * x.mean(0))[None],
    ),
    "its row reversed": (
        lambda x: x.at[ONE].add(x[ONE][:, ::-1])[None],
        lambda x: placed(x, ONE, x[ONE] + x[ONE][:, ::-1])[None],
    ),
    "columns reversed": (
        lambda x: x.at[:, ONE].multiply(x[::-1][:, ONE])[None],
        lambda x: placed(x, np.s_[:, 1], x[:, 1] * x[::-1, 1])[None],
    ),
    "in an update": (
        lambda x: x.at[:-2].set(x[:-2].at[:, ONE].multiply(x[1:-1, ONE]))[None],
        lambda x: placed(x, np.s_[:-2, 1], x[:-2, 1] * x[1:-1, 1])[None],
    ),
    "a batch of one": (
        lambda x: tracer.vmap(lambda i: x.at[:-1, i].multiply(x[:-1, 1:2]))(ONE[None]),
        lambda x: placed(x, np.s_[:-1, 1], x[:-1, 1] ** 2)[None],
    ),
}


@pytest.mark.parametrize("shape", [(4, 3), (300, 5)])
@pytest.mark.parametrize("form", ONE_INDEX)
def test_an_index_array_of_one_element(form: str, shape: tuple[int, ...]) -> None:
    """XLA makes an update in place of such a scatter; these programs were refused."""
    function, reference = ONE_INDEX[form]
    x = np.random.default_rng(0).standard_normal(shape)
    np.testing.assert_allclose(tracer.compile(function)(x), reference(x), rtol=1e-12)


def barriers(function: Function) -> int:
    graph = tracer.compile(function).graph(tracer.ShapeDtype((64, 32), "float32"))
    return sum(node.name == "optimization_barrier" for node in graph.nodes)


def test_what_stays_in_the_kernel() -> None:
    """Only what is read elsewhere takes memory of its own."""
    assert barriers(shifted) == 1
    assert barriers(lambda x: x.at[1:].set(x[1:] + x[:-1])) == 1
    assert barriers(lambda x: x.at[1:].mul(3)) == 0
    assert barriers(lambda x: x.at[1:].add(tnp.sin(x[1:]) * x[1:])) == 0
    assert barriers(lambda x: x.at[1:].set(tnp.ones((63, 32), "float32"))) == 0


def before(size: int) -> str:
    return f"""
        graph(%0: float32[{size}]) {{
          %1: float32[{size - 1}] = slice(%0) {{start=(0,), limit=({size - 1},), strides=(1,)}}
          %2: int64[] = constant() {{value=int64[] 1}}
          %3: float32[{size}] = dynamic_update_slice(%0, %1, %2) {{}}
          return %3
        }}"""


def test_what_is_written() -> None:
    after = rewritten(stored_updates_pass(), before(500))
    assert after.count("optimization_barrier(%1)") == 1
    kept = before(500).replace("start=(0,), limit=(499,)", "start=(1,), limit=(500,)")
    assert "barrier" not in rewritten(stored_updates_pass(), kept)


@pytest.mark.parametrize("size", [2, 5, 257, 258])
def test_small_updates_have_barriers_that_loops_keep(size: int) -> None:
    after = rewritten(stored_updates_pass(), before(size))
    found = re.search(r"float32\[(\d+)\] = optimization_barrier", after)
    assert found is not None
    assert 4 * int(found[1]) >= current_target().kernels.least_barrier_bytes
    assert ("pad(" in after) == (size < 258)
