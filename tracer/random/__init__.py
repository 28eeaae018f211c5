"""Random numbers from explicit keys: names and signatures are those of `jax.random`.

A key is an array of two uint32 words. A function that draws takes a key, and draws the same numbers
for the same key and shape: eagerly, compiled, under `vmap`, on every device, and however a memory
limit has an array cut. So use a key once; `split` makes new ones.

`key`, `split`, `fold_in`, `bits`, `uniform`, `randint`, `bernoulli` and `permutation` give the same
bits as JAX with `jax_enable_x64` (and its default generator, partitionable threefry2x32). Functions
that take a logarithm or an inverse error function (`normal`, `gumbel`, `exponential`,
`categorical`, ...) agree with JAX up to its rounding. `gamma`, `poisson`, `binomial` and
related functions have JAX's distributions but other numbers.
"""

from tracer.random.continuous import (
    cauchy,
    exponential,
    gumbel,
    laplace,
    logistic,
    normal,
    uniform,
)
from tracer.random.counts import binomial, multinomial, poisson
from tracer.random.discrete import (
    bernoulli,
    categorical,
    choice,
    permutation,
    rademacher,
    randint,
)
from tracer.random.gamma import beta, dirichlet, gamma, loggamma
from tracer.random.orthogonal import orthogonal
from tracer.random.threefry import PRNGKey, bits, fold_in, key, key_data, split, wrap_key_data
from tracer.random.transformed import (
    ball,
    chisquare,
    double_sided_maxwell,
    f,
    generalized_normal,
    geometric,
    lognormal,
    maxwell,
    multivariate_normal,
    pareto,
    rayleigh,
    t,
    triangular,
    wald,
    weibull_min,
)
from tracer.random.truncated import truncated_normal

__all__ = [
    "PRNGKey",
    "ball",
    "bernoulli",
    "beta",
    "binomial",
    "bits",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "dirichlet",
    "double_sided_maxwell",
    "exponential",
    "f",
    "fold_in",
    "gamma",
    "generalized_normal",
    "geometric",
    "gumbel",
    "key",
    "key_data",
    "laplace",
    "loggamma",
    "logistic",
    "lognormal",
    "maxwell",
    "multinomial",
    "multivariate_normal",
    "normal",
    "orthogonal",
    "pareto",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "rayleigh",
    "split",
    "t",
    "triangular",
    "truncated_normal",
    "uniform",
    "wald",
    "weibull_min",
    "wrap_key_data",
]
