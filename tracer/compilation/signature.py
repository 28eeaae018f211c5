"""One call of a compiled function: its arrays, its types and the key of its program."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tracer import tree
from tracer.array.array import Array
from tracer.array.convert import host_array
from tracer.array.dispatch import apply_graph, from_host
from tracer.array.promotion import Dtype, default_dtype, scalar_value, weak_class
from tracer.array.stored import StoredType
from tracer.array.trace import Traced, trace, write_back
from tracer.array.weak import ArgumentType, WeakType, strong_type
from tracer.autodiff import recompute_large, segment_scans
from tracer.compilation.statics import Statics, Values, bound
from tracer.errors import ArgumentError, DTypeError, RangeError, TracingError
from tracer.ir import ShapeDtype
from tracer.storage import StoredArray, if_stored


@dataclass(frozen=True)
class Call:
    """The flattened arguments of one call.

    Attributes
    ----------
    function : callable
        Takes the arguments without the static ones.
    leaves : tuple
        Arrays, NumPy arrays and types, in order.
    structure : Structure
        How the leaves make up `(args, kwargs)`.
    signatures : tuple of ShapeDtype and WeakType
        Types of the leaves. A Python number has a weak type, whatever its value.
    statics : tuple
        Positions or names of the static arguments, and their values.
    leaf_ranges : tuple of (int, int)
        First and last-plus-one leaf of each positional argument; static ones have none.
    keyword_ranges : dict of str to (int, int)
        The same for keyword arguments.
    names : tuple of str
        Each leaf as the user knows it, such as "argument 0['w']".
    """

    function: Callable[..., Any]
    leaves: tuple[Any, ...]
    structure: tree.Structure
    signatures: tuple[ArgumentType, ...]
    statics: Values
    leaf_ranges: tuple[tuple[int, int], ...]
    keyword_ranges: dict[str, tuple[int, int]]
    is_flat: bool
    stored: tuple[StoredArray, ...] = ()
    """The arguments in storage, which exist as long as the call does."""

    @property
    def names(self) -> tuple[str, ...]:
        """Each leaf as the user knows it."""
        leaves = tree.unflatten(self.structure, range(len(self.leaves)))
        paths = tree.flatten_with_paths(leaves)[0]
        dynamic = [i for i in range(len(self.leaf_ranges)) if i not in dict(self.statics)]
        return tuple(_spelled(path, dynamic) for path in paths)

    @property
    def key(self) -> tuple[Any, ...]:
        """What the compiled program depends on."""
        return program_key(self.structure, self.signatures, self.statics)

    @property
    def types(self) -> tuple[ShapeDtype, ...]:
        """Shape and dtype of the leaves."""
        return tuple(map(strong_type, self.signatures))

    @cached_property
    def traced(self) -> Traced:
        """The function's graph for these types."""
        return self._trace()

    def without_data(self) -> Call:
        """Return the call with types for its arrays, so that it can be kept without the user's."""
        other = replace(self, leaves=self.signatures, stored=())
        if "traced" in self.__dict__:
            other.__dict__["traced"] = self.traced
        return other

    def traced_anew(self) -> Call:
        """Return the call as if the function were not traced yet."""
        return replace(self)

    def traced_to_keep_less(self, large: int | None, *, in_segments: bool) -> Traced:
        """Trace again, so that scans store less for their gradient.

        Parameters
        ----------
        large : int or None
            They store no values of more bytes than this; see `autodiff.recompute_large`.
        in_segments : bool
            See `autodiff.segment_scans`.
        """
        with recompute_large(large), segment_scans(in_segments):
            return self._trace()

    def _trace(self) -> Traced:
        args, kwargs = tree.unflatten(self.structure, self.signatures)
        return trace(self.function, args, kwargs, writes="back")

    def inline(self) -> Any:
        """Record the function into the trace that is active; returns its result.

        Raises
        ------
        TracingError
            An argument is in storage: the outer program would not be given it.
        """
        if self.stored:
            raise TracingError(
                f"{self.stored[0]!r} is given to a compiled function inside of a traced one",
                mend="make it an argument of the outermost compiled function",
            )
        traced = self.traced
        arrays = self.arrays(None)
        outputs = apply_graph(traced.graph, [*arrays, *traced.captured])
        write_back(traced.written, arrays, outputs)
        return traced.result(outputs)

    def arrays(self, *places: Any) -> list[Array]:
        """Return the arguments as arrays; NumPy arrays are copied to a device.

        `places` is that of all of them, or one for each (and more, of captured arrays).

        Raises
        ------
        ArgumentError
            There is a `ShapeDtype` among them: it has no data to run on.
        """
        for leaf in self.leaves:
            if isinstance(leaf, ShapeDtype | WeakType | StoredType):
                raise ArgumentError(
                    f"cannot run on {leaf!r}: it has no data",
                    mend="pass an array, or use .plan(...), .graph(...), .hlo(...) for types",
                )
        return placed(self.leaves, places)


