"""`python -m tracer`: plans and reports of functions of scripts, and the doctor."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
from tracer.__main__ import main
from tracer.command import doctor as doctor_module
from tracer.command import parse_type, sample_arguments
from tracer.command.doctor import doctor
from tracer.errors import ArgumentError, DTypeError, ExecutionError

pytestmark = pytest.mark.xla
SCRIPT = """
import tracer
import tracer.numpy as tnp


def kernel(x, v):
    return tnp.exp(-((x[:, None] - x[None]) ** 2).sum(-1)) @ v


compiled = tracer.compile(kernel)
NUMBER = 3
if __name__ == "__main__":
    raise SystemExit("the script's own part was run")
"""
ARGUMENTS = ("--args", "f32[3000,3]", "float32[3000]", "--memory-limit", "1MB")


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return str(path)


@pytest.mark.parametrize("name", ["kernel", "compiled"])
def test_a_function_of_a_script_is_planned(
    script: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", f"{script}:{name}", *ARGUMENTS]) == 0
    text = capsys.readouterr().out
    assert "limit            1 MB" in text
    assert "script.py:7 in kernel" in text
    assert main(["plan", f"{script}:{name}", *ARGUMENTS, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["compiled_bytes"] <= 1_000_000


def test_pages_are_written(script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert main(["plan", f"{script}:kernel", *ARGUMENTS, "--html", str(page)]) == 0
    assert 'id="measured"' not in page.read_text()
    assert main(["report", f"{script}:kernel", *ARGUMENTS, "--html", str(page)]) == 0
    assert 'id="measured"' in page.read_text()
    assert "measured\n  a call took " in capsys.readouterr().out


MISTAKES: dict[str, tuple[list[str], str]] = {
    "no script": (["plan", "none.py:kernel"], "there is no script 'none.py'"),
    "no function": (["plan", "SCRIPT:kernels"], "has no function 'kernels'"),
    "no type": (["plan", "SCRIPT:kernel", "--args", "20000x3"], "is no type of an array"),
    "no dtype": (["plan", "SCRIPT:kernel", "--args", "f33[2]"], "f33"),
    "too few": (
        ["plan", "SCRIPT:kernel", "--args", "f32[3,3]"],
        "missing a required argument: 'v'",
    ),
    "a limit too small": (
        ["plan", "SCRIPT:kernel", *ARGUMENTS[:-1], "40kB"],
        "cannot run within memory_limit 40 kB",
    ),
    "no page": (["plan", "SCRIPT:kernel", *ARGUMENTS, "--html", "page.png"], "end in .html"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told_in_a_few_lines(
    name: str, script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words, wanted = MISTAKES[name]
    assert main([word.replace("SCRIPT", script) for word in words]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: ")
    assert wanted in told.err
    assert "Traceback" not in told.err


def test_functions_that_there_are_are_named(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["plan", f"{script}:kernels"])
    assert "it has kernel" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "shape", "dtype"),
    [
        ("f32[20000,3]", (20000, 3), "float32"),
        (" float64[] ", (), "float64"),
        ("s8[4]", (4,), "int8"),
        ("i64", (), "int64"),
        ("pred[0, 2]", (0, 2), "bool"),
        ("bf16[1]", (1,), "bfloat16"),
        ("complex64[2]", (2,), "complex64"),
    ],
)
def test_types_are_read(text: str, shape: tuple[int, ...], dtype: str) -> None:
    found = parse_type(text)
    assert found == tracer.ShapeDtype(shape, dtype)
    (sample,) = sample_arguments([found])
    assert sample.shape == shape
    assert sample.dtype == found.dtype


@pytest.mark.parametrize("text", ["", "f32[", "f32[-1]", "f32[2]x", "[2]", "f32[a]"])
def test_other_types_are_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="is no type of an array"):
        parse_type(text)


def test_unknown_dtypes_are_refused() -> None:
    with pytest.raises(DTypeError):
        parse_type("f33[2]")


@pytest.mark.process
def test_the_doctor_runs_as_a_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tracer", "doctor"], capture_output=True, text=True, check=True
    )
    for word in ("Python ", "jaxlib ", "device ", "cores ", "memory ", "self-test  right to "):
        assert word in done.stdout


def test_the_doctor_finds_wrong_values(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(function: Callable[..., Any], **options: Any) -> Any:
        compiled = tracer.compile(function, **options)

        class Wrong:
            plan = compiled.plan

            def __call__(self, *args: Any) -> Any:
                return np.asarray(compiled(*args)) * 1.001

        return Wrong()

    monkeypatch.setattr(sys.modules[doctor_module.__module__], "compile", wrong)
    with pytest.raises(ExecutionError, match="is off by 1"):
        list(doctor())
