"""Python numbers are weak wherever they come in: a table of expressions, then each way in."""

from __future__ import annotations

import copy
import functools
import itertools
import pickle

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.array.trace import trace
from tracer.errors import DTypeError, RangeError

OPERATORS = (
    "x + s", "s + x", "x - s", "s - x", "x * s", "s * x", "x / s", "s / x", "x // s", "s // x",
    "x % s", "s % x", "x ** s", "s ** x", "divmod(x, s)[0]", "x & s", "s | x", "x ^ s", "x << s",
    "s >> x", "x > s", "s <= x", "x == s", "x * (s * 2)", "x * (s + 0.5)", "x * (s / 2)",
    "x * (s // 2)", "x * (s % 3)", "x * s ** 2", "x * 2 ** s", "x * -s", "x * +s", "x * abs(s)",
    "x * (s > 0)", "x * ((s > 0) + (s < 1))", "x * ~s", "x * (s & True)", "x * (s | 2)",
    "x * divmod(s, 2)[1]", "x * (s * 1j)", "(x * s) * s", "(s * s) * (x * s)", "s * s", "s + 1",
    "s / 3", "-s", "s > 0", "(s > 0) + (s < 1)", "s + s * 2j", "x * s.real", "x * s.imag",
    "x * s.conjugate()", "x.sum() * s", "x.mean() + s", "x[0] * s", "s * x[:2] + s",
)  # fmt: skip
FUNCTIONS = (
    "xp.add(x, s)", "xp.multiply(s, x)", "xp.maximum(x, s)", "xp.minimum(s, x)", "xp.power(x, s)",
    "xp.where(x > 0, x, s)", "xp.where(x > 0, s, s)", "xp.clip(x, s, s)", "xp.clip(x, None, s)",
    "xp.add(s, s)", "x * xp.add(s, s)", "x * xp.sin(s)", "x * xp.asarray(s)", "x * xp.array(s)",
    "xp.array([s, s])", "xp.asarray([s, 1])", "xp.full((2,), s)", "xp.full_like(x, s)",
    "x * xp.float32(2) * s", "s * xp.float32(2)", "s * xp.float64(2)", "s + xp.int8(2)",
    "xp.float64(2) * s * x", "s * xp.ones((), 'float32')", "xp.arctan2(x, s)", "xp.hypot(x, s)",
    "xp.linspace(s, 2, 3)", "xp.linspace(x, s, 3)", "xp.linspace(s, x, 3)", "xp.logspace(x, s, 3)",
    "xp.logaddexp(x, s)", "xp.copysign(x, s)", "xp.sum(x, initial=s)",
    "xp.concatenate([x, xp.full(1, s)])", "xp.nextafter(x, s)",
    "xp.heaviside(x, s)", "xp.dot(x, s)", "xp.isclose(x, s)", "xp.select([x > 0], [s], 0)",
    "xp.quantile(x, s)", "xp.pad(x, 1, constant_values=s)", "xp.append(x, s)",
    "xp.trapezoid(x, dx=s)",
    "xp.interp(x, x, x, left=s)", "xp.equal(x, s)", "xp.abs(s)", "xp.real(s) * x", "xp.sqrt(s) * x",
)  # fmt: skip
DTYPES = "float32 int8 bool float64 float16 uint8 int32 complex64".split()
NUMBERS = (True, 3, 0.5, 2j)


def _values(dtype, xp=np):
    return xp.asarray(np.array([0, 1, 1]).astype(dtype))


def _function(text, xp):
    return eval(f"lambda x, s: {text}", {"xp": xp})


def _dtype(result):
    return result if isinstance(result, np.dtype) else np.asarray(result).dtype


def _numpy_dtype(text, dtype, number):
    """Return the dtype that NumPy gives, None where it refuses."""
    with np.errstate(all="ignore"):
        try:
            return _dtype(_function(text, np)(_values(dtype), number))
        except (TypeError, ValueError, AttributeError, OverflowError, np.exceptions.ComplexWarning):
            return None


