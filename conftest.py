"""What pytest must know before it looks for examples in docstrings."""

import importlib.util

# tracer.jax cannot be imported without JAX, and tracer.torch not without PyTorch;
# tests/jax/test_examples.py and tests/torch/test_examples.py run their examples.
collect_ignore = [
    f"tracer/{name}" for name in ("jax", "torch") if importlib.util.find_spec(name) is None
]
