"""Processes that were forked after XLA had started: its threads stayed in the parent.

A program would wait for them for ever. Values that are there can still be read. Nothing is done
before a fork, and nothing at all in processes that never fork.
"""

from __future__ import annotations

import os

from tracer.errors import DeviceError


class _Forks:
    """Whether this process was forked from one in which a client had been made."""

    def __init__(self) -> None:
        self.is_child = False
        self._is_told = False

    def watch(self) -> None:
        """Look out for forks from now on: a client is being made."""
        if not self._is_told and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)
            self._is_told = True

    def _forked(self) -> None:
        self.is_child = True


FORKS = _Forks()


def absent_threads() -> DeviceError:
    """Return the error for work that needs XLA's threads in a forked process."""
    return DeviceError(
        "this process was forked from one that had run programs, and XLA's threads stayed there",
        mend="start processes with multiprocessing.get_context('spawn') or 'forkserver', or fork "
        "before the first array is made; np.asarray(x) reads an array here too",
    )


__all__ = ["FORKS", "absent_threads"]
