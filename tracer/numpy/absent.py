"""Names of NumPy that are not here, and why."""

from __future__ import annotations

_FILES = "reading and writing files is NumPy's business: load with it, then `asarray`"
_TEXT = "works on text; call it on `numpy.asarray(x)`"
_DATES = "there are no dates among the dtypes"
_MEMORY = "arrays have no strides or memory order of their own, and never share memory visibly"
_STATE = "a setting of NumPy itself"
_OBJECTS = "makes object arrays or legacy matrices"
_ITERATION = "iterates over host memory"
ABSENT: dict[str, str] = {
    "array2string": _TEXT,
    "array_repr": _TEXT,
    "array_str": _TEXT,
    "base_repr": _TEXT,
    "binary_repr": _TEXT,
    "format_float_positional": _TEXT,
    "format_float_scientific": _TEXT,
    "typename": _TEXT,
    "mintypecode": _TEXT,
    "genfromtxt": _FILES,
    "fromfile": _FILES,
    "fromregex": _FILES,
    "fromstring": _FILES,
    "loadtxt": _FILES,
    "savetxt": _FILES,
    "savez_compressed": _FILES,
    "busday_count": _DATES,
    "busday_offset": _DATES,
    "is_busday": _DATES,
    "datetime_as_string": _DATES,
    "datetime_data": _DATES,
    "isnat": _DATES,
    "asarray_chkfinite": "looks at values; write `assert isfinite(x).all()`",
    "asfortranarray": _MEMORY,
    "isfortran": _MEMORY,
    "may_share_memory": _MEMORY,
    "shares_memory": _MEMORY,
    "require": _MEMORY,
    "asmatrix": _OBJECTS,
    "bmat": _OBJECTS,
    "frompyfunc": _OBJECTS,
    "nested_iters": _ITERATION,
    "get_include": _STATE,
    "getbufsize": _STATE,
    "setbufsize": _STATE,
    "geterr": _STATE,
    "seterr": _STATE,
    "geterrcall": _STATE,
    "seterrcall": _STATE,
    "info": _STATE,
    "show_config": _STATE,
    "show_runtime": _STATE,
    "test": _STATE,
    "einsum_path": "the path is chosen inside `einsum`; `numpy.einsum_path` shows one",
    "row_stack": "deprecated by NumPy; use `vstack`",
}
"""Functions. A public function of NumPy that is neither here nor there fails a test."""
_NUMPY = "use numpy's before the program, and pass the results as arguments"
MODULES: dict[str, str] = {
    "random": "use tracer.random: `normal(tracer.random.key(0), shape)`, and `split` for new keys; "
    "or draw with numpy.random, and pass the numbers as arguments",
    "polynomial": "`polyval`, `polyfit` and `roots` are here; " + _NUMPY,
    "ma": "there are no masked arrays; use `where`, or the functions with `where=`",
    **dict.fromkeys(("matrix", "memmap", "recarray", "nditer", "poly1d", "testing"), _NUMPY),
}
"""Other names."""

__all__ = ["ABSENT", "MODULES"]
