"""GPyTorch: an exact GP with an inducing-point kernel, whose marginal likelihood is the bound."""

from __future__ import annotations

from typing import Any

import gpytorch
import torch

from benchmarks.experiments import inputs
from benchmarks.experiments.peers.torch_programs import finished, place_of
from benchmarks.experiments.runs import Run
from benchmarks.experiments.sgpr import compared


class Model(gpytorch.models.ExactGP):  # type: ignore[misc]
    """SGPR as in the library's tutorial."""

    def __init__(self, problem: dict[str, Any], x: Any, y: Any, likelihood: Any) -> None:
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=x.shape[1]))
        self.covar_module = gpytorch.kernels.InducingPointKernel(
            base, inducing_points=torch.as_tensor(problem["inducing"]), likelihood=likelihood
        )
        self.double()
        base.outputscale = problem["variance"]
        base.base_kernel.lengthscale = torch.as_tensor(problem["lengthscales"])

    def forward(self, x: Any) -> Any:
        """Return the prior at points."""
        mean, covariance = self.mean_module(x), self.covar_module(x)
        return gpytorch.distributions.MultivariateNormal(mean, covariance)


def sgpr(source: str, n: int, m: int, device: str, cap_bytes: int, data: str | None = None) -> Run:
    """Compute value and gradient of the negative marginal likelihood for each data point."""
    place = place_of(device)
    problem = inputs.sparse_gp(source, n, m, data)
    x, y = (torch.as_tensor(problem[key]).to(place) for key in ("x", "y"))
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    likelihood.noise = problem["noise"]
    model = Model(problem, x, y, likelihood).train().to(place)
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)

    def call() -> Any:
        model.zero_grad()
        loss = -marginal(model(x), y)
        loss.backward()
        return loss

    def values(loss: Any) -> Any:
        gradient = model.covar_module.inducing_points.grad.cpu().numpy()
        return compared(loss.item(), gradient)

    return finished(call, values, device)
