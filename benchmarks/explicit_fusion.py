"""Experiments with what XLA:CPU could be told: explicit fusions, variadic reductions, its own pass.

None of these is in the package; docs/fusion.md has the figures that decided it::

    python -m benchmarks.explicit_fusion

Each runs in a process of its own, since one of them aborts it: a fusion with several results that
is written in StableHLO's `mhlo.fusion` fails a check inside of XLA (shape.h, `has_layout()`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from benchmarks.race import race, short_time
from examples.display import print_table
from tracer import lowering

ROOT = Path(__file__).resolve().parent.parent
N = 1_000
MATRIX, ROW, NUMBER = f"tensor<{N}x{N}xf32>", f"tensor<{N}xf32>", "tensor<f32>"
LOOP = "{fusion_kind = #mhlo<fusion_kind kLoop>}"
OWN_PASS = "--xla_backend_extra_options=xla_cpu_use_multi_output_fusion=true"


def _module(results: str, names: str, lines: str) -> str:
    return (
        f"module @m {{ func.func public @main(%x: {MATRIX}) -> ({results}) {{\n{lines}"
        f"  return {names} : {results}\n}} }}"
    )


def fusion(results: str, name: str, lines: str, returned: str) -> str:
    """Return the text of an explicit fusion that computes an exponential first."""
    return (
        f'  {name} = "mhlo.fusion"(%x) ({{\n  ^bb0(%a: {MATRIX}):\n'
        f"    %e = mhlo.exponential %a : {MATRIX}\n{lines}"
        f"    mhlo.return {returned} : {results}\n  }}) {LOOP} : ({MATRIX}) -> ({results})\n"
    )


def _sum(axis: int) -> str:
    return (
        f"    %z = mhlo.constant dense<0.0> : {NUMBER}\n"
        f"    %r = mhlo.reduce(%e init: %z) applies mhlo.add across dimensions = [{axis}] : "
        f"({MATRIX}, {NUMBER}) -> {ROW}\n"
    )


def sums() -> tuple[str, Callable[[Any], Any]]:
    """Return sums of an exponential over rows and columns, an explicit fusion for each."""
    lines = "".join(fusion(ROW, f"%s{axis}", _sum(axis), "%r") for axis in (1, 0))
    return _module(f"{ROW}, {ROW}", "%s1, %s0", lines), lambda x: (
        (y := tnp.exp(x)).sum(1),
        y.sum(0),
    )


def two_results() -> tuple[str, Callable[[Any], Any]]:
    """Return two results of an exponential in one explicit fusion: it aborts the process."""
    lines = f"    %r = mhlo.add %e, %a : {MATRIX}\n    %s = mhlo.multiply %e, %a : {MATRIX}\n"
    both = f"{MATRIX}, {MATRIX}"
    text = _module(both, "%p#0, %p#1", fusion(both, "%p:2", lines, "%r, %s"))
    return text, lambda x: ((y := tnp.exp(x)) + x, y * x)


def variadic(kinds: tuple[str, str], axis: int) -> tuple[str, Callable[[Any], Any]]:
    """Return two reductions in one: of an array and of its square, or two extremes."""
    is_sum = kinds[0] == "add"
    start = {"add": "0.0", "maximum": "0xFF800000", "minimum": "0x7F800000"}
    second = "%y" if is_sum else "%x"
    lines = "".join(
        f"  %i{i} = stablehlo.constant dense<{start[kind]}> : {NUMBER}\n"
        for i, kind in enumerate(kinds)
    )
    lines += f"  %y = stablehlo.multiply %x, %x : {MATRIX}\n"
    lines += f'  %r:2 = "stablehlo.reduce"(%x, {second}, %i0, %i1) ({{\n'
    lines += f"  ^bb0(%a: {NUMBER}, %b: {NUMBER}, %c: {NUMBER}, %d: {NUMBER}):\n"
    lines += f"    %p = stablehlo.{kinds[0]} %a, %c : {NUMBER}\n"
    lines += f"    %q = stablehlo.{kinds[1]} %b, %d : {NUMBER}\n"
    lines += f"    stablehlo.return %p, %q : {NUMBER}, {NUMBER}\n"
    lines += f"  }}) {{dimensions = array<i64: {axis}>}} : "
    lines += f"({MATRIX}, {MATRIX}, {NUMBER}, {NUMBER}) -> ({ROW}, {ROW})\n"

    def plain(x: Any) -> Any:
        if is_sum:
            return x.sum(axis), (x * x).sum(axis)
        return x.max(axis), x.min(axis)

    return _module(f"{ROW}, {ROW}", "%r#0, %r#1", lines), plain


EXPERIMENTS: dict[str, Callable[[], tuple[str, Callable[[Any], Any]]]] = {
    "mhlo.fusion, two sums": sums,
    "mhlo.fusion, two results": two_results,
    "variadic sums, rows": lambda: variadic(("add", "add"), 1),
    "variadic sums, columns": lambda: variadic(("add", "add"), 0),
    "variadic extremes, rows": lambda: variadic(("maximum", "minimum"), 1),
    "variadic extremes, columns": lambda: variadic(("maximum", "minimum"), 0),
}


def run(name: str) -> dict[str, float]:
    """Return the seconds of the told form, of ours, and of ours without the fusion merger."""
    text, plain = EXPERIMENTS[name]()
    array = np.random.default_rng(0).standard_normal((N, N)).astype(np.float32)
    x = tnp.asarray(array)
    ours = tracer.compile(plain, split="never")
    without = tracer.compile(plain, split="never", passes="-fusion-merger")
    told = _compile_text(text)
    device = lowering.default_device()
    buffer = lowering.to_device(array, device)
    found = race(
        {
            # The client computes before it returns, so a call is over when it is back.
            "told": lambda: told.execute_sharded([buffer]),
            "ours": lambda: ours(x),
            "merger off": lambda: without(x),
        },
        rounds=15,
        calls=5,
    )
    return {name: times.median for name, times in found.items()}


def _compile_text(text: str) -> Any:
    """Compile a module that may hold ops of the mhlo dialect, as XLA does by default."""
    from jaxlib import _jax, xla_client
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import mhlo

    from tracer.lowering.shims import make_context

    device = lowering.default_device()
    context = make_context()
    with context:
        mhlo.register_mhlo_dialect(context)
        module = ir.Module.parse(text)
        options = xla_client.CompileOptions()
        return device.client.compile_and_load(module, _jax.DeviceList((device.raw,)), options)


def adam_with_own_pass() -> tuple[str, str]:
    """Return seconds of a loop of Adam over 200 arrays, without and with XLA's own pass."""
    code = (
        "from benchmarks.adam import compiled, kernels_of; from benchmarks.race import race\n"
        "run, text = compiled('ours, pass off', 200, 1000)\n"
        "print(race({'it': run}, rounds=9)['it'].median, kernels_of(text))"
    )
    found = []
    for flags in ("", OWN_PASS):
        done = _python("-c", code, flags=flags)
        seconds, kernels = done.stdout.split()
        found.append(f"{short_time(float(seconds))}, {kernels} kernels a trip")
    return found[0], found[1]


def _python(*arguments: str, flags: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
        check=False,
    )


def main() -> None:
    """Print what each experiment took."""
    rows: list[tuple[str, ...]] = []
    for name in EXPERIMENTS:
        done = _python("-m", "benchmarks.explicit_fusion", "--only", name)
        if done.returncode < 0:
            rows.append((name, "the process is aborted", "", ""))
            continue
        done.check_returncode()
        times = json.loads(done.stdout.splitlines()[-1])
        rows.append((name, *(short_time(times[key]) for key in ("told", "ours", "merger off"))))
    print_table(
        f"Told to XLA, {N} x {N} float32", ("experiment", "told", "ours", "merger off"), rows
    )
    without, own = adam_with_own_pass()
    print(f"\nAdam over 200 arrays: {without}; with XLA's own multi-output fusion: {own}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=EXPERIMENTS)
    chosen = parser.parse_args().only
    if chosen is None:
        main()
    else:
        print(json.dumps(run(chosen)))
