"""What pytest must know before it looks for examples in docstrings."""

import importlib.util

# tracer.jax cannot be imported without JAX; tests/jax/test_examples.py runs its examples.
collect_ignore = [] if importlib.util.find_spec("jax") else ["tracer/jax"]
