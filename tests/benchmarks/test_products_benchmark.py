"""The benchmarks of products compile what they time, in each form and for each library."""

from __future__ import annotations

import pytest

from benchmarks import product_libraries, products


@pytest.mark.xla
@pytest.mark.parametrize("layout", products.LAYOUTS)
def test_a_product_is_timed_as_written_and_as_chosen(layout: str) -> None:
    case = products.Case(layout, 2, 64, 128, 256, "bfloat16")
    ((written, chosen),) = products.measure_group([case], rounds=1)
    assert min(written, chosen) > 0


@pytest.mark.xla
def test_libraries_take_turns() -> None:
    case = products.Case(product_libraries.TURNED, 32, 256, 64, 256, "float32")
    rate, share = product_libraries.share(case, seconds=0.0)
    assert min(rate, share) > 0
    assert product_libraries.planned_share(case) == 0.6 + 20 / 256
