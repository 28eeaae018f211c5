"""All tables of the passes, one after another: fusion, aliasing, rematerialisation, whole loops.

python -m benchmarks.passes [--size small] [--jax PYTHON] [--torch PYTHON] [--markdown FILE] [name]

Each is a command of its own (`python -m benchmarks.cartpole`, ...), which this one starts.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLES = {
    "cartpole": ("jax", "torch"),
    "adam": (),
    "fusion": (),
    "donation": (),
    "rematerialisation": (),
    "vgg19": ("torch",),
}
"""The commands, and which interpreters of peers each takes."""


def run(name: str, size: str, interpreters: dict[str, str | None]) -> str:
    """Run one command, let its messages through, and return what it printed."""
    given = [(peer, interpreters[peer]) for peer in TABLES[name] if interpreters[peer]]
    options = [word for peer, python in given for word in (f"--{peer}", str(python))]
    command = [sys.executable, "-m", f"benchmarks.{name}", "--size", size, *options]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, flush=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}")
    return (
        f"## {name}\n\n`{' '.join(['python', *command[1:]])}`\n\n```\n{done.stdout.strip()}\n```\n"
    )


def main() -> None:
    """Run the chosen tables, and write them to a file if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(TABLES))
    parser.add_argument("--size", choices=("small", "full"), default="full")
    parser.add_argument("--jax", metavar="PYTHON", help="an interpreter that has JAX")
    parser.add_argument("--torch", metavar="PYTHON", help="an interpreter that has PyTorch")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write the tables there")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in TABLES]
    if unknown:
        parser.error(f"no table {unknown[0]!r}; there are {', '.join(TABLES)}")
    peers = {"jax": options.jax, "torch": options.torch}
    texts = [run(name, options.size, peers) for name in options.names or TABLES]
    if options.markdown:
        options.markdown.write_text("\n".join(texts))


if __name__ == "__main__":
    main()
