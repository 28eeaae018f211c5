"""Losses that need torch only, each at the end of a small network with random weights."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.distributions import Categorical, MixtureSameFamily, Normal

from benchmarks.torch_models import CASES, case, ints, normal

__all__ = ["CASES"]


@case("contrastive loss (InfoNCE)", normal(256, 24), normal(256, 24))
class InfoNCE(nn.Module):
    """As CLIP: pairs among all pairs, with a temperature that is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(24, 16), nn.Linear(24, 16)
        self.log_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Any, y: Any) -> Any:
        x, y = F.normalize(self.one(x), dim=1), F.normalize(self.other(y), dim=1)
        logits = self.log_scale.exp() * x @ y.T
        right = torch.arange(len(x))
        return (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right)) / 2, x


@case("Barlow Twins and VICReg", normal(64, 24))
class Twins(nn.Module):
    """Correlations of two views of batches, with dropout as what makes the views."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(24, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 48)
        )

    def forward(self, x: Any) -> Any:
        a, b = (self.net(F.dropout(x, 0.2)) for _ in range(2))
        a, b = ((z - z.mean(0)) / z.std(0) for z in (a, b))
        cross = a.T @ b / len(x)
        off = cross - torch.diag(cross.diagonal())
        hinge = F.relu(1 - a.var(0).sqrt()).mean()
        return ((cross.diagonal() - 1) ** 2).sum() + 5e-3 * (off**2).sum() + hinge, cross


@case("CTC loss", normal(20, 3, 8), ints(7, 3, 5))
class CTC(nn.Module):
    """`F.ctc_loss` of a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(8, 8)

    def forward(self, x: Any, targets: Any) -> Any:
        chances = self.out(x).log_softmax(2)
        lengths = torch.full((3,), 20), torch.full((3,), 5)
        return F.ctc_loss(chances, targets + 1, *lengths, blank=0), chances


@case("focal loss and smooth L1 of boxes", normal(2, 200, 16), ints(4, 2, 200), normal(2, 200, 4))
class Detection(nn.Module):
    """Classes and boxes of anchors, boxes also by their overlap."""

    def __init__(self) -> None:
        super().__init__()
        self.classes, self.boxes = nn.Linear(16, 4), nn.Linear(16, 4)

    def forward(self, x: Any, labels: Any, wanted: Any) -> Any:
        logits, wanted_classes = self.classes(x), F.one_hot(labels, 4).to(x.dtype)
        cross = F.binary_cross_entropy_with_logits(logits, wanted_classes, reduction="none")
        focal = 0.25 * (1 - (-cross).exp()) ** 2 * cross
        found = self.boxes(x)
        low = torch.maximum(found[..., :2], wanted[..., :2])
        high = torch.minimum(found[..., 2:].exp() + low, wanted[..., 2:].exp() + low)
        overlap = (high - low).clamp(min=0).prod(-1)
        loss = F.smooth_l1_loss(found, wanted, reduction="none").sum(-1) - overlap.log1p()
        return focal.sum() + torch.where(labels > 0, loss, 0).mean(), found


@case("Chamfer distance of a point network", normal(4, 150, 3), normal(4, 120, 3))
class Chamfer(nn.Module):
    """Move points towards others."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 32), nn.GELU(), nn.Linear(32, 3))

    def forward(self, x: Any, y: Any) -> Any:
        moved = x + self.net(x)
        apart = torch.cdist(moved, y)
        return apart.min(2).values.mean() + apart.min(1).values.mean(), moved


@case("Sinkhorn divergence", normal(200, 3), normal(180, 3))
class Sinkhorn(nn.Module):
    """Five steps in logarithms."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(3, 3)

    def forward(self, x: Any, y: Any) -> Any:
        cost = ((self.map(x)[:, None] - y[None]) ** 2).sum(-1)
        f, g = torch.zeros(len(x)), torch.zeros(len(y))
        for _ in range(5):
            f = -0.5 * torch.logsumexp((g - cost) / 0.5 - math.log(len(y)), 1)
            g = -0.5 * torch.logsumexp((f[:, None] - cost) / 0.5 - math.log(len(x)), 0)
        plan = torch.exp((f[:, None] + g - cost) / 0.5) / cost.numel()
        return (plan * cost).sum(), f, g


