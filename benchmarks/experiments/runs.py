"""What every target returns: a call, and what it reports when all is measured. NumPy only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Run:
    """A call that keeps its results for the report.

    Parameters
    ----------
    call : callable
        Computes everything and waits for it.
    values : callable
        From the results to numbers that are checked (`Case.expected`).
    about : callable, optional
        More for the report, such as what a plan says.
    device_bytes : callable, optional
        The bytes in use and the highest so far, of a device with memory of its own.
    """

    def __init__(
        self,
        call: Callable[[], Any],
        values: Callable[[Any], Any],
        *,
        about: Callable[[], dict[str, Any]] = dict,
        device_bytes: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        self._call = call
        self._values = values
        self._about = about
        self._results: Any = None
        if device_bytes is not None:
            self.device_bytes = device_bytes

    def __call__(self) -> Any:
        """Compute, wait, and keep the results."""
        # The last results go first, as in a program that assigns to the same name, before the
        # call: they would add to its peak.
        self._results = None
        self._results = self._call()
        return self._results

    def report(self) -> dict[str, Any]:
        """Return the values that are checked, as lists, and more."""
        return {"values": np.asarray(self._values(self._results)).tolist(), **self._about()}


def some(n: int, count: int) -> Array:
    """Return numbers spread over range(n), with the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, count)).astype(int))


def scaled(results: Sequence[Array]) -> Array:
    """Return some elements of each result, over the largest of it.

    A result that is rounding only, such as the gradient of what a softmax does not depend on, is
    over a millionth of the largest of all.
    """
    largest = [float(np.abs(result).max(initial=0)) for result in results]
    least = 1e-6 * max(largest) + 1e-300
    return np.concatenate(
        [
            result.reshape(-1)[some(result.size, 64)] / max(size, least)
            for result, size in zip(results, largest, strict=True)
        ]
    )
