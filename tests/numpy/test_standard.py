"""The array API standard: what it asks beyond NumPy's own behaviour."""

from __future__ import annotations

import math

import generate_surface
import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.oracle import assert_same
from tracer.errors import ArgumentError, ExportError

NAN, INF = math.nan, math.inf
# C99, Annex G: where XLA's formulas alone give NaN.
COMPLEX_LIMITS = [
    ("exp", complex(-INF, INF), 0j),
    ("exp", complex(INF, NAN), complex(INF, NAN)),
    ("expm1", complex(-INF, NAN), -1 + 0j),
    ("expm1", complex(INF, INF), complex(INF, NAN)),
    ("log", complex(-INF, NAN), complex(INF, NAN)),
    ("log1p", complex(NAN, INF), complex(INF, NAN)),
    ("sqrt", complex(INF, NAN), complex(INF, NAN)),
    ("sqrt", complex(-INF, NAN), complex(NAN, INF)),
    ("cosh", complex(0, INF), complex(NAN, 0)),
    ("cosh", complex(INF, NAN), complex(INF, NAN)),
    ("sinh", complex(0, NAN), complex(0, NAN)),
    ("sinh", complex(INF, INF), complex(INF, NAN)),
    ("tanh", complex(0, INF), complex(0, NAN)),
    ("tanh", complex(INF, 2.0), complex(1, 0)),
    ("acos", complex(0, NAN), complex(math.pi / 2, NAN)),
    ("acos", complex(1, NAN), complex(NAN, NAN)),
    ("acosh", complex(0, NAN), complex(NAN, math.pi / 2)),
    ("asinh", complex(NAN, 0), complex(NAN, 0)),
    ("atanh", complex(0, NAN), complex(0, NAN)),
    ("atanh", complex(INF, NAN), complex(0, NAN)),
    ("atanh", complex(NAN, 1), complex(NAN, NAN)),
]


@pytest.mark.xla
@pytest.mark.parametrize(("name", "at", "expected"), COMPLEX_LIMITS)
def test_complex_limits(name, at, expected):
    found = np.asarray(getattr(tnp, name)(tnp.asarray([at])))[0]
    np.testing.assert_array_equal([found.real, found.imag], [expected.real, expected.imag])


@pytest.mark.xla
@pytest.mark.parametrize("name", ["exp", "expm1", "log", "sqrt", "cosh", "sinh", "tanh", "atanh"])
def test_complex_numbers_elsewhere(name):
    z = np.random.default_rng(0).normal(size=(5, 2)).view(complex)
    np.testing.assert_allclose(
        getattr(tnp, name)(tnp.asarray(z)), getattr(np, "arctanh" if name == "atanh" else name)(z)
    )


@pytest.mark.xla
def test_information():
    info = tnp.__array_namespace_info__()
    assert info.default_device() in info.devices()
    assert info.default_dtypes()["real floating"] == np.float64
    assert set(info.dtypes(kind="integral")) == set(info.dtypes(kind=("signed integer",))) | set(
        info.dtypes(kind="unsigned integer")
    )
    assert info.capabilities()["boolean indexing"] is True
    assert tnp.ones(1).__array_namespace__().__array_api_version__ == "2024.12"
    assert tnp.isdtype(tnp.float8_e5m2, "real floating")
    assert tnp.isdtype("int8", ("bool", tnp.int8))
    assert not tnp.isdtype("complex64", "real floating")


@pytest.mark.xla
@pytest.mark.parametrize(
    "make",
    [
        lambda device: tnp.zeros(2, device=device),
        lambda device: tnp.full((), 3, device=device),
        lambda device: tnp.ones_like(np.ones(3), device=device),
        lambda device: tnp.arange(3, device=device),
        lambda device: tnp.linspace(0, 1, 3, device=device),
        lambda device: tnp.eye(3, device=device),
        lambda device: tnp.asarray([1], device=device),
        lambda device: tnp.astype(tnp.ones(2), "int8", device=device),
        lambda device: tnp.from_dlpack(np.ones(2), device=device),
    ],
)
def test_devices(make):
    device = tracer.default_device()
    assert make(device).device == device
    assert make(str(device)).device == device


@pytest.mark.xla
def test_copies_that_are_asked_for_or_refused():
    x = tnp.ones(3)
    assert tnp.asarray(x, copy=False) is x
    assert tnp.asarray(x, copy=True) is not x
    assert tnp.reshape(x, (3,), copy=True) is not x
    for refused in (
        lambda: tnp.asarray([1.0], copy=False),
        lambda: tnp.asarray(x, int, copy=False),
    ):
        with pytest.raises(ArgumentError):
            refused()
    with pytest.raises(BufferError):
        tnp.from_dlpack(np.ones(2), copy=False)


def test_dlpack_arguments():
    x = tnp.arange(4.0)
    assert_same(np.from_dlpack(x), np.arange(4.0))
    assert_same(np.from_dlpack(x, copy=True), np.arange(4.0))
    assert_same(np.from_dlpack(x, device="cpu"), np.arange(4.0))
    assert x.__dlpack__(max_version=(1, 0), dl_device=x.__dlpack_device__(), copy=True)
    with pytest.raises(ExportError):
        x.__dlpack__(dl_device=(10, 3))
    with pytest.raises(ArgumentError):
        x.to_device(x.device, stream=3)


@pytest.mark.xla
def test_limits_are_python_numbers():
    limits = tnp.finfo("float32")
    assert type(limits.eps) is float
    assert limits.dtype == np.float32
    assert (tnp.ones(1, "float32") * limits.eps).dtype == np.float32
    assert "float32" in repr(limits)


def test_unique_family():
    x = np.array([3.0, np.nan, 1.0, np.nan, 3.0])
    for name in ("unique_all", "unique_counts", "unique_inverse"):
        found, expected = getattr(tnp, name)(tnp.asarray(x)), getattr(np, name)(x)
        assert found._fields == expected._fields
        for got, want in zip(found, expected, strict=True):
            assert_same(got, want)
    assert_same(tnp.unique_values(x), np.sort(np.unique_values(x)))


@pytest.mark.xla
def test_sign_of_negative_zero():
    assert not np.signbit(np.asarray(tnp.sign(tnp.asarray(-0.0))))


def test_every_function_of_numpy_is_present_or_explained():
    present = {name for name, is_present, _ in generate_surface.rows() if is_present}
    listed = generate_surface.PAGE.read_text()
    assert all(f"`{name}` | yes" in listed for name in present)
    assert not [name for name in generate_surface.ABSENT if hasattr(tnp, name)]
    assert generate_surface.page()


@pytest.mark.parametrize(
    ("module", "name", "mend"),
    [
        (tnp, "random", "tracer.random"),
        (tnp, "savetxt", "NumPy's business"),
        (tnp, "row_stack", "vstack"),
        (tracer, "jit", "tracer.compile"),
        (tracer, "tree_map", "tracer.tree.map"),
    ],
)
def test_names_that_are_called_otherwise_here(module, name, mend):
    with pytest.raises(tracer.MissingNameError, match=name) as caught:
        getattr(module, name)
    assert mend in caught.value.mend
    assert not hasattr(module, name)
    assert not hasattr(module, "no_such_name")


@pytest.mark.parametrize("name", ["dot", "inner", "tensordot"])
def test_shapes_that_do_not_fit_are_told_under_the_name_that_was_called(name):
    arguments = (1,) if name == "tensordot" else ()
    with pytest.raises(tracer.ShapeError, match=f"^{name}: shapes"):
        getattr(tnp, name)(np.ones((2, 3)), np.ones((4, 5)), *arguments)
