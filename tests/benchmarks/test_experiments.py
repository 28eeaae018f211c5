"""The suite of published experiments: its records, its reports, and a run of its smallest cases."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.experiments import (
    environments,
    inputs,
    kernel,
    neighbours,
    passes,
    plots,
    report,
    sgpr,
)
from benchmarks.experiments import transformer_model as model
from benchmarks.experiments.__main__ import EXPERIMENTS, chosen, main
from benchmarks.experiments.environments import Environments
from benchmarks.experiments.harness import check, run_case
from benchmarks.experiments.records import Case, Row, Settings, System, relative_error
from examples import sgpr as example

SETTINGS = Settings("small", None, "cpu", 2_000_000_000, 2, 120)
HERE = Environments({sys.executable: {}})
PROGRAMS = "numpy_programs:kernel"


def case(*systems: System, n: int = 300, **options: Any) -> Case:
    return Case("kernel product", f"n = {n}", {"n": n}, systems, **options)


def by_name(found: list[Row]) -> dict[str, Row]:
    return {row["system"]: row for row in found}


@pytest.mark.process
def test_two_systems_are_measured_checked_and_take_turns() -> None:
    systems = (System("whole", PROGRAMS), System("blocks", "numpy_programs:kernel_in_blocks"))
    checked = case(*systems, expected=lambda: kernel.reference(300), tolerance=1e-10)
    rows = by_name(run_case(checked, SETTINGS, HERE, lambda _: None))
    for row in rows.values():
        assert row["status"] == "ok", row["reason"]
        assert row["right"]
        assert row["error"] < 1e-12
        assert row["interleaved"]
        assert row["fastest"] <= row["seconds"] <= row["slowest"]
    assert rows["whole"]["ratio"] == 1
    # The whole stores at least the differences.
    assert rows["whole"]["peak_bytes"] > 8 * 3 * 300**2


def test_peers_are_chosen_by_name() -> None:
    names = ("tracer, 1MB", "jax.jit", "jax.jit, in chunks by hand", "NumPy")
    whole = case(*(System(name, PROGRAMS) for name in names))
    assert chosen(whole, None) is whole
    assert [system.name for system in chosen(whole, ["chunks"]).systems] == [names[0], names[2]]


@pytest.mark.process
def test_wrong_values_are_seen() -> None:
    wrong = case(System("whole", PROGRAMS), expected=lambda: np.zeros(64), tolerance=1e-3)
    (row,) = run_case(wrong, SETTINGS, HERE, lambda _: None)
    assert not row["right"]
    assert "WRONG" in " ".join(report.cells(row))
    assert "values right: 0 of 1" in report.summary([row])


def test_without_a_reference_values_are_those_of_the_first_peer() -> None:
    systems = tuple(System(name, PROGRAMS) for name in ("ours", "peer", "other"))
    found = {"ours": [1.0, 2.0], "peer": [1.0, 2.1], "other": [1.0, 2.1]}
    rows = {name: {"status": "ok", "values": values} for name, values in found.items()}
    check(case(*systems, tolerance=1e-3, beside_peers=True), rows)
    assert [row["right"] for row in rows.values()] == [False, True, True]


@pytest.mark.process
def test_what_does_not_fit_and_what_is_missing_is_a_status() -> None:
    small_cap = Settings("small", None, "cpu", 50_000_000, 2, 120)
    systems = (System("whole", PROGRAMS), System("none", PROGRAMS, ("pykeops",)))
    rows = by_name(run_case(case(*systems, n=4_000), small_cap, HERE, lambda _: None))
    assert rows["whole"]["status"] == "does not fit"
    assert "MemoryError" in rows["whole"]["reason"]
    assert rows["none"]["status"] == "skipped"
    assert rows["none"]["reason"] == "not installed: pykeops"
    assert all(len(report.cells(row)) == len(report.HEADER) for row in rows.values())
    assert report.cells({**rows["none"], "reason": "two\n  lines"})[-1] == "two lines"


LIMITED: Row = {
    "system": "tracer", "experiment": "e", "case": "c", "status": "ok", "seconds": 1.0,
    "fastest": 1.0, "slowest": 1.0, "peak_bytes": 5, "first_bytes": 7_000,
    "measured_bytes": 7_500, "limit_bytes": 8_000, "counted_bytes": 6_000, "within_first": True,
    "within": True,
}  # fmt: skip
LATER = LIMITED | {"measured_bytes": 9_000, "within": False}
FIRST = LATER | {"first_bytes": 8_500, "within_first": False}


def test_a_first_call_over_the_limit_is_broken() -> None:
    assert report.broken([LIMITED]) == []
    assert report.broken([FIRST]) == ["e, c, tracer: the first call is over the limit"]
    assert "OVER THE LIMIT, first call 8.5 kB" in report.cells(FIRST)[-1]
    assert report.broken([FIRST | {"system": "peer"}]) == []
    failed = FIRST | {"status": "failed", "reason": "a bug", "within_first": True, "right": False}
    assert report.broken([failed]) == ["e, c, tracer: failed: a bug", "e, c, tracer: wrong values"]


def test_a_count_over_the_limit_is_broken() -> None:
    row = LIMITED | {"counted_bytes": 8_001}
    assert report.broken([row]) == ["e, c, tracer: XLA's count is over the limit"]
    assert "COUNT OVER THE LIMIT" in report.cells(row)[-1]
    assert "XLA's count within the limit: 1 of 2" in report.summary([row, LIMITED])


def test_later_calls_over_the_limit_are_reported() -> None:
    assert report.broken([LATER]) == []
    assert "OVER THE LIMIT, first call 7 kB" in report.cells(LATER)[-1]
    said = "resident memory within the limit: 2 of 3 in the first call, 1 in all calls"
    assert said in report.summary([LIMITED, LATER, FIRST])


def test_rows_from_before_the_first_call_was_measured_are_reported() -> None:
    new = ("first_bytes", "within_first", "counted_bytes")
    old, kept = ({k: v for k, v in row.items() if k not in new} for row in (LATER, LIMITED))
    assert report.cells(old)[-1] == "OVER THE LIMIT"
    assert report.broken([old, kept]) == ["e, c, tracer: over the limit"]
    lines = report.summary([old, kept])
    assert "XLA's count within the limit: 0 of 0" in lines
    assert "resident memory within the limit: 1 of 2 in the first call, 1 in all calls" in lines


@pytest.mark.process
@pytest.mark.xla
def test_the_first_call_and_all_calls_are_measured() -> None:
    ours = System("tracer", "ours:kernel", arguments={"limit": "4MB"})
    (row,) = run_case(case(ours), SETTINGS, HERE, lambda _: None)
    assert row["status"] == "ok", row["reason"]
    assert row["argument_bytes"] < row["first_bytes"] <= row["measured_bytes"]
    assert row["within_first"] == (row["first_bytes"] <= row["limit_bytes"] == 4_000_000)
    assert row["within"] == (row["measured_bytes"] <= row["limit_bytes"])
    assert report.count_keeps_limit(row)


@pytest.mark.process
def test_interpreters_are_found_by_what_they_have() -> None:
    found = Environments({"a": {"jax": "1"}, "b": {"jax": "2", "torch": "3"}})
    assert found.python_for(("jax",)) == "a"
    assert found.python_for(("jax", "torch")) == "b"
    assert found.python_for(("faiss",)) is None
    assert found.python_for(("no-such-compiler",)) is None
    assert found.all_versions() == {"jax": "1", "torch": "3"}
    assert "numpy" in environments.find(None).versions[sys.executable]


@pytest.mark.parametrize("metric", ["L2", "L1", "cosine"])
def test_neighbours_are_right_only_in_order_and_distinct(metric: str) -> None:
    problem = neighbours.Problem("random", 500, 3, metric)
    queries, points = inputs.neighbours("random", 500, 3, 40, None)
    error = neighbours.reference(problem, 40, None)
    rows = queries[np.unique(np.linspace(0, 39, 32).astype(int))]
    all_distances = np.stack([neighbours.distances(row, points, metric) for row in rows])
    places = np.argsort(all_distances, axis=1)[:, : neighbours.K]
    assert error(places) == 0
    assert error(places[:, ::-1]) > 1e-3
    assert error(np.repeat(places[:, :1], neighbours.K, axis=1)) == np.inf


@pytest.mark.xla
def test_bound_of_the_example_is_the_references() -> None:
    import tracer

    problem = inputs.sparse_gp("made up", 300, 20, None)
    first = example.initial_parameters(
        problem["inducing"], **{key: problem[key] for key in ("lengthscales", "variance", "noise")}
    )
    value, gradient = tracer.value_and_grad(example.loss)(first, problem["x"], problem["y"])
    slope = np.vdot(np.asarray(gradient["inducing"]), sgpr.direction(20, 4))
    error = sgpr.reference(problem)
    assert error((float(value), slope)) < 1e-5
    assert error((float(value) * 1.01, slope)) > 1e-3
    assert error((float(value), slope * 1.1)) > 1e-3
    assert error((float("nan"), slope)) == np.inf


@pytest.mark.xla
@pytest.mark.slow
def test_training_the_example_beats_the_mean(capsys: pytest.CaptureFixture[str]) -> None:
    rmse, nlpd = example.main(["--points", "400", "--inducing", "30", "--steps", "8"])
    # The targets have variance 1.
    assert rmse < 0.7
    assert nlpd < 1.2
    assert "limit" in capsys.readouterr().out


@pytest.mark.xla
def test_training_stops_in_time() -> None:
    problem = inputs.sparse_gp("made up", 200, 10, None)
    keys = ("lengthscales", "variance", "noise")
    first = example.initial_parameters(problem["inducing"], **{key: problem[key] for key in keys})
    told: list[str] = []
    example.train(first, problem["x"], problem["y"], steps=50, seconds=0, said=told.append)
    assert len(told) < 10


def test_transformer_hides_later_words() -> None:
    shape = model.Shape(layers=1, width=8, heads=2, hidden=16, words=11, batch=2, length=6)
    parameters = model.make_parameters(shape)
    given, targets, _ = model.make_words(shape)
    lib = model.numpy_library()
    before = model.logits(lib, shape, parameters, given, targets)
    changed = targets.copy()
    changed[:, 3] = (changed[:, 3] + 1) % shape.words
    after = model.logits(lib, shape, parameters, given, changed)
    assert np.array_equal(before[:, :3], after[:, :3])
    assert np.abs(before[:, 3:] - after[:, 3:]).max() > 1e-3


def test_relative_error_of_nan_is_infinite() -> None:
    assert relative_error([1.0, float("nan")], [1.0, 1.0]) == float("inf")
    assert relative_error([1.0], [1.0, 1.0]) == float("inf")


def drawn_rows() -> Iterator[Row]:
    for picture in plots.PICTURES:
        for x in (10, 100):
            keys = {key: float(x) for key, _ in picture.panels}
            yield {"experiment": picture.experiment, "system": "tracer", "status": "ok",
                   "case": str(x), picture.axis: x, **keys}  # fmt: skip
    yield {"experiment": "kernel product", "system": "peer", "status": "does not fit",
           "case": "c", "n": 100}  # fmt: skip
    yield {"experiment": "nearest neighbours", "system": "tracer", "status": "ok", "case": "c",
           "work": 10, "seconds": 1.0}  # fmt: skip


@pytest.mark.process  # matplotlib asks fc-list for fonts, once for each user of a machine
def test_every_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawn = plots.draw(tmp_path / "plots", list(drawn_rows()))
    assert len(drawn) == len(plots.PICTURES) + 1
    assert all(path.stat().st_size > 1000 for path in drawn)
    failed = {"experiment": "kernel product", "system": "peer", "status": "failed", "n": 1}
    assert plots.draw(tmp_path, [failed]) == []


def test_the_passes_tables_get_the_interpreters_of_their_peers() -> None:
    found = passes.commands(SETTINGS, Environments({"a": {}, "b": {"torch": "1"}}))
    assert found["vgg19"][-2:] == ["--torch", "b"]
    assert found["matrix chains"][0] == sys.executable
    assert "--torch" not in " ".join(passes.commands(SETTINGS, HERE)["cartpole"])


def test_an_experiment_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "no experiment 'nothing'; there are kernel" in capsys.readouterr().err


def test_data_that_is_missing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("neighbours", "sgpr", "sgpr-training"):
        assert list(EXPERIMENTS[name](SETTINGS))
    said = capsys.readouterr().out
    assert "Fashion-MNIST skipped: no fashion_mnist.npz in --data" in said
    assert "kin40k skipped" in said


@pytest.mark.process
@pytest.mark.xla
@pytest.mark.slow
def test_the_command_writes_tables(tmp_path: Path) -> None:
    table, rows = tmp_path / "table.md", tmp_path / "rows.json"
    arguments = ["scaling", "--only", "n = 1,000", "--markdown", str(table), "--json", str(rows)]
    main([*arguments, "--plots", str(tmp_path)])
    found = json.loads(rows.read_text())
    (run,) = found["runs"]
    assert run["machine"]["cores"] > 0
    assert run["versions"]["numpy"]
    (row,) = found["rows"]
    assert row["status"] == "ok"
    assert row["right"]
    assert row["within_first"]
    text = table.read_text()
    assert "## scaling: kernel product" in text
    assert "python -m benchmarks.experiments scaling" in text
    more = [text.replace("1,000", "3,000") for text in arguments]
    main([*more, "--resume"])
    first, second = json.loads(rows.read_text())["rows"]
    assert first == row
    assert (second["n"], second["run"]) == (3000, 1)
    assert "n = 1,000 (run 1)" in table.read_text()
    before = rows.read_text()
    main([*more, "--resume"])
    assert rows.read_text() == before


@pytest.mark.process
def test_only_a_run_of_the_same_kind_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.json"
    report.write_json(rows, {"size": "small", "device": "gpu", "runs": [], "rows": [], "texts": {}})
    with pytest.raises(SystemExit, match="--device gpu, so --size small --device cpu cannot"):
        main(["kernel", "--resume", "--json", str(rows)])
    report.write_json(rows, {"size": "small", "device": "cpu", "rows": []})
    with pytest.raises(SystemExit, match="older version"):
        main(["kernel", "--resume", "--json", str(rows)])
    with pytest.raises(SystemExit):
        main(["kernel", "--resume"])
    assert "name it with --json" in capsys.readouterr().err
