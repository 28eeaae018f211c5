"""The lines of the logger `tracer.log`."""

from __future__ import annotations

import logging
import re
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp

pytestmark = pytest.mark.xla


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("TRACER_MEMORY_LIMIT", raising=False)
    caplog.set_level(logging.INFO, logger="tracer")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "tracer"]


def product(x: Any, y: Any) -> Any:
    return tnp.exp(x[:, None] - y) @ y


def ones(size: int, dtype: Any = "float32") -> Any:
    return np.ones(size, dtype)


def test_a_line_says_what_was_compiled_where_and_how_long_it_took(lines: Any) -> None:
    tracer.compile(product, memory_limit="8MB")(ones(3), ones(4))
    (line,) = lines()
    pattern = (
        r"compiled product \(.*test_log\.py:\d+\) for float32\[3\], float32\[4\]; limit 8 MB; "
        r"first call; planned in [\d.]+ s, compiled in [\d.]+ s \(1 program\)"
    )
    assert re.fullmatch(pattern, line)


def test_a_line_says_why_a_function_is_compiled_again(lines: Any) -> None:
    f = tracer.compile(product)
    for arguments in (
        (ones(3), ones(4)),
        (ones(3), ones(4)),
        (ones(5), ones(4)),
        (ones(5), ones(4, "float64")),
        (ones(6), ones(7)),
        (ones(8, "int32"), ones(8, "int32")),
    ):
        f(*arguments)
    reasons = [line.split("; ")[2] for line in lines()]
    assert reasons == [
        "first call",
        "new shapes",
        "new dtypes",
        "new shapes",
        "new shapes and new dtypes",
    ]


def test_static_values_structures_and_arrays_that_were_written_to(lines: Any) -> None:
    power = tracer.compile(lambda x, n: x["a"] ** n, static_argnums=1)
    power({"a": ones(3)}, 2)
    power({"a": ones(3)}, 3)
    power({"a": ones(3), "b": ones(3)}, 3)
    power({"a": ones(4)}, 3)
    mask = tnp.array([1.0, 2.0, 3.0])
    read = tracer.compile(lambda x: x * mask)
    read(ones(3))
    mask[0] = 5
    read(ones(3))
    reasons = [line.split("; ")[2] for line in lines()]
    assert reasons == [
        "first call",
        "new static value",
        "new structure of the arguments and new shapes and new dtypes",
        "new shapes",
        "first call",
        "an array that it reads was written to",
    ]


def test_a_refusal_is_logged(lines: Any) -> None:
    f = tracer.compile(product, memory_limit=1000)
    with pytest.raises(tracer.MemoryLimitError):
        f.plan(*[tracer.ShapeDtype((300,), "float32")] * 2)
    (line,) = lines()
    assert line.startswith("could not compile product")
    assert "; first call; MemoryLimitError: product cannot run within" in line


def test_no_handler_is_installed_and_no_level_is_set(capfd: pytest.CaptureFixture[str]) -> None:
    assert tracer.log is logging.getLogger("tracer")
    assert (tracer.log.handlers, tracer.log.level) == ([], logging.NOTSET)
    tracer.compile(product)(ones(2), ones(3))
    assert capfd.readouterr() == ("", "")
