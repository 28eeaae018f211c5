"""PyTorch: the Transformer of `transformer_model.py`, eager, compiled, or with fused attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as tree

from benchmarks.experiments import transformer_model as model
from benchmarks.experiments.peers.torch_programs import finished, place_of
from benchmarks.experiments.runs import Run
from benchmarks.experiments.transformer import step_values, values
from benchmarks.measure import address_space


def _library(fused: bool, place: str) -> model.Library:
    def fused_attention(q: Any, k: Any, v: Any, causal: bool) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    class Numpy:
        where = staticmethod(torch.where)

        @staticmethod
        def arange(n: int) -> Any:
            return torch.arange(n, device=place)

    return model.Library(
        Numpy,
        lambda x: torch.softmax(x, -1),
        lambda x: torch.logsumexp(x, -1),
        lambda x, places: torch.take_along_dim(x, places[..., None], -1)[..., 0],
        fused_attention if fused else None,
    )


def transformer(
    training: bool, compiled: bool, fused: bool, device: str, cap_bytes: int, **sizes: int
) -> Run:
    """Run the Transformer forward, or take a step of gradient descent."""
    shape = model.Shape(**sizes)
    place = place_of(device)
    lib = _library(fused, place)
    parameters = tree.tree_map(
        lambda array: torch.as_tensor(array).to(place), model.make_parameters(shape)
    )
    words = [torch.as_tensor(array).to(place) for array in model.make_words(shape)]
    call = _step(lib, shape, parameters, words, compiled) if training else None
    if call is None:
        call = _forward(lib, shape, parameters, words, compiled)
    if compiled:
        with address_space(cap_bytes):
            call()

    def checked(found: Any) -> Any:
        if training:
            return step_values(shape, found[0].detach(), found[2].cpu())
        return values(shape, found.cpu())

    return finished(call, checked, device)


def _forward(
    lib: model.Library, shape: model.Shape, parameters: Any, words: Any, compiled: bool
) -> Callable[[], Any]:
    def forward(parameters: Any, inputs: Any, targets: Any) -> Any:
        return model.logits(lib, shape, parameters, inputs, targets)

    program = torch.compile(forward) if compiled else forward

    def call() -> Any:
        with torch.no_grad():
            return program(parameters, *words[:2])

    return call


def _step(
    lib: model.Library, shape: model.Shape, parameters: Any, words: Any, compiled: bool
) -> Callable[[], Any]:
    leaves, structure = tree.tree_flatten(parameters)
    for leaf in leaves:
        leaf.requires_grad_(True)

    def value_of(parameters: Any, *words: Any) -> Any:
        return model.loss(lib, shape, parameters, *words)

    program = torch.compile(value_of) if compiled else value_of

    def call() -> Any:
        value = program(tree.tree_unflatten(leaves, structure), *words)
        gradients = torch.autograd.grad(value, leaves)
        with torch.no_grad():
            moved = [p - model.RATE * g for p, g in zip(leaves, gradients, strict=True)]
        gradient = tree.tree_unflatten(list(gradients), structure)
        return value, moved, gradient["encoder"][0]["dense"]["hidden"]

    return call
