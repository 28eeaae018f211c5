"""`tracer.from_stablehlo`: a StableHLO module as a function of tracer's arrays."""

from __future__ import annotations

from typing import Any

from tracer.array.array import Array
from tracer.array.convert import as_array
from tracer.array.dispatch import apply_graph
from tracer.array.recording import Recording, current_recording, recorded
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.ir import Graph, ShapeDtype
from tracer.lowering import Module
from tracer.stablehlo.evaluate import Evaluator
from tracer.stablehlo.supported import supported_module

_ORIGIN = "<stablehlo>"


class StableHloFunction:
    """A function of arrays that a StableHLO module describes; made by `from_stablehlo`.

    Attributes
    ----------
    input_types, output_types : tuple of ShapeDtype
        Types of the arrays that it takes and returns.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        entry = module.functions[module.entry]
        self.__name__ = self.__qualname__ = module.name
        self.input_types = tuple(type for type in entry.types if isinstance(type, ShapeDtype))
        self._graph, self._captured = recorded(self._record)
        self.output_types = tuple(self._graph.output_types)

    def _record(self, recording: Recording) -> tuple[Graph, list[Array]]:
        given = [recording.argument(type) for type in self.input_types]
        return recording.finish(Evaluator(self._module).call(self._module.entry, given))

    def __call__(self, *arrays: Any) -> Any:
        """Apply the program to arrays; one result is returned as it is, several as a tuple."""
        given = [as_array(array) for array in arrays]
        self._check(given)
        if current_recording() is not None:
            results = Evaluator(self._module).call(self._module.entry, given)
        else:
            results = apply_graph(self._graph, [*given, *self._captured])
        return results[0] if len(results) == 1 else tuple(results)

    def _check(self, arrays: list[Array]) -> None:
        name, wanted = self.__name__, self.input_types
        if len(arrays) != len(wanted):
            raise ArgumentError(
                f"{name} takes {len(wanted)} arrays, not {len(arrays)}",
                mend="give " + ", ".join(map(str, wanted)),
            )
        for position, (array, type) in enumerate(zip(arrays, wanted, strict=True)):
            if array.shape != type.shape:
                raise ShapeError(
                    f"argument {position} of {name} is {array.type}, not {type}",
                    mend="give arrays of the shapes that the module states, or lower it again",
                )
            if array.dtype != type.dtype:
                raise DTypeError(
                    f"argument {position} of {name} is {array.type}, not {type}",
                    mend=f"convert it with astype('{type.dtype}')",
                )

    def __repr__(self) -> str:
        given, made = (", ".join(map(str, t)) for t in (self.input_types, self.output_types))
        return f"<StableHLO {self.__name__}: ({given}) -> ({made})>"


def from_stablehlo(program: str | bytes, *, name: str | None = None) -> StableHloFunction:
    """Return a function of arrays that computes what a StableHLO module says.

    Parameters
    ----------
    program : str or bytes
        The text of a module, as `jax.jit(f).lower(...).as_text()` and
        `tracer.compile(f).stablehlo(...)` give it; its bytecode; or a portable artifact, as
        `jax.export.export(...)(...).mlir_module_serialized`.
    name : str, optional
        The file that the text is from: errors and plans name its lines.

    Returns
    -------
    StableHloFunction
        Takes arrays of exactly the module's types. `tracer.compile`, `tracer.grad`,
        `tracer.vmap` and the rest take it. It has `input_types` and `output_types`, so that it can
        be planned without data: `tracer.compile(f).plan(*f.input_types)`.

    Raises
    ------
    ArgumentError
        It is no module, or has no function to call.
    UnsupportedError
        The module uses something that tracer does not have. The message names all of it.

    Examples
    --------
    >>> import tracer, tracer.numpy as tnp
    >>> text = tracer.compile(lambda x: tnp.sin(x).sum()).stablehlo(tnp.zeros(3))
    >>> f = tracer.from_stablehlo(text)
    >>> tracer.grad(f)(tnp.zeros(3))
    Array([1., 1., 1.])
    """
    if not isinstance(program, str | bytes):
        raise DTypeError(
            f"from_stablehlo takes the text or bytes of a module, not {type(program).__name__}",
            mend="give str(module), or what open(path, 'rb').read() returns",
        )
    return StableHloFunction(supported_module(program, name or _ORIGIN))
