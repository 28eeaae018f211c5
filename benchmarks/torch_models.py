"""Networks that need torch only, small and with random weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.distributions import Normal

from benchmarks.torch_comparison import weighted_sum

Loss = Callable[..., tuple[torch.Tensor, Any]]


@dataclass(frozen=True)
class Case:
    """A model, its arguments, and a loss.

    Attributes
    ----------
    name : str
    package : str
        The one that the model is of.
    make : callable
        Returns the model and the arguments.
    loss : callable
        Of the model and the arguments; returns the loss and other outputs.
    precision : float
        By how much outputs may differ: of the largest element. More than float64's where the model
        computes parts in float32 in any case.
    """

    name: str
    package: str
    make: Callable[[], tuple[nn.Module, tuple[Any, ...]]]
    loss: Loss
    precision: float = 1e-10


CASES: list[Case] = []


def summed(model: nn.Module, *args: Any) -> tuple[torch.Tensor, Any]:
    """Return a loss that each element of the results moves differently, and the results."""
    result = model(*args)
    return weighted_sum(result), result


def own(model: nn.Module, *args: Any) -> tuple[torch.Tensor, Any]:
    """Return what a model returns that computes its loss itself."""
    loss, *rest = model(*args)
    return loss, tuple(rest)


def case(name: str, *args: Any, loss: Loss = own) -> Callable[[Any], Any]:
    """Enter a module's class with what makes its arguments."""

    def enter(module: Any) -> Any:
        def make() -> tuple[nn.Module, tuple[Any, ...]]:
            return module(), tuple(x() if callable(x) else x for x in args)

        CASES.append(Case(name, "torch", make, loss))
        return module

    return enter


def normal(*shape: int) -> Callable[[], torch.Tensor]:
    """Return what makes normal numbers."""
    return lambda: torch.randn(shape)


def ints(high: int, *shape: int) -> Callable[[], torch.Tensor]:
    """Return what makes integers."""
    return lambda: torch.randint(high, shape)


@case("LSTM language model", ints(50, 16, 8), ints(50, 16, 8))
class LSTM(nn.Module):
    """`nn.LSTM` over embedded tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.rnn = nn.Embedding(50, 16), nn.LSTM(16, 24, batch_first=True)
        self.out = nn.Linear(24, 50)

    def forward(self, tokens: Any, targets: Any) -> Any:
        hidden, (h, c) = self.rnn(self.table(tokens))
        return F.cross_entropy(self.out(hidden).flatten(0, 1), targets.flatten()), h, c


@case("GRU, both directions", normal(16, 6, 6), loss=summed)
class GRU(nn.Module):
    """`nn.GRU` forward and backward in time."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(6, 10, batch_first=True, bidirectional=True)

    def forward(self, x: Any) -> Any:
        return self.rnn(x)


@case("LSTM cells in a loop", normal(32, 6, 6), loss=summed)
class Cells(nn.Module):
    """`nn.LSTMCell` and `nn.GRUCell`, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = nn.LSTMCell(6, 12), nn.GRUCell(12, 8)

    def forward(self, x: Any) -> Any:
        h = c = x.new_zeros(len(x), 12)
        g = x.new_zeros(len(x), 8)
        for step in x.unbind(1):
            h, c = self.lstm(step, (h, c))
            g = self.gru(h, g)
        return g, c


class Noise(nn.Module):
    """A U-Net of two levels, told a number for each image."""

    def __init__(self, channels: int = 1) -> None:
        super().__init__()
        self.time = nn.Linear(16, 16)
        self.down, self.low = nn.Conv2d(channels, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.up, self.norm = nn.ConvTranspose2d(32, 16, 2, stride=2), nn.GroupNorm(4, 32)
        self.out = nn.Conv2d(32, channels, 3, padding=1)

    def forward(self, x: Any, t: Any) -> Any:
        rates = torch.exp(-math.log(1e4) * torch.arange(8) / 8)
        angles = t[:, None] * rates
        told = self.time(torch.cat([angles.sin(), angles.cos()], 1))[:, :, None, None]
        wide = F.silu(self.down(x) + told)
        low = F.silu(self.low(F.max_pool2d(wide, 2)))
        up = self.up(low) + F.interpolate(low[:, :16], scale_factor=2, mode="bilinear")
        return self.out(F.silu(self.norm(torch.cat([wide, up], 1))))


@case("U-Net, segmentation", normal(4, 1, 32, 32), ints(3, 4, 32, 32))
class Segmentation(nn.Module):
    """Cross-entropy of each pixel and a Dice loss."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.head = Noise(), nn.Conv2d(1, 3, 1)

    def forward(self, x: Any, labels: Any) -> Any:
        logits = self.head(self.net(x, torch.zeros(len(x))))
        chosen, wanted = logits.softmax(1), F.one_hot(labels, 3).permute(0, 3, 1, 2)
        dice = 2 * (chosen * wanted).sum((0, 2, 3)) / (chosen + wanted).sum((0, 2, 3))
        return F.cross_entropy(logits, labels) + 1 - dice.mean(), logits


