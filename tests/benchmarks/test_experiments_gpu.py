"""The experiments where there is a GPU, and what they say where there is none."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.experiments import attention, inputs, kernel, neighbours
from benchmarks.experiments.__main__ import main
from benchmarks.experiments.environments import Environments, without_gpu
from benchmarks.experiments.harness import run_case
from benchmarks.experiments.peers import scikit
from benchmarks.experiments.records import Case, Settings, System, relative_error
from benchmarks.measure import measure
from benchmarks.unavailable import Unavailable
from tracer.lowering.devices import plugins

ON_A_GPU = Settings("small", None, "gpu", 2_000_000_000, 2, 120)
ASKED: dict[str, Any] = {
    "source": "random", "n": 300, "d": 4, "m": 5, "k": 3, "metric": "L2", "data": None,
}  # fmt: skip


@pytest.mark.process
@pytest.mark.skipif(plugins.has_nvidia_driver(), reason="there is a GPU")
def test_without_a_gpu_the_command_says_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    assert main(["attention", "--device", "gpu"]) == {"rows": []}
    assert capsys.readouterr().out.startswith("skipped: there is no device 'gpu:0'")


@pytest.mark.process
@pytest.mark.gpu
def test_a_gpu_is_seen() -> None:
    assert without_gpu() == ""


@pytest.mark.process
@pytest.mark.gpu
@pytest.mark.slow
def test_experiments_run_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    for found in (
        main(["kernel", "--device", "gpu", "--only", "n = 1,000"]),
        main(["attention", "--device", "gpu", "--only", "length 512"]),
    ):
        ours = [row for row in found["rows"] if row["system"].startswith("tracer")]
        assert ours
        for row in ours:
            assert row["status"] == "ok", row["reason"]
            assert row["right"]
            assert row.get("within", True)
            assert row["method"] == "device counter"


def test_what_has_no_gpu_path_is_skipped_there() -> None:
    system = System("NumPy", "numpy_programs:kernel", devices=("cpu",))
    case = Case("kernel product", "n = 300", {"n": 300}, [system])
    (row,) = run_case(case, ON_A_GPU, Environments({sys.executable: {}}), lambda _: None)
    assert (row["status"], row["reason"]) == ("skipped", "runs on cpu only")


def test_every_experiment_with_peers_has_some_for_a_gpu() -> None:
    for cases in (kernel.cases, neighbours.cases, attention.cases):
        for case in cases(ON_A_GPU):
            assert [s.name for s in case.systems if "gpu" in s.devices and s.needs]
            assert all(s.devices == ("cpu",) for s in case.systems if "numpy_programs" in s.target)


@pytest.mark.process
def test_a_target_that_misses_something_is_skipped_with_its_message() -> None:
    found = measure("tests/benchmarks/programs.py:missing")
    assert (found.status, found.reason) == ("skipped", "there is no such accelerator")


def library(gpus: int, events: list[str]) -> Any:
    """Return what FAISS has of FAISS that the peer uses, which answers by NumPy."""

    class Index:
        def __init__(self, *arguments: Any) -> None:
            events.append(f"{len(arguments)} arguments, {arguments[-2:]}")

        def add(self, points: Any) -> None:
            self.points = points

        def search(self, queries: Any, k: int) -> Any:
            squares = ((queries[:, None] - self.points[None]) ** 2).sum(-1)
            places = np.argsort(squares, axis=1)[:, :k]
            return np.take_along_axis(squares, places, 1), places

    class Resources:
        def getMemoryInfo(self) -> Any:
            return {0: {"FlatData": (1, 4_800), "TemporaryMemoryBuffer": (1, 1_000)}}

    made = {"METRIC_L2": 1, "METRIC_L1": 2, "METRIC_INNER_PRODUCT": 0, "__version__": "1.2.3"}
    if gpus < 0:
        return SimpleNamespace(IndexFlat=Index, **made)
    return SimpleNamespace(
        GpuIndexFlat=Index, StandardGpuResources=Resources, get_num_gpus=lambda: gpus, **made
    )


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_faiss_searches_on_the_device(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    monkeypatch.setitem(sys.modules, "faiss", library(1 if device == "gpu" else -1, events))
    run = scikit.faiss_flat(device, 10**9, **ASKED)
    run()
    places = run.report()["values"]
    problem = neighbours.Problem("random", 300, 4, "L2")
    queries, points = inputs.neighbours("random", 300, 4, 5, None)
    distances = np.stack([neighbours.distances(row, points, problem.metric) for row in queries])
    assert np.array_equal(places, np.argsort(distances, axis=1)[:, :3])
    assert events == [f"{2 + (device == 'gpu')} arguments, (4, 1)"]
    assert hasattr(run, "device_bytes") == (device == "gpu")
    if device == "gpu":
        assert run.device_bytes() == (points.nbytes, 5_800)


@pytest.mark.parametrize("gpus", [-1, 0])
def test_faiss_without_a_gpu_is_skipped(gpus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", library(gpus, []))
    with pytest.raises(Unavailable, match=r"FAISS 1\.2\.3 finds no GPU here"):
        scikit.faiss_flat("gpu", 10**9, **ASKED)


@pytest.mark.xla
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_attention_is_right_in_each_dtype(dtype: str, gradient: bool) -> None:
    from benchmarks.experiments.peers import ours_attention

    asked = attention.Attended(96, dtype, gradient)
    run = ours_attention.attention(None, "cpu", 10**9, **vars(asked))
    run()
    report = json.loads(json.dumps(run.report()))
    tolerance = attention.TOLERANCES["gpu", dtype]
    error = relative_error(report["values"], asked.expected())
    assert error < tolerance
    # Of bfloat16's own size: the values were not computed wider, nor are they others.
    assert (error > 1e-4) == (dtype == "bfloat16")
    assert relative_error(np.roll(report["values"], 1, axis=1), asked.expected()) > 0.1


def test_cudnn_is_asked_only_where_it_has_the_dtype() -> None:
    names = {
        case.title.split(",")[0]: [system.name for system in case.systems]
        for case in attention.cases(ON_A_GPU)
    }
    assert "torch, cuDNN" in names["bfloat16"]
    assert "jax.jit, cuDNN" in names["bfloat16"]
    assert not [name for name in names["float32"] if "cuDNN" in name]
