"""Errors: every raise in the package is ours and says how to mend; users see letters."""

import ast
import builtins
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.source_trees import nodes_of
from tracer import errors

PACKAGE = Path(tracer.__file__).parent
OURS = {name for name, item in vars(errors).items() if isinstance(item, type)}
# Python's own protocols ask for these; none of them reaches a user as a report of a mistake.
PROTOCOL = {"StopIteration", "AttributeError", "AssertionError", "NotImplementedError"}


def raised_calls():
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in nodes_of(path):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                function = node.exc.func
                name = (
                    function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
                )
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", name, node.exc


def test_classes_that_are_raised_are_ours() -> None:
    foreign = {name for name, item in vars(builtins).items() if isinstance(item, type)}
    foreign -= PROTOCOL | OURS
    wrong = [f"{place}: {name}" for place, name, _ in raised_calls() if name in foreign]
    assert not wrong, wrong


def test_every_error_says_how_to_mend() -> None:
    calls = [(place, name, call) for place, name, call in raised_calls() if name in OURS]
    assert len(calls) > 100
    without = [
        place for place, _, call in calls if not any(k.arg in ("mend", None) for k in call.keywords)
    ]
    assert not without, without


@pytest.mark.parametrize(
    "error",
    [
        tracer.ShapeError("shapes differ", mend="reshape one"),
        errors.AxisError("no axis 3", mend="use axis 0"),
        tracer.MemoryLimitError(
            "too small", mend="raise it", limit_bytes=1, minimum_bytes=2, binding="float32[9]"
        ),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_come_back_from_worker_processes(error: tracer.TracerError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert vars(again) == vars(error)
    assert str(again) == str(error)


def test_all_errors_are_public() -> None:
    public = {name for name in OURS if issubclass(getattr(errors, name), tracer.TracerError)}
    assert public <= set(tracer.__all__)


def kernel(x):
    return tnp.exp(x[:, None] - x[None, :]).sum(1)


def branches(x):
    if x.sum() > 0:
        return x
    return -x


def sorts_everything(x):
    return tnp.sort(tnp.exp(x[:, None] - x[None, :]).ravel())[::1000].max()


LEAKED = []


def leaks(x):
    LEAKED.append(x * 2)
    return x


def use_of_a_leak(x):
    tracer.compile(leaks)(x)
    return LEAKED[-1] + 1


def use_after_donation(x):
    tracer.compile(lambda a: a + 1, donate_argnums=0)(x)
    return x + 1


X = np.ones(2000)
CASES = {
    "a limit that is no size": (
        lambda: tracer.compile(kernel, memory_limit="4 elephants"), errors.ArgumentError,
        "elephants"),
    "a negative limit": (
        lambda: tracer.compile(kernel, memory_limit=-5), errors.ArgumentError, "-5"),
    "a limit below the arguments": (
        lambda: tracer.compile(kernel, memory_limit="1kB")(X), errors.MemoryLimitError,
        "arguments and results alone"),
    "a limit below what must be stored": (
        lambda: tracer.compile(sorts_everything, memory_limit="1MB")(X), errors.MemoryLimitError,
        "not split"),
    "shapes that do not fit": (
        lambda: tracer.compile(lambda a, b: a + b)(np.ones(3), np.ones(4)), errors.ShapeError,
        r"\(3,\) and \(4,\)"),
    "matrices that do not fit": (
        lambda: tnp.ones((3, 4)) @ tnp.ones((5, 6)), errors.ShapeError, "4 columns"),
    "strings": (lambda: tracer.compile(kernel)(["a", "b"]), errors.DTypeError, r"args\[0\]\[0\]"),
    "objects": (
        lambda: tracer.compile(kernel)(np.array([object()])), errors.DTypeError, "object"),
    "an unsupported dtype": (
        lambda: tnp.asarray(np.ones(3, np.longdouble)), errors.DTypeError, "float128|longdouble"),
    "a donated array": (
        lambda: use_after_donation(tnp.ones(5)), errors.DonatedArrayError, "donated"),
    "if on a traced value": (
        lambda: tracer.compile(branches)(X), errors.TracingError, "test_errors.py"),
    "float of a traced value": (
        lambda: tracer.compile(lambda x: float(x.sum()))(X), errors.TracingError, "float"),
    "a result that is no array": (
        lambda: tracer.compile(lambda x: {"a": [object()]})(X), errors.TracingError,
        r"result\['a'\]\[0\]"),
    "a tracer that escaped": (lambda: use_of_a_leak(X), errors.TracingError, "escaped"),
    "a device that is not there": (
        lambda: tracer.compile(kernel, device="gpu:7")(X), errors.DeviceError, "gpu:7"),
    "running on a type": (
        lambda: tracer.compile(kernel)(tracer.ShapeDtype((3,), "float32")), errors.ArgumentError,
        "no data"),
    "a static argument that cannot be hashed": (
        lambda: tracer.compile(lambda x, y: x, static_argnums=1)(X, [1]), errors.ArgumentError,
        "hashed"),
    "an argument to donate that is not there": (
        lambda: tracer.compile(kernel, donate_argnums=3)(X), errors.ArgumentError, "argument 3"),
    "compiling what is no function": (lambda: tracer.compile(3), errors.DTypeError, "function"),
    "an index out of bounds": (lambda: tnp.asarray(X)[5000], errors.ArrayIndexError, "5000"),
    "an axis that is not there": (lambda: tnp.sum(X, axis=3), errors.AxisError, "axis 3"),
    "a gradient of an array": (
        lambda: tracer.grad(lambda x: x * 2)(X), errors.ShapeError, "scalar"),
    "a gradient of integers": (
        lambda: tracer.grad(lambda x: (x * 2).sum())(np.arange(3)), errors.DTypeError, "int64"),
}  # fmt: skip


@pytest.mark.xla
@pytest.mark.parametrize("name", CASES)
def test_bad_input_gets_a_letter(name: str) -> None:
    call, kind, pattern = CASES[name]
    with pytest.raises(kind) as caught:
        call()
    letter = str(caught.value)
    assert re.search(pattern, letter), letter
    assert "\n  where: test_errors.py:" in letter, letter
    assert "\n  mend:  " in letter, letter
    # Nothing is lost: the process and the array go on.
    np.testing.assert_allclose(np.asarray(tracer.compile(kernel)(X[:3])), 3.0)


@pytest.mark.xla
def test_memory_limit_error_names_a_limit_that_works() -> None:
    with pytest.raises(tracer.MemoryLimitError) as caught:
        tracer.compile(sorts_everything, memory_limit="1MB")(X)
    error = caught.value
    assert error.limit_bytes == 1_000_000
    assert error.minimum_bytes > error.limit_bytes
    assert error.binding == "float64[4000000] of reshape, 32 MB"
    program = tracer.compile(sorts_everything, memory_limit=error.minimum_bytes)
    assert float(program(X)) == 1.0
    assert program.plan(X).compiled_bytes <= error.minimum_bytes
    below = tracer.compile(sorts_everything, memory_limit=int(0.9 * error.minimum_bytes))
    with pytest.raises(tracer.MemoryLimitError):
        below(X)
