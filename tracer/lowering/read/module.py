"""Read a StableHLO module, as text, MLIR bytecode or portable artifact, with jaxlib's parser."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tracer.errors import ArgumentError
from tracer.ir import ShapeDtype
from tracer.lowering.emit.values import dtype_of
from tracer.lowering.read.attributes import attributes_of
from tracer.lowering.read.bytecode import text_of
from tracer.lowering.read.constants import value_of
from tracer.lowering.read.locations import source_of
from tracer.lowering.read.records import Module, Operation, Region, ValueType
from tracer.lowering.shims import cast, hlo, ir, make_context

_BYTECODE = b"ML\xefR"
"""How MLIR's bytecode begins; portable artifacts are bytecode of a dialect of their own."""
_PORTABLE = b"StableHLO_v"
"""The producer that portable artifacts name behind that."""
_NAME = re.compile(rb'"((?:[^"\\]|\\.)*)"')
"""The name of an operation of no known dialect, in MLIR's text."""
_OPENING = np.frombuffer(b"([{<", np.uint8)
_NO_BRACKETS = bytes(set(range(256)) - set(b"()[]{}<>"))
_MOST_NESTED = 1000
"""MLIR's parser calls itself for each bracket, and ends the process between 10,000 and 30,000."""
_CONSTANTS = ("stablehlo.constant", "chlo.constant")
_MEND = (
    "give the text of a StableHLO module (jax.jit(f).lower(...).as_text()), its bytecode, or a "
    "portable artifact (jax.export.export(...)(...).mlir_module_serialized)"
)


def read_module(program: str | bytes, origin: str) -> Module:
    """Read a module.

    Parameters
    ----------
    program : str or bytes
        Text, bytecode, or a portable artifact.
    origin : str
        What the text is called where operations have no other place: a path, for one.

    Returns
    -------
    Module
        Plain records; nothing of MLIR is kept.

    Raises
    ------
    ArgumentError
        It is no module, or has no function to call.
    """
    context = make_context()
    with context:
        # Dialects that are not known are kept, so that they are refused by name.
        context.allow_unregistered_dialects = True
        parsed = _parsed(program, context)
        try:
            return _Reader(origin).module(parsed)
        except (RuntimeError, UnicodeDecodeError) as error:
            # The bindings' errors for names and strings of which Python can make no text.
            if isinstance(error, RuntimeError) and "conversion error" not in str(error):
                raise
            raise _no_text() from error


def _no_text() -> ArgumentError:
    return ArgumentError(
        "a StableHLO module with names or strings that are no UTF-8", mend="write it again"
    )


def _parsed(program: str | bytes, context: Any) -> Any:
    if not program.strip():
        raise ArgumentError("no StableHLO module: the text is empty", mend=_MEND)
    said: list[str] = []
    # The bindings end the process where they make Python's text of a message that is no UTF-8.
    context.emit_error_diagnostics = True
    handler = context.attach_diagnostic_handler(lambda message: _heard(message, said))
    try:
        if isinstance(program, bytes) and program.startswith(_BYTECODE):
            head = program[len(_BYTECODE) : len(_BYTECODE) + len(_PORTABLE) + 2]
            is_portable = _PORTABLE in head
            text = text_of(program, _MEND, is_portable=is_portable)
            if text is not None:
                return ir.Module.parse(text)
            if is_portable:
                return hlo.deserialize_portable_artifact(context, program)
            return ir.Module.parse(program)
        # Both ways: halves of surrogate pairs are no text, and neither are most bytes.
        text = program.encode() if isinstance(program, str) else program.decode().encode()
        if _depth(text) > _MOST_NESTED:
            raise ArgumentError("no StableHLO module: it is nested too deeply", mend=_MEND)
        return ir.Module.parse(text)
    except UnicodeDecodeError as error:
        raise ArgumentError(
            f"{len(program)} bytes that are neither text nor MLIR bytecode", mend=_MEND
        ) from error
    except (ir.MLIRError, ValueError, MemoryError) as error:
        what = "\n".join([str(error), *said])
        raise ArgumentError(f"no StableHLO module: {what}", mend=_MEND) from error
    finally:
        handler.detach()


