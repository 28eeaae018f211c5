"""The key of a kept program: it changes with all that the program depends on, and with no more."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import lowering
from tracer.array.trace import trace
from tracer.compilation.options import compile_options
from tracer.compilation.signature import read_call
from tracer.compilation.stored import key as keys
from tracer.compilation.task import Task, read_task
from tracer.ir import Graph

pytestmark = pytest.mark.xla
X = tracer.ShapeDtype((6,), "float32")
DEFAULTS: dict[str, Any] = {
    "memory_limit": None,
    "donate_argnums": (),
    "donate_argnames": (),
    "static_argnums": (),
    "static_argnames": (),
    "device": None,
    "tensor_size_threshold": None,
    "tensor_split_size": None,
    "split": "auto",
}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRACER_MEMORY_LIMIT", "TRACER_FLAGS", "TRACER_PASSES", "XLA_FLAGS"):
        monkeypatch.delenv(name, raising=False)


def task(f: Callable[..., Any], *args: Any, name: str = "f", **options: Any) -> Task:
    chosen = compile_options(f, **{**DEFAULTS, **options})
    return read_task(read_call(f, chosen.statics, args, {}), chosen, name)


def key(f: Callable[..., Any], *args: Any, **options: Any) -> str | None:
    return keys.key_of(task(f, *(args or (X,)), **options))


def make(constant: Any) -> Callable[..., Any]:
    return lambda x: tnp.exp(x[:, None] - x).sum(1) * constant


BASE = make(2.0)


def test_the_same_program_has_the_same_key() -> None:
    first = key(BASE)
    assert first == key(make(2.0)) == key(BASE, np.ones(6, np.float32))
    assert first is not None
    assert re.fullmatch("[0-9a-f]{64}", first)


@pytest.mark.parametrize(
    "options",
    [
        {"memory_limit": "1MB"},
        {"memory_limit": "2MB"},
        {"donate_argnums": 0},
        {"tensor_size_threshold": "1kB"},
        {"tensor_split_size": "1kB"},
        {"split": "never"},
        {"passes": "-log1p"},
        {"name": "g"},
    ],
    ids=str,
)
def test_each_option_is_in_the_key(options: dict[str, Any]) -> None:
    assert key(BASE, **options) not in {None, key(BASE)}


def test_limits_differ() -> None:
    assert key(BASE, memory_limit="1MB") != key(BASE, memory_limit="2MB")


@pytest.mark.parametrize(
    "argument",
    [
        tracer.ShapeDtype((7,), "float32"),
        tracer.ShapeDtype((6,), "float64"),
    ],
    ids=str,
)
def test_shapes_and_dtypes_are_in_the_key(argument: Any) -> None:
    assert key(BASE, argument) != key(BASE)


def test_weak_types_are_in_the_key() -> None:
    def double(x: Any) -> Any:
        return x * 2

    assert key(double, 1.0) != key(double, tracer.ShapeDtype((), "float64"))


def test_values_of_constants_are_in_the_key() -> None:
    numbers = np.arange(6, dtype=np.float32)
    other = numbers.copy()
    other[3] = np.nextafter(other[3], np.float32(9))
    found = [key(make(value)) for value in (2.0, 3.0, numbers, other, -0.0, 0.0, tnp.ones(3)[0])]
    assert len({key(BASE), *found[1:6]}) == 6
    assert found[0] == key(BASE)


def test_static_values_are_in_the_key_where_they_change_the_program() -> None:
    def power(x: Any, n: int) -> Any:
        return x**n

    assert key(power, X, 2, static_argnums=1) != key(power, X, 3, static_argnums=1)


def test_the_users_lines_are_in_the_key() -> None:
    def one(x: Any) -> Any:
        return tnp.exp(x)

    def other(x: Any) -> Any:
        return tnp.exp(x)

    assert key(one) != key(other)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_source_digest", lambda: "another planner"),
        ("_versions", lambda: {"jaxlib": "0.0.1"}),
    ],
)
def test_versions_and_our_source_are_in_the_key(
    monkeypatch: pytest.MonkeyPatch, name: str, value: Any
) -> None:
    before = key(BASE)
    monkeypatch.setattr(keys, name, value)
    assert key(BASE) != before


def test_the_target_and_the_tuned_allocator_are_in_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = key(BASE)
    target = lowering.target_of(lowering.default_device())
    with monkeypatch.context() as patch:
        patch.setattr(lowering, "target_of", lambda _: target.__class__(cores=64))
        assert key(BASE) != before
    with monkeypatch.context() as patch:
        patch.setattr(lowering, "is_tuned", lambda: True)
        assert key(BASE) != before
    assert key(BASE) == before
    assert " at 0x" not in repr(target)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cpu_features", lambda: frozenset({"fpu"})),
        ("cpu_model", lambda: "another processor"),
        ("xla_threads", lambda: 77),
        ("chosen_options", lambda platform, overrides: {"xla_cpu_prefer_vector_width": 128}),
    ],
)
def test_the_compiler_and_the_processor_are_in_the_key(
    monkeypatch: pytest.MonkeyPatch, name: str, value: Any
) -> None:
    before = key(BASE)
    monkeypatch.setattr(f"tracer.lowering.run.serialized.{name}", value)
    assert key(BASE) != before


def test_flags_and_settings_are_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(BASE)
    with lowering.without("small calls"):
        assert key(BASE) != before
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    assert key(BASE) != before


def test_what_is_not_kept_has_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    assert key(BASE, memory_limit="auto") is None
    monkeypatch.setattr(lowering, "can_be_serialized", lambda _: False)
    assert key(BASE) is None


def test_callbacks_and_ops_of_others_have_no_key() -> None:
    device = lowering.default_device()

    def graph() -> Graph:
        return trace(tnp.sin, (X,), {}, writes="back").graph

    assert keys.graph_key("eager", graph(), device) is not None
    assert keys.graph_key("eager", graph(), device) != keys.graph_key("library", graph(), device)
    with_callback = graph()
    node = with_callback.nodes[-1]
    node.params = {**node.params, "callback": print}
    assert keys.graph_key("eager", with_callback, device) is None
    of_others = graph()
    node = of_others.nodes[-1]
    node.op = copy.copy(node.op)
    assert keys.graph_key("eager", of_others, device) is None
