"""Programs of PyTorch within a byte limit, unchanged.

`limit(f, memory_limit=...)` takes a function of tensors or a module; `value_and_grad(loss)` makes
loss and gradient one program. `torch.compile(f, backend="tracer")` is there once this is imported.
Needs PyTorch: `pip install "tracer[torch]"`.
"""

from tracer.torch import backend as _backend
from tracer.torch import rules as _rules
from tracer.torch.gradient import ValueAndGrad, value_and_grad
from tracer.torch.limited import LimitedFunction, limit

del _backend, _rules

__all__ = ["LimitedFunction", "ValueAndGrad", "limit", "value_and_grad"]
