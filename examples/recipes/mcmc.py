"""Hamiltonian Monte Carlo: many chains of a Bayesian logistic regression.

python examples/recipes/mcmc.py [--size small] [--as-written]
"""

import numpy as np
from recipe import Recipe, relative_error

import tracer
import tracer.numpy as tnp
from tracer.nn import softplus


def data(n, chains):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 4))
    y = rng.uniform(size=n) < 1 / (1 + np.exp(-x @ [1.0, -0.5, 0.2, 0.0]))
    start = np.array([1.0, -0.5, 0.2, 0.0]) + rng.normal(size=(chains, 4)) / n**0.5
    return tracer.random.key(0), start, x, y.astype("float64")


def energy(w, x, y):
    """Return the negative logarithm of the posterior of one chain's weights."""
    scores = x @ w
    return softplus(scores).sum() - y @ scores + 0.5 * w @ w


def sample(key, w, x, y):
    size = 1.0 / len(x) ** 0.5
    energies_and_slopes = tracer.vmap(tracer.value_and_grad(energy), (0, None, None))

    def leap(_, state):
        w, p, _, slope = state
        p = p - size / 2 * slope
        w = w + size * p
        value, slope = energies_and_slopes(w, x, y)
        return w, p - size / 2 * slope, value, slope

    def step(old, key):
        first, second = tracer.random.split(key)
        p = tracer.random.normal(first, w.shape, w.dtype)
        new, q, value, slope = tracer.fori_loop(0, 4, leap, (old[0], p, *old[1:]))
        gained = old[1] + 0.5 * (p**2).sum(1) - value - 0.5 * (q**2).sum(1)
        taken = tnp.log(tracer.random.uniform(second, gained.shape, w.dtype)) < gained
        both = zip((new, value, slope), old, strict=True)
        return tuple(
            tnp.where(taken[:, None] if a.ndim > 1 else taken, a, b) for a, b in both
        ), taken

    (w, value, _), taken = tracer.scan(
        step, (w, *energies_and_slopes(w, x, y)), tracer.random.split(key, 6)
    )
    return w, value, taken.mean()


def check(inputs, results):
    """Compare energies with NumPy's, and the chains with the normal distribution at the mode."""
    _, start, x, y = inputs
    w, energies, taken = results
    exact = [np.logaddexp(0, x @ c).sum() - y @ (x @ c) + 0.5 * c @ c for c in w[:5]]
    mode = start.mean(0)
    for _ in range(5):  # Newton's steps
        p = 1 / (1 + np.exp(-x @ mode))
        curvature = (x * (p * (1 - p))[:, None]).T @ x + np.eye(len(mode))
        mode = mode - np.linalg.solve(curvature, x.T @ (p - y) + mode)
    deviation = np.sqrt(np.diag(np.linalg.inv(curvature)))
    is_near = np.all(np.abs(w.mean(0) - mode) < 5 * deviation / len(w) ** 0.5)
    is_wide = np.all(np.abs(w.std(0) / deviation - 1) < 5 / (2 * len(w)) ** 0.5)
    is_right = is_near and is_wide and taken > 0.6
    return "energies of 5 chains", relative_error(energies[:5], exact) if is_right else np.inf


def picture(figure, inputs, results):
    for k, axes in enumerate(figure.subplots(1, 4, sharey=True)):
        axes.hist(results[0][:, k], bins=20)
        axes.set_title(f"weight {k}")


RECIPE = Recipe(
    sample,
    data,
    ("1MB", 2_000, 100),
    ("100MB", 250_000, 250),
    check=check,
    picture=picture,
    tolerance=1e-8,
)

if __name__ == "__main__":
    RECIPE.main()
