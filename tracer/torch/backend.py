"""`torch.compile(f, backend="tracer", options={"memory_limit": ...})`.

torch traces, and cuts training in two: the graph forward and the graph backward. The limit covers
each by itself; what the first one saves for the second is a result of it. `value_and_grad` plans
both together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import list_backends, register_backend

from tracer.compilation.function import compile
from tracer.errors import ArgumentError
from tracer.torch.capture import Captured, settings
from tracer.torch.decompositions import decompositions
from tracer.torch.draws import draw_of, in_place, is_draw
from tracer.torch.evaluate import check_supported
from tracer.torch.program import Input, Program

_OPTIONS = ("memory_limit", "split", "passes")


class _Compiled:
    """One of torch's graphs; its programs are made at the first call for each layout of inputs."""

    def __init__(self, module: torch.fx.GraphModule, name: str, options: dict[str, Any]) -> None:
        check_supported(module.graph)
        self.name, self.options = name, options
        self.captured = _captured(module)
        self.programs: dict[Any, Program] = {}
        # torch hands inputs over in a list, so that we may free them.
        self._boxed_call = True

    def __call__(self, inputs: list[torch.Tensor]) -> Any:
        """Run on tensors."""
        key = tuple(map(Input.of, inputs))
        if key not in self.programs:
            self.programs[key] = Program(self.captured, inputs, self.name, self.options)
        found = self.programs[key](inputs)
        inputs.clear()
        return found


def _captured(module: torch.fx.GraphModule) -> Captured:
    graph = module.graph
    output = next(node for node in graph.nodes if node.op == "output")
    results = list(output.args[0])
    fixed = {i: x for i, x in enumerate(results) if not isinstance(x, torch.fx.Node)}
    output.args = ([x for x in results if isinstance(x, torch.fx.Node)],)
    drawing = [node for node in graph.nodes if is_draw(node.target)]
    return Captured(
        module=module,
        closed_over=(),
        written={},
        draws={node: in_place(draw_of(node)) for node in drawing},
        same_draws={node: node for node in drawing},
        structure=torch.utils._pytree.tree_structure(list(range(len(results)))),
        fixed=fixed,
        modules=(),
    )


def _compiler(name: str, options: dict[str, Any]) -> Callable[..., Any]:
    def compile_graph(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        return _Compiled(module, name, options)

    return compile_graph


def tracer_backend(
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Any:
    """Compile one of dynamo's graphs: the backend "tracer" of `torch.compile`.

    Parameters
    ----------
    module, inputs
        What dynamo gives.
    options : mapping, optional
        `memory_limit`, `split` and `passes`, as for `tracer.torch.limit`.
    mode : str, optional
        Only None and "default" are known.

    Raises
    ------
    ArgumentError
        There is no such option or mode.
    UnsupportedError
        The graph has ops that tracer lacks.
    """
    given = dict(options or {})
    if mode not in (None, "default") or set(given) - set(_OPTIONS):
        raise ArgumentError(
            f'torch.compile(backend="tracer", mode={mode!r}, options={given})',
            mend=f"give options among {', '.join(_OPTIONS)}, and no mode",
        )
    compile(lambda: None, **given)
    name = getattr(module, "_get_name", lambda: "graph")()
    backend = aot_autograd(
        fw_compiler=_compiler(f"{name} forward", given),
        bw_compiler=_compiler(f"{name} backward", given),
        decompositions=decompositions(),
    )
    with settings():
        return backend(module, inputs)


# An installed tracer is an entry point, which torch finds and registers by itself.
if "tracer" not in list_backends(exclude_tags=None):
    register_backend(tracer_backend, name="tracer")
