"""Small programs of torch over the ops of ATen, each with its arguments in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch.distributions import Categorical, Normal, kl_divergence


@dataclass(frozen=True)
class Program:
    """A function, and what makes its arguments; floating arguments are differentiated by."""

    name: str
    function: Callable[..., Any]
    make: Callable[[torch.Generator], tuple[Any, ...]]
    has_gradient: bool = True
    tolerance: float = 1e-11

    def arguments(self) -> tuple[Any, ...]:
        return self.make(torch.Generator().manual_seed(7))


PROGRAMS: list[Program] = []


def add(
    name: str, function: Any, *shapes: Any, has_gradient: bool = True, tolerance: float = 1e-11
) -> None:
    """Enter a program; shapes stand for normal numbers, other things for themselves."""

    def normal(generator: torch.Generator) -> tuple[Any, ...]:
        return tuple(
            torch.randn(item, generator=generator, dtype=torch.float64)
            if isinstance(item, tuple)
            else item
            for item in shapes
        )

    PROGRAMS.append(Program(name, function, normal, has_gradient, tolerance))


def ints(high: int, *shape: int) -> Any:
    """Integers that are always the same."""
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(3))


def positive(x: torch.Tensor) -> torch.Tensor:
    return x @ x.mT + x.shape[-1] * torch.eye(x.shape[-1], dtype=x.dtype)


# fmt: off
# Functions of each element.
add("arithmetic", lambda x, y: (x + 2 * y - 3) / (1 + y * y) - 2.5 / x, (3, 4), (4,))
add("alpha", lambda x, y: torch.add(x, y, alpha=2.5) - torch.sub(y, x, alpha=3), (3, 4), (4,))
add("powers", lambda x: x ** 2 + x ** 3 - x ** (-2) + x.abs() ** 0.5 + x.abs() ** 1.7 + 2.0 ** x, (20,))
add("tensor power", lambda x, y: x.abs() ** y, (5, 4), (4,))
add("exponentials", lambda x: x.exp() + x.expm1() + torch.exp2(x) + torch.sigmoid(x), (20,))
add("logarithms", lambda x: (lambda a: a.log() + a.log2() * a.log10() + a.log1p())(x.abs() + 0.1), (20,))
add("trigonometry", lambda x: x.sin() * x.cos() + x.tan() + x.atan() + x.sinh() - x.cosh(), (20,))
add("inverse trigonometry", lambda x: (lambda a: a.asin() + a.acos() + a.atanh())(x.tanh() * 0.9), (20,))
add("inverse hyperbolic", lambda x: x.asinh() + (x.abs() + 1.1).acosh(), (20,))
add("atan2 and hypot", lambda x, y: torch.atan2(x, y) + torch.hypot(x, y), (4, 3), (3,))
add("Fourier transforms", lambda x: torch.fft.irfft(torch.fft.rfft(x, norm="ortho") * 2, n=6) + torch.fft.ifft2(torch.fft.fft2(x) ** 2).real + torch.fft.fft(x, dim=0).abs() + torch.fft.fftn(x, norm="forward").imag, (3, 4, 6))
add("error functions", lambda x: x.erf() + x.erfc() + (x.tanh() * 0.9).erfinv(), (20,))
add("gamma functions", lambda x: (lambda a: a.lgamma() + a.digamma() + torch.polygamma(1, a))(x.abs() + 0.5), (20,), tolerance=1e-08)
add("bessel", lambda x: torch.special.i0(x) + torch.special.i0e(x) + torch.special.i1e(x), (20,))
add("rounding", lambda x: (3 * x).floor() + (3 * x).ceil() - x.round() + x.trunc() * x + x.frac(), (20,))
add("rounded division", lambda x, y: torch.div(x, y, rounding_mode="floor") + x % y + torch.fmod(x, y), (20,), (20,))
add("signs", lambda x: x.sign() * x.abs() + x.copysign(-x) + x.signbit() * 2.0 + x.sgn(), (20,))
add("extremes of two", lambda x, y: torch.maximum(x, y) + torch.minimum(x, y * 2) + torch.fmax(x, y), (20,), (20,))
add("clamp", lambda x, y: x.clamp(-0.5, 0.7) + x.clamp(min=0) + x.clamp(max=y) + torch.clip(y, -1), (20,), (20,))
add("comparisons", lambda x, y: torch.where((x > y) & (x != 0) | ~(y <= 0.5), x * 2, y), (20,), (20,))
add("isnan and isinf", lambda x: torch.where(torch.isnan(x / 0) | torch.isinf(1 / x), 0.0, x).nan_to_num(), (20,))
add("masked fill", lambda x: x.masked_fill(x > 0.3, -1.0) + x.masked_fill(x < 0, 2), (4, 5))
add("lerp and addcmul", lambda x, y, z: torch.lerp(x, y, 0.3) + torch.addcmul(x, y, z, value=2) + torch.addcdiv(x, y, z.exp()), (9,), (9,), (9,))
add("logaddexp", lambda x, y: torch.logaddexp(x, y) + torch.xlogy(x.abs(), y.abs() + 1), (9,), (9,))
add("activations", lambda x: F.relu(x) + F.gelu(x) + F.gelu(x, approximate="tanh") + F.silu(x) + F.elu(x), (30,))
add("more activations", lambda x: F.leaky_relu(x, 0.1) + F.softplus(x) + F.hardtanh(x) + F.mish(x) + F.selu(x) + F.logsigmoid(x), (30,))
add("gated", lambda x: F.glu(x, 1) + F.hardswish(x[:, :3]) + F.relu6(x[:, 3:] * 4), (4, 6))
add("prelu", lambda x, w: F.prelu(x, w) + F.softsign(x) + F.tanhshrink(x), (2, 3, 4), (3,))
add("shrinking", lambda x: F.hardshrink(x) + F.softshrink(x, 0.3), (30,))
add("weight norm", lambda v, g, h: torch._weight_norm(v, g, 0) + torch._weight_norm(v, h, 1), (3, 4), (3, 1), (1, 4))
add("bilinear", lambda x, y, w, b: F.bilinear(x, y, w, b), (5, 3), (5, 4), (2, 3, 4), (2,))
add("distributions", lambda x, s: Normal(x, s.exp()).log_prob(2 * x) + kl_divergence(Normal(x, s.exp()), Normal(0.0, 1.0)) + Categorical(logits=x).entropy()[:, None], (3, 4), (3, 4))

# Reductions.
add("sums and means", lambda x: x.sum() + x.sum(1).mean() + x.mean((0, 2)).sum() + x.sum(-1, keepdim=True).mean(), (3, 4, 5))
add("variance", lambda x: x.var() + x.std(1).sum() + x.var(0, unbiased=False).sum() + torch.var_mean(x, 1, correction=2)[0].sum(), (6, 5))
add("extremes", lambda x: x.amax(1) + x.amin((1,)) + x.max(1).values + x.min(1)[0] + x.max() - x.min(), (4, 5))
add("scalars", lambda x: x.sum() + F.softmax(x, 0) + x.logsumexp(0) + x.amax(0) + x.norm(dim=0) + x.sort(0).values + x.kthvalue(1).values + x.cumsum(0) + x.max(0).values + x.prod(0) * x, ())
add("places of extremes of a vector", lambda x: (x.argmax(), x.argmin(), x.argmax(0, keepdim=True)), (7,), has_gradient=False)
add("places of extremes", lambda x: (x.argmax(), x.argmin(1), x.max(0).indices, x.argmax(-1, keepdim=True)), (4, 5), has_gradient=False)
add("products", lambda x: x.prod() + x.prod(1).sum(), (3, 4))
add("any and all", lambda x: ((x > 0).any(1), (x > -9).all(), x.any(), x.all(0)), (4, 5), has_gradient=False)
add("norms", lambda x: x.norm() + x.norm(1, dim=0).sum() + torch.linalg.vector_norm(x, math.inf, dim=1).sum() + x.norm(3), (4, 5))
add("log-sum-exp", lambda x: x.logsumexp(1) + F.softmax(x, 1).max(1).values + F.log_softmax(x, -1).min(1).values, (4, 5))
add("cumulative extremes", lambda x: (lambda a, b: a.values * 2 + b.values + a.indices * b.indices)(x.cummax(1), x.cummin(0)), (4, 5))
add("cumulative", lambda x: x.cumsum(1) + x.cumprod(0) + x.flip(1).cumsum(-1), (3, 4))
add("frobenius and trace", lambda x: torch.linalg.matrix_norm(x) + x.trace() + x.diagonal().sum(), (4, 4))

# Shapes.
add("views", lambda x: x.view(4, 6).t().reshape(2, 12) + x.permute(2, 0, 1).flatten()[:12] + x.unsqueeze(1).squeeze(1).flatten()[12:], (2, 3, 4))
add("slices", lambda x: x[1:, ::2] + x[:-1, 1::2] * x[-1, 2] + x.narrow(0, 1, 2)[:, :3] + x.select(1, -1)[1:, None], (3, 6))
add("joins", lambda x, y: torch.cat([x, y, x[:1]], 0).sum(0) + torch.stack([x, y], -1).prod(-1).sum(0) + torch.hstack([x, y])[0, :3], (2, 3), (2, 3))
add("splits", lambda x: sum((p.sum() * (i + 1) for i, p in enumerate((*x.split(2), *x.chunk(3, 1), *x.unbind(0))))), (5, 6))
add("expand and repeat", lambda x: x.expand(3, 4) * x.repeat(3, 2)[:, :4] + x.tile(2)[:4] + x.repeat_interleave(2)[:4], (4,))
add("flips and rolls", lambda x: x.flip(0, 1) + x.roll(2, 1) - x.roll((1, -1), (0, 1)) + x.roll(3) + x.rot90()[:3, :3].sum(), (3, 4))
add("diagonals", lambda x: x.diagonal(1).sum() + torch.diag(x[0]).sum(0) + torch.diag_embed(x).sum((0, 1)) + x.tril(-1).sum(0) - x.triu(1).sum(0), (4, 4))
add("pads", lambda x: F.pad(x, (1, 2, -1, 1), value=1.5).sum() + F.pad(x[None], (1, 1, 2, 1), mode="reflect").sum() * F.pad(x[None], (1, 1), mode="replicate").prod(2).sum() + F.pad(x[None], (1, 1), mode="circular").std(), (4, 5))
add("unfold", lambda x: x.unfold(1, 3, 2).sum(-1) * x.unfold(0, 4, 1).prod(-1)[0, 0], (4, 9))
add("in place", lambda x: (lambda y: (y.add_(1), y[1].mul_(2), y[:, 2].fill_(0.5), y[::2, 0].copy_(x[::2, 1]), y)[-1])(x.clone()), (4, 5))
add("meshes", lambda x: (lambda a, b: a * x + b * 2)(*torch.meshgrid(torch.arange(3.0), torch.linspace(0, 1, 4), indexing="ij")) + torch.eye(3, 4), (3, 4))
add("factories", lambda x: torch.zeros_like(x) * x + x + torch.ones(4) * torch.full((3, 1), 2.5) + torch.arange(0, 1, 0.25) + x.new_full((4,), 3) + torch.tensor([1.0, 2.0, 3.0, 4.0]), (3, 4))
add("tensordot", lambda x, y: torch.tensordot(x, y, ([1, 2], [0, 1])) + torch.kron(x[0], y[:, :, 0])[:2, :5].sum(), (2, 3, 4), (3, 4, 5))

# Indexing.
add("index", lambda x, i: x[i[0]].sum(0) + x[:, i[1]].prod(0).sum() + x[i[0], i[1]].sum(), (6, 6), ints(6, 2, 5))
add("index apart", lambda x, i: x[i[0], :, i[1]] * x[:, i[0]][..., 0].sum() + x[-1, :, -2], (4, 5, 4), ints(4, 2, 3))
add("index put", lambda x, v, i: x.index_put((i[0], i[1]), v, accumulate=True) + x.index_put((i[0],), v[:1], accumulate=False) * 2, (6, 6), (5,), ints(6, 2, 5))
add("mask put", lambda x: x.clone().index_put_((x > 0.2,), torch.tensor(1.5, dtype=x.dtype)) + x, (4, 5))
add("gather", lambda x, i: x.gather(1, i) + torch.take_along_dim(x, i, 1) * 2 + x.gather(0, i[:, :3] % 4).sum(), (4, 6), ints(6, 4, 5))
add("scatter", lambda x, v, i: x.scatter(1, i, v) + x.scatter_add(1, i, v) + x.scatter(0, i % 4, 2.0), (4, 6), (4, 3), torch.tensor([[0, 2, 5], [1, 2, 3], [5, 0, 1], [4, 2, 0]]))
add("scatter reduce", lambda x, v, i: sum(x.scatter_reduce(1, i, v, r, include_self=s) for r in ("sum", "mean", "amax", "amin") for s in (True, False)), (4, 6), (4, 5), ints(6, 4, 5))
add("index add", lambda x, v, i: x.index_add(0, i, v, alpha=2.0) + x.index_select(0, i).sum(0) + x.index_fill(1, torch.tensor([1]), 3.0), (4, 6), (5, 6), ints(4, 5))
add("embedding", lambda w, i: F.embedding(i, w, padding_idx=2) * F.embedding(i, w).sum(), (7, 3), ints(7, 2, 4))
add("embedding bag", lambda w, i: F.embedding(i, w).mean(1) + F.embedding(i, w).amax(1), (7, 3), ints(7, 2, 4))
add("one hot", lambda x, i: F.one_hot(i, 4).double() @ x, (4, 3), ints(4, 5))

# Sorting.
add("sort", lambda x: x.sort(1).values * torch.arange(6) + x.sort(0, descending=True)[0] + x.msort() * 2, (5, 6))
add("sort places", lambda x: (x.argsort(1), x.sort(dim=0, descending=True, stable=True).indices, x.topk(3).indices), (5, 6), has_gradient=False)
add("search", lambda x, y: torch.searchsorted(x.sort().values, y) * x.sum() + torch.bucketize(y, torch.arange(-2.0, 2.0).double(), right=True) * y, (9,), (6,))
add("search in lines", lambda x, y: torch.searchsorted(x.sort(1).values, y, right=True) * x.sum() + torch.searchsorted(x, y, sorter=x.argsort(1), out_int32=True) * y + torch.searchsorted(x[0].sort().values, 0.2), (4, 9), (4, 6))
add("mode", lambda x: ((x * 3).round().mode(1).values + (x * 3).round().mode(0, keepdim=True).values.sum() + x.sum(1) * x[:, 0], (x * 3).round().mode(1).indices), (5, 9), has_gradient=False)
add("histogram", lambda x: torch.histc(x, 5) + torch.histc(x, 5, -1, 1) * 2 + torch.histc(x * 0 + 2, 5), (40,), has_gradient=False)
add("common divisors", lambda a, b: torch.gcd(a, b - 5) + torch.lcm(a, b - 5) * 2, ints(12, 20), ints(12, 20), has_gradient=False)
add("top k", lambda x: x.topk(3, 1).values + x.topk(3, 1, largest=False).values * 2 + x.topk(3, 0)[0].sum() + x.kthvalue(2, 1).values[:, None], (5, 6))

# Products.
add("matrix products", lambda x, y, z: x @ y + z @ y + torch.mm(z, y).relu() + (x @ y[:, 0])[:, None] + y[:, 0].dot(y[:, 1]), (3, 4), (4, 5), (3, 4))
add("batched products", lambda x, y, z: torch.bmm(x, y) + torch.baddbmm(z, x, y, beta=0.5, alpha=2) + x[0] @ y + x @ y[1], (2, 3, 4), (2, 4, 5), (2, 3, 5))
add("affine", lambda x, w, b: F.linear(x, w, b) + torch.addmm(b, x, w.t(), beta=2, alpha=3) + torch.addmv(x[:, 0], x, w[0])[:, None] + torch.addr(torch.zeros(5, 3), x[:, 0], b), (5, 4), (3, 4), (3,))
add("covariances", lambda x: torch.cov(x) + torch.corrcoef(x) * torch.cov(x[0], correction=0), (4, 6))
add("einsum", lambda x, y: torch.einsum("bij,bjk->bik", x, y).sum(1) + torch.einsum("bij,bik->bjk", x, x).sum((1, 2))[:, None] + torch.einsum("bij->j", x).sum(), (2, 3, 4), (2, 4, 3))
add("outer", lambda x, y: torch.outer(x, y) + torch.cross(x[:3], y[:3], dim=0).sum() + torch.cdist(x[:, None], y[:, None]), (4,), (5,))
add("distances", lambda x, y: torch.cdist(x, y) + torch.cdist(x, y, p=1) + torch.cdist(x, y, p=3) + torch.cdist(x, y, p=math.inf), (4, 3), (5, 3))
add("pairwise", lambda x, y: F.pairwise_distance(x, y) + F.cosine_similarity(x, y) + (x[:, None] - y).norm(dim=-1).sum(0), (5, 3), (5, 3))
add("attention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v) + F.scaled_dot_product_attention(q, k, v, is_causal=True), (2, 2, 5, 4), (2, 2, 5, 4), (2, 2, 5, 4))

# Convolutions and pooling.
add("convolution", lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1).sum() + F.conv2d(x, w, padding=(2, 1), dilation=2), (2, 3, 8, 7), (4, 3, 3, 3), (4,))
add("grouped convolution", lambda x, w: F.conv1d(x, w, groups=2, padding="same") + F.conv1d(x[0], w, groups=2, padding=1), (2, 4, 9), (6, 2, 3))
add("transposed convolution", lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1), (2, 3, 4, 5), (3, 4, 3, 3), (4,))
add("grouped transposed convolution", lambda x, w: F.conv_transpose1d(x, w, stride=3, groups=2, dilation=2), (2, 4, 5), (4, 3, 3))
add("convolution 3d", lambda x, w: F.conv3d(x, w, padding=1), (1, 2, 4, 4, 3), (3, 2, 3, 3, 3))
add("max pool", lambda x: F.max_pool2d(x, 3, 2, 1).sum() + F.max_pool2d(x, 2, ceil_mode=True) + F.max_pool1d(x[0], 2)[..., :4].sum(), (2, 3, 7, 8))
add("max pool places", lambda x: F.max_pool2d(x, (1, 3), (1, 2), return_indices=True) + F.max_pool2d(x, 2, dilation=2, return_indices=True), (2, 3, 7, 8), has_gradient=False)
add("average pool", lambda x: F.avg_pool2d(x, 3, 2, 1) + F.avg_pool2d(x, 3, 2, 1, count_include_pad=False) + F.avg_pool2d(x, 2, ceil_mode=True) * F.avg_pool2d(x, 2, ceil_mode=True, divisor_override=3) + F.avg_pool1d(x[0], 4).sum(), (2, 3, 7, 8))
add("adaptive pool", lambda x: F.adaptive_avg_pool2d(x, (3, 5)).sum((2, 3)) + F.adaptive_avg_pool2d(x, 1).flatten(1) + F.adaptive_avg_pool1d(x[0], 3).sum(), (2, 3, 7, 8))
add("resize", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear") + F.interpolate(x, (8, 10), mode="nearest") + F.interpolate(x, (8, 10), mode="bilinear", align_corners=True) + F.interpolate(x, scale_factor=2, mode="nearest-exact"), (1, 2, 4, 5))
add("resize, smoothed", lambda x: F.interpolate(x, (5, 9), mode="bilinear", antialias=True) + F.interpolate(x, (5, 9), mode="bicubic", antialias=True, align_corners=True), (2, 3, 8, 6))
add("leaky slopes in the middle", lambda x: F.rrelu(x, training=False) + F.rrelu(x, 0.2, 0.4), (3, 4))
add("resize, cubic", lambda x: F.interpolate(x, (8, 10), mode="bicubic") + F.interpolate(x, (3, 10), mode="bicubic", align_corners=True).sum(2, keepdim=True) + F.interpolate(x, scale_factor=(2, 2.0), mode="bicubic", recompute_scale_factor=False) ** 2, (1, 2, 4, 5))
add("shuffles and patches", lambda x: F.pixel_shuffle(x, 2).sum((0, 1)) + F.unfold(x, 2, stride=2).sum() + F.pixel_unshuffle(x, 2).sum(), (1, 4, 4, 6))

# Normalisation and losses.
add("layer norm", lambda x, w, b: F.layer_norm(x, (4,), w, b) * F.layer_norm(x, (3, 4)) + F.rms_norm(x, (4,), w), (2, 3, 4), (4,), (4,))
add("batch norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True) + F.instance_norm(x), (4, 3, 5), (3,), (3,))
add("group norm", lambda x, w, b: F.group_norm(x, 2, w, b) * x + F.normalize(x, dim=1) + F.local_response_norm(x, 2), (2, 4, 3, 3), (4,), (4,))
add("losses", lambda x, y: F.mse_loss(x, y) + F.l1_loss(x, y) + F.smooth_l1_loss(x, y) + F.huber_loss(x, y, delta=0.4) + F.kl_div(F.log_softmax(x, 1), F.softmax(y, 1), reduction="batchmean"), (4, 5), (4, 5))
add("cross entropy", lambda x, t: F.cross_entropy(x, t) + F.cross_entropy(x, t, label_smoothing=0.1, ignore_index=2) + F.nll_loss(F.log_softmax(x, 1), t, reduction="sum"), (6, 5), ints(5, 6))
add("binary cross entropy", lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()) + F.binary_cross_entropy(x.sigmoid(), y.sigmoid()), (4, 5), (4, 5))

# Linear algebra.
add("cholesky", lambda x: torch.linalg.cholesky(positive(x)) + torch.linalg.cholesky(positive(x), upper=True).mT, (4, 4))
add("triangular solve", lambda x, b: torch.linalg.solve_triangular(x.tril() + 4 * torch.eye(4), b, upper=False) + torch.cholesky_solve(b, torch.linalg.cholesky(positive(x))), (4, 4), (4, 2))
add("solve", lambda x, b: torch.linalg.solve(x, b) + torch.linalg.solve(x.mT, b[:, 0])[:, None] + torch.linalg.inv(x) @ b + torch.linalg.solve(x, b.mT, left=False).mT, (4, 4), (4, 2))
add("determinant", lambda x: torch.linalg.det(x) + torch.logdet(positive(x)) + torch.linalg.slogdet(x.mT)[1], (4, 4))
add("eigenvalues", lambda x: torch.linalg.eigvalsh(positive(x)) + (lambda e: (e[1].square() * e[0]).sum(1))(torch.linalg.eigh(positive(x))), (4, 4))
add("singular values", lambda x: torch.linalg.svdvals(x) + (lambda u, s, vh: u * s @ vh)(*torch.linalg.svd(x, full_matrices=False)).sum(0)[:3] + torch.linalg.norm(x, 2), (5, 3))
add("qr", lambda x: (lambda q, r: (q @ r).sum(0) + r.diagonal().abs())(*torch.linalg.qr(x)), (5, 3))
add("lu", lambda x: (lambda p, low, u: p @ (low * 2) @ u)(*torch.linalg.lu(x)), (4, 4))
add("powers of a matrix", lambda x: torch.linalg.matrix_power(x, 3) + torch.linalg.multi_dot([x, x, x]), (4, 4))

# Functions within the function.
add("vmap", lambda x, y: torch.vmap(lambda a, b: (a * b).sum() * a)(x, y), (4, 3), (4, 3))
add("inner gradient", lambda x: torch.func.grad(lambda a: (a ** 3).sum())(x) * torch.func.hessian(lambda a: (a ** 3).sum())(x).sum(0), (4,))
add("no grad", lambda x, y: x.detach() * y + (x * y).exp() * x.detach(), (4,), (4,))
add("checkpoint", lambda x, y: torch.utils.checkpoint.checkpoint(lambda a: (a @ y).sin().exp(), x, use_reentrant=False), (4, 3), (3, 4))