@case("sliced Wasserstein distance", normal(300, 8), normal(300, 8), normal(8, 30))
class Sliced(nn.Module):
    """Sorted projections."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(8, 8)

    def forward(self, x: Any, y: Any, directions: Any) -> Any:
        directions = F.normalize(directions, dim=0)
        ours, theirs = ((z @ directions).sort(0).values for z in (self.map(x), y))
        return (ours - theirs).abs().mean(), ours


@case("t-SNE", normal(250, 10))
class TSNE(nn.Module):
    """The divergence of neighbourhoods, by the places of points."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.randn(250, 2))

    def forward(self, x: Any) -> Any:
        off = ~torch.eye(len(x), dtype=torch.bool)
        near = torch.where(off, -(torch.cdist(x, x) ** 2), -torch.inf).softmax(1)
        p = ((near + near.T) / (2 * len(x))).clamp(min=1e-12)
        apart = ((self.places[:, None] - self.places) ** 2).sum(-1)
        weights = torch.where(off, 1 / (1 + apart), 0)
        q = (weights / weights.sum()).clamp(min=1e-12)
        return (p * (p.log() - q.log())).sum(), q


@case("cross-entropy of a large vocabulary", normal(64, 32), ints(4000, 64))
class Vocabulary(nn.Module):
    """Logits of 4,000 words, label smoothing and a penalty of the partition."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(32, 4000, bias=False)

    def forward(self, x: Any, labels: Any) -> Any:
        logits = self.out(x)
        loss = F.cross_entropy(logits, labels, label_smoothing=0.1)
        return loss + 1e-4 * (logits.logsumexp(1) ** 2).mean(), logits.argmax(1)


@case("preferences (DPO)", ints(300, 2, 4, 24), normal(2, 4, 24))
class DPO(nn.Module):
    """Chosen and rejected texts beside a reference."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(300, 24), nn.Linear(24, 300)

    def forward(self, tokens: Any, reference: Any) -> Any:
        seen = self.table(tokens).cumsum(2) / torch.arange(1, 25)[:, None]
        chances = self.out(seen)[:, :, :-1].log_softmax(-1)
        of_text = chances.gather(-1, tokens[:, :, 1:, None])[..., 0].sum(-1)
        chosen, rejected = of_text - reference.sum(-1)
        return -F.logsigmoid(0.1 * (chosen - rejected)).mean(), of_text


@case("mixture density network", normal(150, 3), normal(150))
class Mixture(nn.Module):
    """The log-density of a mixture of five normal distributions."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 32), nn.Softplus(), nn.Linear(32, 15))

    def forward(self, x: Any, y: Any) -> Any:
        logits, mean, log_scale = self.net(x).chunk(3, 1)
        density = MixtureSameFamily(Categorical(logits=logits), Normal(mean, log_scale.exp()))
        return -density.log_prob(y).mean(), density.mean


@case("deep kernel, marginal likelihood", normal(120, 5), normal(120))
class DeepKernel(nn.Module):
    """A Gaussian process over a network's features."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 2))
        self.log_noise = nn.Parameter(torch.tensor(-1.0))

    def forward(self, x: Any, y: Any) -> Any:
        z = self.net(x)
        kernel = torch.exp(-0.5 * ((z[:, None] - z) ** 2).sum(-1))
        factor = torch.linalg.cholesky(kernel + self.log_noise.exp() * torch.eye(len(x)))
        alpha = torch.cholesky_solve(y[:, None], factor)[:, 0]
        half = factor.diagonal().log().sum()
        return 0.5 * y @ alpha + half + len(x) / 2 * math.log(2 * math.pi), alpha
