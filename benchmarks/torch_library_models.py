"""Models of packages that are built on torch: those that are installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.torch_models import Case, Loss, ints, normal, own, summed

Rows = list[tuple[Any, ...]]
HALVES = 1e-5
"""For models that compute parts in float32, whatever their weights are."""


def library_cases() -> tuple[list[Case], list[str]]:
    """Return the models of all packages that can be imported, and why others cannot."""
    found: list[Case] = []
    skipped: list[str] = []
    define_missing_ops()
    for package, make in MAKERS.items():
        try:
            importlib.import_module(package)
        except (ImportError, RuntimeError) as error:
            skipped.append(f"{package}: {str(error).splitlines()[0]}")
            continue
        found += [_case(package, *row) for row in make()]
    return found, skipped


def _case(
    package: str,
    name: str,
    model: Callable[[], nn.Module],
    args: tuple[Callable[[], Any], ...],
    loss: Loss = summed,
    precision: float = 1e-10,
) -> Case:
    return Case(name, package, lambda: (model(), tuple(x() for x in args)), loss, precision)


def define_missing_ops() -> None:
    """Define the ops that torchvision describes when it is imported, where its library is missing.

    PyPI's torchvision is made for CUDA: beside a torch for CPUs its library cannot be read.
    """
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _LIBRARIES.append(library)
    except ImportError:
        return


_LIBRARIES: list[Any] = []
"""Ops are there as long as these are."""
IMAGES = (normal(8, 3, 32, 32),)


def _torchvision() -> Rows:
    from torchvision.models.densenet import DenseNet
    from torchvision.models.resnet import BasicBlock, ResNet
    from torchvision.models.swin_transformer import SwinTransformer
    from torchvision.models.vision_transformer import VisionTransformer

    return [
        ("ResNet-10", lambda: ResNet(BasicBlock, [1, 1, 1, 1], num_classes=10), IMAGES),
        ("DenseNet", lambda: DenseNet(8, (2, 2), 16, num_classes=10), IMAGES),
        ("ViT", lambda: VisionTransformer(32, 8, 1, 3, 48, 96, num_classes=10), IMAGES),
        (
            "Swin",
            lambda: SwinTransformer([4, 4], 24, [1, 1], [2, 4], [4, 4], num_classes=10),
            IMAGES,
        ),
    ]


def _timm() -> Rows:
    from timm.models.convnext import ConvNeXt
    from timm.models.mlp_mixer import MlpMixer
    from timm.models.resnet import BasicBlock, ResNet
    from timm.models.vision_transformer import VisionTransformer

    small = {"img_size": 32, "patch_size": 8, "embed_dim": 48, "num_classes": 10}
    return [
        (
            "ResNet",
            lambda: ResNet(BasicBlock, (1, 1, 1, 1), 10, channels=(8, 16, 32, 64)),
            IMAGES,
        ),
        ("ViT", lambda: VisionTransformer(depth=1, num_heads=3, **small), IMAGES),
        (
            "ConvNeXt",
            lambda: ConvNeXt(num_classes=10, depths=(1, 1, 1, 1), dims=(8, 16, 32, 64)),
            (normal(4, 3, 64, 64),),
        ),
        ("MLP-Mixer", lambda: MlpMixer(num_blocks=1, **small), IMAGES),
    ]


class Head(nn.Module):
    """A model of transformers, called by names, of which some results are returned."""

    def __init__(self, model: nn.Module, names: tuple[str, ...], wanted: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names, self.wanted = model, names, wanted

    def forward(self, *args: Any) -> Any:
        """Return the tensors of the names that are wanted."""
        result = self.model(**dict(zip(self.names, args, strict=True)))
        return tuple(result[name] for name in self.wanted)


SIZES = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
TOKENS = (ints(99, 8, 24), ints(99, 8, 24))


def _transformers() -> Rows:
    import transformers as t

    def head(model: str, config: str, names: str, wanted: str, **sizes: Any) -> Callable[[], Head]:
        def make() -> Head:
            whole = getattr(t, model)(getattr(t, config)(**sizes))
            return Head(whole, tuple(names.split()), tuple(wanted.split()))

        return make

    of_tokens = partial(head, names="input_ids labels", wanted="loss logits")
    gpt2 = {"vocab_size": 99, "n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 32}
    t5 = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4}
    t5["decoder_start_token_id"] = 0
    whisper = {
        "vocab_size": 99,
        "num_mel_bins": 16,
        "d_model": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "max_source_positions": 20,
        "max_target_positions": 24,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 1,
    }
    image = {**SIZES, "image_size": 32, "patch_size": 8}
    del image["vocab_size"]
    return [
        (
            "GPT2LMHeadModel",
            of_tokens("GPT2LMHeadModel", "GPT2Config", **gpt2),
            TOKENS,
            own,
            HALVES,
        ),
        (
            "LlamaForCausalLM",
            of_tokens("LlamaForCausalLM", "LlamaConfig", num_key_value_heads=2, **SIZES),
            TOKENS,
            own,
            HALVES,
        ),
        (
            "MistralForCausalLM, sliding window",
            of_tokens(
                "MistralForCausalLM",
                "MistralConfig",
                sliding_window=8,
                num_key_value_heads=2,
                **SIZES,
            ),
            TOKENS,
            own,
            HALVES,
        ),
        ("BertForMaskedLM", of_tokens("BertForMaskedLM", "BertConfig", **SIZES), TOKENS, own),
        (
            "T5ForConditionalGeneration",
            of_tokens("T5ForConditionalGeneration", "T5Config", **t5),
            TOKENS,
            own,
            HALVES,
        ),
        (
            "ViTForImageClassification",
            head("ViTForImageClassification", "ViTConfig", "pixel_values", "logits", **image),
            IMAGES,
        ),
        (
            "WhisperForConditionalGeneration",
            head(
                "WhisperForConditionalGeneration",
                "WhisperConfig",
                "input_features labels",
                "loss logits",
                **whisper,
            ),
            (normal(8, 16, 40), ints(99, 8, 12)),
            own,
            HALVES,
        ),
    ]


def _gpytorch() -> Rows:
    import gpytorch
    from gpytorch import kernels as k
    from linear_operator.settings import trace_mode

    class Kernel(nn.Module):
        """The product of a kernel's matrix with a vector."""

        def __init__(self) -> None:
            super().__init__()
            smooth = k.ScaleKernel(k.RBFKernel(ard_num_dims=3)) + k.MaternKernel(nu=2.5)
            self.kernel = smooth * k.PeriodicKernel() + k.LinearKernel()

        def forward(self, x: Any, v: Any) -> Any:
            with trace_mode():  # its own: no looks at values
                return self.kernel(x).to_dense() @ v

    class GP(gpytorch.models.ExactGP):  # type: ignore[misc]
        """A Gaussian process with a constant mean."""

        def __init__(self, x: Any, y: Any) -> None:
            super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
            self.mean, self.kernel = gpytorch.means.ConstantMean(), k.ScaleKernel(k.RBFKernel())

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    def likelihood(model: Any, x: Any, y: Any) -> tuple[torch.Tensor, Any]:
        model.set_train_data(x, y, strict=False)
        marginal = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
        with trace_mode():
            found = model(x)
            return -marginal(found, y), found.mean

    return [
        ("kernels, times a vector", Kernel, (normal(150, 3), normal(150))),
        (
            "exact GP, marginal likelihood",
            lambda: GP(torch.zeros(120, 2), torch.zeros(120)),
            (normal(120, 2), normal(120)),
            likelihood,
        ),
    ]


