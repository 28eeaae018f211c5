"""Samples of every op: operands and parameters. `test_every_op.py` walks the registry over them.

Floating operands are float64, so that finite differences are sharp; the test itself makes the
variants in other dtypes. Values keep away from kinks, except in samples marked `smooth=False`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.samples_matrix import matrix_samples
from tests.ops.samples_window import window_samples
from tests.ops.sampling import (
    Sample,
    comp,
    graph,
    positive,
    real,
    sample,
    unit,
    whole,
)
from tracer import ops
from tracer.errors import DTypeError
from tracer.ir import HostFunction, Op, ShapeDtype, registry, storage
from tracer.ops.rules import elementwise_axes

Array = np.ndarray[Any, Any]
I32 = np.dtype(np.int32)
NAN, INF = np.nan, np.inf


F3 = ((3,), np.float64)
COUNTER = ((), np.int32)


def _number(value: Any, dtype: Any = np.int32) -> Any:
    return ops.constant(value=np.array(value, dtype))


WAVES = np.sin(np.arange(60.0) ** 2)
UNBATCHED: dict[str, Any] = {"batch": (), "batched": ()}
NOTHING = HostFunction(lambda *arrays: (), "nothing", ())
RESTORING = HostFunction(lambda loop, inside, carry: carry, "restoring", ())
TIMING = HostFunction(lambda loop, is_over: (True,), "timing", ())
TOTAL = HostFunction(lambda x: (x.astype(np.complex128).real.sum(),), "total", ())


class _Stored:
    """An array that ops of storage find by its number; what is written to it is dropped."""

    array = np.arange(12.0).reshape(3, 4)
    shape, dtype = array.shape, array.dtype

    def read(self, starts: tuple[int, ...], shape: tuple[int, ...], reader: object) -> Array:
        places = np.clip(starts, 0, np.subtract(self.shape, shape))
        return self.array[tuple(map(slice, places, np.add(places, shape)))].copy()

    def rows(self, places: Array) -> Array:
        return self.array[np.clip(places, 0, len(self.array) - 1)]

    def write(self, starts: tuple[int, ...], block: Array) -> None:
        pass


STORED = [_Stored() for _ in range(8)]
NUMBER = np.array([storage.register(array) for array in STORED][3], np.int32)
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 0.5, -2.5, 1e-3])
EDGES = np.array([0, 1, -1, 2, 7, -7, 2**31 - 1, -(2**31), 31, 33], np.int32)


def unary(*arrays: Array) -> list[Sample]:
    """Return one sample for each array, and one with special values."""
    return [*(sample(x) for x in arrays), sample(SPECIAL, smooth=False)]


def pairs(x: Array, y: Array, *, edges: bool = True) -> list[Sample]:
    """Return a sample, one of all pairs of special values, and one of edge integers."""
    first, second = (v.reshape(-1) for v in np.meshgrid(SPECIAL, SPECIAL))
    samples = [sample(x, y), sample(first, second, smooth=False)]
    if edges:
        samples.append(sample(*(v.reshape(-1) for v in np.meshgrid(EDGES, EDGES))))
    return samples


R, U, P, C = real(2, 5), unit(2, 5), positive(2, 5), comp(2, 5)
INTS = whole(2, 5)
BOOLS = whole(2, 5, low=0, high=2, dtype=bool)
BITS = [sample(INTS), sample(BOOLS), sample(EDGES), sample(whole(4, low=0, dtype=np.uint8))]
BIT_PAIRS = [
    sample(INTS, whole(2, 5)),
    sample(BOOLS, ~BOOLS),
    sample(*(v.reshape(-1) for v in np.meshgrid(EDGES, EDGES))),
]
TIES = np.array([[3.0, 1.0, 3.0, NAN], [2.0, 2.0, 1.0, 0.0], [-0.0, 0.0, -1.0, -INF]])
ZEROS = np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 5.0], [1.5, 2.5, -1.0]])


def reductions(*arrays: Array) -> list[Sample]:
    """Return samples over one, several, all and no axes, and of an empty axis."""
    return [
        *(sample(x, axes=axes) for x in arrays for axes in ((1,), (0, 2), (0, 1, 2), ())),
        sample(np.zeros((2, 0)), axes=(1,), smooth=False),
    ]


ROWS = {
    "offset_dims": (1,),
    "collapsed_slice_dims": (0,),
    "start_index_map": (0,),
    "index_vector_dim": 1,
    "slice_sizes": (1, 3),
}
WINDOWS = {
    "offset_dims": (0, 2),
    "collapsed_slice_dims": (),
    "start_index_map": (1, 0),
    "index_vector_dim": 0,
    "slice_sizes": (2, 2),
}
ROW_UPDATES = {
    "update_window_dims": (1,),
    "inserted_window_dims": (0,),
    "scatter_dims_to_operand_dims": (0,),
    "index_vector_dim": 1,
}
PLACES = {**ROW_UPDATES, "update_window_dims": ()}
WINDOW_UPDATES = {
    "update_window_dims": (0, 2),
    "inserted_window_dims": (),
    "scatter_dims_to_operand_dims": (1, 0),
    "index_vector_dim": 0,
}


PAIRED_ROWS = {
    "offset_dims": (2,),
    "collapsed_slice_dims": (1,),
    "start_index_map": (1,),
    "index_vector_dim": 2,
    "slice_sizes": (1, 1, 3),
    "operand_batching_dims": (0,),
    "start_indices_batching_dims": (1,),
}
PAIRED_UPDATES = {
    "update_window_dims": (),
    "inserted_window_dims": (1,),
    "scatter_dims_to_operand_dims": (1,),
    "index_vector_dim": 2,
    "input_batching_dims": (0,),
    "scatter_indices_batching_dims": (0,),
}


def scatters(combiner: str, *, repeated: bool) -> list[Sample]:
    """Return scatters of rows (with places out of bounds) and of overlapping windows."""
    unique = np.array([[1], [4], [-1], [0], [7]], np.int32)
    params = {"combiner": combiner, "unique_indices": not repeated}
    samples = [sample(real(5, 3), unique, real(5, 3), **ROW_UPDATES, **params)]
    if repeated:
        twice = np.array([[1], [4], [1]], np.int32)
        starts = np.array([[0, 1, 2, 9], [0, 1, 1, 0]], np.int32)
        samples += [
            sample(real(5, 3), twice, real(3, 3), **ROW_UPDATES, **params),
            sample(real(4, 4), starts, real(2, 4, 2), **WINDOW_UPDATES, **params),
            sample(real(2, 5), whole(2, 7, low=-1, high=6), real(2, 7), **PAIRED_UPDATES, **params),
            sample(real(2, 0), whole(2, 0, low=0, high=1), real(2, 0), **PAIRED_UPDATES, **params),
            # So few that the axis they are looked for on is parallel.
            sample(real(8192), np.array([[4097], [-1]], np.int16), real(2), **PLACES, **params),
            sample(
                real(2, 4096),
                np.array([[200], [3]], np.uint8),
                real(2, 1),
                **PAIRED_UPDATES,
                **params,
            ),
        ]
    return samples


def _control() -> dict[str, list[Sample]]:
    condition = graph(lambda i, x: ops.compare(i, _number(3), direction="LT"), COUNTER, F3)
    body = graph(lambda i, x: [ops.add(i, _number(1)), ops.sine(x)], COUNTER, F3)
    branches = (
        graph(lambda x, y: [ops.multiply(x, y), x], F3, F3),
        graph(lambda x, y: [ops.sine(x), ops.exponential(y)], F3, F3),
        graph(lambda x, y: [y, ops.add(x, y)], F3, F3),
    )
    step = graph(
        lambda weight, carry, item: [
            ops.tanh(ops.add(ops.multiply(weight, carry), item)),
            ops.multiply(carry, item),
        ],
        F3,
        F3,
        F3,
    )
    squared = graph(lambda x: ops.sine(ops.multiply(x, x)), F3)
    kept = graph(lambda x: [ops.sine(ops.multiply(x, x)), x], F3)
    rule = graph(
        lambda x, g: ops.multiply(g, ops.multiply(ops.add(x, x), ops.cosine(ops.multiply(x, x)))),
        F3,
        F3,
    )
    moved = graph(
        lambda x, t: [
            ops.sine(ops.multiply(x, x)),
            ops.multiply(t, ops.multiply(ops.add(x, x), ops.cosine(ops.multiply(x, x)))),
        ],
        F3,
        F3,
    )
    halves = graph(
        lambda x, y: [x, ops.reshape(ops.multiply(ops.reduce_add(x, axes=(0,)), y), shape=(3, 1))],
        ((2, 3), np.float64),
        F3,
    )
    alike = graph(lambda x, y: [ops.add(y, y), ops.multiply(x, x)], ((2, 3), np.float64), F3)
    stepped = graph(
        lambda i, x: [ops.while_(i, x, condition=condition, body=body)[1]],
        ((), np.int32),
        F3,
    )
    rows_and_sum = graph(
        lambda x, y: [ops.multiply(x, ops.broadcast_in_dim(y, shape=(4, 3), dimensions=(1,)))],
        ((4, 3), np.float64),
        F3,
    )
    counts = {"length": 4, "num_consts": 1, "num_carry": 1}
    return {
        "while": [sample(np.int32(0), real(3), smooth=False, condition=condition, body=body)],
        "case": [
            sample(np.int32(i), real(3), real(3), branches=branches) for i in (0, 1, 2, -5, 9)
        ],
        "scan": [
            sample(real(3), real(3), real(4, 3), body=step, reverse=reverse, **counts)
            for reverse in (False, True)
        ],
        "checkpoint": [
            sample(real(3), body=squared, prevent_cse=len(policy) > 1, policy=policy)
            for policy in (("nothing",), ("everything",), ("dots",), ("names", "square"))
        ],
        "checkpoint_name": [sample(real(3), name="square")],
        "axis_sum": [sample(real(3, 2), np.int32(1), size=4)],
        "axis_gather": [sample(real(3, 2), np.int32(1), size=4)],
        "custom_jvp_call": [sample(real(3), body=squared, rule=moved, differentiable=1)],
        "custom_vjp_call": [
            sample(real(3), body=squared, forward=kept, backward=rule, differentiable=1)
        ],
        "plain_call": [sample(real(3), body=squared, reason="a sample", smooth=False)],
        "outlined_call": [
            sample(real(3), body=squared, smooth=False),
            sample(np.int32(0), real(3), body=stepped, smooth=False),
            sample(real(4, 3), real(3), body=rows_and_sum, smooth=False),
        ],
        "small_call": [sample(real(3), body=squared)],
        "optimization_barrier": [sample(R, INTS), sample(R)],
        "shard": [
            sample(
                real(4, 3),
                real(3),
                body=halves,
                count=2,
                operand_axes=(0, None),
                result_axes=(0, 1),
            ),
            sample(
                real(4, 3),
                real(3),
                body=alike,
                count=2,
                operand_axes=(0, None),
                result_axes=(None, 0),
            ),
            sample(
                real(2, 3),
                real(3),
                body=halves,
                count=2,
                operand_axes=(None, None),
                result_axes=(None, 1),
            ),
        ],
    }


def _dots() -> list[Sample]:
    return [
        sample(
            real(2, 3),
            real(3, 4),
            lhs_batch=(),
            rhs_batch=(),
            lhs_contracting=(1,),
            rhs_contracting=(0,),
        ),
        sample(
            real(3, 2, 5, 4),
            real(4, 2, 3, 5),
            lhs_batch=(1,),
            rhs_batch=(1,),
            lhs_contracting=(3, 0),
            rhs_contracting=(0, 2),
        ),
        sample(
            comp(2, 3),
            comp(3),
            lhs_batch=(),
            rhs_batch=(),
            lhs_contracting=(1,),
            rhs_contracting=(0,),
        ),
        sample(
            real(2, 3),
            real(2),
            lhs_batch=(0,),
            rhs_batch=(0,),
            lhs_contracting=(),
            rhs_contracting=(),
        ),
    ]


def derived(op: Op) -> list[Sample]:
    """Return samples of a function of one array, element by element: none have to be written.

    Reals where it is finite, complex numbers if it takes them, special values.
    """
    if op.axes is not elementwise_axes or len(op.reuses) != 1:
        return []
    reals = next(x for x in (R, P, U) if np.isfinite(op.evaluate(x)).all())
    try:
        op.infer(ShapeDtype(C.shape, C.dtype))
    except DTypeError:
        return unary(reals)
    return unary(reals, C)


WRITTEN: dict[str, list[Sample]] = {
    "abs": [*unary(R, C), sample(INTS)],
    "tan": unary(U, C),
    "not": BITS,
    "popcnt": [BITS[0], *BITS[2:]],
    "real": [sample(C)],
    "imag": [sample(C)],
    "erf_inv": [sample(U), sample(-U)],
    "lgamma": [sample(P), sample(real(5, low=-1.9, high=-1.1))],
    "digamma": [sample(P), sample(real(5, low=-1.9, high=-1.1))],
    "polygamma": [sample(P, order=1), sample(P, order=2)],
    "asin": [*unary(U, C), sample(-C)],
    "acos": [*unary(U, C), sample(-C)],
    "acosh": [*unary(P, C), sample(-C)],
    "stop_gradient": [sample(R, smooth=False), sample(INTS)],
    "add": pairs(R, U),
    "subtract": pairs(R, U),
    "multiply": [*pairs(R, U), sample(C, comp(2, 5))],
    "divide": [*pairs(R, P), sample(C, comp(2, 5))],
    "remainder": pairs(R * 3, U),
    "power": [
        *pairs(P, R, edges=False),
        sample(C, comp(2, 5)),
        sample(*(v.reshape(-1) for v in np.meshgrid(*[np.arange(-3, 7, dtype=np.int32)] * 2))),
    ],
    "maximum": [*pairs(R, U), sample(BOOLS, ~BOOLS)],
    "minimum": [*pairs(R, U), sample(BOOLS, ~BOOLS)],
    "atan2": pairs(R, P, edges=False),
    "log_add_exp": [*pairs(R, P, edges=False), sample(P, P)],
    "hypot": [*pairs(R, P, edges=False), sample(P, -P), sample(np.zeros(2), np.array([1.0, -3.0]))],
    "and": BIT_PAIRS,
    "or": BIT_PAIRS,
    "xor": BIT_PAIRS,
    "shift_left": [BIT_PAIRS[0], BIT_PAIRS[2]],
    "shift_right_arithmetic": [BIT_PAIRS[0], BIT_PAIRS[2]],
    "shift_right_logical": [BIT_PAIRS[0], BIT_PAIRS[2]],
    "next_after": [sample(R, U)],
    "complex": [sample(R, U)],
    "compare": [
        *(
            Sample(s.operands, {"direction": direction}, s.smooth)
            for s in pairs(R, U)
            for direction in ("EQ", "NE", "LT", "LE", "GT", "GE")
        ),
        sample(C, C, direction="EQ"),
    ],
    "select": [sample(BOOLS, R, U), sample(BOOLS, INTS, whole(2, 5))],
    "clamp": [sample(U - 1, R, U), sample(R[0], SPECIAL[:5], R[1], smooth=False)],
    "convert": [
        *(
            sample(x, dtype=np.dtype(dtype), smooth=False)
            for x in (R, SPECIAL, INTS, BOOLS, np.array([300.7, -300.2, 1e20, -1e20]))
            for dtype in ("bool", "int8", "uint8", "int32", "int64", "float16", "float64")
        ),
        sample(R, dtype=np.dtype(np.complex128)),
        sample(C, dtype=np.dtype(np.float64)),
    ],
    "bitcast_convert": [
        sample(SPECIAL, dtype=np.dtype(np.int64), smooth=False),
        sample(INTS, dtype=np.dtype(np.float32)),
        sample(INTS, dtype=np.dtype(np.uint32)),
    ],
    "reduce_add": reductions(real(2, 3, 4), comp(2, 3, 2)),
    "reduce_partial_sums": reductions(real(2, 3, 4), comp(2, 3, 2)),
    "reduce_extreme": [
        sample(values, whole(*values.shape), axes=axes, largest=largest, smooth=False)
        for largest in (True, False)
        for values, axes in ((TIES, (1,)), (real(2, 3, 4), (0, 2)), (np.zeros((2, 0)), (1,)))
    ],
    "reduce_multiply": [*reductions(positive(2, 3, 2)), sample(ZEROS, axes=(1,))],
    "reduce_maximum": [*reductions(real(2, 3, 4)), sample(TIES, axes=(1,), smooth=False)],
    "reduce_minimum": [*reductions(real(2, 3, 4)), sample(TIES, axes=(1,), smooth=False)],
    "reduce_and": [sample(BOOLS, axes=(0,)), sample(INTS, axes=(1,)), sample(BOOLS, axes=(0, 1))],
    "reduce_or": [sample(BOOLS, axes=(0,)), sample(INTS, axes=(1,)), sample(BOOLS, axes=(0, 1))],
    "argmax": [
        sample(x, axis=1, index_dtype=I32) for x in (TIES, real(3, 4), np.full((2, 3), -INF))
    ],
    "argmin": [
        sample(x, axis=axis, index_dtype=np.dtype(np.int64))
        for x in (TIES, INTS)
        for axis in (0, 1)
    ],
    "cumulative_add": [
        sample(x, axis=axis, reverse=reverse)
        for x in (real(3, 5), C)
        for axis, reverse in ((0, False), (1, True))
    ],
    "cumulative_multiply": [
        sample(x, axis=1, reverse=reverse)
        for x in (positive(2, 5), ZEROS)
        for reverse in (False, True)
    ],
    "cumulative_maximum": [
        *(sample(real(3, 6), axis=1, reverse=reverse) for reverse in (False, True)),
        sample(TIES, axis=1, reverse=False, smooth=False),
        sample(np.zeros((2, 0)), axis=1, reverse=False),
    ],
    "cumulative_minimum": [
        *(sample(real(3, 6), axis=0, reverse=reverse) for reverse in (False, True)),
        sample(TIES, axis=1, reverse=True, smooth=False),
    ],
    "dot_general": _dots(),
    "broadcast_in_dim": [
        sample(real(2, 1), shape=(2, 3, 4), dimensions=(0, 2)),
        sample(np.float64(2.5), shape=(2, 3), dimensions=()),
        sample(real(3), shape=(3,), dimensions=(0,)),
    ],
    "reshape": [
        sample(real(2, 3, 4, 5), shape=(2, 12, 5)),
        sample(real(3, 1, 4), shape=(1, 3, 2, 2)),
        sample(real(1), shape=()),
        sample(np.zeros((0, 3)), shape=(5, 0)),
    ],
    "transpose": [sample(real(2, 3, 4), permutation=(2, 0, 1)), sample(real(2), permutation=(0,))],
    "concatenate": [
        sample(real(2, 3), real(2, 1), real(2, 2), dimension=1),
        sample(real(3), dimension=0),
    ],
    "pad": [
        sample(real(2, 3, 4), np.float64(1.5), low=(1, 0, -1), high=(0, 0, 2), interior=(2, 0, 0)),
        sample(np.float64(1.0), np.float64(2.0), low=(), high=(), interior=()),
        sample(real(4), np.float64(0.0), low=(-1,), high=(-2,), interior=(1,)),
    ],
    "slice": [
        sample(real(5, 3, 4), start=(1, 0, 0), limit=(5, 3, 3), strides=(2, 1, 1)),
        sample(real(4), start=(2,), limit=(2,), strides=(3,)),
    ],
    "reverse": [sample(real(2, 3, 4), dimensions=(0, 2)), sample(real(3), dimensions=())],
    "dynamic_slice": [
        sample(real(5, 4), np.int32(start), np.int32(0), sizes=(2, 4)) for start in (1, -3, 9)
    ],
    "dynamic_update_slice": [
        sample(real(5, 4), real(2, 4), np.int32(start), np.int32(0)) for start in (1, -3, 9)
    ],
    "guarded_update_slice": [
        sample(real(5, 4), real(2, 4), np.int32(start), np.int32(0)) for start in (1, -3, 4, 9)
    ]
    + [sample(real(1, 4), real(1, 4), np.int8(start), np.int8(0)) for start in (0, 1, -1)],
    "gather": [
        sample(real(5, 3), np.array([[1], [4], [1], [-2], [9]], np.int32), **ROWS),
        sample(real(4, 4), np.array([[0, 1, 3], [2, 9, 1]], np.int32), **WINDOWS),
        sample(real(2, 5, 3), whole(4, 2, 1, low=-1, high=7), **PAIRED_ROWS),
        sample(
            real(5, 3),
            np.array([[0, 2], [1, 7]], np.uint8),
            **{**ROWS, "offset_dims": (2,), "index_vector_dim": 2},
        ),
        sample(real(2, 0, 3), whole(0, 2, 1, low=0, high=1), **PAIRED_ROWS),
    ],
    "scatter": [
        *scatters("add", repeated=True),
        *scatters("maximum", repeated=True),
        *scatters("minimum", repeated=True),
        *scatters("replace", repeated=False),
        *scatters("replace", repeated=True),
        *scatters("multiply", repeated=False),
    ],
    "iota": [
        sample(shape=(3, 4), dtype=np.dtype(dtype), dimension=axis)
        for dtype in ("int32", "float64", "uint8", "float16")
        for axis in (0, 1)
    ],
    "constant": [sample(value=R), sample(value=BOOLS), sample(value=np.array(3.5, np.float16))],
    "sort": [
        sample(real(3, 5), dimension=1, num_keys=1, is_stable=False),
        sample(-TIES, dimension=1, num_keys=1, is_stable=False, smooth=False),
        sample(TIES, whole(3, 4), dimension=1, num_keys=1, is_stable=True, smooth=False),
        sample(whole(2, 6, low=0, high=2), real(2, 6), dimension=1, num_keys=1, is_stable=False),
        sample(TIES, real(3, 4), real(3, 4), dimension=0, num_keys=2, is_stable=True, smooth=False),
        sample(real(4) + 1j * real(4), dimension=0, num_keys=1, is_stable=True),
        sample(real(3, 0), dimension=1, num_keys=1, is_stable=True),
    ],
    "numpy_sort": [
        sample(real(3, 5), dimension=1),
        sample(-TIES, dimension=0, smooth=False),
        sample(whole(2, 6), dimension=1),
        sample(whole(2, 300, low=0, high=100).astype(np.int8), dimension=1),
        sample(real(3, 0), dimension=1),
    ],
    "numpy_cumulative": [
        sample(whole(3, 5), combiner=combiner, axis=axis, reverse=reverse)
        for combiner in ("add", "multiply", "maximum", "minimum")
        for axis, reverse in ((0, True), (1, False))
    ],
    "numpy_spectrum": [
        sample(WAVES[:36].reshape(4, 3, 3), kind="eigvalsh"),
        sample(WAVES.reshape(4, 3, 5), kind="svdvals"),
        sample(WAVES[:40].view(np.complex128).reshape(2, 1, 5, 2), kind="svdvals"),
    ],
    "scipy_fft": [
        sample(real(3, 5) + 1j * real(3, 5), kind=kind, axes=axes, length=length)
        for kind, axes, length in (("FFT", (1,), 5), ("IFFT", (1, 0), 3))
    ],
    "scipy_real_fft": [
        sample(WAVES[:15].reshape(3, 5), kind="RFFT", axes=(0,), length=3),
        sample(WAVES[:30].view(np.complex128).reshape(3, 5), kind="IRFFT", axes=(1,), length=9),
    ],
    "numpy_argsort": [
        sample(real(3, 5), smooth=False),
        sample(-TIES, smooth=False),
        sample(whole(2, 6, low=0, high=3)),
        sample(real(7), smooth=False),
    ],
    "debug_callback": [
        sample(R, INTS, function=NOTHING, ordered=False, **UNBATCHED),
        sample(R, INTS, function=NOTHING, ordered=False, batch=(2,), batched=((True, False),)),
    ],
    "pure_callback": [
        sample(
            R,
            function=TOTAL,
            shapes=((),),
            dtypes=(np.dtype(np.float64),),
            vmap_method="sequential",
            **UNBATCHED,
        )
    ],
    "read_stored": [
        sample(NUMBER, shape=(3, 4), whole=(3, 4), dtype=np.dtype(np.float64)),
        sample(
            NUMBER,
            whole(low=0, high=2, dtype=np.int64),
            whole(low=0, high=3, dtype=np.int64),
            shape=(2, 2),
            whole=(3, 4),
            dtype=np.dtype(np.float64),
        ),
    ],
    "read_stored_rows": [
        sample(NUMBER, whole(2, 3, low=-1, high=4), whole=(3, 4), dtype=np.dtype(np.float64))
    ],
    "write_stored": [
        sample(NUMBER, real(3, 4), whole=(3, 4)),
        sample(
            NUMBER,
            real(1, 2),
            whole(low=0, high=3, dtype=np.int64),
            whole(low=0, high=3, dtype=np.int64),
            whole=(3, 4),
        ),
    ],
    "restore_carry": [sample(R, INTS, function=RESTORING, loop=1, inside=(0,))],
    "checkpoint_due": [sample(function=TIMING, loop=0, is_over=False)],
    "save_carry": [sample(R, INTS, function=RESTORING, loop=0, inside=())],
    "top_k": [
        sample(real(3, 6), k=2),
        sample(TIES, k=3, smooth=False),
        sample(whole(2, 5), k=5),
        sample(real(4), k=0),
    ],
    **matrix_samples(),
    **_control(),
    **window_samples(),
}
_DERIVED = {name: derived(op) for name, op in registry().items() if name not in WRITTEN}
SAMPLES = {**WRITTEN, **{name: samples for name, samples in _DERIVED.items() if samples}}
