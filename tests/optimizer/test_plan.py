"""The plan: for machines, for people, as a picture; and the smallest limit, which is met."""

from __future__ import annotations

import importlib.util
import inspect
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import lowering
from tracer.errors import ArgumentError
from tracer.ir import ShapeDtype
from tracer.optimizer import picture
from tracer.optimizer.listing import SHOWN, listed
from tracer.optimizer.pipeline import PlannerOptions, standard_passes
from tracer.optimizer.planner import Planner
from tracer.units import format_bytes

pytestmark = pytest.mark.xla
FLOAT = "float32"


def kernel_product(x: Any, v: Any) -> Any:
    distances = ((x[:, None, :] - x[None, :, :]) ** 2).sum(-1)
    return tnp.exp(-distances) @ v


def attention(q: Any, k: Any, v: Any) -> Any:
    return tracer.nn.softmax(q @ k.T) @ v


def factored(x: Any) -> Any:
    covariance = tnp.exp(-((x[:, None] - x[None, :]) ** 2)) + tnp.eye(len(x), dtype=FLOAT)
    return tnp.linalg.cholesky(covariance).sum()


def triangles(x: Any) -> Any:
    kernel = tnp.exp(-((x[:, None, :] - x[None, :, :]) ** 2).sum(-1))
    return tnp.tril(kernel).sum(1) + tnp.triu(kernel, 2).sum(0)


def bins(x: Any, y: Any) -> Any:
    return tnp.searchsorted(tnp.linspace(0, 10, 30), x[:, None] - y).sum(1)


POINTS = (ShapeDtype((2000, 3), FLOAT), ShapeDtype((2000,), FLOAT))
HEADS = (ShapeDtype((1000, 16), FLOAT),) * 3
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[ShapeDtype, ...]]] = {
    "kernel": (kernel_product, POINTS),
    "kernel gradient": (tracer.grad(lambda x, v: (kernel_product(x, v) ** 2).sum()), POINTS),
    "attention": (attention, HEADS),
    "attention gradient": (tracer.grad(lambda *a: (attention(*a) ** 2).sum(), (0, 1, 2)), HEADS),
    "cholesky": (factored, (ShapeDtype((500,), FLOAT),)),
    # The model takes more for stored than XLA stores.
    "triangles": (triangles, (ShapeDtype((701, 3), FLOAT),)),
    "bins": (bins, (ShapeDtype((301,), FLOAT), ShapeDtype((203,), FLOAT))),
    "element-wise": (lambda x: tnp.sin(x) + 1, (ShapeDtype((1000,), FLOAT),)),
}


