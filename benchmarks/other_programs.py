"""Programs that no other benchmark has: what people write who have never seen our tests.

Each is a function of a framework (`benchmarks/framework.py`) and makes its own inputs. The limit is
a part of what the program takes as written; None stands for a program that fits as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.framework import Framework, tracer_framework
from benchmarks.limited import Function, LimitedProgram, normal


def three_way_log_sum_exp(f: Framework) -> Function:
    def run(x: Any, y: Any, z: Any) -> Any:
        terms = f.numpy.einsum("id,jd,kd->ijk", x, y, z)
        return f.scipy.special.logsumexp(terms, axis=2).mean()

    return run


def haversine(f: Framework) -> Function:
    np_ = f.numpy

    def run(a: Any, b: Any) -> Any:
        lat, lon = a[:, None, 0] - b[None, :, 0], a[:, None, 1] - b[None, :, 1]
        h = np_.sin(lat / 2) ** 2
        h = h + np_.cos(a[:, None, 0]) * np_.cos(b[None, :, 0]) * np_.sin(lon / 2) ** 2
        return (2 * np_.arcsin(np_.sqrt(np_.clip(h, 1e-12, 1.0)))).min(1)

    return run


def batched_solves(f: Framework) -> Function:
    def run(a: Any, b: Any) -> Any:
        spd = a @ f.numpy.swapaxes(a, 1, 2) + 3 * f.numpy.eye(a.shape[-1], dtype=a.dtype)
        return (f.numpy.linalg.solve(spd, b) ** 2).sum()

    return f.transforms.grad(run, argnums=(0, 1))  # type: ignore[no-any-return]


def linear_attention(f: Framework) -> Function:
    def run(q: Any, k: Any, v: Any) -> Any:
        q, k = f.nn.elu(q) + 1, f.nn.elu(k) + 1
        states = f.numpy.cumsum(k[:, :, None] * v[:, None, :], axis=0)
        norms = f.numpy.cumsum(k, axis=0)
        out = f.numpy.einsum("td,tde->te", q, states)
        return (out / (q * norms).sum(1, keepdims=True)).sum()

    return f.transforms.grad(run, argnums=(0, 1, 2))  # type: ignore[no-any-return]


def structure_factor(f: Framework) -> Function:
    def run(r: Any, q: Any) -> Any:
        phase = q @ r.T
        return (f.numpy.cos(phase).sum(1) ** 2 + f.numpy.sin(phase).sum(1) ** 2).mean() / len(r)

    return f.transforms.grad(run)  # type: ignore[no-any-return]


def wave_equation(f: Framework) -> Function:
    np_ = f.numpy

    def run(u: Any, speed: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            now, before = carry
            around = np_.roll(now, 1, 0) + np_.roll(now, -1, 0) + np_.roll(now, 1, 1)
            laplacian = around + np_.roll(now, -1, 1) - 4 * now
            return (2 * now - before + 0.1 * speed**2 * laplacian, now), None

        (last, _), _ = f.control.scan(step, (u, u), None, length=30)
        return (last**2).sum()

    return f.transforms.grad(run, argnums=1)  # type: ignore[no-any-return]


def convolution_by_fft(f: Framework) -> Function:
    def run(x: Any, kernel: Any) -> Any:
        n = x.shape[-1]
        spectrum = f.numpy.fft.rfft(x, axis=-1) * f.numpy.fft.rfft(kernel, n, axis=-1)
        return (f.numpy.fft.irfft(spectrum, n, axis=-1) ** 2).mean()

    return f.transforms.grad(run, argnums=1)  # type: ignore[no-any-return]


def sorted_gains(f: Framework) -> Function:
    def run(scores: Any, gains: Any) -> Any:
        order = f.numpy.argsort(-scores, axis=1)
        ranked = f.numpy.take_along_axis(gains, order, axis=1)
        discount = 1 / f.numpy.log2(2.0 + f.numpy.arange(scores.shape[1], dtype=scores.dtype))
        return (ranked * discount).sum(1)

    return run


def clipped_gradients(f: Framework) -> Function:
    def one(w: Any, x: Any, y: Any) -> Any:
        return (f.numpy.tanh(x @ w).sum() - y) ** 2

    def run(w: Any, x: Any, y: Any) -> Any:
        gradients = f.transforms.vmap(f.transforms.grad(one), in_axes=(None, 0, 0))(w, x, y[:, 0])
        norms = f.numpy.sqrt((gradients**2).sum((1, 2), keepdims=True))
        return (gradients / f.numpy.maximum(1.0, norms)).mean(0)

    return run


def bilinear_sampling(f: Framework) -> Function:
    np_ = f.numpy

    def run(image: Any, points: Any) -> Any:
        places = (np_.tanh(points) + 1) * (image.shape[0] / 2 - 1.001)
        low = np_.floor(places).astype("int32")
        part = places - low
        i, j = low[:, 0], low[:, 1]
        top = image[i, j] * (1 - part[:, 1:]) + image[i, j + 1] * part[:, 1:]
        bottom = image[i + 1, j] * (1 - part[:, 1:]) + image[i + 1, j + 1] * part[:, 1:]
        return ((top * (1 - part[:, :1]) + bottom * part[:, :1]) ** 2).sum()

    return f.transforms.grad(run, argnums=(0, 1))  # type: ignore[no-any-return]


def smoothed_cross_entropy(f: Framework) -> Function:
    def run(x: Any, w: Any, labels: Any) -> Any:
        logits = f.nn.log_softmax(x @ w)
        targets = f.nn.softmax(labels @ w)
        return -(0.9 * targets * logits + 0.1 * logits / w.shape[1]).sum(1).mean()

    return f.transforms.grad(run, argnums=1)  # type: ignore[no-any-return]


def power_iteration(f: Framework) -> Function:
    def run(x: Any, v: Any) -> Any:
        kernel = f.numpy.exp(-((x[:, None] - x[None]) ** 2).sum(-1))
        return f.control.fori_loop(
            0, 10, lambda i, u: kernel @ u / f.numpy.linalg.norm(kernel @ u), v
        )

    return run


def soft_histogram(f: Framework) -> Function:
    def run(x: Any, centres: Any) -> Any:
        weights = f.nn.sigmoid(20 * (0.1 - f.numpy.abs(x[:, None] - centres[None])))
        counts = weights.sum(0)
        return (counts / counts.sum() * f.numpy.log(counts / counts.sum() + 1e-6)).sum()

    return f.transforms.grad(run)  # type: ignore[no-any-return]


def triplet_loss(f: Framework) -> Function:
    def run(x: Any) -> Any:
        d = ((x[:, None] - x[None]) ** 2).sum(-1)
        near, far = d[:, : len(x) // 2], d[:, len(x) // 2 :]
        return f.nn.relu(near[:, :, None] - far[:, None, :] + 1.0).mean()

    return f.transforms.grad(run)  # type: ignore[no-any-return]


def log_determinants(f: Framework) -> Function:
    def flow(x: Any, w: Any) -> Any:
        return x + f.numpy.tanh(w @ x)

    def run(xs: Any, w: Any) -> Any:
        jacobians = f.transforms.vmap(lambda x: f.transforms.jacobian(flow)(x, w))(xs)
        return f.numpy.linalg.slogdet(jacobians)[1].mean()

    return run


def mean_shift(f: Framework) -> Function:
    def run(x: Any, points: Any) -> Any:
        def step(i: Any, x: Any) -> Any:
            weights = f.numpy.exp(-((x[:, None] - points[None]) ** 2).sum(-1))
            return weights @ points / weights.sum(1, keepdims=True)

        return f.control.fori_loop(0, 3, step, x)

    return run


def biased_attention(f: Framework) -> Function:
    def run(q: Any, k: Any, v: Any) -> Any:
        places = f.numpy.arange(q.shape[1])
        bias = -0.1 * f.numpy.abs(places[:, None] - places[None]).astype(q.dtype)
        scores = f.numpy.einsum("htd,hsd->hts", q, k) / 8 + bias
        return f.numpy.einsum("hts,hsd->htd", f.nn.softmax(scores), v).sum()

    return f.transforms.grad(run, argnums=(0, 1, 2))  # type: ignore[no-any-return]


def residual_blocks(f: Framework) -> Function:
    def run(x: Any, w: Any, u: Any) -> Any:
        for _ in range(6):
            mean = x.mean(-1, keepdims=True)
            normal = (x - mean) / f.numpy.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
            x = x + f.nn.gelu(normal @ w) @ u
        return (x**2).mean()

    return f.transforms.grad(run, argnums=(1, 2))  # type: ignore[no-any-return]


def recurrent_network(f: Framework) -> Function:
    def run(w: Any, u: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = f.numpy.tanh(h @ w + x @ u)
            return h, (h**2).mean()

        start = f.numpy.zeros((xs.shape[1], w.shape[0]), xs.dtype)
        return f.control.scan(step, start, xs)[1].sum()

    return f.transforms.grad(run, argnums=(0, 1))  # type: ignore[no-any-return]


def elastic_net(f: Framework) -> Function:
    def run(x: Any, y: Any) -> Any:
        gram = x.T @ x / len(x)

        def step(i: Any, w: Any) -> Any:
            w = w - 0.1 * (gram @ w - x.T @ y / len(x))
            return f.numpy.sign(w) * f.numpy.maximum(f.numpy.abs(w) - 0.01, 0.0)

        return f.control.fori_loop(0, 20, step, f.numpy.zeros((x.shape[1], y.shape[1]), x.dtype))

    return run


def _limited(
    program: Callable[[Framework], Function],
    shapes: tuple[tuple[int, ...], ...],
    share: float | None = 1 / 3,
) -> LimitedProgram:
    return LimitedProgram(program(tracer_framework()), normal(*shapes), share)


OTHERS: Mapping[str, LimitedProgram] = {
    "three-way log-sum-exp": _limited(three_way_log_sum_exp, ((200, 4), (200, 4), (200, 4))),
    "haversine": _limited(haversine, ((2000, 2), (3000, 2)), None),
    "batched solves, gradient": _limited(batched_solves, ((2000, 24, 24), (2000, 24, 3)), 0.5),
    "linear attention, gradient": _limited(linear_attention, ((2000, 32), (2000, 32), (2000, 32))),
    "structure factor, gradient": _limited(structure_factor, ((2000, 3), (1000, 3))),
    "wave equation, gradient": _limited(wave_equation, ((256, 256), (256, 256)), 1.1),
    "convolution by FFT, gradient": _limited(convolution_by_fft, ((64, 8192), (64, 101)), 2 / 3),
    "sorted gains": _limited(sorted_gains, ((2000, 1000), (2000, 1000))),
    "clipped gradients": _limited(clipped_gradients, ((64, 32), (1000, 64), (1000, 1))),
    "bilinear sampling, gradient": _limited(bilinear_sampling, ((128, 128, 16), (20000, 2)), 0.9),
    "smoothed cross-entropy, gradient": _limited(
        smoothed_cross_entropy, ((1000, 64), (64, 2000), (1000, 64))
    ),
    "power iteration": _limited(power_iteration, ((2000, 3), (2000,))),
    "soft histogram, gradient": _limited(soft_histogram, ((100000,), (64,))),
    "triplet loss, gradient": _limited(triplet_loss, ((200, 16),)),
    "log determinants of a flow": _limited(log_determinants, ((2000, 16), (16, 16)), 0.5),
    "mean shift": _limited(mean_shift, ((2000, 3), (2000, 3))),
    "attention with a bias, gradient": _limited(
        biased_attention, ((4, 512, 64), (4, 512, 64), (4, 512, 64))
    ),
    "residual blocks, gradient": _limited(residual_blocks, ((512, 128), (128, 512), (512, 128))),
    "recurrent network, gradient": _limited(
        recurrent_network, ((64, 64), (32, 64), (100, 64, 32)), 0.5
    ),
    "elastic net": _limited(elastic_net, ((20000, 64), (20000, 8)), None),
}
