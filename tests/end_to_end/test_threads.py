"""Threads that change what holds for the process while others trace and compute.

What another thread would do at a certain place is done at that place, on this one, where it can be:
such a test fails each time that the guard is missing.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.array import convert, defaults, promotion
from tracer.array.dispatch import compound
from tracer.compilation.function import CompiledFunction
from tracer.lowering.run import budget, sharded, transfer

pytestmark = pytest.mark.xla
NARROW = np.dtype("float32")
INTEGERS = np.arange(4)


class Default:
    """The default float, which becomes float32 once, as if by another thread."""

    def __init__(self, settings: ExitStack) -> None:
        self.settings = settings
        self.is_narrow = False

    def narrow(self) -> None:
        if not self.is_narrow:
            self.is_narrow = True
            self.settings.enter_context(tracer.config(default_float="float32"))


@pytest.fixture
def default() -> Iterator[Default]:
    with ExitStack() as settings:
        yield Default(settings)


def then(function: Callable[..., Any], do: Callable[[], None]) -> Callable[..., Any]:
    """Return a function after which something else happens."""

    def both(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        do()
        return result

    return both


def test_a_program_of_the_old_default_is_not_kept_by_its_function(
    default: Default, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = CompiledFunction._program_and_arrays
    monkeypatch.setattr(CompiledFunction, "_program_and_arrays", then(found, default.narrow))
    halved, x = tracer.compile(lambda x: x / 2), tnp.asarray(INTEGERS)
    halved(x)
    assert halved(x).dtype == NARROW


def test_a_program_of_the_old_default_is_not_kept_for_eager_calls(default: Default) -> None:
    halved = compound(then(lambda x: x / 2, default.narrow))
    x = tnp.asarray(INTEGERS)
    halved(x)
    assert halved(x).dtype == NARROW


def test_a_dtype_of_the_old_default_is_not_kept(
    default: Default, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promotion, "_WEAK_DTYPES", {})
    monkeypatch.setattr(promotion, "_narrow", then(promotion._narrow, default.narrow))
    promotion.weak_dtype(np.dtype("int64"), float)
    assert promotion.weak_dtype(np.dtype("int64"), float) == NARROW


def test_a_program_made_while_the_default_changes_is_of_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    halved = compound(lambda x: x / 2 + 0.5)
    x = tnp.asarray(INTEGERS)
    halved(x)
    told = [then(forget, lambda: halved(x)) for forget in defaults._TOLD]
    monkeypatch.setattr(defaults, "_TOLD", told)
    with tracer.config(default_float="float32"):
        assert halved(x).dtype == NARROW


def test_a_number_put_on_the_old_default_device_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put = convert.from_host
    monkeypatch.setattr(convert, "from_host", then(put, convert.forget_scalars))
    first = convert.scalar(1234.5, NARROW)
    monkeypatch.setattr(convert, "from_host", put)
    assert convert.scalar(1234.5, NARROW) is not first


def test_functions_are_made_while_the_default_changes() -> None:
    kept = [tracer.compile(lambda x: x) for _ in range(2000)]
    is_over = threading.Event()

    def make() -> None:
        while not is_over.is_set():
            kept[:10] = [tracer.compile(lambda x: x) for _ in range(10)]

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=make)
    thread.start()
    try:
        for _ in range(30):
            with tracer.config(default_float="float32"):
                pass
    finally:
        is_over.set()
        thread.join()
        sys.setswitchinterval(before)


class TakenBack:
    """A memory budget that another thread takes back as soon as it was looked at."""

    def __init__(self) -> None:
        self._budgets = [budget.Budget(10**12, None)]

    @property
    def budget(self) -> Any:
        return self._budgets.pop() if self._budgets else None


def test_a_budget_may_be_taken_back_while_an_array_is_put(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "ASKED", TakenBack())
    np.testing.assert_array_equal(tnp.asarray(INTEGERS), INTEGERS)
    monkeypatch.setattr(sharded, "ASKED", TakenBack())
    mesh = tracer.sharding.Mesh(tracer.devices()[:1], "x")
    whole = tracer.sharding.NamedSharding(mesh, tracer.sharding.PartitionSpec())
    np.testing.assert_array_equal(tracer.device_put(INTEGERS, whole), INTEGERS)


SHARED_WHILE_A_CALL_TAKES_IT = """
import numpy as np, tracer, tracer.numpy as tnp
f = tracer.compile(lambda x: x + 1, donate_argnums=0)
f(tnp.ones(100))
program = next(iter(f._programs.values())).execute
run, x, views = program._execute, tnp.ones(100), []
def run_while_it_is_shared(given):
    views.append(np.from_dlpack(x))
    return run(given)
program._execute = run_while_it_is_shared
print(float(f(x)[0]), views[0][0], x.is_deleted())
"""


@pytest.mark.process
def test_an_array_may_be_shared_while_a_call_takes_it() -> None:
    # In a process of its own, which XLA ends where the buffer is deleted.
    command = [sys.executable, "-c", SHARED_WHILE_A_CALL_TAKES_IT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("2.0 1.0 True\n", 0), done.stderr
