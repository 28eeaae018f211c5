"""A test that no leg of .ci/run runs is found, and tests that need jax are, too."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests import outcomes, peers

ROOT = Path(__file__).parents[2]
SUITE = """
import pytest

def test_runs():
    pass

def test_skips():
    pytest.skip("the moon is full")

def test_gpu():
    pytest.skip("needs a GPU")

@pytest.mark.parametrize("name", [1, 2])
def test_of_one_leg(name):
    pytest.importorskip("{package}")

@pytest.mark.xfail
def test_fails_as_expected():
    raise AssertionError
"""


def run_leg(folder: Path, leg: str, package: str) -> None:
    """Run a suite, and another whose module is skipped without the package."""
    (folder / "test_some.py").write_text(SUITE.replace("{package}", package))
    whole = f"import pytest\npytest.importorskip('{package}')\ndef test_there(): pass\n"
    (folder / "test_whole.py").write_text(whole)
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(folder), "-c", "/dev/null"]
    command += ["-p", "tests.outcomes", "--outcomes", str(folder / f"{leg}.json"), str(folder)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.process
def test_what_no_leg_ran_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_leg(tmp_path, "without", "no_such_package")
    assert outcomes.main(str(tmp_path)) == 1
    shown = capsys.readouterr().out
    assert "test_some.py::test_of_one_leg[2]: could not import 'no_such_package'" in shown
    assert "test_whole.py: could not import 'no_such_package'" in shown
    run_leg(tmp_path, "with", "json")
    assert outcomes.main(str(tmp_path)) == 1
    shown = capsys.readouterr().out
    assert "skipped in every leg: 2, of which 1 for an accepted reason" in shown
    assert "test_some.py::test_skips: the moon is full" in shown
    assert "test_of_one_leg" not in shown
    assert "test_whole" not in shown


def test_a_run_without_unwanted_skips_passes(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"x": "skipped: needs a GPU", "y": "ran", "z": "skipped: ?"}')
    (tmp_path / "b.json").write_text('{"z": "ran"}')
    assert outcomes.main(str(tmp_path)) == 0
    assert outcomes.main(str(tmp_path / "nothing")) == 1


def test_who_needs_a_peer(tmp_path: Path) -> None:
    path = tmp_path / "test_some.py"
    path.write_text(
        "class TestJax:\n"
        "    def test_one(self):\n"
        "        jax = pytest.importorskip('jax.numpy')\n"
        "    def test_two(self): pass\n"
        "def test_three():\n"
        "    def inner():\n"
        "        importorskip('einops')\n"
        "def test_four():\n"
        "    pytest.importorskip('sklearn')\n"
    )
    names = ["TestJax.test_one", "TestJax.test_two", "test_three", "test_four"]
    found = [name for name in names if peers.is_needed(path, name)]
    assert found == ["TestJax.test_one", "test_three"]
    module = tmp_path / "test_module.py"
    module.write_text("jax = pytest.importorskip('jax')\ndef test_any(): pass\n")
    assert peers.is_needed(module, "test_any")


def test_the_extra_installs_what_is_looked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = project["optional-dependencies"]["peers-test"]
    names = {line.split(">")[0].replace("-", "_") for line in extra}
    assert names == peers.PACKAGES
