"""Run the benchmarks that need no data: `python -m benchmarks [--size small] [name ...]`.

With `--device gpu` they run there, where there is one. Peers that are not installed are left out,
with a message.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import tracer
from benchmarks import compile_time, donation, gradients, kernel, linear_algebra, overhead

SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "small": {
        "overhead": {"rounds": 20, "calls": 100},
        "kernel": {"n": 4_000, "rounds": 3},
        "compile_time": {"repeats": 1},
        "gradients": {"rounds": 1},
        "linear_algebra": {"n": 300, "rounds": 3},
        "donation": {"size": "small", "rounds": 2, "repeats": 2},
    },
    "full": {
        "overhead": {},
        "kernel": {},
        "compile_time": {},
        "gradients": {},
        "linear_algebra": {},
        "donation": {},
    },
}
MAINS = {
    "overhead": overhead.main,
    "kernel": kernel.main,
    "compile_time": compile_time.main,
    "gradients": gradients.main,
    "linear_algebra": linear_algebra.main,
    "donation": donation.main,
}


def _use(device: str) -> bool:
    """Make a device the default, here and in processes that are started; say if there is none."""
    try:
        tracer.set_default_device(device)
    except tracer.DeviceError as error:
        print(f"skipped: {error.what}\n  mend:  {error.mend}")
        return False
    os.environ["TRACER_DEVICE"] = device
    return True


def main() -> None:
    """Run the chosen benchmarks one after another."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.splitlines()[0]
    )
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(MAINS))
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--device", metavar="NAME", help="where ours runs, such as gpu:0")
    options = parser.parse_args()
    if options.device is not None and not _use(options.device):
        return
    unknown = [name for name in options.names if name not in MAINS]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(MAINS)}")
    for name in options.names or MAINS:
        MAINS[name](**SIZES[options.size][name])


if __name__ == "__main__":
    main()