def _traced_dtype(function, *args):
    found = []

    def run(*given):
        result = function(*given)
        found.append(result if isinstance(result, np.dtype) else None)
        return tnp.zeros(()) if found[-1] is not None else result

    types = trace(run, args).output_types
    return found[-1] or types[0].dtype


OWN_RULES = {"xp.dot(x, s)", "xp.append(x, s)", "xp.quantile(x, s)", "xp.interp(x, x, x, left=s)",
             "xp.real(s) * x"}  # fmt: skip
"""Where the dtype is not NumPy's, which counts a number among arrays as one, or gives it back."""


NUMBER_BESIDE = (
    "xp.dot(x, s)", "xp.inner(x, s)", "xp.vdot(x[:1], s)", "xp.outer(x, s)", "xp.append(x, s)",
    "xp.tensordot(x, s, 0)", "xp.einsum('i,->i', x, s)", "xp.interp(x, x, x, left=s)",
)  # fmt: skip
NUMBER_IN_A_LIST = ("xp.concatenate([x, [s]])", "xp.hstack([x, s])", "xp.polyval(x, s)")


@pytest.mark.parametrize(
    ("texts", "wanted"), [(NUMBER_BESIDE, "float32"), (NUMBER_IN_A_LIST, "float64")]
)
def test_a_number_beside_arrays_is_weak_where_numpy_makes_an_array_of_it(texts, wanted):
    """The choice of docs/numpy-surface.md: JAX's, as a float64 takes twice the memory."""
    for text in texts:
        assert _numpy_dtype(text, "float32", 0.5) == "float64", text
        x = tracer.ShapeDtype((3,), "float32")
        given = functools.partial(_function(text, tnp), s=0.5)
        assert _traced_dtype(given, x) == wanted, text


def _outcome(function, *args):
    """Return the dtype of a traced result, or the class of its error."""
    try:
        return _traced_dtype(function, *args)
    except (TypeError, ValueError, RangeError) as error:
        return type(error)


@pytest.mark.filterwarnings("ignore:Bitwise inversion")  # Python >= 3.12 warns of ~True.
@pytest.mark.slow
@pytest.mark.parametrize("text", OPERATORS + FUNCTIONS)
def test_a_number_given_as_an_argument_counts_as_one_that_is_written_there(text):
    function = _function(text, tnp)
    for dtype, number in itertools.product(DTYPES, NUMBERS):
        x = tracer.ShapeDtype((3,), dtype)
        written = _outcome(lambda x, s=number: function(x, s), x)
        given = _outcome(function, x, number)
        numpy_dtype = _numpy_dtype(text, dtype, number)
        case = f"{text} for {dtype} and {number!r}"
        # Python refuses some numbers itself, such as 2j // 2, and that -3 does not fit into uint8
        # is told by its value.
        assert given == written or written in (TypeError, RangeError), case
        if isinstance(given, np.dtype) and numpy_dtype is not None and text not in OWN_RULES:
            assert given == numpy_dtype, case


def _by_keyword(function, x, s):
    return trace(lambda x, *, h: function(x, h["s"]), [x], {"h": {"s": s}}).output_types[0]


def _through(transform):
    def way(function, x, s):
        return trace(lambda x, s: transform(function, x, s), [x, s]).output_types[0]

    return way


def _in_scan(function, x, s):
    def step(carry, row):
        return carry, function(row, carry["s"])

    return tracer.scan(step, {"s": s}, x[None])[1]


def _in_while(function, x, s):
    """Carry the number, and from the first step on what comes of it."""
    shape = trace(function, [x, s]).output_types[0]
    first = (0, s, tnp.zeros(shape.shape, shape.dtype))
    return tracer.while_loop(
        lambda c: c[0] < 1, lambda c: (c[0] + 1, c[1], function(x, c[1])), first
    )[2]


def _custom(function, x, s):
    rule = tracer.custom_jvp(lambda x, s: function(x, s))
    rule.defjvp(lambda primals, tangents: (function(*primals), function(*primals)))
    return rule(x, s)


def _custom_vjp(function, x, s):
    rule = tracer.custom_vjp(lambda x, s: function(x, s))
    rule.defvjp(lambda x, s: (function(x, s), (x, s)), lambda kept, g: (None, None))
    return rule(x, s)


