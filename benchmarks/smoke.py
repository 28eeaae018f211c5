"""The smallest benchmark: one kernel product, split and not, time and measured memory.

`make smoke` runs it. It fails when the split program is over its limit, or when one of the two does
not run. Each program runs in a fresh process (see benchmarks/measure.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)

from benchmarks.measure import Measurement, measure  # noqa: E402 - after the path

N, FEATURES = 6_000, 3
LIMIT_BYTES = 40_000_000
NOISE_BYTES = 1_000_000


def kernel_product(limit: int | None) -> Callable[[], Any]:
    """Return a run of exp(-|x_i - y_j|^2 / 2) @ v, unsplit when `limit` is None."""
    import numpy as np

    import tracer
    import tracer.numpy as tnp

    def predict(x: Any, y: Any, v: Any) -> Any:
        d2 = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)
        return tnp.exp(-0.5 * d2) @ v

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, N, FEATURES), dtype=np.float32)
    v = rng.standard_normal(N, dtype=np.float32)
    # Loads XLA's libraries, which are not the program.
    np.asarray(tracer.compile(predict)(x[:4], y[:4], v[:4]))
    arrays = [tnp.asarray(array) for array in (x, y, v)]
    f = tracer.compile(predict, memory_limit=limit)
    f.plan(*arrays)
    return lambda: np.asarray(f(*arrays))


def main() -> None:
    """Print one row for each program; exit with 1 when a promise is broken."""
    argument_bytes = 4 * N * (2 * FEATURES + 1)
    rows: dict[str, Measurement] = {}
    for name, limit in (("no limit", None), ("40 MB", LIMIT_BYTES)):
        rows[name] = measure(f"{__file__}:kernel_product", arguments={"limit": limit})
        print(f"{name:10s} {_shown(rows[name])}")
    broken = [f"{name}: {row.reason}" for name, row in rows.items() if not row.fits]
    peak = rows["40 MB"].peak_bytes
    if peak is not None and peak + argument_bytes > LIMIT_BYTES + NOISE_BYTES:
        broken.append(f"{peak + argument_bytes} bytes are over the limit of {LIMIT_BYTES}")
    sys.exit("\n".join(broken) if broken else 0)


def _shown(row: Measurement) -> str:
    if not row.fits or row.peak_bytes is None:
        return f"{row.status}: {row.reason}"
    return (
        f"{row.seconds:.4f} s ({row.fastest:.4f} .. {row.slowest:.4f}), "
        f"{row.peak_bytes / 1e6:.1f} MB above the baseline ({row.method})"
    )


if __name__ == "__main__":
    main()
