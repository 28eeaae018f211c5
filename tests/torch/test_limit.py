"""`tracer.torch.limit` and `value_and_grad`: what they take, say, keep, and do not touch."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import tracer.torch  # noqa: E402
from tests.torch.comparison import assert_same  # noqa: E402
from tracer import errors  # noqa: E402
from tracer.torch import handover  # noqa: E402


def kernel(x, v):
    return torch.exp(-((x[:, None] - x[None, :]) ** 2)) @ v


def kernel_loss(x, v):
    return kernel(x, v).square().mean()


X = torch.linspace(0, 1, 1000, dtype=torch.float64)


def test_the_limit_is_kept_and_the_plan_names_the_users_line() -> None:
    limited = tracer.torch.limit(kernel, memory_limit="1MB")
    assert_same(limited(X, X), kernel(X, X))
    plan = limited.plan(X, X)
    assert plan.compiled_bytes <= 1_000_000 < 8 * len(X) ** 2
    assert "in kernel: return torch.exp" in str(plan)


def test_loss_and_gradient_take_less_than_a_tenth() -> None:
    limited = tracer.torch.value_and_grad(kernel_loss, memory_limit="2MB", argnums=(0, 1))
    x = torch.linspace(0, 1, 2000)
    plan = limited.plan(x, x)
    assert 10 * plan.compiled_bytes < plan.baseline_peak_bytes
    assert_same(limited(x, x), limited._eager(x, x), 1e-10)
    assert "in kernel: return torch.exp" in str(plan)


def test_tensors_without_data_plan() -> None:
    x = torch.empty(1000, device="meta")
    limited = tracer.torch.limit(kernel, memory_limit="1MB")
    assert limited.plan(x, x).peak_bytes < 10**6
    with pytest.raises(errors.ArgumentError, match="no data"):
        limited(x, x)


def test_a_limit_that_cannot_be_met_says_where() -> None:
    def sorts_everything(x):
        return torch.sort(torch.exp(x[:, None] - x[None, :]).flatten()).values[::1000].amax()

    with pytest.raises(errors.MemoryLimitError) as caught:
        tracer.torch.limit(sorts_everything, memory_limit="1MB")(X)
    assert "test_limit.py:" in str(caught.value)


def test_a_refused_limit_proposes_nothing_that_cannot_be_given() -> None:
    with pytest.raises(errors.MemoryLimitError) as caught:
        tracer.torch.limit(lambda x: x * 2, memory_limit="100kB")(torch.ones(20_000))
    assert not caught.value.changes
    assert "donate" not in str(caught.value)


def test_the_largest_of_no_elements_is_refused() -> None:
    with pytest.raises(errors.ShapeError, match="of no elements"):
        tracer.torch.limit(lambda x: x.max())(torch.ones(0))


def test_check_compares_with_eager_torch(monkeypatch) -> None:
    limited = tracer.torch.limit(kernel, memory_limit="1MB")
    found = limited.check(X, X)
    assert found
    assert "float64[1000]" in str(found)
    monkeypatch.setattr(type(limited), "__call__", lambda self, x, v: kernel(x, v) * 1.1)
    assert not limited.check(X, X)


def test_check_writes_nothing() -> None:
    model = nn.BatchNorm1d(3)
    x = torch.randn(5, 3)
    step = tracer.torch.value_and_grad(lambda m, x: m(x).square().mean() + m.running_var.sum())
    assert step.check(model, x)
    assert int(model.num_batches_tracked) == 0


# What goes in and out.


def test_containers_keywords_and_other_values() -> None:
    def f(state, n, *, scale, flag):
        result = {"x": state["x"] * n + scale, "none": None, "n": (state["y"][0], "text")}
        return result if flag else state["y"]

    limited = tracer.torch.limit(f)
    state = {"x": torch.arange(3.0), "y": [torch.ones(2), 2.5]}
    for flag in (True, False):
        for n in (2, 3):
            found = limited(state, n, scale=0.5, flag=flag)
            assert_same(found, f(state, n, scale=0.5, flag=flag))


def test_tensors_are_shared_in_both_directions_and_never_written() -> None:
    x = torch.arange(1000.0)
    before = x.clone()
    seen = []
    original = handover.from_torch_tensor

    def spy(*args):
        seen.append(original(*args))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tracer.torch.program.from_torch_tensor", spy)
        result = tracer.torch.limit(lambda x: x.index_fill(0, torch.tensor([3]), 7.0))(x)
    assert seen[0]._buffer.unsafe_buffer_pointer() == x.data_ptr()
    assert float(result[3]) == 7
    assert torch.equal(x, before)
    assert float((result + 1)[3]) == 8


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.T,
        lambda x: x.permute(1, 0),
        lambda x: x[:1].expand(4, 6),
        lambda x: x.view(2, 2, 6).permute(2, 0, 1),
        lambda x: x[0].expand(3, 6).T,
        lambda x: x[::2, 1:],
        lambda x: x[1:, 1:],
        lambda x: torch.complex(x, -x).conj().imag,
    ],
)
def test_views_are_read_where_they_are(view) -> None:
    x = view(torch.arange(24.0).view(4, 6))
    assert_same(tracer.torch.limit(lambda x: x * 2 + x.sum(0))(x), x * 2 + x.sum(0))


def test_permuted_memory_is_not_copied_and_gaps_are_said() -> None:
    x = torch.randn(600, 500)
    limited = tracer.torch.limit(lambda x: x.sum(0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        limited(x.T)
        limited(x[:1].expand(1000, 500))
    with pytest.warns(errors.TensorCopyWarning, match="1,200,000 bytes"):
        limited(x[::2])


def test_parameters_are_read_at_each_call_and_modes_count() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    limited = tracer.torch.limit(lambda x: model(x))
    x = torch.ones(2, 3)
    with torch.no_grad():
        model.eval()
        assert_same(limited(x), model(x))
        model[0].weight.mul_(2)
        assert_same(limited(x), model(x))
        model[0].weight = nn.Parameter(torch.ones(3, 3))
        assert_same(limited(x), model(x))
        model.train()
        torch.manual_seed(1)
        found = limited(x)
        torch.manual_seed(1)
        assert_same(found, model(x))
        model.float()
        assert limited(x.float()).dtype is torch.float32


def test_writes_to_arguments_and_buffers_come_back() -> None:
    def f(x, state):
        state["sum"].add_(x.sum())
        x[1] = 5
        x.T[0].mul_(2)
        return x * 2

    x, state = torch.ones(3, 2), {"sum": torch.zeros(())}
    y, other = x.clone(), {"sum": torch.zeros(())}
    limited = tracer.torch.limit(f)
    for _ in range(2):
        assert_same(limited(x, state), f(y, other))
        assert_same((x, state), (y, other))
    with pytest.raises(errors.UnsupportedError, match="shares its memory"):
        tracer.torch.limit(lambda a, b: a.add_(b))(x, x[1:2])


# Random numbers.


def draws(x):
    noise = torch.randn_like(x) + torch.rand(3, 1) * torch.randint(5, (4,))
    return F.dropout(x, 0.4) + noise + torch.empty_like(x.T).uniform_().T + torch.randperm(4)


def test_draws_are_those_of_torch_and_the_generator_moves_on() -> None:
    x = torch.ones(3, 4)
    limited = tracer.torch.limit(draws)
    torch.manual_seed(3)
    found = limited(x), limited(x), torch.rand(2)
    torch.manual_seed(3)
    assert_same(found, (draws(x), draws(x), torch.rand(2)))


def test_a_checkpoint_draws_once() -> None:
    def loss(x):
        part = torch.utils.checkpoint.checkpoint(
            lambda x: F.dropout(x.sin(), 0.5).exp(), x, use_reentrant=False
        )
        return (part * torch.rand(5)).sum()

    x = torch.randn(5)
    step = tracer.torch.value_and_grad(loss)
    torch.manual_seed(3)
    found = step(x)
    torch.manual_seed(3)
    assert_same(found, step._eager(x))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: torch.bernoulli(x.sigmoid()), "aten.bernoulli"),
        (lambda x: torch.nn.functional.rrelu(-x, training=True), "aten.rrelu"),
        (lambda x: torch.multinomial(x.exp(), 2), "aten.multinomial"),
        (lambda x: torch.rand(2, generator=torch.Generator()) + x, "generator"),
        (lambda x: (torch.manual_seed(1), torch.rand(2) + x)[1], "manual_seed"),
    ],
)
def test_other_draws_are_refused(function, words) -> None:
    state = torch.get_rng_state()
    with pytest.raises(errors.UnsupportedError, match=words):
        tracer.torch.limit(function)(torch.ones(2))
    assert torch.equal(torch.get_rng_state(), state)


# What is refused.


def missing(x):
    y = torch.special.airy_ai(x)
    return y + torch.special.zeta(x, x).sum()


def test_all_missing_ops_are_named_with_their_lines() -> None:
    with pytest.raises(errors.UnsupportedError) as caught:
        tracer.torch.limit(missing)(torch.ones(3))
    text = str(caught.value)
    assert "aten.special_airy_ai" in text
    assert "aten.special_zeta" in text
    assert text.count("in missing: ") == 2


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (lambda x: x if x.sum() > 0 else -x, errors.TracingError, "value of a tensor"),
        (lambda x: x * x.sum().item(), errors.TracingError, "value of a tensor"),
        (lambda x: x[x > 0], errors.UnsupportedError, "depends on values"),
        (lambda x: torch.nonzero(x), errors.UnsupportedError, "depends on values"),
        (lambda x: x.to_sparse(), errors.UnsupportedError, "layout"),
    ],
)
def test_what_depends_on_values_is_refused(function, error, words) -> None:
    with pytest.raises(error, match=words) as caught:
        tracer.torch.limit(function)(torch.ones(3))
    assert "test_limit.py" in str(caught.value)


def test_backward_within_is_refused_and_leaves_no_trace() -> None:
    model = nn.Linear(3, 1)

    def f(x):
        loss = model(x).sum()
        loss.backward()
        return loss

    with pytest.raises(errors.UnsupportedError, match=r"calls backward\(\)"):
        tracer.torch.limit(f)(torch.ones(2, 3))
    assert model.weight.grad is None


def test_a_tensor_is_equal_to_itself() -> None:
    def f(x, y):
        return x * 2 if torch.equal(x.T, x.T) and not torch.equal(x, x[:1]) else y

    x = torch.ones(3, 3)
    assert_same(tracer.torch.limit(f)(x, x.clone()), f(x, x))
    with pytest.raises(errors.TracingError, match=r"aten\.equal"):
        tracer.torch.limit(lambda x, y: x if torch.equal(x, y) else y)(x, x.clone())


def test_tensors_are_equal_that_are_computed_in_the_same_way() -> None:
    def f(x, scale):
        one, other = ((x / scale).T.exp(), (x / scale).T.exp())
        return one + 1 if torch.equal(one, other) else other

    x = torch.randn(3, 4)
    assert_same(tracer.torch.limit(f)(x, torch.tensor(2.0)), f(x, torch.tensor(2.0)))


def _written(x):
    one, other = x / 2, x / 2
    other.mul_(3)
    return torch.equal(one, other)


def _written_in_a_view(x):
    one, other = x / 2, x / 2
    other[0].zero_()
    return torch.equal(one, other)


UNKNOWN = {
    "written": _written,
    "written in a view": _written_in_a_view,
    "drawn": lambda x: torch.equal(torch.rand_like(x), torch.rand_like(x)),
    "of other numbers": lambda x: torch.equal(x + 1, x + 2),
    "of another op": lambda x: torch.equal(x + 1, x - 1),
    "of another dtype": lambda x: torch.equal(x + 1, (x + 1).float()),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_other_tensors_may_differ(name: str) -> None:
    function = UNKNOWN[name]
    with pytest.raises(errors.TracingError, match=r"aten\.equal"):
        tracer.torch.limit(lambda x: x if function(x) else 2 * x)(torch.randn(3, 4))


def test_a_limit_within_a_limit_is_refused() -> None:
    inner = tracer.torch.limit(lambda x: x * 2)
    with pytest.raises(errors.UnsupportedError, match="has a limit"):
        tracer.torch.limit(lambda x: inner(x))(torch.ones(3))
    assert float(tracer.torch.limit(lambda x: inner.__wrapped__(x))(torch.ones(3))[0]) == 2


def test_wrong_arguments() -> None:
    with pytest.raises(errors.DTypeError, match="takes a function"):
        tracer.torch.limit(torch.ones(3))
    with pytest.raises(errors.DTypeError, match="NumPy array"):
        tracer.torch.limit(lambda x: x)(torch.ones(3).numpy())
    with pytest.raises(errors.DTypeError, match="hashed"):
        tracer.torch.limit(lambda x, s: x)(torch.ones(3), {1, 2})
    with pytest.raises(errors.ArgumentError, match="limit"):
        tracer.torch.limit(lambda x: x, memory_limit="3 bananas")
    with pytest.raises(errors.ArgumentError, match="argnums"):
        tracer.torch.value_and_grad(lambda x: x.sum(), argnums=1)(torch.ones(3))
    with pytest.raises(errors.DTypeError, match="differentiate by"):
        tracer.torch.value_and_grad(lambda x: x.sum())(torch.arange(3))
    with pytest.raises(errors.ArgumentError, match="not a loss"):
        tracer.torch.value_and_grad(lambda x: x * 2)(torch.ones(3))


def test_a_limited_function_has_no_history() -> None:
    model = nn.Linear(3, 1)
    limited = tracer.torch.limit(model)
    with pytest.raises(errors.ArgumentError, match="history"):
        limited(torch.ones(2, 3))
    with torch.no_grad():
        assert not limited(torch.ones(2, 3)).requires_grad


# Gradients.


def test_backward_adds_to_grad_as_loss_backward() -> None:
    model, other = nn.Linear(3, 1), nn.Linear(3, 1)
    other.load_state_dict(model.state_dict())
    unused = nn.Parameter(torch.ones(1))

    def loss(x):
        assert unused.requires_grad
        return model(x).square().mean()

    step = tracer.torch.value_and_grad(loss)
    x = torch.randn(4, 3, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    for _ in range(2):
        value = step.backward(x)
        wanted = other(y).square().mean()
        wanted.backward()
        assert_same(value, wanted)
    assert_same(
        [p.grad for p in (*model.parameters(), x)], [p.grad for p in (*other.parameters(), y)]
    )
    assert unused.grad is None
    with pytest.raises(errors.ArgumentError, match="they would get none"):
        step.backward(x * 2)


def test_gradients_of_modules_frozen_parameters_and_containers() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1), nn.Linear(9, 9))
    model[1].bias.requires_grad_(False)

    def loss(tensors, model):
        return model[1](model[0](tensors["x"]).tanh()).sum(), {"rest": tensors["y"] * 2}

    tensors = {"x": torch.randn(2, 3), "y": torch.ones(2)}
    step = tracer.torch.value_and_grad(loss, argnums=(0, 1), has_aux=True)
    (value, rest), (by_tensors, by_model) = step(tensors, model)
    wanted, _ = loss(tensors, model)
    names = [n for n, p in model.named_parameters() if p.requires_grad]
    assert list(by_model) == names
    assert "1.bias" not in names
    found = torch.autograd.grad(wanted, [model[0].weight, model[1].weight])
    assert_same((by_model["0.weight"], by_model["1.weight"]), found)
    assert_same((value, rest), (wanted, {"rest": torch.full((2,), 2.0)}))
    assert not by_tensors["y"].any()
    assert not by_model["2.weight"].any()


def test_the_users_own_derivatives_count() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 100

    def loss(x):
        with torch.no_grad():
            weight = x.exp()
        return (Twice.apply(x) * weight + F.relu(x - x.detach())).sum()

    x = torch.randn(5)
    step = tracer.torch.value_and_grad(loss)
    assert_same(step(x), step._eager(x))


def test_tied_parameters_have_one_gradient() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.into, self.out = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
            self.out.weight = self.into.weight

        def forward(self, i):
            return F.cross_entropy(self.out(self.into(i)), i)

    model, i = Tied(), torch.tensor([1, 3, 3])
    found = tracer.torch.value_and_grad(model)(i)
    wanted = model(i)
    (grad,) = torch.autograd.grad(wanted, [model.into.weight])
    assert_same(found, (wanted, {"into.weight": grad}))


def test_a_training_run_is_that_of_torch() -> None:
    def train(step, model):
        torch.manual_seed(2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            losses.append(step())
            optimizer.step()
        return losses, dict(model.state_dict())

    x, y = torch.randn(16, 3), torch.randn(16, 1)

    def made():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 1))

    ours, eager = made(), made()
    limited = tracer.torch.value_and_grad(lambda x, y: F.mse_loss(ours(x), y), memory_limit="1MB")

    def eager_step():
        loss = F.mse_loss(eager(x), y)
        loss.backward()
        return loss.detach()

    assert_same(train(lambda: limited.backward(x, y), ours), train(eager_step, eager), 1e-9)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("target", [[1, 3, -1, 0, 2], [-1, 0, 1, 2, 3], [4, 2, 0, 1, 3]])
def test_labels_behind_the_first_minus_one_count_for_nothing(target, reduction) -> None:
    def loss(x, target):
        return F.multilabel_margin_loss(x, target, reduction=reduction)

    x = torch.sin(torch.arange(10, dtype=torch.float64)).reshape(2, 5)
    targets = torch.tensor([target, [2, -1, 2, 0, 0]])
    assert_same(tracer.torch.limit(loss)(x, targets), loss(x, targets))
    assert_same(tracer.torch.limit(loss)(x[0], targets[0]), loss(x[0], targets[0]))
