"""The list of what differs from XLA's defaults: each row acts, and changes no value."""

import ast
from pathlib import Path

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.source_trees import nodes_of
from tracer import lowering
from tracer.array.trace import trace
from tracer.ir import interpret
from tracer.lowering import shims
from tracer.lowering.emit.host_calls import TARGET
from tracer.lowering.run import xla_options
from tracer.lowering.run.soundness import chosen_options
from tracer.lowering.settings import SETTINGS, without

pytestmark = pytest.mark.xla

ROOT = Path(__file__).resolve().parents[2]
HERE = "tests/lowering/test_settings.py::test_values_with_and_without"


def attention(q, k, v):
    return tracer.nn.softmax(q @ k.T) @ v


def kernel_mean(x, y):
    return tnp.exp(-((x[:, None] - y[None]) ** 2)).sum(1) + tnp.arctan(x) + tnp.tanh(x) * tnp.sin(x)


def checkpointed(x, w):
    step = tracer.checkpoint(lambda x, w: tnp.tanh(x @ w) * x)
    return tracer.grad(lambda x: (step(step(x, w), w) ** 2).sum())(x)


def loop_of_sums(x):
    return tracer.fori_loop(0, 3, lambda i, x: x - 0.1 * tnp.cumsum(x, axis=0), x)


def pooled_in_a_loop(x):
    def body(i, x):
        pool = lambda x: (tracer.nn.max_pool(x, (2,), strides=(1,), padding="SAME") ** 2).sum()
        return x - 0.1 * tracer.grad(pool)(x)

    return tracer.fori_loop(0, 3, body, x)


def small_steps(x):
    return tracer.fori_loop(0, 20, lambda i, c: (c[0] + c[1], c[1] - tnp.sin(c[0])), (x, 2 * x))


def sums(x):
    return x.sum(0), (x * x).sum(1), tnp.exp(x).sum()


PROGRAMS = {
    "library products only": (attention, (96, 32), (80, 32), (80, 16)),
    "wide vectors": (kernel_mean, (1001,), (77,)),
    "memory scheduler": (attention, (96, 32), (80, 32), (80, 16)),
    "small loops of a kilobyte": (small_steps, (16,)),
    "kept barriers": (checkpointed, (64, 32), (32, 32)),
    "fused reductions": (sums, (400, 300)),
    "unmoved loop code": (loop_of_sums, (70, 30)),
    "small calls": (small_steps, (256,)),
    "initial values in loops": (pooled_in_a_loop, (4, 70, 30)),
    "barriers of passes": (checkpointed, (64, 32), (32, 32)),
}


def inputs_of(name, dtype):
    random = np.random.default_rng(0)
    return [random.standard_normal(shape).astype(dtype) for shape in PROGRAMS[name][1:]]


def compiled_values(name, inputs):
    """Values, the StableHLO text, and XLA's options, as they are compiled now."""
    # Small calls are made without a limit only; the scheduler is chosen under one only.
    limit = None if name == "small calls" else "1GB"
    compiled = tracer.compile(PROGRAMS[name][0], memory_limit=limit)
    found = [np.asarray(leaf) for leaf in tracer.tree.leaves(compiled(*inputs))]
    options = (
        chosen_options("cpu", {}),
        xla_options.memory_optimized_options("cpu"),
        xla_options.unmoved_code_options(),
        xla_options.loop_options("cpu"),
    )
    return found, (compiled.stablehlo(*inputs), options)


