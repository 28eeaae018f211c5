"""What every test shares: reproducible random numbers, hypothesis' settings, skips for machines."""

from __future__ import annotations

import gc
import os

# XLA's C++ start-up lines; set before anything loads jaxlib.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
# Tests compile what they test.
os.environ.pop("TRACER_CACHE_DIR", None)

import hypothesis
import numpy as np
import pytest

from tests import peers, tiers

# Derandomised: a run that fails on one machine fails on every machine.
hypothesis.settings.register_profile(
    "tracer",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
# For long hunts: HYPOTHESIS_PROFILE=hunt make test
hypothesis.settings.register_profile("hunt", deadline=None, max_examples=5000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tracer"))


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers that are the same in every run."""
    return np.random.default_rng(20240607)


def pytest_configure(config: pytest.Config) -> None:
    """Hold every test to what its markers say that it needs."""
    config.pluginmanager.register(tiers, "tests.tiers")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a package which only `make test-jax` or `make test-torch` installs.

    They are `xla` too: what they compare with a peer is mostly compiled.
    """
    for item in items:
        if isinstance(item, pytest.Function):
            names = (item.function.__qualname__, *item.fixturenames)
            for marker, packages in (("peer", peers.PACKAGES), ("torch", peers.TORCH)):
                if any(peers.is_needed(item.path, name, packages) for name in names):
                    item.add_marker(marker)
                    item.add_marker("xla")


def pytest_collection_finish() -> None:
    """Leave the tests themselves out of garbage collections: they live until the run ends.

    20,000 of them are a million objects, which each full collection would look at: 5 to 9 % of the
    processor time of a run.
    """
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests marked `gpu` where there is none."""
    if item.get_closest_marker("gpu") is not None and not _has_gpu():
        pytest.skip("needs a GPU")


def _has_gpu() -> bool:
    from tracer import lowering

    return any(device.platform == "gpu" for device in lowering.devices())
