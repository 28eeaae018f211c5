"""The tables of models and of random models: they find what is right and what is wrong."""

from __future__ import annotations

import dataclasses

import pytest

torch = pytest.importorskip("torch")

from benchmarks import torch_random, torch_table  # noqa: E402
from benchmarks.torch_comparison import weighted_sum  # noqa: E402
from benchmarks.torch_loss_models import CASES  # noqa: E402
from benchmarks.torch_models import Case  # noqa: E402
from benchmarks.torch_random import Outcome, Problem, outcome_of, page_of, verdict_of  # noqa: E402
from benchmarks.torch_random_models import RandomModel, Step  # noqa: E402
from benchmarks.torch_rounding import RIGHT, ROUNDING, WRONG, judge, moved  # noqa: E402

pytestmark = pytest.mark.xla


def case_named(name: str) -> Case:
    (found,) = [case for case in CASES if case.name == name]
    return found


def test_there_are_twenty_models_of_torch_alone() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 20


def test_a_model_is_right_within_its_limit(capsys) -> None:
    (line,) = torch_table.all_lines(CASES, "mixture of experts")
    assert line.kind == "right"
    assert float(line.limit.split(" ")[0]) <= 0.8
    assert line.name in capsys.readouterr().out
    page = torch_table.page_of([line], ["timm: No module named 'timm'"])
    assert "1 models: 1 right. Not installed: timm" in page
    assert f"| {line.name} |" in page


def test_a_wrong_gradient_is_seen(monkeypatch) -> None:
    def off(case, model, args):
        value, gradients, buffers = torch_table.eager(case, model, args)
        name = next(iter(gradients))
        return "", (value, {**gradients, name: gradients[name] * (1 + 1e-8)}, buffers)

    monkeypatch.setattr(torch_table, "limited", off)
    line = torch_table.line_of(case_named("contrastive loss (InfoNCE)"))
    assert line.verdict == "WRONG: ['log_scale'] (7)"


def test_refusals_and_faults_are_lines() -> None:
    case = case_named("contrastive loss (InfoNCE)")

    def refused(model, x, y):
        return weighted_sum(torch.linalg.pinv(model.one(x))), ()

    line = torch_table.line_of(dataclasses.replace(case, loss=refused))
    assert line.kind == "refused"
    assert "pinv" in line.verdict

    def failing(model, x, y):
        raise KeyError("a fault")

    line = torch_table.line_of(dataclasses.replace(case, loss=failing))
    assert line.verdict == "FAILED: KeyError: 'a fault'"


def model_of(*functions, dtype=torch.float32, shape=(40, 50), cast=None) -> RandomModel:
    """Return a chain of functions, of which the last may convert its argument."""
    names = [f"v{i}" for i in range(len(functions) + 1)]
    casts = (*(None,) * (len(functions) - 1), cast)
    steps = tuple(
        Step(f, (x,), (y,), f"{y} = {f}({x})", to)
        for f, x, y, to in zip(functions, names, names[1:], casts, strict=False)
    )
    return RandomModel(steps, {"v0": (shape, dtype)}, (names[-1],))


def test_a_random_model_is_right_forward_and_backward() -> None:
    model = model_of(torch.nn.Linear(50, 300, dtype=torch.float32), torch.sin, torch.cos, torch.sum)
    x = torch.randn(40, 50, dtype=torch.float32)
    for part in torch_random.PARTS:
        outcome = outcome_of(3, Problem(part, model, (x,)))
        assert (outcome.verdict, outcome.limit) in [(RIGHT, "met"), (RIGHT, "refused")], outcome


def test_a_model_without_a_rule_is_refused_by_name() -> None:
    model = model_of(torch.linalg.pinv, shape=(4, 4))
    outcome = outcome_of(0, Problem("forward", model, (torch.eye(4, dtype=torch.float32),)))
    assert outcome.verdict == "refused"
    assert "pinv" in outcome.detail


def test_conversions_out_of_range_are_classed_apart() -> None:
    model = model_of(lambda x: x.to(torch.int32), cast=torch.int32)
    assert model.out_of_range((torch.tensor([0.0, 3e9]),)) == {"v1"}
    assert model.out_of_range((torch.tensor([0.0, torch.nan]),)) == {"v1"}
    assert model.out_of_range((torch.tensor([-(2.0**31), 2.0**31 - 1]),)) == set()
    rows = judge((torch.tensor([1]),), (torch.tensor([2]),), lambda: [(torch.tensor([2]),)])
    assert verdict_of(rows, lambda: "a reason") == ("documented", "a reason")
    assert verdict_of(rows, lambda: "") == (WRONG, "[0] 5e-01")


def test_subnormal_numbers_that_are_zeros_here_are_classed_apart() -> None:
    model = model_of(lambda x: x * 1e-40, lambda x: x * 1e38, shape=(3,))
    x = torch.tensor([1.0, 2.0, 0.0], dtype=torch.float32)
    outcome = outcome_of(0, Problem("forward", model, (x,)))
    assert (outcome.verdict, outcome.detail) == (
        "documented",
        "subnormal numbers, which are zeros here",
    )
    assert (x * 1e-40).any(), "eager torch keeps them, as before"


