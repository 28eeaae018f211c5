"""What the passes' own benchmarks measure: their tables, run as they are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Container, Iterator

from benchmarks.experiments.environments import Environments
from benchmarks.experiments.records import Settings
from benchmarks.measure import ROOT
from benchmarks.passes import TABLES

OURS_AND_JAX = ("jaxlib", "jax", "optree", "networkx", "opt_einsum")
CHAINS = {"small": ("--n", "300", "--rounds", "3"), "full": ()}


def commands(settings: Settings, environments: Environments) -> dict[str, list[str]]:
    """Return the command of each table, with the interpreters of peers that are here."""
    # Some find JAX by import, so it is best to run where both are.
    python = environments.python_for(OURS_AND_JAX) or sys.executable
    others = {peer: environments.python_for((peer,)) for peer in ("jax", "torch")}
    found = {}
    for name, peers in TABLES.items():
        options = [word for peer in peers if (at := others[peer]) for word in (f"--{peer}", at)]
        found[name] = [python, "-m", f"benchmarks.{name}", "--size", settings.size, *options]
    chains = [python, "-m", "benchmarks.linear_algebra", *CHAINS[settings.size]]
    return {**found, "matrix chains": chains}


def texts(
    settings: Settings,
    environments: Environments,
    say: Callable[[str], None],
    known: Container[str] = (),
) -> Iterator[tuple[str, str]]:
    """Run each that is not known; yield its title and what it printed."""
    for name, command in commands(settings, environments).items():
        title = f"passes: {name}"
        if title not in known:
            say(title)
            text = _printed(command, settings.timeout)
            print(f"{name}\n\n{text}", flush=True)
            yield title, text


def _printed(command: list[str], timeout: float) -> str:
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return f"timed out: more than {timeout:g} s\n"
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return f"{done.stdout}\nfailed: {lines[-1]}\n"
    return done.stdout