def placed(leaves: Sequence[Any], places: Sequence[Any]) -> list[Array]:
    """Return arrays, those of NumPy as copies on a device; see `Call.arrays` for the places."""
    each = itertools.repeat(places[0]) if len(places) == 1 else places
    return [
        leaf if isinstance(leaf, Array) else from_host(leaf, place)
        for leaf, place in zip(leaves, each, strict=False)
    ]


def read_call(
    function: Callable[..., Any],
    statics: Statics,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    reads_files: bool = True,
) -> Call:
    """Flatten the arguments of a call.

    Arrays of NumPy and others whose data is in files are read by the program if `reads_files`,
    and before it otherwise.

    Raises
    ------
    ArgumentError
        A static argument is missing or cannot be hashed.
    DTypeError
        A leaf is no array, number or nested container of them.
    """
    arguments, values = statics.split(args, kwargs)
    paths, found, structure = tree.flatten_with_paths(arguments)
    if reads_files:
        found = [leaf if isinstance(leaf, Array) else if_stored(leaf) for leaf in found]
    read = [_leaf(path, leaf) for path, leaf in zip(paths, found, strict=True)]
    return Call(
        bound(function, values, len(args)),
        tuple([leaf for leaf, _ in read]),
        structure,
        tuple([signature for _, signature in read]),
        values,
        _leaf_ranges(args, statics.places(len(args))),
        _keyword_ranges(arguments[1], len(read)),
        not values and not kwargs and len(read) == len(args),
        tuple([leaf for leaf in found if isinstance(leaf, StoredArray)]),
    )


def program_key(
    structure: tree.Structure,
    signatures: tuple[ArgumentType, ...],
    statics: Values,
) -> tuple[Any, ...]:
    """Return what a compiled program depends on.

    For Python numbers that are not static, only the class belongs to it.
    """
    return structure, signatures, tuple([(i, _static_key(value)) for i, value in statics])


def _static_key(value: Any) -> tuple[Any, ...]:
    """Return a key for static values that are equal but trace differently.

    1, 1.0 and True; 0.0 and -0.0; and tuples of these.
    """
    cls = value.__class__
    if cls is tuple:
        return cls, tuple([_static_key(item) for item in value])
    if cls is float or cls is complex:
        return cls, repr(value)
    return cls, value


def _leaf(path: str, leaf: Any) -> tuple[Any, ArgumentType]:
    """Return a leaf as an array of the host or a device, and its type."""
    if isinstance(leaf, Array):
        return leaf, leaf._signature
    if isinstance(leaf, ShapeDtype):
        return leaf, leaf
    if isinstance(leaf, StoredArray):
        return np.array(leaf.number, np.int32), StoredType(leaf.type)
    cls = weak_class(leaf)
    if cls is not None:
        return number(path, leaf, default_dtype(cls))
    try:
        array = host_array(leaf)
    except DTypeError as error:
        raise DTypeError(
            f"argument {_argument(path)} is not an array: {error.what}",
            mend=f"{error.mend}; or name the argument in static_argnums, or "
            + tree.how_to_register(type(leaf)),
        ) from error
    return array, ShapeDtype(array.shape, array.dtype)


def number(path: str, value: Any, dtype: Dtype) -> tuple[Any, ArgumentType]:
    """Return a Python number as an array of the host, and its type.

    Raises
    ------
    RangeError
        It is an integer that does not fit; says which argument.
    """
    try:
        return scalar_value(value, dtype), WeakType(ShapeDtype((), dtype))
    except RangeError as error:
        raise RangeError(
            f"argument {_argument(path)} is the Python integer {value}: it does not fit into "
            f"{dtype}, the dtype in which the program takes it",
            mend="name the argument in static_argnums, close over it, or pass a NumPy scalar such "
            "as numpy.uint64(value)",
        ) from error


def _argument(path: str) -> str:
    """Return a path within (args, kwargs) as the user knows it."""
    kind, _, rest = path[1:].partition("]")
    return f"{'args' if kind == '0' else 'kwargs'}{rest}"


def _leaf_ranges(args: tuple[Any, ...], static: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    ranges, start = [], 0
    for position, item in enumerate(args):
        count = 0 if position in static else len(tree.leaves(item))
        ranges.append((start, start + count))
        start += count
    return tuple(ranges)


def _keyword_ranges(kwargs: dict[str, Any], stop: int) -> dict[str, tuple[int, int]]:
    ranges: dict[str, tuple[int, int]] = {}
    # Keywords are the last leaves, in the order of their names.
    for name in sorted(kwargs, reverse=True):
        start = stop - len(tree.leaves(kwargs[name]))
        ranges[name] = (start, stop)
        stop = start
    return ranges


def _spelled(path: str, positions: list[int]) -> str:
    """Return a path within (args, kwargs) as words: "argument 2['w']", "argument 'state'"."""
    kind, _, rest = path[1:].partition("]")
    place, _, inner = rest[1:].partition("]")
    return f"argument {positions[int(place)] if kind == '0' else place}{inner}"