@case("diffusion, one step of training", normal(4, 1, 32, 32), ints(100, 4))
class Diffusion(nn.Module):
    """Predict the noise that was put on an image."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Noise()
        self.register_buffer("kept", torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), 0))

    def forward(self, x: Any, t: Any) -> Any:
        kept = self.kept[t][:, None, None, None]
        noise = torch.randn_like(x)
        found = self.net(kept.sqrt() * x + (1 - kept).sqrt() * noise, t.to(x.dtype))
        return F.mse_loss(found, noise), found


@case("variational autoencoder", lambda: torch.rand(64, 100))
class VAE(nn.Module):
    """Gaussian latents, binary pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(100, 64), nn.ReLU(), nn.Linear(64, 20))
        self.decode = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 100))

    def forward(self, x: Any) -> Any:
        mean, log_variance = self.encode(x).chunk(2, 1)
        z = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        logits = self.decode(z)
        kl = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
        return F.binary_cross_entropy_with_logits(logits, x, reduction="sum") + kl, logits


@case("VQ-VAE, straight through", normal(64, 16))
class VQ(nn.Module):
    """Nearest codes, whose gradients pass through."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(16, 8), nn.Linear(8, 16)
        self.codes = nn.Parameter(torch.randn(32, 8))

    def forward(self, x: Any) -> Any:
        z = self.encode(x)
        nearest = torch.cdist(z, self.codes).argmin(1)
        code = self.codes[nearest]
        through = z + (code - z).detach()
        commitment = F.mse_loss(code.detach(), z) + F.mse_loss(code, z.detach())
        return F.mse_loss(self.decode(through), x) + commitment, nearest


@case("normalising flow (RealNVP)", normal(128, 6))
class Flow(nn.Module):
    """Affine couplings, the log-density of normal numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 6)) for _ in range(4)
        )

    def forward(self, x: Any) -> Any:
        total = x.new_zeros(len(x))
        for part in self.parts:
            a, b = x.chunk(2, 1)
            shift, scale = part(a).chunk(2, 1)
            x = torch.cat([b * scale.tanh().exp() + shift, a], 1)
            total = total + scale.tanh().sum(1)
        return -(Normal(0.0, 1.0).log_prob(x).sum(1) + total).mean(), x


@case("mixture of experts, dense routing", normal(128, 16))
class Experts(nn.Module):
    """The two best of eight experts, and a loss that balances them."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(16, 8)
        self.first = nn.Parameter(torch.randn(8, 16, 32) / 4)
        self.second = nn.Parameter(torch.randn(8, 32, 16) / 4)

    def forward(self, x: Any) -> Any:
        chances = self.gate(x).softmax(1)
        best, places = chances.topk(2, 1)
        gates = torch.zeros_like(chances).scatter(1, places, best / best.sum(1, keepdim=True))
        hidden = F.silu(torch.einsum("nd,edh->neh", x, self.first))
        found = torch.einsum("neh,ehd,ne->nd", hidden, self.second, gates)
        balance = (chances.mean(0) * (gates > 0).to(x.dtype).mean(0)).sum()
        return F.mse_loss(found, x) + balance, found, places


@case("transformer encoder with dropout", normal(4, 24, 32), loss=summed)
class Encoder(nn.Module):
    """`nn.TransformerEncoder` of two layers."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.1, "gelu", batch_first=True)
        self.net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Any) -> Any:
        return self.net(x)


