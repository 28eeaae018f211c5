"""Float64 as torch's default, so that values can be compared to the last digits.

Where torch is not installed the files that need it to be read are not collected.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator

import pytest

_HAS_TORCH = importlib.util.find_spec("torch") is not None
collect_ignore = [] if _HAS_TORCH else ["comparison.py", "programs.py"]


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    if not _HAS_TORCH:
        yield
        return
    import torch

    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        # torch's own, of its next release.
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", category=FutureWarning)
        yield
    torch.set_default_dtype(torch.float32)