WAYS = {
    "keyword in a container": _by_keyword,
    "compiled inside of a trace": _through(lambda f, x, s: tracer.compile(f)(x, s)),
    "vmap": _through(lambda f, x, s: tracer.vmap(f, in_axes=(0, None))(x[None], s)[0]),
    "scan": _through(_in_scan),
    "while_loop": _through(_in_while),
    "fori_loop": _through(
        lambda f, x, s: tracer.fori_loop(
            0, 2, lambda i, c: (f(x, c[1]), c[1]), (f(x, s), s)
        )[0]
    ),
    "map": _through(lambda f, x, s: tracer.map(lambda row: f(row, s), x[None])[0]),
    "cond": _through(lambda f, x, s: tracer.cond(True, f, f, x, s)),
    "switch": _through(lambda f, x, s: tracer.switch(1, [f, f], x, s)),
    "checkpoint": _through(lambda f, x, s: tracer.checkpoint(f)(x, s)),
    "custom_jvp": _through(_custom),
    "custom_vjp": _through(_custom_vjp),
    "vjp": _through(lambda f, x, s: tracer.vjp(f, x, s)[0]),
    "linearize": _through(lambda f, x, s: tracer.linearize(f, x, s)[0]),
    "value_and_grad": _through(
        lambda f, x, s: tracer.value_and_grad(
            lambda s, x: (0.0, f(x, s)), has_aux=True, allow_int=True
        )(s, x)[0][1]
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_every_way_in_keeps_a_number_weak(way):
    for text, (dtype, number) in itertools.product(
        OPERATORS, [("float32", 0.5), ("int8", 3), ("bool", True), ("float16", 2), ("float32", 2j)]
    ):
        x = tracer.ShapeDtype((3,), dtype)
        function = _function(text, tnp)
        expected = _outcome(function, x, number)
        if isinstance(expected, np.dtype):
            assert WAYS[way](function, x, number).dtype == expected, f"{text}, {dtype}, {number!r}"


@pytest.mark.xla
@pytest.mark.parametrize(("dtype", "number"), [("float32", 0.3), ("int8", 3)])
def test_eager_and_compiled_results_have_one_dtype_and_one_value(dtype, number):
    texts = [
        text
        for text in OPERATORS[::5] + FUNCTIONS[::9]
        if _numpy_dtype(text, dtype, number) is not None
    ]
    functions = [_function(text, tnp) for text in texts]
    x = _values(dtype, tnp)
    compiled = tracer.compile(lambda x, s: [function(x, s) for function in functions])(x, number)
    for text, function, result in zip(texts, functions, compiled, strict=True):
        eager = np.asarray(function(x, number))
        assert result.dtype == eager.dtype, text
        np.testing.assert_allclose(np.asarray(result), eager, rtol=1e-6, err_msg=text)


def test_jax_has_the_same_dtypes():
    jax = pytest.importorskip("jax")
    names = ("float32", "float64", "float16", "complex64")
    compared = 0
    with jax.enable_x64(True):
        for text, dtype, number in itertools.product(OPERATORS, names, (3, 0.5, 2j)):
            given = _outcome(_function(text, tnp), tracer.ShapeDtype((3,), dtype), number)
            # The sum of two of Python's bools is an integer, in JAX a bool.
            if not isinstance(given, np.dtype) or text == "(s > 0) + (s < 1)":
                continue
            function, shape = _function(text, jax.numpy), jax.ShapeDtypeStruct((3,), dtype)
            try:
                found = jax.eval_shape(function, shape, number).dtype
            except TypeError:
                continue
            assert found == given, f"{text} for {dtype} and {number!r}"
            compared += 1
    assert compared > 450


@pytest.mark.parametrize(
    "strong", [np.bool_(1), np.int64(1), np.float64(1), np.complex128(1), np.array(1.0)], ids=repr
)
def test_numpy_scalars_and_arrays_without_axes_are_strong(strong):
    x = np.ones(3, "float32")
    expected = np.result_type(x, strong)
    assert trace(lambda x, s: x * s, [x, strong]).output_types[0].dtype == expected
    assert trace(lambda x, s: x * s, [x, tnp.asarray(strong)]).output_types[0].dtype == expected
    types = [x, tracer.ShapeDtype((), strong.dtype)]
    assert trace(lambda x, s: x * s, types).output_types[0].dtype == expected


@pytest.mark.xla
def test_a_new_value_compiles_nothing_and_a_strong_one_anew():
    traced = []
    x = tnp.ones(3, "float32")

    @tracer.compile
    def scaled(x, options):
        traced.append(1)
        return x * options["rate"]

    results = [scaled(x, {"rate": rate}) for rate in (0.1, 0.2, -0.0, 5.0)]
    assert [float(r[0]) for r in results] == [np.float32(0.1), np.float32(0.2), -0.0, 5.0]
    assert len(traced) == 1
    assert scaled(x, {"rate": np.float64(0.1)}).dtype == "float64"
    assert scaled(x, {"rate": tnp.asarray(0.1)}).dtype == "float64"
    assert len(traced) == 2
    assert scaled(x, {"rate": 1}).dtype == "float32"
    assert len(traced) == 3
    assert scaled(x, {"rate": True}).dtype == scaled(x, {"rate": 0.3}).dtype == "float32"
    assert len(traced) == 4


@pytest.mark.xla
def test_results_that_come_of_numbers_only_can_be_handed_back():
    """A rate that a step returns does not make the next step float64."""
    step = tracer.compile(lambda x, rate: (x - rate * x, rate * 0.9))
    x, rate = tnp.ones(3, "float32"), 0.5
    for _ in range(3):
        x, rate = step(x, rate)
        assert x.dtype == "float32"
        assert rate.weak_type
        assert rate.dtype == "float64"
    assert float(rate) == 0.5 * 0.9 * 0.9 * 0.9
    assert step(x, tnp.asarray(float(rate)))[0].dtype == "float64"
    assert (x * rate).dtype == (rate * x).dtype == "float32"


@pytest.mark.xla
def test_a_weak_array_given_by_position_does_not_meet_the_program_of_a_strong_one():
    f = tracer.compile(lambda x, s: x * s)
    x = tnp.ones(3, "float32")
    weak = tracer.compile(lambda s: s * 2)(0.5)
    for s, dtype in [(tnp.asarray(0.5), "float64"), (weak, "float32")] * 3:
        assert f(x, s).dtype == dtype


@pytest.mark.xla
def test_weak_arrays_are_shown_copied_and_pickled_as_such():
    weak = tracer.compile(lambda s: s * 2)(0.25)
    assert repr(weak) == "Array(0.5, weak_type=True)"
    for same in (copy.copy(weak), copy.deepcopy(weak), pickle.loads(pickle.dumps(weak))):
        assert same.weak_type
        assert float(same) == 0.5
    assert str(weak) == "0.5"
    assert f"{weak:.2f}" == "0.50"
    seen = []
    trace(lambda s: seen.append(repr(s)) or s, [0.5])
    assert seen[0].startswith("TracedArray(weak float64[]")


@pytest.mark.xla
def test_what_functions_and_methods_return_is_strong():
    """As NumPy's: sin(0.1) is a float64, which no Python number is."""
    weak = tracer.compile(lambda s: s * 1)(0.5)
    results = [
        tnp.asarray(weak), tnp.array(weak), tnp.array(weak, copy=False), tnp.positive(weak),
        tnp.copy(weak), weak.copy(), weak.astype("float64"), weak.reshape(()), weak.squeeze(),
        weak.ravel(), weak.T, weak.sum(), weak.round(), weak.clip(0, 1), weak.conj(), weak[()],
        weak[...], tnp.broadcast_to(weak, ()), tnp.real(weak), tnp.stack([weak, weak]),
        weak * np.float64(1), weak + tnp.zeros(()), tnp.nan_to_num(weak), tnp.round(weak),
        weak.max(), weak.at[()].set(1.0), tnp.where(True, weak, weak), tnp.zeros_like(weak),
    ]  # fmt: skip
    assert not any(result.weak_type for result in results)
    kept = [-weak, abs(weak), weak + 1, 1 - weak, weak**2, weak.real, divmod(weak, 2)[1], weak < 1]
    assert all(result.weak_type for result in kept)


@pytest.mark.xla
def test_in_place_operators_bind_a_number_anew():
    def function(x, s):
        s += 1
        s *= x
        return s

    assert tracer.compile(function)(np.ones(3, "float32"), 1).dtype == "float32"


@pytest.mark.xla
def test_python_powers_of_integers():
    f = tracer.compile(lambda n: (n**2, n**-1, n**0.5, 2**n))
    found = [float(x) for x in f(4)]
    assert found == [16.0, 0.25, 2.0, 16.0]
    assert [x.dtype.kind for x in f(4)] == ["i", "f", "f", "i"]


@pytest.mark.xla
def test_integers_beyond_64_bits_are_refused_by_name():
    for value in (2**63, -(2**63) - 1, 10**30):
        with pytest.raises(RangeError, match=r"argument kwargs\['h'\]\[0\] is the Python integer"):
            tracer.compile(lambda h: h[0])(h=(value,))
        for call in (
            lambda v: tracer.vmap(lambda x, n: x * n, in_axes=(0, 0))(tnp.ones(2), v),
            lambda v: tracer.scan(lambda c, _: (c, None), v, None, 2),
            lambda v: tracer.cond(True, lambda n: n, lambda n: n, v),
        ):
            with pytest.raises(RangeError, match="does not fit into int64"):
                call(value)
    assert int(tracer.compile(lambda n: n)(-(2**63))) == -(2**63)
    assert int(tracer.compile(lambda n: n)(np.uint64(2**63))) == 2**63


@pytest.mark.xla
def test_integers_beyond_the_dtype_of_an_array_compare_right():
    x = tnp.asarray(np.array([0, 5, 255], "uint8"))
    f = tracer.compile(lambda x, n: (x < n, n >= x, x == n, n != x))
    for n in (5, 300, -1, 2**40):
        expected = [x < n, n >= x, x == n, n != x]
        for result, wanted in zip(f(x, n), expected, strict=True):
            assert result.tolist() == wanted.tolist(), n


@pytest.mark.xla
def test_gradients_of_numbers_are_weak():
    x = tnp.ones(3, "float32")
    loss = lambda s, x: ((x * s) ** 2).sum()
    value, (by_s, by_x) = tracer.compile(tracer.value_and_grad(loss, argnums=(0, 1)))(0.5, x)
    assert (value.dtype, by_x.dtype, by_s.dtype) == ("float32", "float32", "float64")
    assert by_s.weak_type
    assert not value.weak_type
    assert (x * (0.5 - 0.1 * by_s)).dtype == "float32"
    assert (x * tracer.vjp(loss, 0.5, x)[1](1.0)[0]).dtype == "float32"
    assert (x * tracer.jvp(lambda s: s * s, (0.5,), (1.0,))[1]).dtype == "float32"


@pytest.mark.xla
def test_a_rule_may_give_the_cotangent_of_a_number_in_the_dtype_of_arrays():
    @tracer.custom_vjp
    def scaled(x, s):
        return x * s

    seen = []

    def backward(kept, g):
        x, s = kept
        seen.append((g * s).dtype)
        return g * s, (g * x).sum()

    scaled.defvjp(lambda x, s: (x * s, (x, s)), backward)
    x = tnp.ones(3, "float32")
    by_x, by_s = tracer.grad(lambda x, s: scaled(x, s).sum(), argnums=(0, 1))(x, 0.5)
    assert (by_x.dtype, by_s.dtype, float(by_s), seen) == ("float32", "float64", 3.0, ["float32"])


@pytest.mark.xla
def test_a_weak_carry_takes_the_dtype_that_a_step_gives_it():
    x = tnp.ones(3, "float32")
    carry, rows = tracer.scan(lambda c, a: (c * a, c), 1.0, x)
    assert (carry.dtype, rows.dtype, carry.weak_type) == ("float32", "float32", False)
    # Through a second leaf, which the first one makes strong only in the second round.
    (c, d), _ = tracer.scan(lambda c, a: ((c[0] * a, c[0] + c[1]), None), (1.0, 2), x)
    assert (c.dtype, d.dtype) == ("float32", "float32")
    carry, rows = tracer.scan(lambda c, a: (c * 0.5, c), 1, x)
    assert (carry.dtype, carry.weak_type, rows.weak_type) == ("float64", True, True)
    assert (rows * x).dtype == "float32"
    last = tracer.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, x * c[1][0]), (0, tnp.ones(3))
    )
    assert last[1].dtype == "float64"
    count, total = tracer.fori_loop(0, 3, lambda i, c: (c[0] + i, c[1] + i * x), (0, x))
    assert (count.dtype, count.weak_type, total.dtype) == ("int64", True, "float32")