def may_act(name, dtype):
    """Whether a row can do something for a dtype with this jaxlib, on this machine."""
    if name == "small loops of a kilobyte":
        return shims.LARGE_LOOPS_BECOME_FUNCTIONS
    if name == "library products only":
        return shims.VERSION >= (0, 9)
    return name != "wide vectors" or bool(lowering.cpu.vectors.vector_options("cpu"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [name for name in SETTINGS if SETTINGS[name].certified == HERE])
def test_values_with_and_without(name, dtype):
    function, inputs = PROGRAMS[name][0], inputs_of(name, dtype)
    wide = [x.astype("float64") for x in inputs]
    expected = interpret(trace(function, wide).graph, wide)
    on, text_on = compiled_values(name, inputs)
    with without(name):
        off, text_off = compiled_values(name, inputs)
    assert (text_on != text_off) == may_act(name, dtype), "the setting acts in this program"
    for found in (on, off):
        for got, wanted in zip(found, expected, strict=True):
            scale = max(1.0, float(np.abs(wanted).max()))
            bound = (2e-5 if dtype == "float32" else 1e-12) * scale
            np.testing.assert_allclose(got, wanted, atol=bound)


@pytest.mark.parametrize("columns", [7, 40, 64, 1000])
def test_extremes_of_rows_keep_nan(columns):
    """YNNPACK's fusions lose them (jax.jit of jaxlib 0.10.2 does)."""
    x = np.ones((1000, columns), np.float32)
    x[:, -1] = np.nan
    compiled = tracer.compile(lambda x: (x.max(1), x.min(1), tnp.maximum(x, 0).max(1)))
    for found in compiled(x):
        assert np.isnan(found).all()


def test_each_row_is_certified_by_a_test_that_is_there():
    assert set(PROGRAMS) == {name for name in SETTINGS if SETTINGS[name].certified == HERE}
    for setting in SETTINGS.values():
        file, _, function = setting.certified.partition("::")
        assert f"def {function or 'test_'}" in (ROOT / file).read_text(encoding="utf-8")


def test_all_options_are_in_the_list():
    known = " ".join(f"{setting.what} {setting.acts}" for setting in SETTINGS.values())
    options = {
        **chosen_options("cpu", {}),
        **xla_options.memory_optimized_options("cpu"),
        **xla_options.loop_options("cpu"),
    }
    passes = options.pop("xla_disable_hlo_passes").split(",")
    passes += xla_options.unmoved_code_options()["xla_disable_hlo_passes"].split(",")
    for name in passes:
        assert name in known
    for option, value in (*options.items(), *xla_options.eigen_options().items()):
        assert f"{option}={value}" in known


def test_with_all_settings_off_the_options_are_xla_s_own():
    with without(*SETTINGS):
        assert chosen_options("cpu", {}) == {"xla_disable_hlo_passes": ""}
        assert xla_options.memory_optimized_options("cpu") == {}
        assert xla_options.unmoved_code_options() == {}
        assert xla_options.eigen_options() == {}
        assert xla_options.loop_options("cpu") == {}


def _calls(name):
    for path in sorted((ROOT / "tracer").rglob("*.py")):
        for node in nodes_of(path):
            if isinstance(node, ast.Call) and name in (
                getattr(node.func, "attr", ""),
                getattr(node.func, "id", ""),
            ):
                yield path.relative_to(ROOT).as_posix(), node


def test_each_barrier_of_the_lowering_has_a_row():
    emitted = [
        (file, call)
        for file, call in _calls("optimization_barrier")
        if file.startswith("tracer/lowering/") or getattr(call.func.value, "id", "") == "b"
    ]
    named = {call.args[-1].value for _, call in emitted if isinstance(call.args[-1], ast.Constant)}
    rows = {name for name, row in SETTINGS.items() if row.kind == "barrier"}
    assert named == rows - {"barriers of passes"} | {"small calls"}
    unnamed = [file for file, call in emitted if not isinstance(call.args[-1], ast.Constant)]
    assert unnamed == ["tracer/ops/control.py"], "the op that passes emit"


def test_what_the_client_is_made_with_has_a_row():
    ((file, call),) = _calls("make_cpu_client")
    assert file == "tracer/lowering/devices/clients.py"
    given = {
        f"{item.arg}={ast.unparse(item.value)} of the CPU client"
        for item in call.keywords
        if item.arg
    }
    # What the GPU's client is given beside jaxlib's options is in a dictionary.
    for node in nodes_of(ROOT / file):
        if isinstance(node, ast.Dict):
            given |= {
                f"{key.value}={ast.unparse(value)} of the GPU client"
                for key, value in zip(node.keys, node.values, strict=True)
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant)
            }
    assert given == {row.what for row in SETTINGS.values() if row.kind == "client"}


def test_each_library_call_and_attribute_has_a_row():
    files = {file for file, _ in _calls("CustomCallOp")}
    assert files == {"tracer/lowering/emit/library.py", "tracer/lowering/emit/host_calls.py"}
    named = [row.what for row in SETTINGS.values() if row.kind == "custom call"]
    assert named == ["jaxlib's lapack_* kernels", TARGET, TARGET, TARGET], "a row for each use"
    text = (ROOT / "tracer/lowering/emit/control.py").read_text(encoding="utf-8")
    assert '{"xla_cpu_small_call": "true", "inlineable": "false"}' in text
