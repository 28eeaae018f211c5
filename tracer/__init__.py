"""NumPy-style code, differentiated, and compiled to run within a byte limit.

The public names. Arrays and functions of them live in `tracer.numpy`.
"""

from tracer import (
    debug,
    distributed,
    image,
    lax,
    nn,
    numpy,
    optimizers,
    random,
    scipy,
    sharding,
    tree,
)
from tracer.arguments import explain as _explain
from tracer.array.abstract import block_until_ready, eval_shape, make_graph
from tracer.array.array import Array
from tracer.array.defaults import config
from tracer.autodiff.transforms import (
    check_grads,
    checkpoint,
    checkpoint_name,
    checkpoint_policies,
    custom_jvp,
    custom_vjp,
    grad,
    hessian,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    linear_transpose,
    linearize,
    stop_gradient,
    value_and_grad,
    vjp,
    vmap,
)
from tracer.autodiff.transforms import checkpoint as remat
from tracer.compilation import eager as _eager
from tracer.compilation.bucketing import BucketedFunction, bucket
from tracer.compilation.eager import set_default_device
from tracer.compilation.function import CompiledFunction, compile
from tracer.compilation.log import log
from tracer.compilation.options import bound_programs_if_asked as _bound_programs_if_asked
from tracer.compilation.options import set_default_float_if_asked as _set_default_float_if_asked
from tracer.compilation.stored.folder import set_cache_dir
from tracer.compilation.stored.folder import use_folder_if_asked as _use_folder_if_asked
from tracer.control import (
    associative_scan,
    cond,
    fori_loop,
    map,  # noqa: A004 - named as in JAX
    pure_callback,
    scan,
    switch,
    while_loop,
)
from tracer.debug.progress import progress
from tracer.errors import (
    ArgumentError,
    ArrayIndexError,
    AxisError,
    CacheWarning,
    DeviceError,
    DonatedArrayError,
    DonationWarning,
    DTypeError,
    ExecutionError,
    ExportError,
    GradientCheckError,
    LinAlgError,
    LoweringError,
    MemoryBudgetError,
    MemoryLimitError,
    MissingNameError,
    NanError,
    NotDifferentiableError,
    OutOfMemoryError,
    RangeError,
    ShapeError,
    StorageError,
    TracerError,
    TracingError,
    UnsoundProgramWarning,
    UnsupportedError,
    VerifyError,
    WideVectorsWarning,
)
from tracer.errors import missing_name as _missing_name
from tracer.ir import ShapeDtype
from tracer.lowering import default_device, devices, memory_budget, tune_host_allocator
from tracer.lowering import tune_if_asked as _tune_if_asked
from tracer.numpy.segments import segment_max, segment_min, segment_prod, segment_sum
from tracer.optimizer.plan import Plan
from tracer.sharding import device_get, device_put
from tracer.stablehlo import from_stablehlo
from tracer.storage import (
    StoredArray,
    open,  # noqa: A004 - as files are
)
from tracer.tree import register_pytree_node

__version__ = "0.1.0"
_bound_programs_if_asked()
_set_default_float_if_asked()
_tune_if_asked()
_use_folder_if_asked()
del _bound_programs_if_asked, _eager, _set_default_float_if_asked, _tune_if_asked
del _use_folder_if_asked

__all__ = [
    "ArgumentError",
    "Array",
    "ArrayIndexError",
    "AxisError",
    "BucketedFunction",
    "CacheWarning",
    "CompiledFunction",
    "DTypeError",
    "DeviceError",
    "DonatedArrayError",
    "DonationWarning",
    "ExecutionError",
    "ExportError",
    "GradientCheckError",
    "LinAlgError",
    "LoweringError",
    "MemoryBudgetError",
    "MemoryLimitError",
    "MissingNameError",
    "NanError",
    "NotDifferentiableError",
    "OutOfMemoryError",
    "Plan",
    "RangeError",
    "ShapeDtype",
    "ShapeError",
    "StorageError",
    "StoredArray",
    "TracerError",
    "TracingError",
    "UnsoundProgramWarning",
    "UnsupportedError",
    "VerifyError",
    "WideVectorsWarning",
    "associative_scan",
    "block_until_ready",
    "bucket",
    "check_grads",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "compile",
    "cond",
    "config",
    "custom_jvp",
    "custom_vjp",
    "debug",
    "default_device",
    "device_get",
    "device_put",
    "devices",
    "distributed",
    "eval_shape",
    "fori_loop",
    "from_stablehlo",
    "grad",
    "hessian",
    "image",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "lax",
    "linear_transpose",
    "linearize",
    "log",
    "make_graph",
    "map",
    "memory_budget",
    "nn",
    "numpy",
    "open",
    "optimizers",
    "progress",
    "pure_callback",
    "random",
    "register_pytree_node",
    "remat",
    "scan",
    "scipy",
    "segment_max",
    "segment_min",
    "segment_prod",
    "segment_sum",
    "set_cache_dir",
    "set_default_device",
    "sharding",
    "stop_gradient",
    "switch",
    "tree",
    "tune_host_allocator",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]

_explain(globals(), __all__)
for _module in (
    numpy,
    numpy.linalg,
    numpy.fft,
    random,
    nn,
    nn.initializers,
    scipy.linalg,
    scipy.ndimage,
    scipy.optimize,
    scipy.signal,
    scipy.sparse.linalg,
    scipy.special,
    scipy.stats,
    scipy.stats.multivariate_normal,
    lax,
    lax.linalg,
    image,
    optimizers,
    debug,
    tree,
    sharding,
):
    _explain(vars(_module), _module.__all__)
del _explain, _module

_OF_JAX = {
    "jit": 'use tracer.compile(f, memory_limit="1GB"), or leave the limit out',
    "pmap": "use tracer.compile(f, mesh=...) with a mesh of tracer.sharding",
    "make_jaxpr": "use tracer.make_graph",
    "tree_map": "use tracer.tree.map",
    "tree_util": "use tracer.tree",
    "named_scope": "plans and errors name your lines and functions; there is nothing to add",
    "ensure_compile_time_eval": "compute it before the function, or with numpy inside of it",
    "disable_jit": "call the function itself: without tracer.compile it runs op by op",
}
"""Names of JAX's that are something else here, and what."""


def __getattr__(name: str) -> object:
    """Say what a name of JAX's is called here."""
    raise _missing_name("tracer", name, _OF_JAX.get(name))
