"""A web server that forks its workers, and a Jupyter kernel that is interrupted and restarted.

Both are the real ones, in processes of their own.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.xla, pytest.mark.process]
ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 120
_APPLICATION = """
import numpy as np, tracer, tracer.numpy as tnp

made = tracer.compile(lambda x: tnp.exp(-((x[:, None] - x) ** 2)).sum(1), memory_limit="2MB")
{before}

def application(environ, start_response):
    n = int(environ["QUERY_STRING"])
    try:
        x = np.linspace(0, 1, n)
        wanted = np.exp(-((x[:, None] - x) ** 2)).sum(1)
        text = "right" if np.allclose(made(x), wanted) else "wrong"
    except tracer.TracerError as error:
        text = type(error).__name__
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [text.encode()]
"""


@contextmanager
def server(
    folder: Path, before: str
) -> Iterator[tuple[subprocess.Popen[str], Callable[[int], str]]]:
    """Start gunicorn with two workers that are forked from one that has the program loaded."""
    (folder / "served.py").write_text(_APPLICATION.format(before=before))
    path = folder / "socket.txt"
    command = [
        sys.executable, "-m", "gunicorn", "--preload", "--workers", "2", "--bind", "127.0.0.1:0",
        "--log-level", "info", "--chdir", str(folder), "served:application",
    ]  # fmt: skip
    with (
        path.open("w") as log,
        subprocess.Popen(command, stderr=log, stdout=log, text=True, cwd=ROOT) as process,
    ):
        try:
            address = waited(lambda: _address(path.read_text()))

            def ask(n: int) -> str:
                with urllib.request.urlopen(f"{address}/?{n}", timeout=SECONDS) as answer:
                    return str(answer.read().decode())

            yield process, ask
        finally:
            process.terminate()


def _address(log: str) -> str | None:
    found = [word for word in log.split() if word.startswith("http://")]
    return found[-1].rstrip(")") if found and "Booting worker" in log else None


def waited(look: Callable[[], Any]) -> Any:
    """Look until there is something."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("nothing came in time")


def test_workers_of_a_preloaded_program_answer_and_are_reloaded(tmp_path: Path) -> None:
    pytest.importorskip("gunicorn")
    with server(tmp_path, "") as (process, ask), ThreadPoolExecutor(4) as clients:
        assert set(clients.map(ask, range(300, 320))) == {"right"}
        process.send_signal(signal.SIGHUP)
        answers = []

        def try_to_ask(n: int) -> None:
            # A worker that leaves may close a connection; so it does without tracer.
            try:
                answers.append(ask(n))
            except (urllib.error.URLError, ConnectionError):
                answers.append("closed")

        list(clients.map(try_to_ask, range(300, 330)))
        assert set(answers) <= {"right", "closed"}
        assert answers.count("right") >= 25
        assert ask(100) == "right"


def test_workers_forked_after_the_first_array_say_so(tmp_path: Path) -> None:
    pytest.importorskip("gunicorn")
    with server(tmp_path, "made(np.ones(10))") as (_, ask):
        assert [ask(300) for _ in range(4)] == ["DeviceError"] * 4


_FIRST_CELL = """
import numpy as np, tracer, tracer.numpy as tnp
f = tracer.compile(lambda x: tnp.exp(-((x[:, None] - x) ** 2)).sum(1), memory_limit="2MB")
x = np.linspace(0, 1, 2000)
print(f"{float(f(x).sum()):.6e}")
"""
_REFUSED = 'tracer.compile(lambda x: tnp.sort(x @ x), memory_limit="1MB")(np.ones((900, 900)))'


def test_a_notebook_is_interrupted_and_restarted() -> None:
    pytest.importorskip("ipykernel")
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(cwd=str(ROOT))
    try:
        first = run_cell(client, _FIRST_CELL)
        assert "e+" in first
        assert "MemoryLimitError" in run_cell(client, _REFUSED)
        client.execute("while True: f(x)")
        time.sleep(1)
        manager.interrupt_kernel()
        assert "KeyboardInterrupt" in finished(client)
        assert run_cell(client, 'print(f"{float(f(x).sum()):.6e}")') == first
        manager.restart_kernel(now=True)
        client.wait_for_ready(timeout=SECONDS)
        assert "NameError" in run_cell(client, "f(x)")
        assert run_cell(client, _FIRST_CELL) == first
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run_cell(client: Any, code: str) -> str:
    """Run a cell; return what it printed, or the name of its error."""
    client.execute(code)
    return finished(client)


def finished(client: Any) -> str:
    """Return what the cell that runs prints or raises, at its end."""
    found = ""
    while True:
        message = client.get_iopub_msg(timeout=SECONDS)
        kind, content = message["msg_type"], message["content"]
        if kind == "stream" and content["name"] == "stdout":
            found += content["text"]
        if kind == "error":
            found += content["ename"]
        if kind == "status" and content["execution_state"] == "idle" and found:
            return found
