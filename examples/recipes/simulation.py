"""A wave equation, and the gradient of its end for the state that it begins with.

python examples/recipes/simulation.py [--size small] [--as-written]
"""

import numpy as np
from recipe import Recipe, relative_error

import tracer


def data(n, steps):
    place = np.linspace(-1, 1, n)
    first = np.exp(-40 * ((place[:, None] - 0.2) ** 2 + (place + 0.3) ** 2))
    wanted = np.exp(-40 * ((place[:, None] + 0.4) ** 2 + (place - 0.4) ** 2))
    return (
        first,
        wanted,
        1e-3 * np.sin(np.arange(steps) / 50),
    )


def accelerated(u):
    """Return the second derivative in time: of a wave on springs that stiffen."""
    neighbours = sum(np.roll(u, shift, axis) for shift in (-1, 1) for axis in (0, 1))
    return 0.2 * (neighbours - 4 * u) - 1e-3 * (u + u**3)


def simulate(u, force):
    def step(carry, push):
        u, speed = carry
        speed = speed + accelerated(u) + push
        return (u + speed, speed), None

    (u, _), _ = tracer.scan(step, (u, 0 * u), force)
    return u


def misfit(u, wanted, force):
    return ((simulate(u, force) - wanted) ** 2).mean()


value_and_gradient = tracer.value_and_grad(misfit)


def check(inputs, results):
    """Compare the misfit, and the slope along the gradient: from a complex step."""
    first, wanted, force = (array.astype("float64") for array in inputs)
    value, gradient = results
    along = gradient.astype("float64") / np.abs(gradient).max()
    u, speed = first + 1e-30j * along, 0
    for push in force:
        speed = speed + accelerated(u) + push
        u = u + speed
    exact = ((u - wanted) ** 2).mean()
    slope = (gradient.astype("float64") * along).sum()
    errors = relative_error(value, exact.real), relative_error(slope, exact.imag / 1e-30)
    return "misfit and slope", max(errors)


def picture(figure, inputs, results):
    names = ("begin", "gradient of the misfit")
    for axes, field, name in zip(
        figure.subplots(1, 2), (inputs[0], results[1]), names, strict=True
    ):
        axes.imshow(field)
        axes.set(title=name, xticks=[], yticks=[])


RECIPE = Recipe(
    value_and_gradient, data, ("2MB", 40, 500), ("200MB", 256, 2_000), check=check, picture=picture
)

if __name__ == "__main__":
    RECIPE.main()
