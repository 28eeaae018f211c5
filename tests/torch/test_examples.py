"""The examples in the docstrings of tracer.torch, and the one in examples/."""

from __future__ import annotations

import doctest
import runpy
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tracer.torch import gradient, limited  # noqa: E402

EXAMPLE = Path(__file__).parents[2] / "examples" / "torch_limit.py"


@pytest.mark.parametrize("module", [gradient, limited], ids=lambda module: module.__name__)
def test_examples(module) -> None:
    torch.set_default_dtype(torch.float32)
    found = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 3
    assert found.failed == 0


def test_the_example_trains_within_its_limit(capsys) -> None:
    torch.set_default_dtype(torch.float32)
    names = runpy.run_path(str(EXAMPLE))
    losses = [float(line.split()[1]) for line in capsys.readouterr().out.splitlines()]
    assert losses == sorted(losses, reverse=True)
    limited = names["step"].__self__
    (program,) = [p for known in limited._programs._programs.values() for p in known]
    assert program.plan().compiled_bytes < 30e6 < 4000 * 4000 * 4
    leaves, arguments = (names["log_scale"], names["weights"]), (names["x"], names["y"])
    for leaf in leaves:
        leaf.grad = None
    names["step"](*arguments)
    found = [leaf.grad for leaf in leaves]
    wanted = torch.autograd.grad(names["loss"](*arguments), leaves)
    for x, y in zip(found, wanted, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-3, atol=1e-5)


def test_the_example_is_short_and_marks_the_line() -> None:
    lines = EXAMPLE.read_text().splitlines()
    assert len(lines) < 25
    assert [line for line in lines if "# was:" in line] == [
        line for line in lines if "tracer.torch." in line
    ]