def line_of(function: Callable[..., Any], text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


@pytest.fixture(scope="module")
def plan() -> tracer.Plan:
    return tracer.compile(kernel_product, memory_limit="1MB").plan(*POINTS)


def test_to_dict_is_json(plan: tracer.Plan) -> None:
    found = json.loads(json.dumps(plan.to_dict()))
    assert found["limit_bytes"] == 1_000_000
    assert found["compiled_bytes"] <= 1_000_000
    low, high = found["minimum_bytes_bounds"]
    assert low == 4 * 2000 * 4 + 2000 * 4
    assert high == 1_000_000
    assert found["argument_bytes"] == 4 * 2000 * 4
    assert found["output_bytes"] == 2000 * 4
    names = [row["name"] for row in found["passes"]]
    wanted = [item.name for item in standard_passes(PlannerOptions(with_rules=True))]
    assert names[: len(wanted)] == wanted
    assert "split" in names
    (loop,) = found["loops"]
    assert loop["trips"] * loop["chunk"] + loop["remainder"] == 2000
    assert found["timeline"]
    assert max(entry["live_bytes"] for entry in found["timeline"]) <= found["peak_bytes"]


def test_print_says_limit_loops_and_lines(plan: tracer.Plan) -> None:
    text = str(plan)
    assert "limit            1 MB" in text
    number = line_of(kernel_product, "tnp.exp")
    assert f"test_plan.py:{number} in kernel_product: return tnp.exp(-distances) @ v" in text
    assert "not stored: float32[2000,2000] of exponential" in text
    for row in plan.passes:
        assert row.name in text


def _forbid_planning(patch: pytest.MonkeyPatch) -> None:
    def planned(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("something was planned or compiled")

    patch.setattr(Planner, "__init__", planned)
    patch.setattr(Planner, "candidates", planned)
    patch.setattr(Planner, "_split", planned)
    patch.setattr(Planner, "smallest", planned)
    patch.setattr(lowering, "compile_graph", planned)
    patch.setattr(lowering, "compile_lanes", planned)


def test_a_plan_that_is_read_plans_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = tracer.compile(attention, memory_limit="500kB").plan(*HEADS)
    with monkeypatch.context() as patch:
        _forbid_planning(patch)
        assert "smallest limit   not searched, plan.minimum_bytes does; between" in str(plan)
        assert plan.to_dict()["minimum_bytes"] is None
        repr(plan)
        if importlib.util.find_spec("matplotlib") is not None:
            plan.plot(str(tmp_path / "plan.png"))
        low, high = plan.minimum_bytes_bounds
        with pytest.raises(AssertionError, match="planned"):
            plan.minimum_bytes  # noqa: B018 - the search itself
    assert low == plan.fixed_bytes == 4 * 1000 * 16 * 4
    assert low <= plan.minimum_bytes <= high == 500_000
    with monkeypatch.context() as patch:
        _forbid_planning(patch)
        minimum = plan.minimum_bytes
        assert plan.minimum_bytes_bounds == (minimum, minimum)
        assert plan.to_dict()["minimum_bytes"] == minimum
        assert f"smallest limit   {format_bytes(minimum)}\n" in str(plan)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_smallest_limit_is_within_what_is_known_without_a_search(name: str) -> None:
    function, types = PROGRAMS[name]
    plan = tracer.compile(function).plan(*types)
    low, high = plan.minimum_bytes_bounds
    assert low <= plan.minimum_bytes <= high


def test_without_a_limit_print_says_so() -> None:
    text = str(tracer.compile(lambda x: x + 1).plan(ShapeDtype((3,), FLOAT)))
    assert "limit            none" in text
    assert "loops: none" in text


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_plot_writes_a_picture(plan: tracer.Plan, tmp_path: Path, ending: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"plan.{ending}"
    plan.plot(str(path))
    start = path.read_bytes()[:200]
    assert start.startswith(b"\x89PNG") if ending == "png" else b"<?xml" in start


def test_the_picture_has_both_schedules_and_the_lines_of_their_peaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    drawn: list[Any] = []
    made = picture._figure

    def kept(path: str) -> Any:
        drawn.append(made(path))
        return drawn[-1]

    monkeypatch.setattr(picture, "_figure", kept)

    def product(x: Any, v: Any) -> Any:
        return tnp.exp(x[:, None] - x) @ v

    types = ShapeDtype((900,), FLOAT), ShapeDtype((900,), FLOAT)
    plan = tracer.compile(product, memory_limit="100kB").plan(*types)
    plan.plot(str(tmp_path / "plan.png"))
    ((_, axes),) = drawn
    labels = axes.get_legend_handles_labels()[1]
    assert {"as planned", "as written", "limit 100 kB"} <= set(labels)
    texts = [text.get_text() for text in axes.texts]
    assert len(texts) == 2
    assert all("test_plan.py:" in text and "tnp.exp" in text for text in texts)
    assert axes.get_yscale() == "log"


def test_plot_of_an_empty_program(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "plan.png"
    tracer.compile(lambda x: x).plan(ShapeDtype((3,), FLOAT)).plot(str(path))
    assert path.stat().st_size > 1000


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_minimum_is_met_and_a_tenth_less_is_refused(name: str) -> None:
    function, types = PROGRAMS[name]
    minimum = tracer.compile(function).plan(*types).minimum_bytes
    met = tracer.compile(function, memory_limit=minimum).plan(*types)
    assert met.compiled_bytes <= minimum
    assert met.minimum_bytes <= minimum
    less = int(0.9 * met.minimum_bytes)
    with pytest.raises(tracer.MemoryLimitError) as caught:
        tracer.compile(function, memory_limit=less).plan(*types)
    error = caught.value
    assert error.limit_bytes == less
    assert less < error.minimum_bytes <= minimum
    fixed = met.argument_bytes + met.output_bytes
    # Below these nothing is searched for, and they are what may do.
    assert str(error.minimum_bytes if less >= fixed else fixed) in error.mend
    assert error.binding in str(error)


@pytest.mark.parametrize(("name", "share"), [("triangles", 1.0), ("bins", 0.1)])
def test_the_minimum_is_below_the_whole_program_where_the_model_errs(
    name: str, share: float
) -> None:
    function, types = PROGRAMS[name]
    whole = tracer.compile(function, split="never").plan(*types).compiled_bytes
    with pytest.raises(tracer.MemoryLimitError) as caught:
        tracer.compile(function, memory_limit=1).plan(*types)
    assert caught.value.minimum_bytes <= share * whole


def test_equal_lines_are_shown_once() -> None:
    rows = ["b", "a", "b", "c", "d", "e", "f", "e"]
    assert [*listed("kept", rows, "all.rows")] == [
        "kept: b  (2 times)",
        "kept: a",
        "kept: c",
        "kept: d",
        "kept: 3 more, see all.rows",
    ]
    assert [*listed("kept", ["a"], "all.rows")] == ["kept: a"]


def test_print_shows_the_largest_tensors_only() -> None:
    def scaled(x: Any, y: Any) -> Any:
        functions = (tnp.exp, tnp.tanh, tnp.expm1, tnp.arctan, tnp.arcsinh, tnp.cbrt)
        parts = [function(x[:, None] - y) for function in functions]
        return sum((part / part.max(1, keepdims=True)).sum(1) for part in parts)

    plan = tracer.compile(scaled, memory_limit="100kB").plan(*PROGRAMS["bins"][1])
    assert any(len(set(row.tensors)) > SHOWN for row in plan.loops)
    assert str(plan).count("not stored:") <= (SHOWN + 1) * len(plan.loops)
    assert "more, see plan.loops" in str(plan)


def test_the_refused_limit_names_the_tensor_and_the_line() -> None:
    with pytest.raises(tracer.MemoryLimitError) as caught:
        tracer.compile(factored, memory_limit="2MB").plan(ShapeDtype((700,), FLOAT))
    text = str(caught.value)
    assert "float32[700,700]" in caught.value.binding
    assert "in factored" in text
    assert "cholesky" in text
    assert "factored cannot run within memory_limit 2 MB" in text


@pytest.mark.xla
def test_a_limit_names_an_array_that_numpy_computed_and_the_function_closes_over() -> None:
    points = np.linspace(0, 1, 300)

    def loss(weights: Any) -> Any:
        return tnp.exp(-((points[:, None] - points) ** 2)) @ weights

    with pytest.raises(tracer.MemoryLimitError, match="closes over") as caught:
        tracer.compile(loss, memory_limit="100kB").plan(points)
    assert "float64[300,300]" in caught.value.binding
    with pytest.raises(tracer.MemoryLimitError) as caught:
        tracer.compile(lambda x: tnp.exp(x), memory_limit="100kB").plan(np.ones((300, 300)))
    assert "closes over" not in caught.value.binding


def test_arguments_alone_may_bind() -> None:
    with pytest.raises(tracer.MemoryLimitError, match="arguments and results alone") as caught:
        tracer.compile(lambda x: x + 1, memory_limit="1kB").plan(ShapeDtype((1000,), FLOAT))
    assert caught.value.minimum_bytes >= 8000


def test_a_limit_below_arguments_and_results_is_refused_before_anything_is_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fixed = 4 * 1000 * 16 * 4
    with monkeypatch.context() as patch:
        _forbid_planning(patch)
        with pytest.raises(tracer.MemoryLimitError, match="nothing was planned") as caught:
            tracer.compile(attention, memory_limit=fixed - 1).plan(*HEADS)
    error = caught.value
    assert error.limit_bytes == fixed - 1
    assert error.minimum_bytes_bounds == (fixed, None)
    assert "float32[1000,16]" in error.binding
    assert str(fixed) in error.mend
    minimum = error.minimum_bytes
    assert error.minimum_bytes_bounds == (minimum, minimum)
    met = tracer.compile(attention, memory_limit=minimum).plan(*HEADS)
    assert fixed < met.compiled_bytes <= minimum
    again = pickle.loads(pickle.dumps(error))
    assert (again.minimum_bytes, str(again)) == (minimum, str(error))


def test_an_argument_that_is_donated_counts_once() -> None:
    asked = tracer.compile(lambda x: x + 1, memory_limit=4000, donate_argnums=0)
    assert asked.plan(ShapeDtype((1000,), FLOAT)).compiled_bytes == 4000


@pytest.mark.parametrize("name", ["kernel", "attention", "kernel gradient", "attention gradient"])
def test_each_limit_above_the_minimum_is_met_with_the_same_numbers(name: str) -> None:
    function, types = PROGRAMS[name]
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(type.shape).astype(type.dtype) / 4 for type in types]
    plain = tracer.compile(function)
    want = tracer.tree.leaves(plain(*arrays))
    minimum = plain.plan(*types).minimum_bytes
    for factor in (1.0, 1.3, 2, 5, 20):
        compiled = tracer.compile(function, memory_limit=int(factor * minimum))
        assert compiled.plan(*types).compiled_bytes <= factor * minimum
        for got, expected in zip(tracer.tree.leaves(compiled(*arrays)), want, strict=True):
            scale = float(np.abs(np.asarray(expected)).max())
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5 * scale)


def test_plot_refuses_endings_that_it_cannot_write(plan: tracer.Plan, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(ArgumentError, match="cannot write 'doc' files") as caught:
        plan.plot(str(tmp_path / "plan.doc"))
    assert "png" in caught.value.mend
    with pytest.raises(FileNotFoundError):
        plan.plot(str(tmp_path / "missing" / "plan.png"))


def _padded(x: Any, y: Any) -> Any:
    first = x[:, None] * y
    second = np.pad(first[2:, 1:], ((0, 2), (1, 0)), mode="edge") - first
    third = np.pad(second.at[3:40, ::2].set(1)[2:, 1:], ((0, 2), (1, 0)), mode="edge")
    last = third % 7 - third
    return second.std(0), (last * last).sum(1), third.sum()


def _sorted_twice(x: Any, y: Any) -> Any:
    rows = np.sort(x[:, None] * y, 1)
    larger = np.maximum(rows, rows[::-1])
    return np.trace(np.sort(larger, 1)), larger.min(1)


@pytest.mark.xla
@pytest.mark.parametrize("function", [_padded, _sorted_twice])
def test_the_smallest_limit_is_met_where_xla_takes_less_than_is_predicted(function: Any) -> None:
    types = (ShapeDtype((300,), "float64"), ShapeDtype((256,), "float64"))
    minimum = tracer.compile(function).plan(*types).minimum_bytes
    assert tracer.compile(function, memory_limit=minimum).plan(*types).compiled_bytes <= minimum
