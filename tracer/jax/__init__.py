"""Programs of JAX within a byte limit, unchanged.

`limit(f, memory_limit=...)` takes what `jax.jit` takes. `from_jax(f)` gives a function of tracer's
arrays, which `tracer.grad` and `tracer.compile` take. Needs JAX: `pip install "tracer[jax]"`.
"""

from tracer.jax import rules as _rules
from tracer.jax.imported import from_jax
from tracer.jax.limited import LimitedFunction, limit

del _rules

__all__ = ["LimitedFunction", "from_jax", "limit"]
