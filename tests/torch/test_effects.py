"""What a function does to tensors that outlive it: refused, with everything as it was."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import tracer.torch  # noqa: E402
from tracer import errors  # noqa: E402

X = torch.linspace(0, 1, 3)


class Changes(nn.Module):
    """A module whose `forward` changes what it has."""

    def __init__(self, change):
        super().__init__()
        self.register_buffer("buffer", torch.zeros(3))
        self.weight = nn.Parameter(torch.ones(3))
        self.plain, self.last, self.count, self.change = torch.zeros(3), None, 0, change

    def forward(self, x):
        self.change(self, x)
        return (self.weight * x).sum() * (self.count + 1) + self.plain.sum() + self.buffer.sum()


def assign_buffer(module, x):
    module.buffer = 0.9 * module.buffer + x


def assign_tensor(module, x):
    module.plain = module.plain + x


def assign_data(module, x):
    module.weight.data = module.weight.data * 0.5


def turn(module, x):
    module.buffer.unsqueeze_(0)


def limited(module):
    with torch.no_grad():
        return tracer.torch.limit(module)(X)


def backward(module):
    return tracer.torch.value_and_grad(module).backward(X)


@pytest.mark.parametrize("run", [limited, backward])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (assign_buffer, "attribute buffer"),
        (assign_tensor, "attribute plain"),
        (assign_data, r"\.data"),
        (turn, "unsqueeze_"),
    ],
)
def test_what_would_be_lost_is_refused(change, words, run) -> None:
    module = Changes(change)
    with pytest.raises(errors.UnsupportedError, match=words):
        run(module)
    assert module.buffer.tolist() == module.plain.tolist() == [0, 0, 0]
    assert module.weight.tolist() == [1, 1, 1]


@pytest.mark.parametrize("change", ["t_", "squeeze_", "resize"])
def test_arguments_keep_their_axes(change) -> None:
    def f(w, x):
        x.resize_(2) if change == "resize" else getattr(x, change)()
        return w.sum() + x.sum()

    with pytest.raises(errors.UnsupportedError, match=change) as caught:
        tracer.torch.value_and_grad(f)(X, torch.ones(1, 2))
    assert caught.value.where.file == __file__


def test_numbers_and_notes_of_a_module_are_those_of_one_run() -> None:
    def change(module, x):
        module.count += 1
        module.last = 2 * x

    module = Changes(change)
    assert limited(module) == Changes(change)(X)
    assert module.count == 1
    assert module.last is None


def test_a_generator_of_its_own_is_refused_at_its_line() -> None:
    with pytest.raises(errors.UnsupportedError, match="generator of its own") as caught:
        tracer.torch.limit(lambda x: x + torch.rand(3, generator=torch.Generator()))(X)
    assert caught.value.where.file == __file__
