"""The command line, in this process and as one of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tracer.__main__ import main

ADD = """func.func @main(%x: tensor<3xf32>, %y: tensor<3xbf16>) -> (tensor<3xf32>, tensor<3xbf16>) {
  %0 = stablehlo.convert %y : (tensor<3xbf16>) -> tensor<3xf32>
  %1 = stablehlo.add %x, %0 : tensor<3xf32>
  return %1, %y : tensor<3xf32>, tensor<3xbf16>
}"""
X, Y = np.arange(3, dtype=np.float32), np.ones(3, ml_dtypes.bfloat16)


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.mlir"
    path.write_text(ADD)
    np.savez(tmp_path / "in.npz", X, Y)
    return str(path)


@pytest.mark.xla
def test_plan(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", model, "--memory-limit", "1MB"]) == 0
    assert "limit            1 MB" in capsys.readouterr().out
    assert main(["plan", model, "--memory-limit", "1MB", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["limit_bytes"] == 1_000_000


@pytest.mark.xla
def test_run(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, out = str(tmp_path / "in.npz"), str(tmp_path / "out.npz")
    assert main(["run", model, "--args", given, "--memory-limit", "1MB"]) == 0
    assert "[1., 2., 3.]" in capsys.readouterr().out
    assert main(["run", model, "--args", given, "--out", out]) == 0
    assert capsys.readouterr().out == "arr_0: float32[3]\narr_1: bfloat16[3]\n"
    with np.load(out) as file:
        np.testing.assert_array_equal(file["arr_0"], X + 1)
        np.testing.assert_array_equal(file["arr_1"].view(ml_dtypes.bfloat16), Y)


@pytest.mark.xla
def test_one_argument_may_be_a_file_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "negate.mlir"
    path.write_text("""func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.negate %x : tensor<3xf32>
      return %0 : tensor<3xf32>
    }""")
    np.save(tmp_path / "in.npy", X)
    assert main(["run", str(path), "--args", str(tmp_path / "in.npy")]) == 0
    assert "[-0., -1., -2.]" in capsys.readouterr().out


@pytest.mark.xla
@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["plan", "{model}", "--memory-limit", "10B"], "cannot run within memory_limit"),
        (["plan", "{model}", "--memory-limit", "4 elephants"], "elephants"),
        (["plan", "{model}", "--device", "gpu:77"], "gpu:77"),
        (["plan", "{folder}/none.mlir"], "No such file"),
        (["plan", "{folder}/empty.mlir"], "the text is empty"),
        (["plan", "{folder}/in.npz"], "neither text nor MLIR bytecode"),
        (["run", "{model}"], "takes 2 arrays: float32[3], bfloat16[3]"),
        (["run", "{model}", "--args", "{model}"], "is no file of arrays"),
        (["run", "{model}", "--args", "{folder}/none.npz"], "No such file"),
    ],
)
def test_errors_are_letters(
    model: str, arguments: list[str], wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(Path(model).parent)
    (Path(folder) / "empty.mlir").write_text("\n")
    assert main([text.format(model=model, folder=folder) for text in arguments]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: ")
    assert wanted in told.err


@pytest.mark.process
def test_as_a_process(model: str) -> None:
    command = [sys.executable, "-m", "tracer", "plan", model, "--memory-limit", "1B"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ")
