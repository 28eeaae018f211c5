"""Operations of one kind each, for `benchmarks.primitives`: NumPy, tracer, JAX and torch.

Each side is a function of a module, `xp`: `tracer.numpy`, `jax.numpy`, `numpy` or `torch`. Where
their names differ, `NAMES` has them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.primitive_parts import (
    JAX,
    NUMPY,
    OURS,
    TORCH,
    Function,
    Inputs,
    Primitive,
    integers,
    normal,
    together,
)  # fmt: skip
from benchmarks.reduction_programs import jax_names, numpy_names, reductions, torch_names


def _sorted(n: int) -> Inputs:
    return lambda rng: (np.sort(rng.standard_normal(n).astype("float32")),)


def _definite(count: int, n: int) -> Inputs:
    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        a = rng.standard_normal((count, n, n)).astype("float32")
        return (a @ a.swapaxes(-1, -2) / n + np.eye(n, dtype="float32"),)

    return make


def _each(xp: Any, name: str, axis: int = -1) -> Function:
    return lambda x: getattr(xp, name)(x, axis)


def _sorting() -> tuple[Primitive, ...]:
    rows, columns, long = normal(1000, 10_000), normal(10_000, 1000), normal(5_000_000)
    taken = together(rows, integers(10_000, 1000, 10_000, dtype="int64"))
    return (
        Primitive("sorting", "sort, 1,000 x 10,000", rows, lambda xp: _each(xp, "sort")),
        Primitive("sorting", "sort along columns", columns, lambda xp: _each(xp, "sort", 0)),
        Primitive("sorting", "sort, 5,000,000", long, lambda xp: _each(xp, "sort")),
        Primitive(
            "sorting", "argsort, 1,000 x 10,000", rows, lambda xp: _each(xp, "argsort"),
        ),
        Primitive(
            "sorting", "sort, gradient", together(rows, rows),
            lambda xp: lambda x, w: (xp.sort(x, -1) * w).sum(), argnums=(0,), sides=(JAX, TORCH),
        ),
        Primitive("sorting", "10 largest of each row", rows, lambda xp: lambda x: xp.top_k(x, 10)),
        Primitive("sorting", "quartiles of each row", rows, lambda xp: xp.quartiles),
        Primitive("sorting", "median of 5,000,000", long, lambda xp: xp.median),
        Primitive(
            "sorting", "searchsorted, 1,000,000 in 100,000",
            together(_sorted(100_000), normal(10**6)),
            lambda xp: xp.searchsorted,
        ),
        Primitive(
            "sorting", "unique of 1,000,000 integers", integers(1000, 10**6),
            lambda xp: xp.unique,
        ),
        Primitive("sorting", "take_along_axis", taken, lambda xp: xp.take_along),
        Primitive(
            "sorting", "take_along_axis, gradient", together(taken, rows),
            lambda xp: lambda x, i, w: (xp.take_along(x, i) * w).sum(), argnums=(0,),
            sides=(JAX, TORCH),
        ),
    )  # fmt: skip


def _sums() -> tuple[Primitive, ...]:
    rows, columns = normal(1000, 10_000), normal(10_000, 1000)
    return (
        Primitive("running sums", "cumsum of rows", rows, lambda xp: _each(xp, "cumsum")),
        Primitive("running sums", "cumsum of columns", columns, lambda xp: _each(xp, "cumsum", 0)),
        Primitive("running sums", "cumsum, 10,000,000", normal(10**7),
                  lambda xp: _each(xp, "cumsum")),
        Primitive("running sums", "cumprod of rows", rows, lambda xp: _each(xp, "cumprod")),
        Primitive("running sums", "cummax of rows", rows, lambda xp: xp.cummax),
        Primitive("running sums", "cumlogsumexp, 1,000 x 4,000", normal(1000, 4000),
                  lambda xp: xp.cumlogsumexp),
        Primitive("running sums", "cumsum, gradient", together(rows, rows),
                  lambda xp: lambda x, w: (xp.cumsum(x, -1) * w).sum(), argnums=(0,),
                  sides=(JAX, TORCH)),
        Primitive("running sums", "cumprod, gradient", together(rows, rows),
                  lambda xp: lambda x, w: (xp.cumprod(x, -1) * w).sum(), argnums=(0,),
                  sides=(JAX, TORCH)),
    )  # fmt: skip


def _transforms() -> tuple[Primitive, ...]:
    complex_rows = normal(1000, 4096, dtype="complex64")
    return (
        Primitive("FFT", "fft, 1,000 x 4,096", complex_rows, lambda xp: xp.fft.fft),
        Primitive("FFT", "rfft, 1,000 x 4,096", normal(1000, 4096), lambda xp: xp.fft.rfft),
        Primitive("FFT", "irfft(rfft), 1,000 x 1,500", normal(1000, 1500),
                  lambda xp: lambda x: xp.fft.irfft(xp.fft.rfft(x), 1500)),
        Primitive("FFT", "fft, 2^21", normal(1 << 21, dtype="complex64"), lambda xp: xp.fft.fft),
        Primitive("FFT", "fft2, 8 x 512 x 512", normal(8, 512, 512, dtype="complex64"),
                  lambda xp: xp.fft.fft2),
        Primitive("FFT", "fft along columns", normal(4096, 1000, dtype="complex64"),
                  lambda xp: lambda x: xp.fft.fft(x, None, 0)),
    )  # fmt: skip


_DECOMPOSED: dict[str, Callable[[Any], Function]] = {
    "cholesky": lambda xp: xp.linalg.cholesky,
    "inv": lambda xp: xp.linalg.inv,
    "det": lambda xp: xp.linalg.det,
    "eigvalsh": lambda xp: xp.linalg.eigvalsh,
    "svdvals": lambda xp: xp.svdvals,
}


def _matrices() -> tuple[Primitive, ...]:
    found = []
    for n in (8, 16, 64):
        count = 10_000 if n < 64 else 1000
        inputs, shape = _definite(count, n), f"{count:,} of {n} x {n}"
        for name, write in _DECOMPOSED.items():
            found.append(Primitive("small matrices", f"{name}, {shape}", inputs, write))
        found += [
            Primitive("small matrices", f"solve, {shape}", together(inputs, normal(count, n, 1)),
                      lambda xp: xp.linalg.solve),
            Primitive("small matrices", f"product, {shape}", together(inputs, inputs),
                      lambda xp: xp.matmul, flops=2.0 * count * n**3),
            Primitive("small matrices", f"log det and solve, gradient, {shape}",
                      together(inputs, normal(count, n, 1)), _likelihood, argnums=(0, 1),
                      sides=(JAX, TORCH), may_hang=True),
        ]  # fmt: skip
    return tuple(found)


def _likelihood(xp: Any) -> Function:
    return lambda a, b: xp.linalg.slogdet(a)[1].sum() + (b * xp.linalg.solve(a, b)).sum()


def _scatters() -> tuple[Primitive, ...]:
    few, many = integers(1000, 10**6, dtype="int64"), integers(10**5, 10**6, dtype="int64")
    rows = normal(10**6, 16)
    return (
        Primitive("scatters", "add 1,000,000 into 100,000", together(many, normal(10**6)),
                  lambda xp: lambda i, x: xp.added(i, x, 10**5)),
        Primitive("scatters", "add 1,000,000 into 1,000", together(few, normal(10**6)),
                  lambda xp: lambda i, x: xp.added(i, x, 1000)),
        Primitive("scatters", "add 1,000,000 rows of 16 into 1,000", together(few, rows),
                  lambda xp: lambda i, x: xp.added(i, x, 1000)),
        Primitive("scatters", "largest of 1,000 segments", together(few, normal(10**6)),
                  lambda xp: lambda i, x: xp.segment_max(i, x, 1000)),
        Primitive("scatters", "take 1,000,000 rows of 16", together(many, normal(10**5, 16)),
                  lambda xp: lambda i, x: x[i]),
        Primitive("scatters", "take rows, gradient", together(many, normal(10**5, 16), rows),
                  lambda xp: lambda i, x, w: (x[i] * w).sum(), argnums=(1,), sides=(JAX, TORCH)),
        Primitive("scatters", "bincount of 1,000,000", few,
                  lambda xp: lambda i: xp.counts(i, 1000)),
    )  # fmt: skip


def _convolutions() -> tuple[Primitive, ...]:
    images = normal(16, 64, 56, 56)
    found = []
    for name, filters, stride, groups, inputs, places in (
        ("3 x 3", (64, 64, 3, 3), 1, 1, images, 56),
        ("1 x 1", (256, 64, 1, 1), 1, 1, images, 56),
        ("3 x 3, stride 2", (128, 64, 3, 3), 2, 1, images, 28),
        ("depthwise 3 x 3", (64, 1, 3, 3), 1, 64, images, 56),
        ("first layer, 7 x 7, stride 2", (64, 3, 7, 7), 2, 1, normal(16, 3, 224, 224), 112),
    ):

        def write(xp: Any, stride: int = stride, groups: int = groups) -> Function:
            return lambda x, w: (xp.conv(x, w, stride, groups) ** 2).sum()

        found.append(
            Primitive(
                "convolutions",
                f"{name}, gradient",
                together(inputs, normal(*filters)),
                write,
                argnums=(0, 1),
                sides=(JAX, TORCH),
                # The result and two gradients, 16 images, a product and a sum each.
                flops=3 * 2.0 * 16 * places**2 * math.prod(filters),
            )
        )
    return tuple(found)  # fmt: skip


def _products() -> tuple[Primitive, ...]:
    n = 1536
    found = [
        Primitive(
            "products",
            f"{dtype}, {n}",
            together(
                normal(n, n, dtype="float32"),
            ),
            _product_of(dtype),
            sides=(JAX, TORCH),
            flops=2.0 * n**3,
        )
        for dtype in ("float32", "bfloat16", "float16")
    ]
    found.append(
        Primitive(
            "products",
            f"int8 to int32, {n}",
            integers(100, n, n, dtype="int8"),
            lambda xp: xp.integer_product,
            sides=(JAX, TORCH),
            flops=2.0 * n**3,
        )
    )
    return tuple(found)  # fmt: skip


def _product_of(dtype: str) -> Callable[[Any], Function]:
    def write(xp: Any) -> Function:
        def f(x: Any) -> Any:
            y = xp.cast(x, dtype)
            return y @ y

        return f

    return write


PRIMITIVES = (
    *_sorting(), *_sums(), *_transforms(), *_matrices(), *_scatters(), *_convolutions(),
    *_products(), *reductions(),
)  # fmt: skip


def _array_names(xp: Any, **more: Any) -> SimpleNamespace:
    names = (
        "sort", "argsort", "median", "searchsorted", "cumsum", "cumprod", "fft", "linalg", "matmul",
    )  # fmt: skip
    return SimpleNamespace(**{name: getattr(xp, name) for name in names}, **more)


def _numpy_names() -> SimpleNamespace:
    def added(i: Any, x: Any, n: int) -> Any:
        found = np.zeros((n, *x.shape[1:]), x.dtype)
        np.add.at(found, i, x)
        return found

    def segment_max(i: Any, x: Any, n: int) -> Any:
        found = np.full(n, -np.inf, x.dtype)
        np.maximum.at(found, i, x)
        return found

    def top_k(x: Any, k: int) -> Any:
        places = np.argpartition(-x, k - 1, -1)[:, :k]
        values = np.take_along_axis(x, places, -1)
        order = np.argsort(-values, -1, kind="stable")
        return np.take_along_axis(values, order, -1), np.take_along_axis(places, order, -1)

    return _array_names(
        np,
        top_k=top_k,
        quartiles=lambda x: np.quantile(x, np.float32([0.25, 0.5, 0.75]), -1),
        unique=np.unique,
        take_along=lambda x, i: np.take_along_axis(x, i, -1),
        cummax=lambda x: np.maximum.accumulate(x, -1),
        cumlogsumexp=lambda x: np.logaddexp.accumulate(x, -1),
        svdvals=np.linalg.svdvals,
        added=added,
        segment_max=segment_max,
        counts=lambda i, n: np.bincount(i, minlength=n),
        **numpy_names(),
    )


def _our_names() -> SimpleNamespace:
    import tracer
    import tracer.numpy as tnp
    from tracer import lax
    from tracer.scipy import special

    return _names_of_jax(tnp, lax, tracer, jax_names(tnp, tracer.nn, special))


def _jax_names() -> SimpleNamespace:
    import jax
    import jax.numpy as jnp
    from jax.scipy import special

    return _names_of_jax(jnp, jax.lax, jax.ops, jax_names(jnp, jax.nn, special))


def _names_of_jax(xp: Any, lax: Any, segments: Any, more: dict[str, Any]) -> SimpleNamespace:
    """Return what JAX and tracer have by the same names."""

    def conv(x: Any, w: Any, stride: int, groups: int) -> Any:
        p = w.shape[-1] // 2
        return lax.conv_general_dilated(
            x, w, (stride, stride), [(p, p), (p, p)], feature_group_count=groups
        )

    return _array_names(
        xp,
        top_k=lax.top_k,
        quartiles=lambda x: xp.quantile(x, np.float32([0.25, 0.5, 0.75]), -1),
        unique=lambda x: xp.unique(x, size=1000),
        take_along=lambda x, i: xp.take_along_axis(x, i, -1),
        cummax=lambda x: lax.cummax(x, 1),
        cumlogsumexp=lambda x: lax.cumlogsumexp(x, 1),
        svdvals=xp.linalg.svdvals,
        added=lambda i, x, n: segments.segment_sum(x, i, n),
        segment_max=lambda i, x, n: segments.segment_max(x, i, n),
        counts=lambda i, n: xp.bincount(i, length=n),
        conv=conv,
        cast=lambda x, dtype: x.astype(dtype),
        integer_product=lambda x: lax.dot(x, x, preferred_element_type=np.dtype("int32")),
        **more,
    )


def _torch_names() -> SimpleNamespace:
    import torch

    def added(i: Any, x: Any, n: int) -> Any:
        return torch.zeros((n, *x.shape[1:]), dtype=x.dtype, device=x.device).index_add(0, i, x)

    def segment_max(i: Any, x: Any, n: int) -> Any:
        start = torch.full((n,), -torch.inf, dtype=x.dtype, device=x.device)
        return start.scatter_reduce(0, i, x, "amax")

    def quartiles(x: Any) -> Any:
        return torch.quantile(x, torch.tensor([0.25, 0.5, 0.75], device=x.device), -1)

    def conv(x: Any, w: Any, stride: int, groups: int) -> Any:
        return torch.nn.functional.conv2d(x, w, None, stride, w.shape[-1] // 2, 1, groups)

    return SimpleNamespace(
        sort=lambda x, axis: torch.sort(x, axis)[0],
        argsort=torch.argsort,
        median=torch.median,
        searchsorted=torch.searchsorted,
        cumsum=torch.cumsum,
        cumprod=torch.cumprod,
        fft=torch.fft,
        linalg=torch.linalg,
        matmul=torch.matmul,
        top_k=torch.topk,
        quartiles=quartiles,
        unique=torch.unique,
        take_along=lambda x, i: torch.take_along_dim(x, i, -1),
        cummax=lambda x: torch.cummax(x, -1)[0],
        cumlogsumexp=lambda x: torch.logcumsumexp(x, -1),
        svdvals=torch.linalg.svdvals,
        added=added,
        segment_max=segment_max,
        counts=lambda i, n: torch.bincount(i, minlength=n),
        conv=conv,
        cast=lambda x, dtype: x.to(getattr(torch, dtype)),
        integer_product=lambda x: torch._int_mm(x, x),
        **torch_names(torch),
    )


NAMES: dict[str, Callable[[], SimpleNamespace]] = {
    OURS: _our_names,
    NUMPY: _numpy_names,
    JAX: _jax_names,
    TORCH: _torch_names,
}
