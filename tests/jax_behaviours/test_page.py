"""The comparison sees wrong values, and docs/jax-behaviours.md says what the catalogue says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.jax_behaviours import comparing
from tests.jax_behaviours.catalogue import BEHAVIOURS, PAGE, exceptions


def test_the_page_lists_every_behaviour_and_exception() -> None:
    page = PAGE.read_text()
    for behaviour in BEHAVIOURS:
        assert f"| {behaviour.suite} | {behaviour.text} |" in page
    assert exceptions() in page


def test_labels_are_of_one_program_each() -> None:
    for behaviour in BEHAVIOURS:
        labels = [label for label, _ in behaviour.programs()]
        for part in (*behaviour.missing, *behaviour.differs):
            assert any(part in label for label in labels), f"{behaviour.text}: nothing has {part!r}"


@pytest.mark.parametrize(
    ("ours", "jaxs", "numpys", "wanted"),
    [
        (1.0, 1.0, 2.0, "jax"),
        (1.0, 2.0, 1.0, "numpy"),
        (1.0, 2.0, 3.0, "wrong"),
        (1.0, None, None, "more"),
        (1.0, None, 2.0, "wrong"),
        (None, 1.0, 1.0, "refused"),
        (None, 1.0, TypeError("cannot"), "numpy"),
        (None, 1.0, AttributeError("no such function"), "refused"),
        (None, None, 1.0, "jax"),
        (np.float32(1), np.float64(1), None, "wrong"),
        (np.ones(2), np.ones((2, 1)), None, "wrong"),
        (np.nan, np.nan, None, "jax"),
        (np.array([1.0, 1e6]), np.array([1.1, 1e6]), None, "wrong"),
        (1j, 1j + 1e-3, None, "wrong"),
    ],
)
def test_verdicts(ours, jaxs, numpys, wanted, monkeypatch) -> None:
    answers = {"tracer": ours, "jax": jaxs, "numpy": numpys}
    monkeypatch.setattr(comparing, "library", answers.__getitem__)

    def program(answer):
        if answer is None or isinstance(answer, Exception):
            raise answer or ValueError("no")
        return answer

    assert comparing.verdict(program) == wanted