@pytest.mark.xla
def test_a_weak_result_of_a_step_takes_the_dtype_of_the_carry():
    x = tnp.ones((), "float32")
    carry, _ = tracer.scan(lambda c, _: (0.5 * 2, None), x, None, 2)
    assert carry.dtype == "float32"
    f = tracer.compile(lambda x, s: tracer.while_loop(lambda c: c < 0, lambda c: s * 2, x))
    assert f(x, 0.5).dtype == "float32"


def test_a_carry_that_cannot_take_the_dtype_is_named_with_its_line():
    with pytest.raises(DTypeError, match=r"\['a'\] is float64\[\].* is int64\[\]") as caught:
        tracer.scan(lambda c, x: ({"a": x}, None), {"a": 0.5}, tnp.arange(3))
    assert "test_weak_types.py" in str(caught.value)


@pytest.mark.xla
def test_the_line_where_another_dtype_comes_up_is_named():
    def step(carry, x):
        grown = carry * 1.5
        mixed = grown * tnp.sqrt(2.0)  # a strong float64
        return mixed + 1, None

    with pytest.raises(DTypeError) as caught:
        tracer.scan(step, tnp.ones(3, "float32"), tnp.arange(4))
    assert "float64 comes up at test_weak_types.py" in str(caught.value)
    assert "mixed = grown * tnp.sqrt(2.0)" in str(caught.value)


