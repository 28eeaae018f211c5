"""Where each peer lives: this interpreter, or an environment of its own."""

from __future__ import annotations

import functools
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT

DISTRIBUTIONS = {
    "jaxlib": "jaxlib",
    "optree": "optree",
    "networkx": "networkx",
    "opt_einsum": "opt_einsum",
    "numpy": "numpy",
    "scipy": "scipy",
    "jax": "jax",
    "torch": "torch",
    "pykeops": "pykeops",
    "sklearn": "scikit-learn",
    "faiss": "faiss-cpu",
    "gpflow": "gpflow",
    "tensorflow": "tensorflow-cpu",
    "gpytorch": "gpytorch",
    "cubed": "cubed",
    "flax": "flax",
    "ott": "ott-jax",
    "tinygp": "tinygp",
}
"""Modules, and the distributions that they come from."""
_PROBE = """
import importlib.metadata, importlib.util, json, sys
found = {}
for module, distribution in json.loads(sys.argv[1]).items():
    if importlib.util.find_spec(module) is not None:
        try:
            found[module] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            found[module] = "unknown"
print(json.dumps(found))
"""


_USE_A_GPU = """
import tracer
try:
    tracer.set_default_device("gpu:0")
except tracer.DeviceError as error:
    print(f"{error.what}; {error.mend}")
"""


def without_gpu() -> str:
    """Return why ours finds no GPU; empty where there is one.

    In a process of its own: a process that has looked holds some of the device's memory.
    """
    done = subprocess.run(
        [sys.executable, "-c", _USE_A_GPU], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@dataclass(frozen=True)
class Environments:
    """Interpreters, and the modules and versions that each has."""

    versions: Mapping[str, Mapping[str, str]]

    def python_for(self, needs: Sequence[str]) -> str | None:
        """Return the first interpreter that has all modules; None where there is none."""
        programs = [name for name in needs if name not in DISTRIBUTIONS]
        if not all(map(shutil.which, programs)):
            return None
        modules = set(needs) - set(programs)
        fitting = (python for python, have in self.versions.items() if modules <= have.keys())
        return next(fitting, None)

    def all_versions(self) -> dict[str, str]:
        """Return the version of each module where it is found first, as `python_for` does."""
        merged: dict[str, str] = {}
        for have in self.versions.values():
            merged = {**have, **merged}
        return merged

    def missing(self, needs: Sequence[str]) -> str:
        """Say what no interpreter has."""
        here = {module for have in self.versions.values() for module in have}
        absent = [n for n in needs if n not in here and shutil.which(n) is None]
        return f"not installed: {', '.join(absent)}" if absent else "in no one interpreter together"


def find(folder: str | None) -> Environments:
    """Look into this interpreter and into the environments of a folder."""
    others = sorted(Path(folder).glob("*/bin/python")) if folder is not None else []
    pythons = [sys.executable, *(str(path) for path in others if os.access(path, os.X_OK))]
    return Environments({python: _modules(python) for python in pythons})


@functools.cache
def _modules(python: str) -> Mapping[str, str]:
    done = subprocess.run(
        [python, "-c", _PROBE, json.dumps(DISTRIBUTIONS)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(f"{python}: cannot be asked what it has: {done.stderr.strip()[-200:]}")
        return {}
    found: dict[str, str] = json.loads(done.stdout)
    return found


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": memory,
        "system": platform.platform(),
        "python": platform.python_version(),
        "commit": _commit(),
    }


def _commit() -> str:
    root = Path(__file__).resolve().parent
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"
