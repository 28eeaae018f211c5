"""Ten small models: loss, gradients by name and buffers beside eager torch."""

from __future__ import annotations

import copy
import math

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import tracer.torch  # noqa: E402
from tests.torch.comparison import assert_same  # noqa: E402


class Recurrent(nn.Module):
    """LSTM and GRU cells in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = nn.LSTMCell(3, 4), nn.GRUCell(4, 5)
        self.out = nn.Linear(5, 2)

    def forward(self, x):
        h = c = x.new_zeros(x.shape[0], 4)
        g = x.new_zeros(x.shape[0], 5)
        for step in x.unbind(1):
            h, c = self.lstm(step, (h, c))
            g = self.gru(h, g)
        return self.out(g)


class Bag(nn.Module):
    """Means of embeddings, a row of padding left out."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 6, padding_idx=0)
        self.out = nn.Linear(6, 3)

    def forward(self, tokens):
        is_word = (tokens != 0).unsqueeze(-1)
        mean = (self.table(tokens) * is_word).sum(1) / is_word.sum(1).clamp(min=1)
        return self.out(mean)


class GaussianProcess(nn.Module):
    """The negative log likelihood of a Gaussian process."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(2))
        self.log_noise = nn.Parameter(torch.tensor(-1.0))

    def forward(self, x, y):
        z = x / self.log_scale.exp()
        kernel = torch.exp(-0.5 * torch.cdist(z, z) ** 2)
        kernel = kernel + self.log_noise.exp() * torch.eye(len(x))
        factor = torch.linalg.cholesky(kernel)
        alpha = torch.cholesky_solve(y[:, None], factor)[:, 0]
        return 0.5 * y @ alpha + factor.diagonal().log().sum() + len(x) / 2 * math.log(2 * math.pi)


class UNet(nn.Module):
    """Down and up again, with the features of the way down."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.low = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.norm, self.out = nn.GroupNorm(2, 8), nn.Conv2d(8, 1, 1)

    def forward(self, x):
        wide = F.silu(self.down(x))
        low = F.silu(self.low(F.max_pool2d(wide, 2)))
        up = self.up(low) + F.interpolate(low[:, :4], scale_factor=2, mode="bilinear")
        return self.out(F.silu(self.norm(torch.cat([wide, up], 1))))


class Messages(nn.Module):
    """Message passing over edges, summed at the nodes that they lead to."""

    def __init__(self) -> None:
        super().__init__()
        self.message, self.update = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x, source, target):
        for _ in range(2):
            sent = F.relu(self.message(torch.cat([x[source], x[target]], 1)))
            total = torch.zeros_like(x).index_add(0, target, sent)
            count = torch.zeros(len(x)).scatter_add(0, target, torch.ones(len(target)))
            x = torch.tanh(self.update(torch.cat([x, total / count.clamp(min=1)[:, None]], 1)))
        return x


class Attention(nn.Module):
    """Several heads, causal."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(heads.transpose(1, 2).flatten(2))


def convolutional():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(36, 3, bias=False),
        nn.BatchNorm1d(3),
    )


def perceptron():
    return nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))


def autoencoder():
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, stride=2),
        nn.LeakyReLU(),
        nn.ConvTranspose2d(3, 1, 3, stride=2),
        nn.Sigmoid(),
    )


def encoder():
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True, activation="gelu")


TOKENS = torch.tensor([[1, 4, 0, 0], [3, 3, 10, 2]])
EDGES = torch.tensor([[0, 1, 2, 3, 4, 4], [1, 2, 0, 4, 3, 0]])
MODELS = {
    "perceptron": (perceptron, lambda: (torch.randn(6, 5),)),
    "convolutional": (convolutional, lambda: (torch.randn(4, 1, 8, 8),)),
    "transformer encoder": (encoder, lambda: (torch.randn(2, 5, 8),)),
    "LSTM and GRU": (Recurrent, lambda: (torch.randn(2, 4, 3),)),
    "autoencoder": (autoencoder, lambda: (torch.rand(2, 1, 9, 9),)),
    "bag of embeddings": (Bag, lambda: (TOKENS,)),
    "Gaussian process": (GaussianProcess, lambda: (torch.randn(7, 2), torch.randn(7))),
    "attention": (Attention, lambda: (torch.randn(2, 5, 8),)),
    "U-Net": (UNet, lambda: (torch.randn(2, 1, 8, 8),)),
    "messages": (Messages, lambda: (torch.randn(5, 4), *EDGES)),
}


def loss(model, *args):
    result = model(*args)
    weights = torch.linspace(0.5, 1.5, result.numel()).view_as(result)
    return (result * weights).sin().mean()  # no loss that batch normalisation makes constant


@pytest.mark.parametrize("name", MODELS)
def test_training(name: str) -> None:
    make, arguments = MODELS[name]
    model, args = make(), arguments()
    eager = copy.deepcopy(model)
    step = tracer.torch.value_and_grad(loss, memory_limit="50MB")
    for _ in range(2):  # the second one with the buffers of the first
        torch.manual_seed(5)
        found = step(model, *args)
        torch.manual_seed(5)
        wanted = loss(eager, *args)
        grads = torch.autograd.grad(wanted, list(eager.parameters()))
        names = [name for name, _ in eager.named_parameters()]
        assert_same(found, (wanted, dict(zip(names, grads, strict=True))), 1e-10)
        assert_same(dict(model.named_buffers()), dict(eager.named_buffers()))


@pytest.mark.parametrize("name", ["convolutional", "transformer encoder", "messages"])
def test_evaluation(name: str) -> None:
    make, arguments = MODELS[name]
    model, args = make().eval(), arguments()
    limited = tracer.torch.limit(model, memory_limit="50MB")
    with torch.no_grad():
        assert_same(limited(*args), model(*args))
