"""`python -m tests.fuzz --seconds 600 --seed 1`: programs until the time is over."""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from tests.fuzz.check import CONFIGS
from tests.fuzz.failure import Failure
from tests.fuzz.generate import generate
from tests.fuzz.program import Program
from tests.fuzz.report import Report
from tests.fuzz.shrink import shrink
from tests.fuzz.supervise import Answer, FuzzerError, Worker

_SHRINKING = 180.0
_FIXED = range(40)
"""Seeds that every run of CI tries, before new ones."""
_ROOT = Path(__file__).resolve().parent.parent.parent


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def configs_of(seed: int) -> list[str]:
    """Return how the program of a seed is compiled: without a limit, and often in another way.

    Limits take a planner's time, so each program has one at most.
    """
    rng = np.random.default_rng([seed, 7])
    other = rng.choice(CONFIGS[1:], p=(0.2, 0.1, 0.2, 0.15, 0.1, 0.1, 0.15))
    return ["none", str(other)] if rng.random() < 0.6 else ["none"]


def peers_of(seed: int) -> list[str]:
    """Return who else runs the program of a seed: JAX, which compiles it too, only some."""
    return ["numpy", "jax"] if seed % 3 == 0 else ["numpy"]


def seed_of_source() -> int:
    """Return a seed that is another one for each state of the package's code.

    So each change meets programs that no change before it met, and a run of CI that is repeated
    says the same again.
    """
    digest = hashlib.blake2b(digest_size=4)
    for path in sorted((_ROOT / "tracer").rglob("*.py")):
        digest.update(path.read_bytes())
    return 10**9 + int.from_bytes(digest.digest())


def seeds(arguments: argparse.Namespace) -> Iterator[int]:
    """Yield the seeds of a run."""
    if arguments.only is not None:
        yield from arguments.only
        return
    if arguments.fixed:
        yield from _FIXED
    yield from range(arguments.seed, arguments.seed + 10**9)


def main() -> int:
    """Run; 1 when something was found."""
    arguments = _arguments()
    stop, start = time.monotonic() + arguments.seconds, time.monotonic()
    report = Report()
    say(f"fuzz: seeds from {arguments.seed} on, {arguments.seconds:.0f} s")
    with Worker() as worker, suppress(KeyboardInterrupt):  # Ctrl-C ends with the report so far.
        for seed in seeds(arguments):
            if time.monotonic() > stop:
                break
            program, configs = generate(seed), configs_of(seed)
            answer = worker.ask(program, configs, peers_of(seed))
            if arguments.verbose:
                say(f"{seed} {answer.seconds:.1f} s {program.theme} {' '.join(configs)}")
            for failure in report.add(program, answer)[:1]:
                _found(seed, program, failure, worker, arguments)
    report.seconds = time.monotonic() - start
    say(str(report))
    return int(bool(report.failures))


def _found(
    seed: int, program: Program, failure: Failure, worker: Worker, arguments: argparse.Namespace
) -> None:
    """Make a failing program small, and say what it is."""
    say(f"=== seed {seed}: {failure}")
    if failure.kind != "hang" and arguments.shrink:
        program = shrink(program, lambda small: _same(worker, small, failure), arguments.shrink)
    note = f"seed {seed}; {failure.kind} ({failure.config}): {failure.culprit}"
    say(program.text(note))
    if arguments.out is not None:
        path = Path(arguments.out)
        path.mkdir(exist_ok=True, parents=True)
        (path / f"seed_{seed}_{failure.kind}.txt").write_text(program.text(note))


def _same(worker: Worker, program: Program, failure: Failure) -> bool:
    configs = [failure.config] if failure.config else ["none"]
    needs_peak = failure.config not in ("", "none", "never", "minimum")
    try:
        ways = ["none", *configs] if needs_peak else configs
        peers = [failure.kind] if failure.kind in ("numpy", "jax") else []
        answer: Answer = worker.ask(program, ways, peers)
    except FuzzerError:  # A candidate that is no program.
        return False
    return failure.signature in [item.signature for item in answer.failures]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, help="the first new seed; the time, if none is given")
    parser.add_argument("--only", type=int, nargs="+", help="these seeds and no others")
    parser.add_argument(
        "--fixed", action="store_true", help="the fixed seeds first, then new ones of the source"
    )
    parser.add_argument("--shrink", type=float, default=_SHRINKING, help="seconds for each failure")
    parser.add_argument("--out", help="a folder for shrunk programs")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = seed_of_source() if arguments.fixed else int(time.time())
    return arguments


if __name__ == "__main__":
    sys.exit(main())
