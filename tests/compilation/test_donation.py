"""Donated arguments as users meet them: names, warnings, errors, what the plan says, copies."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.ir import ShapeDtype

pytestmark = pytest.mark.xla

X = np.arange(1000, dtype=np.float32)
LARGE = ShapeDtype((1000, 50), "float32")


def arrays(count: int) -> list[Any]:
    return [tnp.asarray(X + i) for i in range(count)]


# By position and by name


@pytest.mark.parametrize(
    "options", [{"donate_argnums": 1}, {"donate_argnames": "state"}, {"donate_argnames": ["state"]}]
)
@pytest.mark.parametrize("by_name", [False, True])
def test_an_argument_is_donated_however_it_is_passed(options: Any, by_name: bool) -> None:
    step = tracer.compile(lambda x, state: {"s": state["s"] + x}, **options)
    x, state = arrays(2)
    found = step(x, state={"s": state}) if by_name else step(x, {"s": state})
    np.testing.assert_array_equal(found["s"], X + X + 1)
    assert state.is_deleted()
    assert not x.is_deleted()


def test_keyword_only_and_any_keyword() -> None:
    def keyword_only(*, a: Any, z: Any) -> Any:
        return a - z

    for function in (keyword_only, lambda **given: given["a"] - given["z"]):
        a, z = arrays(2)
        step = tracer.compile(function, donate_argnames="z")
        np.testing.assert_array_equal(step(z=z, a=a), np.full(1000, -1))
        assert z.is_deleted()
        assert not a.is_deleted()


def test_a_name_that_is_left_to_its_default() -> None:
    step = tracer.compile(lambda x, state=None: x + 1, donate_argnames="state")
    np.testing.assert_array_equal(step(tnp.asarray(X)), X + 1)


@pytest.mark.parametrize("wrong", ["y", ("x", "y"), (1,), [None]])
def test_names_that_are_not_there(wrong: Any) -> None:
    with pytest.raises(tracer.ArgumentError, match="donate_argnames"):
        tracer.compile(lambda x: x, donate_argnames=wrong)


def test_a_static_argument_is_not_donated_by_name() -> None:
    with pytest.raises(tracer.ArgumentError, match="both donated and static"):
        tracer.compile(lambda x, n: x * n, donate_argnames="n", static_argnums=1)


# In vain


def test_donations_in_vain_are_reported() -> None:
    (x,) = arrays(1)
    step = tracer.compile(lambda x: x.sum(), donate_argnums=0)
    with pytest.warns(tracer.DonationWarning, match="argument 0.*no result has 4,000 bytes"):
        step(x)
    assert x.is_deleted()
    (row,) = step.plan(ShapeDtype((1000,), "float32")).aliases.unused
    assert (row.argument, row.nbytes) == ("argument 0", 4000)


def test_the_warning_is_at_the_users_line_and_comes_once() -> None:
    step = tracer.compile(lambda x: x.sum(), donate_argnums=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for x in arrays(3):
            step(x)
    (found,) = caught
    assert found.filename == __file__


def test_what_xla_does_not_keep_is_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracer.lowering.run.executable.aliases_of", lambda hlo: {})
    step = tracer.compile(lambda x: x * 17, donate_argnums=0)
    with pytest.warns(tracer.DonationWarning, match="XLA did not keep it for result"):
        step.plan(ShapeDtype((1234,), "float32"))


# Bad input


@pytest.mark.filterwarnings("ignore::tracer.DonationWarning")
@pytest.mark.parametrize("donated", [0, 1, (0, 1)])
@pytest.mark.parametrize("function", [lambda x, y: x + y, lambda x, y: (x * y, x - y)])
def test_the_same_array_twice(donated: Any, function: Any) -> None:
    (x,) = arrays(1)
    step = tracer.compile(function, donate_argnums=donated)
    with pytest.raises(tracer.DonatedArrayError, match=r"argument \d of .*is the same array"):
        step(x, x)
    np.testing.assert_array_equal(x, X)


def test_the_same_array_twice_where_nothing_takes_it_over() -> None:
    (x,) = arrays(1)
    step = tracer.compile(lambda x, y: x.sum() + y.sum(), donate_argnums=0)
    with (
        pytest.warns(tracer.DonationWarning),
        pytest.raises(tracer.DonatedArrayError, match="argument 1 is the same array"),
    ):
        step(x, x)
    np.testing.assert_array_equal(x, X)


def test_an_argument_that_is_captured_too() -> None:
    (kept,) = arrays(1)
    step = tracer.compile(lambda x: x + kept, donate_argnums=0)
    with pytest.raises(tracer.DonatedArrayError, match=r"the captured float32\[1000\] is the same"):
        step(kept)
    np.testing.assert_array_equal(step(kept.copy()), 2 * X)


def test_numpy_memory_is_only_read() -> None:
    given = X.copy()
    given.flags.writeable = False
    step = tracer.compile(lambda s: s * 2, donate_argnames="s")
    for _ in range(3):
        np.testing.assert_array_equal(step(s=given), 2 * X)
    np.testing.assert_array_equal(given, X)


def test_a_view_of_a_donated_array_keeps_its_values() -> None:
    (x,) = arrays(1)
    view = np.asarray(x)
    tracer.compile(lambda x: x * 2, donate_argnums=0)(x)
    np.testing.assert_array_equal(view, X)


@pytest.mark.parametrize("donate", [(), 0], ids=["kept", "donated"])
def test_results_that_are_the_same_value_have_memory_of_their_own(donate: Any) -> None:
    def program(x: Any) -> Any:
        y = x + 1
        return y, y, x, y.reshape(10, 100)

    found = tracer.compile(program, donate_argnums=donate)(*arrays(1))
    increment = tracer.compile(lambda a: a + 1, donate_argnums=0)
    for position, expected in enumerate((X + 1, X + 1, X, (X + 1).reshape(10, 100))):
        rest = found[position + 1 :]
        before = [np.array(other) for other in rest]
        np.testing.assert_array_equal(increment(found[position]), expected + 1)
        for other, values in zip(rest, before, strict=True):
            np.testing.assert_array_equal(other, values)


def test_side_effects_in_a_checkpoint_happen_at_each_trace_only() -> None:
    seen: list[Any] = []

    @tracer.checkpoint
    def layer(x: Any) -> Any:
        seen.append(x)
        return tnp.sin(x)

    gradient = tracer.compile(tracer.grad(lambda x: layer(layer(x)).sum()))
    first = gradient(X)
    count = len(seen)
    assert count == 2
    np.testing.assert_array_equal(gradient(X), first)
    assert len(seen) == count
    with pytest.raises(tracer.TracingError, match="escaped"):
        seen[0] + 1


# What the plan says


def test_the_plan_names_who_has_whose_memory() -> None:
    step = tracer.compile(lambda p, g: {"w": p["w"] - g}, donate_argnums=0)
    plan = step.plan({"w": LARGE}, LARGE)
    assert str(plan.aliases.aliases[0]) == (
        "argument 0['w'] -> result['w']: float32[1000,50], 200 kB"
    )
    assert not plan.aliases.copies
    assert "donated: argument 0['w'] -> result['w']" in str(plan)
    json.dumps(plan.to_dict())
    assert plan.to_dict()["aliases"]["aliases"][0]["nbytes"] == 200_000


def test_what_could_be_donated_is_named() -> None:
    step = lambda p, g: {"w": p["w"] - g, "v": p["v"] * 2}
    types = ({"w": LARGE, "v": LARGE}, LARGE)
    report = tracer.compile(step).plan(*types).aliases
    assert {row.argument for row in report.possible} == {"argument 0['w']", "argument 0['v']"}
    assert "results could take over 400 kB: donate argument 0" in str(report)
    assert not tracer.compile(step, donate_argnums=0).plan(*types).aliases.possible


def loop(x: Any, y: Any) -> Any:
    return tracer.fori_loop(0, 10, lambda i, x: x.at[i].set(y), x)


def test_an_argument_that_a_loop_writes_over_is_named_with_what_avoids_it() -> None:
    row = ShapeDtype((50,), "float32")
    (copy,) = tracer.compile(loop).plan(LARGE, row).aliases.copies
    assert str(copy).startswith("argument 0 is copied: a loop begins with it, 200 kB: donate it")
    assert copy.source is not None
    assert copy.source.function == "loop"
    assert not tracer.compile(loop, donate_argnums=0).plan(LARGE, row).aliases.copies


def test_a_captured_array_that_is_copied() -> None:
    kept = tnp.ones((1000, 50), dtype="float32")
    plan = tracer.compile(lambda y: loop(kept, y)).plan(ShapeDtype((50,), "float32"))
    (copy,) = plan.aliases.copies
    assert "the captured float32[1000,50] is copied" in copy.what
    assert copy.advice == "pass it as an argument and donate it"


def test_a_result_that_is_an_argument_or_another_result() -> None:
    report = tracer.compile(lambda x: (x, x + 1, x + 1)).plan(LARGE).aliases
    words = sorted(f"{copy.what}: {copy.advice}" for copy in report.copies)
    assert words == [
        "argument 0 is copied: result[0] is the same: donate it",
        "result[2] is copied: it is result[1] too: return it once",
    ]
    assert report.copied_bytes == 400_000


def test_a_result_in_another_order_than_the_memory_it_takes_over() -> None:
    report = tracer.compile(lambda x: x[::-1], donate_argnums=0).plan(LARGE).aliases
    (copy,) = report.copies
    assert copy.what.startswith("result is copied: the donated memory it takes over is still read")
    assert "in order" in copy.advice


def test_a_carry_that_is_read_after_its_next_value_is_written() -> None:
    def step(i: Any, carry: Any) -> Any:
        x, old = carry
        return x.at[i].set(old[0]), x

    def program(x: Any, y: Any) -> Any:
        return tracer.fori_loop(0, 10, step, (x, y))

    report = tracer.compile(program, donate_argnums=(0, 1)).plan(LARGE, LARGE).aliases
    found = [copy for copy in report.copies if copy.times == 10]
    assert found
    assert "a carry of a loop, float32[1000,50] is copied in each trip" in found[0].what


def test_updates_in_place_are_listed_with_their_line() -> None:
    report = tracer.compile(lambda x: tnp.cumsum(x, axis=1) + 1).plan(LARGE).aliases
    (row,) = report.updates
    assert "float32[1000,50] of add over that of cumulative_add, 200 kB" in str(row)
    assert row.source is not None


def test_memory_that_dlpack_shared_is_copied_and_the_view_keeps_its_values() -> None:
    """XLA would end the process."""
    for function in (lambda x: x * 0, lambda x: x.sum(), lambda x: x):
        x = tnp.asarray(np.arange(6000.0))
        view = np.from_dlpack(x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tracer.DonationWarning)
            tracer.compile(function, donate_argnums=0)(x)
        np.testing.assert_array_equal(view, np.arange(6000.0))
        assert x.is_deleted()


def test_names_that_are_none_are_refused() -> None:
    with pytest.raises(tracer.TracerError, match="donate_argnames takes names of arguments, not 3"):
        tracer.compile(lambda x: x, donate_argnames=3)  # type: ignore[arg-type]