def _torch_geometric() -> Rows:
    from torch_geometric import nn as g

    class Net(nn.Module):
        """Two layers over nodes and edges."""

        def __init__(self, layer: Callable[[int, int], nn.Module]) -> None:
            super().__init__()
            self.first, self.second = layer(8, 16), layer(16, 4)

        def forward(self, x: Any, edges: Any) -> Any:
            return self.second(torch.relu(self.first(x, edges)), edges)

    def gin(inputs: int, outputs: int) -> nn.Module:
        return g.GINConv(
            nn.Sequential(nn.Linear(inputs, outputs), nn.ReLU(), nn.Linear(outputs, outputs))
        )

    graph = (normal(60, 8), ints(60, 2, 300))
    layers = {
        "GCNConv, self-loops": g.GCNConv,
        "GCNConv": partial(g.GCNConv, add_self_loops=False),
        "GATConv": partial(g.GATConv, add_self_loops=False),
        "SAGEConv": g.SAGEConv,
        "GINConv": gin,
    }
    return [(name, partial(Net, layer), graph) for name, layer in layers.items()]


MAKERS: dict[str, Callable[[], Rows]] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "transformers": _transformers,
    "gpytorch": _gpytorch,
    "torch_geometric": _torch_geometric,
}
"""What makes the models of each package."""
