"""A kernel product whose 1.6 GB matrix is never built: `make demo` runs this."""

import time

import numpy as np

import tracer
import tracer.numpy as tnp

N, FEATURES = 20_000, 3


def predict(x, y, v):
    """Return exp(-|x_i - y_j|^2 / 2) @ v in plain NumPy style; x, y (N, 3), v (N,), float32."""
    d2 = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)
    return tnp.exp(-0.5 * d2) @ v


def loss(x, y, v):
    """Return a scalar to differentiate."""
    return (predict(x, y, v) ** 2).sum()


def main() -> None:
    """Run the product, its gradient, and a limit that cannot be met."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, N, FEATURES), dtype=np.float32)
    v = rng.standard_normal(N, dtype=np.float32)

    f = tracer.compile(predict, memory_limit="64MB")
    print("--- the plan, before anything runs")
    print(f.plan(x, y, v))

    start = time.perf_counter()
    result = np.asarray(f(x, y, v))
    print(f"--- {N} x {N} kernel product: {time.perf_counter() - start:.3f} s")
    rows = slice(0, 50)
    exact = np.exp(-0.5 * ((x[rows, None, :].astype(float) - y) ** 2).sum(-1)) @ v
    error = np.abs(result[rows] - exact).max() / np.abs(exact).max()
    print(f"largest error against NumPy in float64 (50 rows): {error:.1e}")

    gradient = tracer.compile(tracer.grad(loss), memory_limit="64MB")
    gradient.plan(x, y, v)
    start = time.perf_counter()
    np.asarray(gradient(x, y, v))
    print(f"--- its gradient inside the same 64 MB: {time.perf_counter() - start:.3f} s")

    print("--- a limit that cannot be met says so before it runs")
    try:
        tracer.compile(predict, memory_limit="100kB").plan(x, y, v)
    except tracer.MemoryLimitError as error:
        print(error)


if __name__ == "__main__":
    main()
