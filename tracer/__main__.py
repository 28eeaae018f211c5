"""The command line: plan and run StableHLO modules within a byte limit.

python -m tracer plan model.mlir --memory-limit 1GB --device tpu:v5e
python -m tracer run model.mlir --args in.npz --out out.npz --memory-limit 1GB
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

import tracer
from tracer.errors import ArgumentError, TracerError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns 0, or 1 after an error, which is told on the standard error."""
    options = _parser().parse_args(arguments)
    try:
        sys.stdout.write(options.command(options) + "\n")
    except (TracerError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tracer", description="Plan and run StableHLO modules within a byte limit."
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    plan = commands.add_parser("plan", help="say what a module takes; runs nothing")
    plan.add_argument("--json", action="store_true", help="print the plan as JSON")
    plan.set_defaults(command=_plan)
    run = commands.add_parser("run", help="run a module")
    run.add_argument("--args", metavar="FILE", help="arguments, in their order (.npz)")
    run.add_argument("--out", metavar="FILE", help="where the results go (.npz)")
    run.set_defaults(command=_run)
    for command in (plan, run):
        command.add_argument("model", help="text, bytecode or portable artifact of the module")
        command.add_argument("--memory-limit", metavar="SIZE", help="such as 1GB, 500MiB, 50%%")
        command.add_argument("--device", help="such as cpu:0, or tpu:v5e for a plan without one")
    return parser


def _compiled(options: argparse.Namespace) -> tuple[Any, Any]:
    """Return the module's function, and the same compiled."""
    path = Path(options.model)
    function = tracer.from_stablehlo(path.read_bytes(), name=str(path))
    return function, tracer.compile(
        function, memory_limit=options.memory_limit, device=options.device
    )


def _plan(options: argparse.Namespace) -> str:
    function, compiled = _compiled(options)
    plan = compiled.plan(*function.input_types)
    return json.dumps(plan.to_dict(), indent=2) if options.json else str(plan)


def _run(options: argparse.Namespace) -> str:
    function, compiled = _compiled(options)
    results = compiled(*_arguments(options, function.input_types))
    results = results if isinstance(results, tuple) else (results,)
    if options.out is None:
        return "\n".join(map(repr, results))
    np.savez(options.out, *map(np.asarray, results))
    return "\n".join(f"arr_{i}: {result.type}" for i, result in enumerate(results))


def _arguments(options: argparse.Namespace, types: Sequence[Any]) -> list[Any]:
    """Return the arrays of a file, in its order, with the dtypes that NumPy's format lacks."""
    if options.args is None:
        if types:
            raise ArgumentError(
                f"{options.model} takes {len(types)} arrays: {', '.join(map(str, types))}",
                mend="give --args FILE, made with numpy.savez(FILE, first, second, ...)",
            )
        return []
    try:
        with np.load(options.args, allow_pickle=False) as file:
            arrays = [file[name] for name in file.files]
    except (ValueError, TypeError, EOFError, BadZipFile) as error:
        raise ArgumentError(
            f"{options.args} is no file of arrays: {error}",
            mend="make it with numpy.savez(FILE, first, second, ...)",
        ) from error
    wanted = [type.dtype for type in types] + [None] * len(arrays)
    return [
        array.view(dtype) if dtype is not None and array.dtype.kind == "V" else array
        for array, dtype in zip(arrays, wanted, strict=False)
    ]


if __name__ == "__main__":
    sys.exit(main())
