"""Programs of packages that are built on JAX: those that are installed."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.jax_programs import Program, normal, positive

# equinox' checks of values are callbacks, which are refused by name: they are off here.
os.environ.setdefault("EQX_ON_ERROR", "off")


def library_programs() -> list[Program]:
    """Return the programs of all packages that can be imported, in float64."""
    found: list[Program] = []
    for package, make in _MAKERS.items():
        try:
            importlib.import_module(package)
        except ImportError:
            continue
        found += [Program(name, package, *rest) for name, *rest in make()]
    return found


def _flax() -> Any:
    from flax import linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x: Any, *, train: bool = False) -> Any:
            mask = nn.make_causal_mask(jnp.ones(x.shape[:2]))
            h = nn.LayerNorm(param_dtype="float64")(x)
            h = nn.SelfAttention(num_heads=2, param_dtype="float64")(h, mask=mask)
            h = nn.Dropout(0.1, deterministic=not train)(h)
            x = x + h
            h = nn.Dense(32, param_dtype="float64")(nn.LayerNorm(param_dtype="float64")(x))
            return x + nn.Dense(x.shape[-1], param_dtype="float64")(nn.gelu(h))

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            x = nn.relu(nn.Conv(4, (3, 3), param_dtype="float64")(x))
            x = nn.max_pool(x, (2, 2), (2, 2))
            x = nn.GroupNorm(2, param_dtype="float64")(x)
            return nn.log_softmax(nn.Dense(5, param_dtype="float64")(x.reshape(len(x), -1)))

    class Recurrent(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            cell = nn.OptimizedLSTMCell(4, param_dtype="float64")
            h = nn.RNN(cell)(x)
            return nn.Dense(2, param_dtype="float64")(h[:, -1])

    class Words(nn.Module):
        @nn.compact
        def __call__(self, words: Any) -> Any:
            table = nn.Embed(11, 8, param_dtype="float64")
            return table.attend(nn.RMSNorm(param_dtype="float64")(table(words)))

    block, net, recurrent, language = Block(), Net(), Recurrent(), Words()
    words = jnp.arange(6).reshape(2, 3)
    with jax.enable_x64(True):
        of_recurrent = recurrent.init(jax.random.key(2), jnp.ones((2, 5, 3)))
        of_language = language.init(jax.random.key(3), words)
        params = block.init(jax.random.key(0), jnp.ones((2, 6, 8)))
        of_net = net.init(jax.random.key(1), jnp.ones((2, 8, 8, 1)))

    def loss(p: Any, x: Any) -> Any:
        return (block.apply(p, x, train=True, rngs={"dropout": jax.random.key(2)}) ** 2).mean()

    return [
        ("transformer block", block.apply, (lambda _: params, normal(2, 6, 8)), False),
        (
            "gradient of a block with dropout",
            jax.value_and_grad(loss),
            (lambda _: params, normal(2, 6, 8)),
            False,
        ),
        (
            "convolutional net, gradient",
            jax.grad(lambda p, x: -net.apply(p, x)[:, 0].mean()),
            (lambda _: of_net, normal(2, 8, 8, 1)),
            False,
        ),
        (
            "LSTM, gradient",
            jax.grad(lambda p, x: (recurrent.apply(p, x) ** 2).sum()),
            (lambda _: of_recurrent, normal(2, 5, 3)),
            False,
        ),
        (
            "words by their embeddings, gradient",
            jax.grad(lambda p: -jax.nn.log_softmax(language.apply(p, words))[..., 1].sum()),
            (lambda _: of_language,),
            False,
        ),
    ]


def _optax() -> Any:
    import optax

    def trained(optimizer: Any) -> Callable[..., Any]:
        def run(w: Any, x: Any, y: Any) -> Any:
            def step(carry: Any, _: Any) -> Any:
                w, state = carry
                value, slope = jax.value_and_grad(lambda w: ((jnp.tanh(x @ w) - y) ** 2).mean())(w)
                updates, state = optimizer.update(slope, state, w)
                return (optax.apply_updates(w, updates), state), value

            return jax.lax.scan(step, (w, optimizer.init(w)), length=4)[1]

        return run

    names = "sgd adam adamw rmsprop lamb lion adafactor novograd".split()
    programs = [
        (
            f"training by {name}",
            trained(getattr(optax, name)(0.05)),
            (normal(4), normal(9, 4), normal(9)),
            False,
        )
        for name in names
    ]
    clipped = optax.chain(
        optax.clip_by_global_norm(0.5), optax.adam(optax.cosine_decay_schedule(0.1, 9))
    )
    return [
        *programs,
        ("clipping and a schedule", trained(clipped), (normal(4), normal(9, 4), normal(9)), False),
        (
            "losses",
            lambda x, y: (
                optax.huber_loss(x, y),
                optax.cosine_similarity(x, y),
                optax.softmax_cross_entropy(x, jax.nn.softmax(y)),
            ),
            (normal(3, 5), normal(3, 5)),
            True,
        ),
    ]


def _equinox() -> Any:
    import equinox as eqx

    with jax.enable_x64(True):
        mlp = eqx.nn.MLP(3, 2, 8, 2, key=jax.random.key(0))
        cell = eqx.nn.GRUCell(3, 4, key=jax.random.key(1))
        attention = eqx.nn.MultiheadAttention(2, 4, key=jax.random.key(2))
        conv = eqx.nn.Conv1d(2, 3, 3, padding=1, key=jax.random.key(3))
        params, static = eqx.partition(mlp, eqx.is_array)
        of_cell, rest = eqx.partition(cell, eqx.is_array)
        of_attention, around = eqx.partition(attention, eqx.is_array)
        of_conv, beside = eqx.partition(conv, eqx.is_array)

    def loss(p: Any, x: Any) -> Any:
        return (jax.vmap(eqx.combine(p, static))(x) ** 2).mean()

    def recurrent(p: Any, xs: Any) -> Any:
        gru = eqx.combine(p, rest)
        return jax.lax.scan(lambda h, x: (gru(x, h), h.sum()), jnp.zeros(4), xs)

    return [
        (
            "MLP, value and gradient",
            jax.value_and_grad(loss),
            (lambda _: params, normal(9, 3)),
            False,
        ),
        ("GRU in a scan", recurrent, (lambda _: of_cell, normal(6, 3)), False),
        (
            "attention, gradient",
            jax.grad(lambda p, x: (eqx.combine(p, around)(x, x, x) ** 2).sum()),
            (lambda _: of_attention, normal(5, 4)),
            False,
        ),
        (
            "convolution, gradient",
            jax.grad(lambda p, x: (jax.vmap(eqx.combine(p, beside))(x) ** 2).sum()),
            (lambda _: of_conv, normal(3, 2, 7)),
            False,
        ),
    ]


def _haiku() -> Any:
    import haiku as hk

    net = hk.without_apply_rng(
        hk.transform(
            lambda x: hk.Linear(2)(jax.nn.silu(hk.LayerNorm(-1, True, True)(hk.Linear(5)(x))))
        )
    )
    seen = hk.without_apply_rng(
        hk.transform(
            lambda x: hk.dynamic_unroll(hk.LSTM(4), x, hk.LSTM(4).initial_state(x.shape[1]))[0]
        )
    )
    image = hk.without_apply_rng(
        hk.transform(
            lambda x: hk.Linear(3)(hk.Flatten()(hk.AvgPool(2, 2, "SAME")(hk.Conv2D(4, 3)(x))))
        )
    )
    with jax.enable_x64(True):
        params = net.init(jax.random.PRNGKey(0), jnp.ones((2, 3)))
        of_seen = seen.init(jax.random.PRNGKey(1), jnp.ones((5, 2, 3)))
        of_image = image.init(jax.random.PRNGKey(2), jnp.ones((2, 6, 6, 1)))
    return [
        (
            "LSTM, unrolled, gradient",
            jax.grad(lambda p, x: (seen.apply(p, x) ** 2).sum()),
            (lambda _: of_seen, normal(5, 2, 3)),
            False,
        ),
        (
            "convolution and pooling, gradient",
            jax.grad(lambda p, x: (image.apply(p, x) ** 2).sum()),
            (lambda _: of_image, normal(2, 6, 6, 1)),
            False,
        ),
        (
            "MLP with normalisation, gradient",
            jax.grad(lambda p, x: (net.apply(p, x) ** 2).sum()),
            (lambda _: params, normal(7, 3)),
            False,
        ),
    ]


def _diffrax() -> Any:
    import diffrax

    def solve(y: Any, k: Any) -> Any:
        return diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, a: -a * y + jnp.sin(t)),
            diffrax.Dopri5(),
            0.0,
            1.0,
            0.1,
            y,
            args=k,
            saveat=diffrax.SaveAt(ts=jnp.linspace(0, 1, 5)),
            throw=False,
            stepsize_controller=diffrax.PIDController(rtol=1e-6, atol=1e-8),
        ).ys

    def decay(y: Any, k: Any) -> Any:
        return diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, a: -a * y),
            diffrax.Tsit5(),
            0.0,
            1.0,
            0.1,
            y,
            args=k,
            adjoint=diffrax.RecursiveCheckpointAdjoint(checkpoints=4),
            max_steps=64,
            throw=False,
        ).ys.sum()

    def noisy(y: Any, k: Any) -> Any:
        path = diffrax.VirtualBrownianTree(0.0, 1.0, 1e-2, (3,), key=jax.random.key(5))
        terms = diffrax.MultiTerm(
            diffrax.ODETerm(lambda t, y, a: -a * y),
            diffrax.ControlTerm(lambda t, y, a: 0.1 * jnp.eye(3), path),
        )
        return diffrax.diffeqsolve(
            terms, diffrax.Euler(), 0.0, 1.0, 0.1, y, args=k, throw=False,
        ).ys  # fmt: skip

    return [
        ("an ODE by Dopri5", solve, (normal(3), positive(3)), False),
        (
            "an ODE's gradient by checkpoints",
            jax.grad(decay, (0, 1)),
            (normal(3), positive(3)),
            False,
        ),
        ("a stochastic equation by Euler", noisy, (normal(3), positive(3)), False),
    ]


def _jaxopt() -> Any:
    import jaxopt

    def fit(x: Any, y: Any) -> Any:
        solver = jaxopt.LBFGS(lambda w: ((x @ w - y) ** 2).mean() + (w**2).sum(), maxiter=5)
        return solver.run(jnp.zeros(x.shape[1])).params

    def implicit(y: Any) -> Any:
        def least(c: Any) -> Any:
            solver = jaxopt.GradientDescent(
                lambda w, c: ((w - c) ** 2).sum() + (w**4).sum(), maxiter=20, tol=0.0
            )
            return solver.run(jnp.zeros(4), c).params.sum()

        return jax.value_and_grad(least)(y)

    return [
        ("LBFGS", fit, (normal(9, 3), normal(9)), False),
        ("gradient descent and its implicit gradient", implicit, (positive(4),), False),
        ("projection on a simplex", jaxopt.projection.projection_simplex, (normal(7),), False),
    ]


def _optimistix() -> Any:
    import optimistix as optx

    return [
        (
            "root by Newton",
            lambda a: (
                optx.root_find(
                    lambda x, a: x**2 - a, optx.Newton(1e-9, 1e-9), jnp.ones(3), a, throw=False
                ).value
            ),
            (positive(3),),
            False,
        ),
        (
            "least squares by Levenberg and Marquardt",
            lambda a: (
                optx.least_squares(
                    lambda x, a: (x**2 - a, x - 1),
                    optx.LevenbergMarquardt(1e-9, 1e-9),
                    jnp.ones(3),
                    a,
                    throw=False,
                ).value
            ),
            (positive(3),),
            False,
        ),
        (
            "minimum by BFGS",
            lambda a: (
                optx.minimise(
                    lambda x, a: ((x**2 - a) ** 2).sum(),
                    optx.BFGS(1e-9, 1e-9),
                    jnp.ones(3),
                    a,
                    throw=False,
                ).value
            ),
            (positive(3),),
            False,
        ),
    ]


def _lineax() -> Any:
    import lineax as lx

    return [
        (
            "conjugate gradients",
            lambda a, b: (
                lx.linear_solve(
                    lx.MatrixLinearOperator(a @ a.T + jnp.eye(4), lx.positive_semidefinite_tag),
                    b,
                    lx.CG(1e-10, 1e-10),
                    throw=False,
                ).value
            ),
            (normal(4, 4), normal(4)),
            False,
        ),
        (
            "a solution by LU and its gradient",
            jax.grad(
                lambda a, b: lx.linear_solve(
                    lx.MatrixLinearOperator(a + 4 * jnp.eye(4)), b, lx.LU(), throw=False
                ).value.sum(),
                (0, 1),
            ),
            (normal(4, 4), normal(4)),
            False,
        ),
        (
            "least squares by QR",
            lambda a, b: lx.linear_solve(lx.MatrixLinearOperator(a), b, lx.QR(), throw=False).value,
            (normal(6, 3), normal(6)),
            False,
        ),
    ]


def _tinygp() -> Any:
    import tinygp

    def likelihood(log_scale: Any, x: Any, y: Any) -> Any:
        kernel = tinygp.kernels.ExpSquared(jnp.exp(log_scale))
        return tinygp.GaussianProcess(kernel, x, diag=0.1).log_probability(y)

    return [
        (
            "likelihood of a Gaussian process and gradient",
            jax.value_and_grad(likelihood),
            (lambda rng: np.float64(0.3) * np.ones(()), normal(20), normal(20)),
            False,
        ),
        (
            "mean and variance at new points",
            lambda x, y, new: tuple(
                getattr(
                    tinygp.GaussianProcess(tinygp.kernels.Matern52(1.5), x, diag=0.1)
                    .condition(y, new)
                    .gp,
                    name,
                )
                for name in ("loc", "variance")
            ),
            (normal(12), normal(12), normal(5)),
            False,
        ),
    ]


def _numpyro() -> Any:
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer.util import log_density

    def model(x: Any, y: Any) -> None:
        w = numpyro.sample("w", dist.Normal(jnp.zeros(3), 1.0).to_event(1))
        s = numpyro.sample("s", dist.HalfNormal(1.0))
        numpyro.sample("y", dist.Normal(x @ w, s), obs=y)

    def leapfrogs(w: Any, x: Any, y: Any) -> Any:
        from numpyro.infer.hmc_util import velocity_verlet

        def potential(w: Any) -> Any:
            return -log_density(model, (x, y), {}, {"w": w, "s": jnp.ones(())})[0]

        start, step = velocity_verlet(potential, lambda _, r: (r**2).sum() / 2)
        return jax.lax.fori_loop(
            0, 5, lambda _, state: step(0.01, jnp.ones(3), state), start(w, jnp.ones(3))
        ).z

    return [
        ("leapfrog steps", leapfrogs, (normal(3), normal(9, 3), normal(9)), False),
        (
            "log density and gradient",
            jax.value_and_grad(
                lambda w, x, y: log_density(model, (x, y), {}, {"w": w, "s": jnp.exp(w[0])})[0]
            ),
            (normal(3), normal(9, 3), normal(9)),
            False,
        ),
    ]


def _blackjax() -> Any:
    import blackjax

    def sample(x: Any) -> Any:
        kernel = blackjax.hmc(lambda q: -(q**2).sum() / 2, 0.1, jnp.ones(3), 5)
        keys = jax.random.split(jax.random.key(0), 4)
        return jax.lax.scan(lambda s, k: (kernel.step(k, s)[0], s.position), kernel.init(x), keys)[
            1
        ]

    def slower(x: Any) -> Any:
        kernel = blackjax.nuts(lambda q: -(q**2).sum() / 2, 0.3, jnp.ones(3))
        keys = jax.random.split(jax.random.key(1), 3)
        return jax.lax.scan(lambda s, k: (kernel.step(k, s)[0], s.position), kernel.init(x), keys)[
            1
        ]

    return [
        ("Hamiltonian Monte Carlo", sample, (normal(3),), False),
        ("a sampler without U-turns", slower, (normal(3),), False),
    ]


def _ott() -> Any:
    from ott.geometry import pointcloud
    from ott.problems.linear import linear_problem
    from ott.solvers.linear import sinkhorn

    def cost(x: Any, y: Any) -> Any:
        problem = linear_problem.LinearProblem(pointcloud.PointCloud(x, y, epsilon=0.5))
        return sinkhorn.Sinkhorn(max_iterations=50)(problem).reg_ot_cost

    def low_rank(x: Any, y: Any) -> Any:
        from ott.solvers.linear import sinkhorn_lr

        problem = linear_problem.LinearProblem(pointcloud.PointCloud(x, y))
        return sinkhorn_lr.LRSinkhorn(rank=2, max_iterations=20)(problem).reg_ot_cost

    return [
        ("Sinkhorn and gradient", jax.value_and_grad(cost), (normal(9, 2), normal(8, 2)), False),
        ("Sinkhorn of low rank", low_rank, (normal(9, 2), normal(8, 2)), False),
    ]


def _distrax() -> Any:
    import distrax

    return [
        (
            "a mixture's log density",
            lambda x, m: distrax.MixtureSameFamily(
                distrax.Categorical(logits=m), distrax.Normal(m, jnp.ones(3))
            ).log_prob(x),
            (normal(5), normal(3)),
            True,
        ),
        (
            "a flow's log density",
            lambda x, w: distrax.Transformed(
                distrax.MultivariateNormalDiag(jnp.zeros(3)),
                distrax.Chain([distrax.Block(distrax.Tanh(), 1), distrax.TriangularLinear(w)]),
            ).log_prob(jnp.tanh(x) / 2),
            (normal(3), positive(3, 3)),
            False,
        ),
    ]


def _e3nn() -> Any:
    import e3nn_jax as e3nn

    return [
        (
            "spherical harmonics",
            lambda x: e3nn.spherical_harmonics("0e + 1o + 2e", x, normalize=True).array,
            (normal(5, 3),),
            True,
        ),
        (
            "tensor product",
            lambda x, y: (
                e3nn.tensor_product(
                    e3nn.IrrepsArray("1o + 0e", x), e3nn.IrrepsArray("1o + 0e", y)
                ).array
            ),
            (normal(5, 4), normal(5, 4)),
            True,
        ),
    ]


def _jax_md() -> Any:
    from jax_md import energy, simulate, space

    displacement, shift = space.periodic(4.0)
    of = energy.lennard_jones_pair(displacement, sigma=0.4, r_cutoff=1.5)

    def lattice(rng: Any) -> Any:
        # Apart from each other: forces of points that overlap amplify every rounding.
        places = np.stack(np.meshgrid(*[np.arange(3.0)] * 3), -1).reshape(-1, 3)
        return 1.3 * places + 0.05 * rng.standard_normal(places.shape)

    def moves(x: Any) -> Any:
        start, step = simulate.nve(of, shift, 1e-3)
        return jax.lax.fori_loop(
            0, 4, lambda _, state: step(state), start(jax.random.key(0), x, kT=0.1)
        ).position

    return [
        ("energy of pairs and forces", jax.value_and_grad(of), (lattice,), False),
        ("steps of constant energy", moves, (lattice,), False),
    ]


def _gpjax() -> Any:
    import gpjax

    def likelihood(log_scale: Any, x: Any, y: Any) -> Any:
        kernel = gpjax.kernels.RBF(lengthscale=jnp.exp(log_scale))
        prior = gpjax.gps.Prior(mean_function=gpjax.mean_functions.Zero(), kernel=kernel)
        posterior = prior * gpjax.likelihoods.Gaussian()
        return gpjax.objectives.conjugate_mll(posterior, gpjax.Dataset(x, y))

    return [
        (
            "likelihood of a Gaussian process and gradient",
            jax.value_and_grad(likelihood),
            (lambda rng: np.float64(0.3) * np.ones(()), normal(12, 1), normal(12, 1)),
            False,
        )
    ]


_MAKERS: dict[str, Callable[[], Any]] = {
    "flax": _flax,
    "optax": _optax,
    "equinox": _equinox,
    "haiku": _haiku,
    "diffrax": _diffrax,
    "jaxopt": _jaxopt,
    "optimistix": _optimistix,
    "lineax": _lineax,
    "tinygp": _tinygp,
    "numpyro": _numpyro,
    "blackjax": _blackjax,
    "ott": _ott,
    "distrax": _distrax,
    "e3nn_jax": _e3nn,
    "jax_md": _jax_md,
    "gpjax": _gpjax,
}
