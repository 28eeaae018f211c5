"""Write the programs and figures of docs/recipes from the scripts of examples/recipes.

python docs/generate_recipes.py NAME ...    runs these scripts, and writes what they print
python docs/generate_recipes.py --check     exits with 1 when a page shows another program

A run takes up to a minute, needs matplotlib, and several GB for the program as written. What
stands on a page between `<!-- program: NAME -->` or `<!-- measured: NAME -->` and `<!-- end -->` is
written here; all else is written by hand.
"""

from __future__ import annotations

import ast
import datetime
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "examples" / "recipes"
PAGES = ROOT / "docs" / "recipes"
HIDDEN = {"from recipe import Recipe, relative_error", "import scipy.linalg"}
"""What only the checks of the scripts need."""
PROGRAM = re.compile(r"(?<=<!-- program: )(\w+) -->\n.*?(?=<!-- end -->)", re.DOTALL)
MEASURED = re.compile(r"(?<=<!-- measured: )(\w+) -->\n.*?(?=<!-- end -->)", re.DOTALL)


def names() -> list[str]:
    """Return the names of the recipes."""
    return sorted(path.stem for path in SCRIPTS.glob("*.py") if path.stem != "recipe")


def shown(name: str) -> str:
    """Return what a page shows of a script: what is above `check`, and the call in full size."""
    text = (SCRIPTS / f"{name}.py").read_text()
    tree = ast.parse(text)
    first = tree.body[1].lineno  # behind the docstring
    check = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "check")
    lines = text.splitlines()[first - 1 : check.lineno - 1]
    kept = [line for line in lines if line not in HIDDEN]
    if "import tracer" not in kept:  # The call needs it.
        kept.insert(kept.index("import tracer.numpy as tnp"), "import tracer")
    return "\n".join(kept).strip() + "\n\n\n" + call(tree)


def call(tree: ast.Module) -> str:
    """Return the compiled call in full size, from the arguments of the script's `RECIPE`."""
    recipe = next(node.value for node in tree.body if ast.unparse(node).startswith("RECIPE"))
    program, data, _, full = map(ast.unparse, recipe.args)
    limit, *sizes = ast.literal_eval(full)
    given = ", ".join(f"{size:_}" if isinstance(size, int) else repr(size) for size in sizes)
    return f'f = tracer.compile({program}, memory_limit="{limit}")\nresult = f(*{data}({given}))\n'


def page(text: str) -> str:
    """Return the text of a page with its programs written anew."""
    return PROGRAM.sub(lambda m: f"{m[1]} -->\n```python\n{shown(m[1])}```\n", text)


def measured(text: str, name: str) -> str:
    """Return the text of a page with a recipe run again: its figures, and its picture beside it."""
    picture = PAGES / f"{name.replace('_', '-')}.png"
    limited = printed(name, "--picture", str(picture))
    written = printed(name, "--as-written")
    block = (
        f"```text\n$ python examples/recipes/{name}.py\n{limited}"
        f"$ python examples/recipes/{name}.py --as-written\n{written}```\n\n"
        f"{machine()}\n\n![{name.replace('_', ' ')}]({picture.name})\n"
    )
    return MEASURED.sub(lambda m: f"{m[1]} -->\n{block}" if m[1] == name else "".join(m[0]), text)


def printed(name: str, *options: str) -> str:
    """Return what a script prints in a fresh process."""
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / f"{name}.py"), *options],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout


def machine() -> str:
    """Return what the figures were measured on, and when."""
    information = Path("/proc/cpuinfo").read_text()
    processor = next(x for x in information.splitlines() if x.startswith("model name"))
    today = datetime.datetime.now(datetime.UTC).date()
    return (
        f"{len(os.sched_getaffinity(0))} cores of {processor.partition(': ')[2]}, "
        f"Python {platform.python_version()}, {today.day} {today:%B %Y}."
    )


def main(arguments: list[str]) -> int:
    """Check the pages, or write those of some recipes."""
    pages = {path: path.read_text() for path in sorted(PAGES.glob("*.md"))}
    if arguments == ["--check"]:
        return int(any(page(text) != text for text in pages.values()))
    for path, text in pages.items():
        new = page(text)
        for name in arguments:
            if f"<!-- measured: {name} -->" in new:
                new = measured(new, name)
        path.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
