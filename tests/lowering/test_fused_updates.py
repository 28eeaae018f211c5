"""A kernel that writes a part of an array in place may not read another part of it."""

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.errors import LoweringError
from tracer.lowering.run import soundness
from tracer.optimizer.legalize import updates

pytestmark = pytest.mark.xla

X = np.arange(1.0, 5001.0)


@pytest.fixture
def updates_are_not_stored(monkeypatch):
    """Compile as before *store-updates*: XLA makes wrong programs of some of them."""
    monkeypatch.setattr(updates, "_reads_elsewhere", lambda node: False)
    tracer.lowering.clear_cache()
    yield
    tracer.lowering.clear_cache()


def neighbours(x):
    return x.at[1:].add(x[:-1])[None]


def neighbours_of_rows(x):
    x = x.reshape(50, 100)
    return x.at[1:, :].set(2 * x[:-1, :] + x[1:, :])[None]


def turned(x):
    x = x.reshape(1, 5000)
    return x.at[0, 1:].add(x[0, 1:][::-1])[None]


WRONG = [neighbours, neighbours_of_rows, turned]


@pytest.mark.parametrize("function", WRONG)
def test_wrong_programs_are_refused(updates_are_not_stored, function):
    with pytest.raises(LoweringError, match="has overwritten") as caught:
        tracer.compile(function)(X)
    assert "test_fused_updates.py" in str(caught.value)


@pytest.mark.parametrize("function", WRONG)
def test_without_the_check_the_values_would_be_wrong(updates_are_not_stored, monkeypatch, function):
    """Certifies the test above: the fault that both mends stand in the way of is there."""
    found = _found(monkeypatch)
    value = np.asarray(tracer.compile(function)(X))
    assert any(found)
    tracer.lowering.clear_cache()
    monkeypatch.undo()
    assert abs(value - np.asarray(tracer.compile(function)(X))).max() > 1


def _found(monkeypatch):
    """Note what the check finds, and go on."""
    found = []
    check = soundness.overwritten_while_read

    def noted(*arguments):
        found.append(check(*arguments))
        return ()

    monkeypatch.setattr(soundness, "overwritten_while_read", noted)
    return found


def _columns(x):
    return x.at[:, 3].add(x[:, 7])[None]


def _rows(f):
    def repeated(x):
        return tracer.fori_loop(0, 5, f, x.reshape(50, 100))

    return repeated


SOUND = {
    "the window itself": lambda x: x.at[1:].multiply(3.0)[None],
    "the window itself, of two arrays": lambda x: x.at[1:].add(tnp.sin(x[1:]))[None],
    "another window": lambda x: x.at[:10].add(x[10:20])[None],
    "another window, turned": lambda x: x.at[:10].set(x[20:10:-1])[None],
    "a column by another": lambda x: (
        x.reshape(50, 100).at[:, 3].add(x.reshape(50, 100)[:, 7])[None]
    ),
    "a row by another": _rows(lambda i, x: x.at[i].add(2 * x[i + 1])),
    "a row by itself": _rows(lambda i, x: x.at[i].set(tnp.cos(x[i]) + 1)),
    "a row at a computed place": _rows(lambda i, x: x.at[(i * 7) % 50].add(x[49 - i])),
    "some rows": _rows(
        lambda i, x: tracer.lax.dynamic_update_slice(
            x, 2 * tracer.lax.dynamic_slice(x, (i, 0), (3, 100)), (i, 0)
        )
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_programs_stay_in_place(updates_are_not_stored, monkeypatch, name):
    found = _found(monkeypatch)
    value = np.asarray(tracer.compile(SOUND[name])(X))
    assert not any(found)
    tracer.lowering.clear_cache()
    monkeypatch.undo()
    np.testing.assert_array_equal(value, np.asarray(tracer.compile(SOUND[name])(X)))


def _inner(x):
    return x.at[1:-1, 1:-1].add(0.1 * x[1:-1, 1:-1])


def _stencil(x):
    around = x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]
    return x.at[1:-1, 1:-1].set(around / 4)


NOT_REFUSED = {
    **SOUND,
    "reshaped twice": lambda x: x.reshape(50, 100).at[1:].multiply(3.0).reshape(-1)[None],
    "turned": lambda x: x.reshape(50, 100).at[1:].multiply(3.0).T,
    "columns": lambda x: x.reshape(50, 100).at[:, 1:].multiply(3.0).reshape(100, 50),
    "inside": _rows(lambda i, x: _inner(x)),
    "a row sorted": _rows(lambda i, x: x.at[i].set(tnp.sort(x[i]))),
    "a row reversed": _rows(lambda i, x: x.at[i].add(x[i][::-1])),
    "a stencil": _rows(lambda i, x: _stencil(x)),
    "wrong without a barrier": neighbours,
}


@pytest.mark.parametrize("name", NOT_REFUSED)
def test_as_planned_no_program_is_refused(monkeypatch, name):
    tracer.lowering.clear_cache()
    found = _found(monkeypatch)
    tracer.compile(NOT_REFUSED[name])(X)
    assert found
    assert not any(found)