@case("transformer, encoder and decoder", normal(12, 4, 16), normal(10, 4, 16), loss=summed)
class Translation(nn.Module):
    """`nn.Transformer` with a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Transformer(16, 2, 1, 1, 32, 0.0)

    def forward(self, x: Any, y: Any) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(len(y))
        return self.net(x, y, tgt_mask=mask, tgt_is_causal=True)  # or torch looks at the mask


@case("graph attention by scatter", normal(60, 8), ints(60, 2, 400))
class GraphAttention(nn.Module):
    """Softmax over the edges that lead to a node."""

    def __init__(self) -> None:
        super().__init__()
        self.value, self.score = nn.Linear(8, 8), nn.Linear(16, 1)

    def forward(self, x: Any, edges: Any) -> Any:
        source, target = edges
        value = self.value(x)
        ends = torch.cat([value[source], value[target]], 1)
        score = F.leaky_relu(self.score(ends)[:, 0], 0.2)
        top = torch.full((len(x),), -torch.inf).scatter_reduce(0, target, score.detach(), "amax")
        weight = (score - top[target]).exp()
        total = torch.zeros(len(x)).index_add(0, target, weight)
        sent = value[source] * (weight / total[target])[:, None]
        found = torch.zeros_like(value).index_add(0, target, sent)
        return (F.elu(found) - x).pow(2).mean(), found


@case("one step of Adam, differentiated", normal(64, 6), normal(64, 1))
class Adam(nn.Module):
    """The loss after a step of Adam, by the weights before it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
        self.log_rate = nn.Parameter(torch.tensor(-3.0))

    def forward(self, x: Any, y: Any) -> Any:
        def loss(weights: Any) -> torch.Tensor:
            return F.mse_loss(torch.func.functional_call(self.net, weights, (x,)), y)

        weights = dict(self.net.named_parameters())
        gradients = torch.func.grad(loss)(weights)
        moved = {}
        for name, gradient in gradients.items():
            first, second = 0.1 * gradient / 0.1, 0.001 * gradient**2 / 0.001
            moved[name] = weights[name] - self.log_rate.exp() * first / (second.sqrt() + 1e-3)
        return loss(moved), moved


@case("equation of heat (PINN)", lambda: torch.rand(200, 2))
class Heat(nn.Module):
    """A network's residual: second derivatives by its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh())
        self.out = nn.Linear(24, 1)

    def forward(self, x: Any) -> Any:
        x = x.detach().requires_grad_()
        u = self.out(self.net(x))
        (first,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first[:, 1].sum(), x, create_graph=True)
        residual = first[:, 0] - 0.1 * second[:, 1]
        return (residual**2).mean() + ((u[:, 0] - torch.sin(x[:, 1])) ** 2).mean(), residual


@case("neural ODE by Runge-Kutta", normal(64, 4))
class ODE(nn.Module):
    """Four steps of the fourth order."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 4))

    def forward(self, x: Any) -> Any:
        start, h = x, 1 / 4
        for _ in range(4):
            a = self.net(x)
            b = self.net(x + h / 2 * a)
            c = self.net(x + h / 2 * b)
            d = self.net(x + h * c)
            x = x + h / 6 * (a + 2 * b + 2 * c + d)
        return F.mse_loss(x, start.flip(1)), x


@case("volume rendering (NeRF)", normal(64, 3), normal(64, 3), lambda: torch.rand(64, 3))
class Rendering(nn.Module):
    """Colours along rays, weighed by what is before them."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, origins: Any, directions: Any, wanted: Any) -> Any:
        depth = torch.linspace(0.5, 4, 24)
        places = origins[:, None] + depth[:, None] * F.normalize(directions, dim=1)[:, None]
        waves = torch.cat(
            [f(places * 2.0**k) for k in range(4) for f in (torch.sin, torch.cos)], -1
        )
        found = self.net(waves)
        clear = torch.exp(-F.softplus(found[..., 3]) * (depth[1] - depth[0]))
        before = torch.cumprod(torch.cat([torch.ones(64, 1), clear[:, :-1] + 1e-10], 1), 1)
        colour = ((before * (1 - clear))[..., None] * found[..., :3].sigmoid()).sum(1)
        return F.mse_loss(colour, wanted), colour


@case("linear attention and a gated scan", normal(2, 64, 16), loss=summed)
class Scan(nn.Module):
    """Causal linear attention, and a state-space layer by cumulated logarithms."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.decay, self.out = nn.Linear(16, 48), nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        state = torch.einsum("bnd,bne->bnde", k, v).cumsum(1)
        found = torch.einsum("bnd,bnde->bne", q, state)
        found = found / (q * k.cumsum(1)).sum(-1, keepdim=True)
        log_decay = F.logsigmoid(self.decay(x)).cumsum(1)
        scanned = log_decay.exp() * ((-log_decay).exp() * found).cumsum(1)
        return self.out(F.silu(scanned))
