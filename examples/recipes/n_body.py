"""N-body: gravity between all pairs of stars.

python examples/recipes/n_body.py [--size small] [--as-written]
"""

import numpy as np
from recipe import Recipe, relative_error

import tracer


def data(n):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3)) * [1, 1, 0.1]
    v = np.cross([0, 0, 0.6], x) + 0.05 * rng.normal(size=(n, 3))
    return x.astype("float32"), v.astype("float32")


def acceleration(x):
    apart = x[None, :, :] - x[:, None, :]
    squared = (apart**2).sum(-1) + 0.01  # softened
    return (apart * squared[:, :, None] ** -1.5).sum(1) / len(x)


def simulate(x, v):
    def step(carry, _):
        x, v = carry
        v = v + 0.1 * acceleration(x)
        x = x + 0.1 * v
        return (x, v), (x, v)

    return tracer.scan(step, (x, v), length=5)[1]


def check(inputs, results):
    """Compare each step with one of NumPy's from where it began, for some stars."""
    xs, vs = (np.concatenate((a[None], b)) for a, b in zip(inputs, results, strict=True))
    xs, vs = xs.astype("float64"), vs.astype("float64")
    rows, errors = np.arange(0, xs.shape[1], -(-xs.shape[1] // 50)), []
    for x, v, next_x, next_v in zip(xs, vs, xs[1:], vs[1:], strict=False):
        apart = x - x[rows, None]
        squared = (apart**2).sum(-1) + 0.01
        exact = v[rows] + 0.1 * (apart * squared[:, :, None] ** -1.5).mean(1)
        errors.append(relative_error(next_v[rows], exact))
        errors.append(relative_error(next_x, x + 0.1 * next_v))
    return f"each step of {len(rows)} stars", max(errors)


def picture(figure, inputs, results):
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, x, title in ((left, inputs[0], "begin"), (right, results[0][-1], "end")):
        axes.scatter(*x[:3000, :2].T, s=1)
        axes.set(title=title, xlim=(-3, 3), ylim=(-3, 3))


RECIPE = Recipe(simulate, data, ("500kB", 500), ("50MB", 16_000), check=check, picture=picture)

if __name__ == "__main__":
    RECIPE.main()
