"""Where tensors are: programs run there, or say why not."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import tracer  # noqa: E402
import tracer.torch  # noqa: E402
from tracer import errors, lowering  # noqa: E402
from tracer.torch.handover import place_of  # noqa: E402
from tracer.torch.program import Input  # noqa: E402

pytestmark = pytest.mark.xla


class Placed:
    """What `place_of` reads of a tensor."""

    is_meta = False

    def __init__(self, device: str, code: tuple[int, int]) -> None:
        self.device, self.code = torch.device(device), code

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.code


def test_a_program_runs_where_its_tensors_are() -> None:
    assert place_of([torch.ones(3), torch.ones(2)], "f") == lowering.find_device("cpu")
    assert place_of([torch.ones(3, device="meta")], "f") is None
    assert place_of([], "f") is None
    assert Input.of(torch.ones(3)) != Input.of(torch.ones(3, device="meta"))


def test_tensors_on_several_devices_are_refused() -> None:
    placed = [Placed("cpu", (1, 0)), Placed("cuda:1", (2, 1))]
    with pytest.raises(errors.UnsupportedError, match=r"\(cpu, cuda:1\)"):
        place_of(placed, "f")


def test_results_on_another_device_are_refused() -> None:
    with pytest.raises(errors.UnsupportedError, match="results are on meta"):
        tracer.torch.limit(lambda x: torch.empty_like(x, device="meta"))(torch.ones(3))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_here_is_named() -> None:
    with pytest.raises(errors.DeviceError, match="gpu"):
        place_of([Placed("cuda:0", (2, 0))], "f")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_programs_run_on_a_gpu() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    model.cuda()
    x = torch.randn(2000, 8, device="cuda")

    def loss(model, x):
        return (model(x) ** 2).mean()

    value, gradients = tracer.torch.value_and_grad(loss, memory_limit="20MB")(model, x)
    wanted = loss(model, x)
    wanted.backward()
    torch.testing.assert_close(value, wanted.detach())
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad)
        assert gradients[name].is_cuda
