"""What the passes' own benchmarks measure: their tables, run as they are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.experiments.environments import Environments
from benchmarks.experiments.records import Settings
from benchmarks.measure import ROOT


@dataclass(frozen=True)
class Command:
    """A benchmark of its own.

    Attributes
    ----------
    title : str
        The heading of its tables.
    module : str
        Below `benchmarks`.
    small, full : tuple of str
        Its arguments at each size.
    peers : mapping of str to str
        Options that name an interpreter, and the module that it must have.
    """

    title: str
    module: str
    small: tuple[str, ...] = ("--size", "small")
    full: tuple[str, ...] = ("--size", "full")
    peers: Mapping[str, str] | None = None


COMMANDS = (
    Command("Cartpole (seed 002)", "cartpole", peers={"--jax": "jax", "--torch": "torch"}),
    Command("VGG19, forward and backward (seed 004)", "vgg19", peers={"--torch": "torch"}),
    Command("Adam over many arrays", "adam"),
    Command("Donation, and the whole training loop in one program (seed 003)", "donation"),
    Command("Multi-output and producer fusion", "fusion"),
)


def texts(
    settings: Settings, environments: Environments, say: Callable[[str], None]
) -> dict[str, str]:
    """Run each; return what it printed, by title."""
    found = {}
    for command in COMMANDS:
        say(f"passes: {command.title}")
        found[command.title] = _printed(command, settings, environments)
        print(f"{command.title}\n\n{found[command.title]}", flush=True)
    return found


def _printed(command: Command, settings: Settings, environments: Environments) -> str:
    # With jax here or elsewhere: these benchmarks find it by import.
    python = environments.python_for(("jaxlib", "jax")) or sys.executable
    arguments = command.small if settings.size == "small" else command.full
    for option, module in (command.peers or {}).items():
        other = environments.python_for((module,))
        if other is not None:
            arguments = (*arguments, option, other)
    try:
        done = subprocess.run(
            [python, "-m", f"benchmarks.{command.module}", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=settings.timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"timed out: more than {settings.timeout:g} s\n"
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return f"{done.stdout}\nfailed: {lines[-1]}\n"
    return done.stdout
