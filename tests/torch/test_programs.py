"""Small programs beside eager torch: values and gradients, each tensor by itself."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import tracer.torch  # noqa: E402
from tests.torch.comparison import assert_same, eager_value_and_grad, weighted_sum  # noqa: E402
from tests.torch.programs import PROGRAMS  # noqa: E402

BY_NAME = {program.name: program for program in PROGRAMS}


def test_names_are_of_one_program_each() -> None:
    assert len(BY_NAME) == len(PROGRAMS) >= 80


@pytest.mark.parametrize("name", [p.name for p in PROGRAMS if p.has_gradient])
def test_values_and_gradients(name: str) -> None:
    program = BY_NAME[name]
    arguments = program.arguments()
    argnums = tuple(i for i, x in enumerate(arguments) if x.is_floating_point())

    def loss(*args):
        result = program.function(*args)
        return weighted_sum(result), result

    limited = tracer.torch.value_and_grad(loss, argnums=argnums, has_aux=True, memory_limit="100MB")
    found = limited(*arguments)
    wanted = eager_value_and_grad(loss, arguments, argnums)
    assert_same(found, wanted, program.tolerance)


@pytest.mark.parametrize("name", [p.name for p in PROGRAMS if not p.has_gradient])
def test_values(name: str) -> None:
    program = BY_NAME[name]
    arguments = program.arguments()
    found = tracer.torch.limit(program.function, memory_limit="100MB")(*arguments)
    assert_same(found, program.function(*arguments))


DTYPES = {
    "ints and floats": lambda x, i: (x + i, i / 2, i * 2.5, i // 2, i**2, x * True, i > x),
    "sums of ints": lambda x, i: (
        i.sum(),
        (i > 2).sum(),
        i.prod(),
        (i > 2).cumsum(0),
        i.float().mean(),
    ),
    "halves": lambda x, i: (
        x.half() + 1,
        x.bfloat16() * x,
        (x.half() @ x.half()),
        x.bfloat16().sum(),
    ),
    "widths": lambda x, i: (
        i.to(torch.int8) + i,
        i.to(torch.uint8) - 5,
        x.double() + x,
        i.short().exp(),
    ),
    "bools": lambda x, i: (
        (i > 2) | (x > 0),
        (i > 2) ^ (i > 3),
        ~(i > 2),
        (i > 2) + (i > 3),
        -i.bool().int(),
    ),
    "complex": lambda x, i: (
        torch.complex(x, x) * 2j,
        (torch.complex(x, x) * (1 + 2j)).abs(),
        torch.view_as_real(torch.complex(x, x)),
        torch.complex(x, x).abs(),
        torch.view_as_real(torch.polar(x, 2 * x)),
        torch.complex(x, -x).conj().imag,
    ),
    "scalars": lambda x, i: (
        torch.where(i > 2, 1.5, x),
        torch.where(i > 2, 1, i),
        x.new_tensor(3) + i,
        torch.full((2,), 3),
        torch.arange(3),
    ),
    "bits": lambda x, i: (i & 3, i << 1, i >> 1, ~i, x.view(torch.int32), i.bitwise_xor(7)),
}


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_are_those_of_torch(name: str) -> None:
    torch.set_default_dtype(torch.float32)
    x, i = torch.tensor([0.5, -1.25, 3.0, 2.0]), torch.tensor([1, 2, 3, 4])
    found = tracer.torch.limit(DTYPES[name])(x, i)
    assert_same(found, DTYPES[name](x, i), 1e-2 if name == "halves" else 1e-6)
