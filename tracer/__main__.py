"""The command line: plan and run functions and StableHLO modules within a byte limit.

python -m tracer plan script.py:function --args "f32[20000,3]" "f32[20000]" --memory-limit 1GB
python -m tracer plan model.mlir --memory-limit 1GB --device tpu:v5e
python -m tracer run model.mlir --args in.npz --out out.npz --memory-limit 1GB
python -m tracer report script.py:function --args "f32[20000,3]" --html report.html
python -m tracer doctor
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
from tracer.command import (
    check_arguments,
    doctor,
    is_script,
    load_function,
    parse_type,
    sample_arguments,
)
from tracer.errors import ArgumentError, TracerError
from tracer.units import format_bytes


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
        prog="python -m tracer", description="Plan and run programs within a byte limit."
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    plan = commands.add_parser("plan", help="say what a program takes; runs nothing")
    plan.add_argument("--json", action="store_true", help="print the plan as JSON")
    plan.set_defaults(command=_plan)
    report = commands.add_parser(
        "report", help="run a program on random numbers; say what it was to take, and took"
    )
    report.set_defaults(command=_report)
    for command in (plan, report):
        command.add_argument("--html", metavar="FILE", help="write the page of the plan")
        command.add_argument(
            "--args", metavar="TYPE", nargs="*", default=[], help='such as "f32[20000,3]"'
        )
    look = commands.add_parser("doctor", help="versions, devices, memory, a self-test")
    look.set_defaults(command=lambda _: "\n".join(doctor()))
    run = commands.add_parser("run", help="run a module")
    run.add_argument(
        "--args", metavar="FILE", help="arguments, in their order (.npz, or .npy for one)"
    )
    run.add_argument("--out", metavar="FILE", help="where the results go (.npz)")
    run.set_defaults(command=_run)
    for command in (plan, run, report):
        what = "SCRIPT.py:FUNCTION, or a StableHLO module: text, bytecode or portable artifact"
        command.add_argument("model", help=what)
        command.add_argument("--memory-limit", metavar="SIZE", help="such as 1GB, 500MiB, 50%%")
        command.add_argument("--device", help="such as cpu:0, or tpu:v5e for a plan without one")
    return parser


def _compiled(options: argparse.Namespace) -> tuple[Any, Any]:
    """Return the types of a program's arguments, and the program compiled."""
    if is_script(options.model):
        function: Any = load_function(options.model)
        types = [parse_type(text) for text in _listed(options)]
        check_arguments(function, types)
    else:
        path = Path(options.model)
        function = tracer.from_stablehlo(path.read_bytes(), name=str(path))
        types = list(function.input_types)
    compiled = tracer.compile(function, memory_limit=options.memory_limit, device=options.device)
    return types, compiled


def _listed(options: argparse.Namespace) -> list[str]:
    """Return the types that the command line lists; a file of arguments has none."""
    return options.args if isinstance(options.args, list) else []


def _plan(options: argparse.Namespace) -> str:
    types, compiled = _compiled(options)
    plan = compiled.plan(*types)
    if options.html is not None:
        plan.save(options.html)
    return json.dumps(plan.to_dict(), indent=2) if options.json else str(plan)


def _report(options: argparse.Namespace) -> str:
    types, compiled = _compiled(options)
    given = sample_arguments(types)
    samples = compiled.sample_memory(*given)
    plan = compiled.plan(*given)
    if options.html is not None:
        plan.save(options.html, measured=samples)
    measured = format_bytes(max(nbytes for _, nbytes in samples))
    return (
        f"{plan}\nmeasured\n  a call took {measured} and {samples[-1][0]:.3g} s, on random numbers"
    )


def _run(options: argparse.Namespace) -> str:
    types, compiled = _compiled(options)
    results = compiled(*_arguments(options, types))
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
        loaded = np.load(options.args, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            arrays = [loaded]
        else:
            with loaded as file:
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
