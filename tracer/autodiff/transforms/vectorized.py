"""vmap, with the names, argument order and semantics of JAX."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from tracer import ops, tree
from tracer.array.array import Array
from tracer.array.dispatch import apply, apply_graph
from tracer.array.trace import trace, write_back
from tracer.array.weak import Signature, as_given
from tracer.autodiff.batching import batch_graph
from tracer.autodiff.transforms.arguments import check_callable, describe, is_array_like, named
from tracer.autodiff.transforms.named_axes import NamedAxis, within
from tracer.errors import ArgumentError, AxisError, DTypeError, ShapeError, with_short_traceback
from tracer.ir import Builder, Graph, ShapeDtype, Value
from tracer.ops.batch import move_axis

Axis = int | None
_INT32 = np.dtype(np.int32)


def vmap(
    fun: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Hashable | None = None,
    axis_size: int | None = None,
    spmd_axis_name: None = None,
) -> Callable[..., Any]:
    """Make a function of single elements one of batches: no loop, one program.

    Parameters
    ----------
    fun : callable
        Takes and returns arrays in any nesting.
    in_axes : int, None, or tuple of these nested as the arguments
        Which axis of each argument runs over the batch; None for what all elements share. One
        entry may apply to everything below it. Arguments given by keyword have it in front.
    out_axes : int, None, or these nested as the result
        Where the batch axis goes in the results; None for a result that does not depend on it.
    axis_name : hashable, optional
        What `lax.psum`, `lax.axis_index` and the other collectives call the batch's axis.
    axis_size : int, optional
        The size of the batch; needed where no argument has the axis.
    spmd_axis_name : None
        Of JAX's partitioning of batches over devices, which place `tracer.sharding` arguments on.

    Returns
    -------
    callable
        Same arguments as `fun`, with the further axis.

    Raises
    ------
    ArgumentError
        `in_axes` or `out_axes` are not nested as the arguments or results; nothing has the axis
        and there is no `axis_size`; a result with out_axes None depends on the batch; there is a
        `spmd_axis_name`.
    AxisError
        An argument or a result has no such axis.
    ShapeError
        The arguments have different sizes along it.
    DTypeError
        An argument with the axis is no array.

    Notes
    -----
    What does not depend on the batch is computed once. A `while_loop` whose condition differs
    between elements runs until all are done; of a `cond` whose predicate differs both branches
    run. In a compiled function with a memory limit, the batch is an axis that can be split.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> distance = lambda x, y: tnp.sqrt(((x - y) ** 2).sum())
    >>> rows = tnp.array([[3.0, 4.0], [0.0, 1.0]])
    >>> tracer.vmap(distance, in_axes=(0, None))(rows, tnp.zeros(2)).tolist()
    [5.0, 1.0]
    """
    check_callable("vmap", fun)
    prefix = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    if not isinstance(prefix, tuple | int | None) or isinstance(prefix, bool):
        raise ArgumentError(
            f"vmap: in_axes is {describe(in_axes)}",
            mend="give an integer, None, or a tuple with one entry for each positional argument",
        )
    if spmd_axis_name is not None:
        raise ArgumentError(
            "vmap: spmd_axis_name is of JAX's partitioning over devices",
            mend="leave it out, and place the arguments with tracer.sharding",
        )
    size = _checked_size(axis_size)

    @functools.wraps(fun)
    @with_short_traceback
    def batched(*args: Any, **kwargs: Any) -> Any:
        call = _Call(prefix, args, kwargs, size, axis_name)
        return call.run(fun, out_axes)

    return batched


def _checked_size(size: Any) -> int | None:
    if size is None:
        return None
    try:
        number = -1 if isinstance(size, bool) else operator.index(size)
    except TypeError:
        number = -1
    if number < 0:
        raise ArgumentError(f"vmap: axis_size is {size!r}", mend="give an integer of 0 or more")
    return number


class _Call:
    """The arguments of one call, with their batch axes."""

    def __init__(
        self,
        in_axes: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        size: int | None,
        name: Hashable | None,
    ) -> None:
        paths, self.leaves, self.structure = tree.flatten_with_paths((args, kwargs))
        self.paths = [_shown_path(path) for path in paths]
        axes = _prefixed("in_axes", in_axes, args, "the arguments")
        axes += [0] * (len(self.leaves) - len(axes))
        # Numbers and other objects that all elements share reach the function as they are.
        self.given = [
            i
            for i, (axis, leaf) in enumerate(zip(axes, self.leaves, strict=True))
            if axis is not None or isinstance(leaf, Array | np.ndarray)
        ]
        self.arrays = [self._array(i, axes[i]) for i in self.given]
        self.axes = [
            self._axis(i, axes[i], array.type)
            for i, array in zip(self.given, self.arrays, strict=True)
        ]
        self.size = self._size(size)
        self.name = name
        if name is not None:
            # The function's hidden argument: the number of the element.
            self.arrays.append(apply(ops.iota, shape=(self.size,), dtype=_INT32, dimension=0))
            self.axes.append(0)

    def _array(self, i: int, axis: Axis) -> Array:
        if not is_array_like(self.leaves[i]):
            raise DTypeError(
                f"vmap: {self.paths[i]} is {describe(self.leaves[i])}, which is no array, but "
                f"in_axes says {axis}",
                mend="give an array, or None in in_axes for what all elements share",
            )
        return named(f"vmap: {self.paths[i]}", as_given, self.leaves[i])

    def _axis(self, i: int, axis: Axis, type: ShapeDtype) -> Axis:
        if axis is None:
            return None
        return _normalized(f"vmap: {self.paths[i]} is {type}, but in_axes says", axis, type.ndim)

    def _size(self, size: int | None) -> int:
        sizes: dict[int, str] = {} if size is None else {size: "axis_size"}
        for i, array, axis in zip(self.given, self.arrays, self.axes, strict=True):
            if axis is not None:
                sizes.setdefault(array.shape[axis], f"axis {axis} of {self.paths[i]}")
        if not sizes:
            raise ArgumentError(
                "vmap: no argument has a batch axis, so the size of the batch is not known",
                mend="give an axis for one argument in in_axes, or axis_size=n",
            )
        if len(sizes) > 1:
            shown = ", ".join(f"{n} ({what})" for n, what in sizes.items())
            raise ShapeError(
                f"vmap: the sizes along the batch axes differ: {shown}",
                mend="give arrays of one size along these axes, or None in in_axes for what all "
                "elements share",
            )
        return next(iter(sizes))

    def run(self, fun: Callable[..., Any], out_axes: Any) -> Any:
        """Trace the function on one element, batch the graph and apply it."""

        @functools.wraps(fun)
        def function_of_arrays(*arrays: Array) -> Any:
            leaves = list(self.leaves)
            count = len(self.given)
            for i, array in zip(self.given, arrays[:count], strict=True):
                leaves[i] = array
            args, kwargs = tree.unflatten(self.structure, leaves)
            if self.name is None:
                return fun(*args, **kwargs)
            with within(NamedAxis(self.name, self.size, arrays[count])):
                return fun(*args, **kwargs)

        pairs = zip(self.arrays, self.axes, strict=True)
        elements = [_element(x._signature, axis) for x, axis in pairs]
        traced = trace(function_of_arrays, elements, writes="apart")
        axes = [*self.axes, *[None] * len(traced.captured)]
        graph, flags = batch_graph(traced.graph, [axis is not None for axis in axes], self.size)
        own = traced.output_types
        places = self._places(out_axes, traced.out_tree, own, flags[: len(own)])
        places += [self.axes[i] for i, _ in traced.written]
        graph = _with_axes(graph, axes, flags, places, self.size)
        results = apply_graph(graph, [*self.arrays, *traced.captured])
        # If all elements share an argument, each writes into its own copy.
        written = tuple(pair for pair in traced.written if self.axes[pair[0]] is not None)
        write_back(written, self.arrays, results)
        return traced.result(results)

    def _places(
        self,
        out_axes: Any,
        structure: tree.Structure,
        types: Sequence[ShapeDtype],
        flags: Sequence[bool],
    ) -> list[Axis]:
        result = tree.unflatten(structure, range(len(types)))
        axes = _prefixed("out_axes", out_axes, result, "the result")
        paths = tree.flatten_with_paths(result)[0]
        places = []
        for axis, path, type, differs in zip(axes, paths, types, flags, strict=True):
            if axis is None and differs:
                raise ArgumentError(
                    f"vmap: result{path} depends on the batch, but out_axes says None",
                    mend="give the place of its batch axis in out_axes",
                )
            what = f"vmap: result{path} is {type} for one element, but out_axes says"
            places.append(None if axis is None else _normalized(what, axis, type.ndim + 1))
        return places


def _shown_path(path: str) -> str:
    """Write the path of a leaf of `(args, kwargs)`."""
    name, _, below = path[len("[0][") :].partition("]")
    return f"argument {name}" + (f" at {below}" if below else "")


def _prefixed(name: str, axes: Any, values: Any, what: str) -> list[Axis]:
    """Return the batch axis of each leaf."""
    try:
        found = tree.broadcast_prefix(axes, values)
    except ValueError as error:
        raise ArgumentError(
            f"vmap: {name}={axes!r} does not fit {what}, nested as {tree.structure(values)}",
            mend=f"nest {name} as {what}; one integer or None may apply to a whole branch",
        ) from error
    for axis in found:
        if axis is not None and (isinstance(axis, bool) or not isinstance(axis, int | np.integer)):
            raise ArgumentError(
                f"vmap: {name} holds {describe(axis)}", mend="give integers and None only"
            )
    return [None if axis is None else int(axis) for axis in found]


def _normalized(what: str, axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        raise AxisError(
            f"{what} {axis}",
            mend=f"give an axis from {-ndim} to {ndim - 1}"
            if ndim
            else "a scalar has no axis: give None for what all elements share",
        )
    return axis % ndim


def _element(type: Signature, axis: Axis) -> Signature:
    if axis is None:
        return type
    return type.with_shape((*type.shape[:axis], *type.shape[axis + 1 :]))


def _with_axes(
    graph: Graph,
    axes: Sequence[Axis],
    flags: Sequence[bool],
    places: Sequence[Axis],
    size: int,
) -> Graph:
    """Move the batch axes of a graph from and to where the user has them."""
    with Builder() as builder:
        inputs = []
        for value, axis in zip(graph.inputs, axes, strict=True):
            shape = list(value.shape)
            if axis is not None:
                shape.insert(axis, shape.pop(0))
            given = builder.input(value.type.with_shape(shape), value.node.source)
            inputs.append(given if axis is None else move_axis(given, axis, 0))
        results = builder.inline(graph, inputs)
        outputs = zip(results, flags, places, strict=True)
        return builder.finish([_placed(*output, size) for output in outputs])


def _placed(x: Value, is_batched: bool, place: Axis, size: int) -> Value:
    if place is None:
        return x
    if is_batched:
        return move_axis(x, 0, place)
    shape = (*x.shape[:place], size, *x.shape[place:])
    dimensions = tuple(axis for axis in range(len(shape)) if axis != place)
    return ops.broadcast_in_dim(x, shape=shape, dimensions=dimensions)  # type: ignore[no-any-return]


__all__ = ["vmap"]
