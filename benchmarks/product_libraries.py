"""What Eigen takes of YNNPACK's time: `python -m benchmarks.product_libraries`.

Each product runs in a loop of its own program, so that no time goes into new pages for its result.
The last column is the share that the planner takes for it where Eigen may be chosen
(`tracer.target.products.EigenTimes`; docs/memory-model.md, *Which library*).
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from benchmarks.products import Case, prepare
from tracer import lowering
from tracer.ir.library_calls import ProductCall
from tracer.target.products import EigenTimes

BY_ROWS, TURNED = "mk,kn->mn", "mk,nk->mn"
SIZES = (
    *((TURNED, 32, words, 64, words) for words in (128, 160, 192, 256, 320, 384, 512, 1024)),
    *((BY_ROWS, 32, words, words, 64) for words in (64, 128, 256, 512, 1024)),
    *((layout, 16, 64, 256, 512) for layout in (BY_ROWS, TURNED)),
    *((BY_ROWS, 0, 2048, terms, 512) for terms in (8, 32, 100, 256, 512, 2048)),
    *((BY_ROWS, 0, rows, 512, 2048) for rows in (64, 256, 512, 1024)),
    (BY_ROWS, 0, 512, 512, 4096),
    (BY_ROWS, 0, 5000, 512, 200),
    (BY_ROWS, 0, 1024, 2000, 64),
    (TURNED, 0, 2048, 512, 512),
    (TURNED, 0, 512, 512, 4096),
    (TURNED, 0, 200, 512, 5000),
    (TURNED, 0, 200, 2048, 5000),
    (TURNED, 0, 64, 1024, 2048),
)
"""Layout, batch (0: none), m, k, n."""


def share(case: Case, seconds: float) -> tuple[float, float]:
    """Return GF/s by YNNPACK and Eigen's share of its time, medians of turns for some seconds."""
    runs = prepare(case), prepare(case, options=lowering.eigen_options())
    for run in runs:
        run()
    taken: list[tuple[float, ...]] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken) < 3:
        taken.append(tuple(run() for run in runs))
    rate = case.flops / statistics.median(pair[0] for pair in taken) / 1e9
    return rate, statistics.median(eigen / ynnpack for ynnpack, eigen in taken)


def planned_share(case: Case) -> float:
    """Return the share that the planner takes for a product."""
    is_turned = case.layout == TURNED
    itemsize = np.dtype(case.dtype).itemsize
    call = ProductCall(
        max(1, case.batch), case.m, case.k, case.n, itemsize, right_inner_last=is_turned
    )
    return EigenTimes().share(call)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtypes", default="float32,float64")
    parser.add_argument("--seconds", type=float, default=0.6, help="for each product")
    arguments = parser.parse_args()
    print("| dtype | batch, m, k, n | layout | YNNPACK, GF/s | Eigen's share | the planner's |")
    print("|---|---|---|---|---|---|")
    for dtype in arguments.dtypes.split(","):
        for layout, batch, m, k, n in SIZES:
            case = Case(layout, batch, m, k, n, dtype)
            rate, found = share(case, arguments.seconds)
            print(
                f"| {dtype} | {batch or '-'}, {m}, {k}, {n} | {layout} | {rate:.0f} "
                f"| {found:.2f} | {planned_share(case):.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