@pytest.mark.xla
def test_branches_meet_in_the_dtype_of_the_strong_one():
    x = tnp.ones((), "float32")
    for branches in ([lambda: x, lambda: 1.0], [lambda: 2, lambda: x * 1]):
        assert tracer.cond(True, *branches).dtype == "float32"
        assert tracer.cond(False, *branches).dtype == "float32"
    mixed = tracer.switch(1, [lambda: 1, lambda: 0.5, lambda: True])
    assert (mixed.dtype, mixed.weak_type, float(mixed)) == ("float64", True, 0.5)
    with pytest.raises(DTypeError, match="int64"):
        tracer.cond(True, lambda: 0.5, lambda: tnp.arange(3)[0])


@pytest.mark.xla
def test_plans_and_graphs_take_a_number_of_any_value_for_its_type():
    f = tracer.compile(lambda x, s: x * s)
    x = tracer.ShapeDtype((1000,), "float32")
    assert f.plan(x, 0.1).output_bytes == 4000
    assert f.plan(x, tracer.ShapeDtype((), "float64")).output_bytes == 8000
    assert f.graph(x, 0.1) is f.graph(x, 7.0)


@pytest.mark.xla
def test_bucketed_functions_keep_numbers_weak():
    f = tracer.bucket(lambda x, s: x * s, axes=(0, None), sizes=(8,))
    for size in (3, 5):
        assert f(np.ones(size, "float32"), 0.5).dtype == "float32"
    assert f(np.ones(3, "float32"), np.float64(0.5)).dtype == "float64"


@pytest.mark.xla
def test_numbers_that_are_not_handed_in_are_numbers():
    rate = 0.5
    f = tracer.compile(lambda x, s=0.25: x * s * rate)
    assert f(np.ones(3, "float32")).dtype == "float32"
    static = tracer.compile(lambda x, s: x * s, static_argnums=1)
    assert static(np.ones(3, "float32"), 0.5).dtype == "float32"
