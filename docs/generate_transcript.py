"""Write what commands and three mistakes print into docs/what-you-see.md.

python docs/generate_transcript.py             runs all of them (a minute)
python docs/generate_transcript.py --mistakes  those of examples/mistakes only

What stands between `<!-- run: NAME -->` and `<!-- end -->` is written here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "what-you-see.md"
MISTAKES = ROOT / "examples" / "mistakes"
BLOCK = re.compile(r"(?<=<!-- run: )(\S+) -->\n.*?(?=<!-- end -->)", re.DOTALL)
COMMANDS = {
    "doctor": ("python -m tracer doctor", ["-m", "tracer", "doctor"]),
    "demo": ("make demo", ["examples/quickstart.py"]),
}


def mistake(name: str) -> str:
    """Return a script without its docstring, and what it prints as a file of that name."""
    text = (MISTAKES / f"{name}.py").read_text().split('"""\n', 1)[1].strip() + "\n"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{name}.py").write_text(text)
        printed = _printed([f"{name}.py"], folder).replace(f"{folder}/", "")
    return f"```py\n{text}```\n\n```console\n$ python {name}.py\n{printed}```\n"


def command(name: str) -> str:
    """Return a command and what it prints."""
    shown, arguments = COMMANDS[name]
    printed = _printed(arguments, ROOT).replace(f"{sys.prefix}/", ".venv/").replace(f"{ROOT}/", "")
    return f"```console\n$ {shown}\n{printed}```\n"


def _printed(arguments: list[str], folder: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    lines = (done.stdout or done.stderr).splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


def page(text: str, *, only_mistakes: bool) -> str:
    """Return the text of the page with its blocks written anew."""

    def written(found: re.Match[str]) -> str:
        name = found[1]
        if name in COMMANDS:
            return found[0] if only_mistakes else f"{name} -->\n{command(name)}"
        return f"{name} -->\n{mistake(name)}"

    return BLOCK.sub(written, text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(), only_mistakes="--mistakes" in sys.argv))
