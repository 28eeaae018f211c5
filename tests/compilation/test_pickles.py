"""Pickles and copies of what users hold: what comes back does the same, what cannot says why."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp

WAYS: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def far(x: Any) -> Any:
    return tnp.exp(-abs(x[:, None] - x)).sum(1)


@tracer.compile
def doubled(x: Any) -> Any:
    return 2 * x


@pytest.mark.xla
@pytest.mark.parametrize("way", WAYS)
def test_compiled_functions_keep_their_options(way: str) -> None:
    x = np.arange(500.0)
    compiled = tracer.compile(far, memory_limit="100kB")
    again = WAYS[way](compiled)
    np.testing.assert_array_equal(again(x), compiled(x))
    assert again.plan(x).limit_bytes == 100_000


def test_what_a_decorator_made_comes_back_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(doubled)) is doubled


def test_a_function_without_a_name_says_so() -> None:
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(tracer.compile(lambda x: x))


@pytest.mark.xla
def test_functions_of_a_notebook_by_cloudpickle() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    factor = 3.0
    compiled = tracer.compile(lambda x: factor * x, memory_limit="1MB")
    again = pickle.loads(cloudpickle.dumps(compiled))
    assert again(np.ones(2)).tolist() == [3.0, 3.0]


@pytest.mark.xla
@pytest.mark.parametrize("way", WAYS)
def test_plans_say_the_same(way: str, tmp_path: Path) -> None:
    plan = tracer.compile(far, memory_limit="100kB").plan(np.arange(500.0))
    again = WAYS[way](plan)
    assert again == plan
    assert str(again) == str(plan)
    assert again.to_dict() == plan.to_dict()
    again.save(tmp_path / "plan.html")
    if way == "pickle":
        with pytest.raises(tracer.errors.ArgumentError, match="before it is pickled"):
            _ = again.minimum_bytes
    assert plan.minimum_bytes == WAYS[way](plan).minimum_bytes


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "int8", "bool"])
def test_arrays_and_their_containers(way: str, dtype: str) -> None:
    x = tnp.asarray(np.array([0, 1, 2]), dtype)
    found = WAYS[way]({"a": x, "b": [x, 1]})
    assert isinstance(found["b"][0], tracer.Array)
    assert found["a"].dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(found["a"]), np.asarray(x))


@pytest.mark.parametrize("way", WAYS)
def test_what_describes_arrays(way: str) -> None:
    for thing in (
        tracer.ShapeDtype((2, 3), "float32"),
        tracer.devices()[0],
        tracer.tree.structure({"a": 1}),
        np.dtype("float32"),
    ):
        assert WAYS[way](thing) == thing
    assert WAYS[way](tnp.finfo("bfloat16")).eps == tnp.finfo("bfloat16").eps


@pytest.mark.xla
@pytest.mark.parametrize("way", WAYS)
def test_errors_keep_their_numbers(way: str) -> None:
    with pytest.raises(tracer.MemoryLimitError) as caught:
        tracer.compile(far, memory_limit=10)(np.arange(500.0))
    again = WAYS[way](caught.value)
    assert str(again) == str(caught.value)
    assert again.minimum_bytes == caught.value.minimum_bytes


@pytest.mark.parametrize("way", WAYS)
def test_arrays_in_storage_are_opened_again(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "x.npy", np.arange(6.0))
    monkeypatch.chdir(tmp_path)
    stored = tracer.open("x.npy")
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(WAYS[way](stored)[1:3], [1, 2])


def test_arrays_in_storage_without_a_path_say_so() -> None:
    with pytest.raises(tracer.errors.ArgumentError, match="only this process has"):
        pickle.dumps(tracer.open(np.arange(4.0)))


@pytest.mark.xla
def test_functions_that_write_to_storage(tmp_path: Path) -> None:
    writing = pickle.loads(pickle.dumps(doubled.into(tmp_path / "out.npy")))
    assert writing(np.arange(3.0))[:].tolist() == [0, 2, 4]


@pytest.mark.xla
def test_results_of_transformations_by_copies_and_cloudpickle() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    slope = tracer.grad(lambda x: (x**2).sum())
    for again in (copy.deepcopy(slope), pickle.loads(cloudpickle.dumps(slope))):
        assert again(np.ones(2)).tolist() == [2.0, 2.0]


@pytest.mark.xla
@pytest.mark.process
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_pools_of_processes_run_what_they_are_sent(method: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(4.0))
    compiled = tracer.compile(far, memory_limit="1MB")
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        found = pool.submit(compiled, np.arange(4.0)).result()
        stored = pool.submit(compiled, tracer.open(tmp_path / "x.npy")).result()
    assert isinstance(found, tracer.Array)
    for result in (found, stored):
        np.testing.assert_array_equal(result, compiled(np.arange(4.0)))
