"""Write docs/memory.png: resident memory in a call, with a limit and without.

python docs/generate_memory_picture.py

Each program runs in a process of its own, as what one leaves in the heap would hide what the next
one takes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
POINTS, LIMIT = 15_000, "100MB"
SCRIPT = """
import json, sys
import numpy as np
import tracer, tracer.numpy as tnp
points, options = json.loads(sys.argv[1])

def loss(x, v):
    squared = ((x[:, None] - x[None]) ** 2).sum(-1)
    return ((tnp.exp(-squared) @ v) ** 2).sum()

rng = np.random.default_rng(0)
x = rng.normal(size=(points, 3)).astype("float32")
v = rng.normal(size=points).astype("float32")
print(json.dumps(tracer.compile(tracer.grad(loss, (0, 1)), **options).sample_memory(x, v)))
"""


def samples(**options: object) -> list[tuple[float, int]]:
    """Return seconds and bytes of a call of the gradient, compiled with the options."""
    given = json.dumps([POINTS, options])
    command = [sys.executable, "-c", SCRIPT, given]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [(seconds, nbytes) for seconds, nbytes in json.loads(done.stdout)]


def main() -> None:
    """Measure both and draw them."""
    runs = {"as written": samples(split="never"), f"limit {LIMIT}": samples(memory_limit=LIMIT)}
    figure, axes = plt.subplots(figsize=(7.5, 3.2), layout="constrained")
    for (name, found), colour in zip(runs.items(), ("tab:red", "tab:blue"), strict=True):
        seconds, nbytes = zip(*found, strict=True)
        megabytes = [count / 1e6 for count in nbytes]
        label = f"{name}: {max(megabytes):,.0f} MB"
        axes.plot(seconds, megabytes, color=colour, label=label)
        axes.fill_between(seconds, megabytes, color=colour, alpha=0.25)
    axes.axhline(100, color="black", linestyle=":", label="100 MB")
    axes.set_xlabel("seconds")
    axes.set_ylabel("MB of arguments and resident memory")
    axes.set_title(f"Gradient of a kernel product of {POINTS:,} points, one call")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.savefig(HERE / "memory.png", dpi=130)


if __name__ == "__main__":
    main()