def _depth(text: bytes) -> int:
    """Return how deeply brackets are nested; more of them close than open, as in `a -> b`."""
    brackets = np.frombuffer(text.translate(None, _NO_BRACKETS), np.uint8)
    height = np.cumsum(np.where(np.isin(brackets, _OPENING), 1, -1), dtype=np.int32)
    lowest = np.minimum(np.minimum.accumulate(height), 0)
    return int((height - lowest).max(initial=0))


def _heard(message: Any, said: list[str]) -> bool:
    """Keep what MLIR says of a module; return that nobody else need be told."""
    try:
        said.append(f"error: {str(message.location)[4:-1]}: {message.message}")
    except RuntimeError:
        said.append("error: in words that are no UTF-8")
    return True


class _Reader:
    """Numbers the values of a module, and copies what it says."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.numbers: dict[Any, int] = {}
        self.constants: dict[int, np.ndarray[Any, Any]] = {}
        self.producers: dict[int, Operation] = {}

    def module(self, parsed: Any) -> Module:
        functions, public = {}, []
        for operation in parsed.body.operations:
            attributes = attributes_of(operation.operation)
            if _name_of(operation) != "func.func":
                continue
            name = attributes["sym_name"]
            if list(operation.regions[0].blocks):
                functions[name] = self.region(operation.regions[0])
            if attributes.get("sym_visibility", "public") == "public":
                public.append(name)
        return Module(
            self._name(parsed, public),
            functions,
            _entry(functions, public),
            self.constants,
            self.producers,
            int(attributes_of(parsed.operation).get("mhlo.num_partitions", 1)),
        )

    def _name(self, parsed: Any, public: Sequence[str]) -> str:
        given = attributes_of(parsed.operation).get("sym_name")
        return str(given or (public[0] if public else "module"))

    def region(self, raw: Any) -> Region:
        blocks = list(raw.blocks)
        if not blocks:
            return Region((), (), (), ())
        arguments = tuple(self.numbered(value) for value in blocks[0].arguments)
        types = tuple(_type_of(value) for value in blocks[0].arguments)
        operations = [self.operation(op) for op in _operations(blocks)]
        last = operations.pop() if operations else None
        results = last.operands if last is not None else ()
        if len(blocks) > 1 and last is not None:
            operations.append(last)
        return Region(arguments, types, tuple(operations), results)

    def operation(self, raw: Any) -> Operation:
        op, name = raw.operation, _name_of(raw)
        is_constant = name in _CONSTANTS
        operands, results = list(op.operands), list(op.results)
        record = Operation(
            name,
            attributes_of(op, "value" if is_constant else ""),
            tuple(self.numbered(value) for value in operands),
            tuple(_type_of(value) for value in operands),
            tuple(self.numbered(value) for value in results),
            tuple(_type_of(value) for value in results),
            tuple(self.region(region) for region in op.regions),
            source_of(op.location, self.origin),
        )
        self.producers.update(dict.fromkeys(record.results, record))
        if is_constant and isinstance(record.result_types[0], ShapeDtype):
            self.constants[record.results[0]] = value_of(op, record.result_types[0])
        return record

    def numbered(self, value: Any) -> int:
        return self.numbers.setdefault(value, len(self.numbers))


def _name_of(raw: Any) -> str:
    """Return the name of an operation. Of one that is no UTF-8 the bindings end the process."""
    known = getattr(type(raw), "OPERATION_NAME", None)
    if known is not None:
        return str(known)
    written = raw.operation.get_asm(binary=True, print_generic_op_form=True, skip_regions=True)
    found = _NAME.search(written)
    if found is None or re.search(rb"\\[89A-Fa-f]", found[1]):
        raise _no_text()
    return str(raw.operation.name)


def _operations(blocks: Sequence[Any]) -> Iterator[Any]:
    for block in blocks:
        yield from block.operations


def _entry(functions: dict[str, Region], public: Sequence[str]) -> str:
    if "main" in functions:
        return "main"
    callable_ones = [name for name in public if name in functions]
    if len(callable_ones) == 1:
        return callable_ones[0]
    raise ArgumentError(
        f"a module with {len(callable_ones)} public functions, none of them called main",
        mend="name the function that is to be called main",
    )


def _type_of(value: Any) -> ValueType:
    """Return the type of an array of ours, or MLIR's text."""
    tensor = cast(ir.RankedTensorType, value.type)
    dtype = None if tensor is None else dtype_of(tensor.element_type)
    if dtype is None or not tensor.has_static_shape:
        return str(value.type)
    return ShapeDtype(tuple(tensor.shape), dtype)