def test_the_parts_of_batch_normalisation_are_moved_too() -> None:
    """With two values in a channel, all but a thousandth of the gradient cancels."""
    torch.manual_seed(0)
    names = {"v0": ((56, 8, 1, 1), torch.float32)}
    steps = (
        Step(
            torch.nn.BatchNorm2d(8, dtype=torch.float32), ("v0",), ("v1",), "v1 = BatchNorm2d(v0)"
        ),
    )
    x = torch.where(torch.rand(56, 8, 1, 1) < 0.8, 0.19, 0.38).to(torch.float32)
    problem = Problem("gradient", RandomModel(steps, names, ("v1",)).train(), (x,))
    runs = [run[2][0] for run in problem.other_runs()]
    by_kernels, by_parts = (torch.stack(runs[i:-1:2]).sum((1, 3, 4)) for i in (0, 1))
    assert (by_parts.std(0) > 2 * by_kernels.std(0)).any()


def test_rounding_explains_a_floor_but_no_other_number() -> None:
    x = torch.tensor([0.1, 1.0, 2.5], dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    wanted = x.floor()

    def runs():
        return [moved(x, generator).floor() for _ in range(24)]

    def verdict(*numbers):
        (row,) = judge(torch.tensor(numbers, dtype=torch.float32), wanted, runs)
        return row.verdict

    assert verdict(0.0, 1.0, 2.0) == RIGHT
    assert verdict(0.0, 0.0, 2.0) == ROUNDING
    assert verdict(0.0, 1.0, 1.0) == WRONG
    assert verdict(0.0, 1.0, torch.nan) == WRONG


def test_rounding_explains_what_is_left_of_two_equal_cotangents() -> None:
    names = {"v0": ((20,), torch.float32)}
    model = RandomModel((Step(torch.div, ("v0", "v0"), ("v1",), "v1 = v0 / v0"),), names, ("v1",))
    x = torch.linspace(0.01, 1, 20, dtype=torch.float32)
    cotangent = torch.cos(torch.arange(20, dtype=torch.float32))
    problem = Problem("gradient", model, (x,))
    wanted = problem.eager(model, (x,))
    assert wanted[2][0].abs().max() < 1e-4

    def verdict(size):
        found = (*wanted[:2], (wanted[2][0] + size * cotangent / x,), wanted[3])
        return judge(found, wanted, problem.other_runs)[-1].verdict

    assert verdict(0) == RIGHT
    assert verdict(6e-8) == ROUNDING
    assert verdict(1e-5) == WRONG


def test_small_elements_are_judged_by_their_own_size() -> None:
    wanted = torch.tensor([1e6, *[1.0] * 20])
    for off, verdict in ((1e-12, RIGHT), (1e-8, WRONG)):
        (row,) = judge(wanted + torch.tensor([0, off, *[0.0] * 19]), wanted, list)
        assert row.verdict == verdict


def test_nan_and_infinity_are_right_where_torch_has_them() -> None:
    wanted = torch.tensor([torch.nan, torch.inf, 1.0])
    (row,) = judge(wanted.clone(), wanted, list)
    assert (row.verdict, row.is_finite) == (RIGHT, False)
    (row,) = judge(torch.tensor([torch.nan, -torch.inf, 1.0]), wanted, lambda: [wanted])
    assert row.verdict == WRONG


def test_a_wider_model_has_the_same_weights_and_no_narrow_conversions() -> None:
    linear = torch.nn.Linear(50, 3, dtype=torch.float32)
    model = model_of(linear, lambda x: x.to(torch.float32), cast=torch.float32)
    x = torch.randn(40, 50, dtype=torch.float32)
    (found,) = model.widened()(x.double())
    assert found.dtype is torch.float64
    torch.testing.assert_close(found, model(x)[0].double(), rtol=1e-5, atol=1e-5)
    assert linear.weight.dtype is torch.float32


def test_the_page_names_each_case_that_is_not_right() -> None:
    outcomes = [
        Outcome(1, "forward", RIGHT, "met"),
        Outcome(2, "forward", WRONG, "met", "[0] 1e+00"),
        Outcome(2, "gradient", "refused", "", "torch's aten.x has no rule"),
    ]
    page = page_of(outcomes, "command")
    assert "| 2 | forward | WRONG | [0] 1e+00 |" in page
    assert "| refused | torch's aten.x has no rule | 1 |" in page
    assert [o.is_fault for o in outcomes] == [False, True, False]


def test_a_seed_is_always_the_same_model() -> None:
    pytest.importorskip("nnsmith")
    from benchmarks.torch_random_models import random_model

    first = random_model(11)
    random_model(12)
    again = random_model(11)
    assert first[0].text == again[0].text
    for x, y in zip(first[1], again[1], strict=True):
        assert x.dtype == y.dtype
        assert torch.equal(x, y)
