"""Nested arguments and results (pytrees): flatten, unflatten, map. Names and meanings are JAX's.

Containers are tuples, lists, dicts (keys sorted), named tuples, None (an empty tree) and classes
registered with `register_pytree_node` or `register_dataclass`. Everything else is a leaf; with
`is_leaf`, a function of a subtree, so is what it says. Built on optree.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import optree

from tracer.errors import ArgumentError, shown

NAMESPACE = "tracer"
IsLeaf = Callable[[Any], bool] | None
Path = tuple[Any, ...]
"""Keys, positions and names of fields that lead to a leaf."""
Structure = optree.PyTreeSpec
"""Structure of a tree without its leaves; hashable and comparable."""
_NONE: Any = object()
"""Of an argument that is not given, as None may be one."""


def flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], Structure]:
    """Return the leaves of a tree, in order, and its structure.

    Raises
    ------
    ArgumentError
        The tree is more than 1,000 levels deep, as one that contains itself is.

    Examples
    --------
    >>> from tracer import tree
    >>> leaves, structure = tree.flatten({"b": 2, "a": (1, None)})
    >>> leaves
    [1, 2]
    """
    try:
        return optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)
    except RecursionError as error:
        raise ArgumentError(
            f"a {type(tree).__name__} of arrays is nested too deeply: does it contain itself?",
            mend="pass containers of arrays without cycles",
        ) from error


def flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None
) -> tuple[list[tuple[Path, Any]], Structure]:
    """Return pairs of path and leaf, and the structure.

    Examples
    --------
    >>> from tracer import tree
    >>> tree.flatten_with_path({"a": (1, None), "b": 2})[0]
    [(('a', 0), 1), (('b',), 2)]
    """
    found, structure = flatten(tree, is_leaf)
    return list(zip(structure.paths(), found, strict=True)), structure


def leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[Path, Any]]:
    """Return pairs of path and leaf."""
    return flatten_with_path(tree, is_leaf)[0]


def map_with_path(
    function: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None
) -> Any:
    """Apply `function(path, leaf, *others)` to the leaves of one tree, or of several.

    Examples
    --------
    >>> from tracer import tree
    >>> tree.map_with_path(lambda path, x: f"{path[-1]}={x}", {"a": 1, "b": (2,)})
    {'a': 'a=1', 'b': ('0=2',)}
    """
    return optree.tree_map_with_path(function, tree, *rest, is_leaf=is_leaf, namespace=NAMESPACE)


def flatten_with_paths(tree: Any) -> tuple[list[str], list[Any], Structure]:
    """Return the path of each leaf written as Python (`['loss'][0]`), the leaves, the structure."""
    leaves, structure = flatten(tree)
    paths = ["".join(_step(entry) for entry in accessor) for accessor in structure.accessors()]
    return paths, leaves, structure


def _step(entry: Any) -> str:
    codify = getattr(entry, "codify", None)
    return codify("") if codify is not None else f"[{entry!r}]"


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """Return the tree of a structure and its leaves."""
    return optree.tree_unflatten(structure, leaves)


def map(  # noqa: A001 - the field's term
    function: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None
) -> Any:
    """Apply a function to the leaves of one tree, or of several trees of one structure."""
    return optree.tree_map(function, tree, *rest, is_leaf=is_leaf, namespace=NAMESPACE)


def reduce(function: Callable[[Any, Any], Any], tree: Any, *initial: Any) -> Any:
    """Combine the leaves with a function of two, from an initial value if one is given.

    Examples
    --------
    >>> from tracer import tree
    >>> tree.reduce(lambda a, b: a + b, {"a": 1, "b": (2, 3)})
    6
    """
    return optree.tree_reduce(function, tree, *initial, namespace=NAMESPACE)


def reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _NONE,
    is_leaf: IsLeaf = None,
) -> Any:
    """Combine the leaves pair by pair, which makes chains of few operations.

    Parameters
    ----------
    operation : callable
        Associative, of two leaves.
    tree : tree
        What is combined.
    identity : optional
        The result of a tree without leaves.
    is_leaf : callable, optional
        Tells which subtrees are leaves.

    Raises
    ------
    ArgumentError
        There are no leaves, and no `identity`.

    Examples
    --------
    >>> from tracer import tree
    >>> tree.reduce_associative(lambda a, b: a + b, [1, (2, 3), [4, 5, 6]])
    21
    """
    found = leaves(tree, is_leaf)
    if not found:
        if identity is _NONE:
            raise ArgumentError("reduce_associative of no leaves", mend="give identity=")
        return identity
    while len(found) > 1:
        pairs = zip(found[::2], found[1::2], strict=False)
        combined = [operation(first, second) for first, second in pairs]
        found = combined + found[2 * len(combined) :]
    return found[0]


def all(tree: Any) -> bool:
    """Tell whether all leaves are true."""
    return optree.tree_all(tree, namespace=NAMESPACE)


def transpose(outer: Structure, inner: Structure, tree: Any) -> Any:
    """Return a tree of trees inside out: one of the inner structure, of trees of the outer one.

    Examples
    --------
    >>> from tracer import tree
    >>> outer, inner = tree.structure([0, 0]), tree.structure({"a": 0})
    >>> tree.transpose(outer, inner, [{"a": 1}, {"a": 2}])
    {'a': [1, 2]}
    """
    return optree.tree_transpose(outer, inner, tree)


def ravel(tree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the elements of all leaves as one vector, and what makes the tree of such a vector.

    As `jax.flatten_util.ravel_pytree`: dtypes are promoted, and come back. The vector takes the
    memory of all leaves once more.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> from tracer import tree
    >>> vector, unravel = tree.ravel({"b": tnp.zeros(2), "w": tnp.ones((1, 2))})
    >>> vector
    Array([0., 0., 1., 1.])
    >>> unravel(vector + 1)["w"]
    Array([[2., 2.]])
    """
    found, structure = flatten(tree)
    arrays = [leaf if hasattr(leaf, "__array_namespace__") else np.asarray(leaf) for leaf in found]
    types = [(array.shape, array.dtype) for array in arrays]
    places = [0]
    for shape, _ in types:
        places.append(places[-1] + math.prod(shape))

    def unravel(vector: Any) -> Any:
        kind = getattr(getattr(vector, "dtype", None), "kind", "O")
        if getattr(vector, "shape", None) != (places[-1],) or kind not in "biufcV":
            raise ArgumentError(
                f"unravel: {shown(vector)} is no vector of {places[-1]} numbers",
                mend="give an array like the one that tree.ravel returned",
            )
        parts = [
            vector[first:last].reshape(shape).astype(dtype)
            for first, last, (shape, dtype) in zip(places[:-1], places[1:], types, strict=True)
        ]
        return unflatten(structure, parts)

    # NumPy answers with the functions of the arrays' own namespace.
    vector = np.concatenate([a.reshape(-1) for a in arrays]) if arrays else np.zeros(0)
    return vector, unravel


def broadcast_prefix(prefix: Any, tree: Any) -> list[Any]:
    """Return for each leaf of a tree the leaf of a prefix of it above it; None is one.

    Raises
    ------
    ValueError
        `prefix` is no prefix of the tree.

    Examples
    --------
    >>> from tracer import tree
    >>> tree.broadcast_prefix((0, None), ([1, 2], {"a": 3}))
    [0, 0, None]
    """
    # Boxed: in a prefix None is a value, while in the tree it is a container without leaves.
    boxed = optree.tree_map(_Box, prefix, none_is_leaf=True, namespace=NAMESPACE)
    return [box.value for box in optree.broadcast_prefix(boxed, tree, namespace=NAMESPACE)]


def broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """Return a tree with the leaves of a prefix of it, each for all leaves below it.

    Raises
    ------
    ValueError
        `prefix_tree` is no prefix of the tree.

    Examples
    --------
    >>> from tracer import tree
    >>> tree.broadcast((1, 2, 3), (0, {"a": 0, "b": 0}, (0, 0)))
    (1, {'a': 2, 'b': 2}, (3, 3))
    """
    return optree.tree_map(
        lambda leaf, below: map(lambda _: leaf, below),
        prefix_tree,
        full_tree,
        is_leaf=is_leaf,
        namespace=NAMESPACE,
    )


def fill_none(prefix: Any, tree: Any) -> Any:
    """Return a prefix of a tree with what the tree has there in place of each None.

    Raises
    ------
    ValueError
        `prefix` is no prefix of the tree.

    Examples
    --------
    >>> from tracer import tree
    >>> tree.fill_none((0, None), (1, [2, 3]))
    (0, [2, 3])
    """
    return optree.tree_map(
        lambda given, below: below if given is None else given,
        prefix,
        tree,
        none_is_leaf=True,
        namespace=NAMESPACE,
    )


class _Box:
    def __init__(self, value: Any) -> None:
        self.value = value


def leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """Return the leaves of a tree, in order."""
    return flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: IsLeaf = None) -> Structure:
    """Return the structure of a tree."""
    return flatten(tree, is_leaf)[1]


def is_leaf(structure: Structure) -> bool:
    """Tell whether a structure is that of a single leaf, no container around it."""
    return bool(structure.is_leaf())


def register_pytree_node(
    cls: type[Any],
    flatten: Callable[[Any], tuple[Sequence[Any], Hashable]],
    unflatten: Callable[[Any, Sequence[Any]], Any],
) -> type[Any]:
    """Make a class a container.

    Parameters
    ----------
    cls : type
        The class.
    flatten : callable
        `(instance) -> (children, static data)`; the static data is hashable and comparable.
    unflatten : callable
        `(static data, children) -> instance`.

    Returns
    -------
    type
        `cls`.
    """
    optree.register_pytree_node(
        cls,
        lambda instance: tuple(flatten(instance)),  # type: ignore[arg-type, return-value] # as below
        unflatten,  # type: ignore[arg-type] # as below
        namespace=NAMESPACE,
    )
    return cls


def static(**kwargs: Any) -> Any:
    """Declare a field of a dataclass that belongs to the program; see `register_dataclass`.

    Parameters
    ----------
    **kwargs
        As of `dataclasses.field`.

    Examples
    --------
    >>> import dataclasses
    >>> from tracer import tree
    >>> @tree.register_dataclass
    ... @dataclasses.dataclass
    ... class Line:
    ...     slope: float
    ...     name: str = tree.static(default="line")
    >>> tree.leaves(Line(2.0))
    [2.0]
    """
    metadata = {**(kwargs.pop("metadata", None) or {}), "static": True}
    return dataclasses.field(metadata=metadata, **kwargs)


def how_to_register(cls: type) -> str:
    """Say how a class becomes a container of arrays, for errors.

    Dataclasses are not found by themselves, frozen ones neither: they are leaves in trees of
    shardings and of settings, of tracer and of others.
    """
    if dataclasses.is_dataclass(cls):
        return f"put @tracer.tree.register_dataclass above class {cls.__name__}"
    return "register its class as a container of arrays with tracer.register_pytree_node"


def register_dataclass(
    cls: type[Any],
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
) -> type[Any]:
    """Make a dataclass a container; may be used as a decorator.

    Parameters
    ----------
    cls : type
        A dataclass.
    data_fields : sequence of str, optional
        Fields with arrays or containers of them; by default all but those with
        `dataclasses.field(metadata={"static": True})`.
    meta_fields : sequence of str, optional
        Fields that are hashable and belong to the program, as static arguments do.

    Returns
    -------
    type
        `cls`.

    Raises
    ------
    ArgumentError
        It is no dataclass, or the fields are not those that its constructor takes.

    Examples
    --------
    >>> import dataclasses, tracer, tracer.numpy as tnp
    >>> @tracer.tree.register_dataclass
    ... @dataclasses.dataclass
    ... class Line:
    ...     slope: tracer.Array
    ...     name: str = dataclasses.field(default="line", metadata={"static": True})
    >>> tracer.grad(lambda line: (line.slope**2).sum())(Line(tnp.ones(2)))
    Line(slope=Array([2., 2.]), name='line')
    """
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise ArgumentError(
            f"register_dataclass takes a dataclass, not {cls!r}",
            mend="put @dataclasses.dataclass below it",
        )
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    if data_fields is None and meta_fields is None:
        meta_fields = [name for name, f in fields.items() if f.metadata.get("static", False)]
    meta = tuple(meta_fields or ())
    data = tuple(data_fields or (name for name in fields if name not in meta))
    if sorted((*data, *meta)) != sorted(fields):
        raise ArgumentError(
            f"data_fields and meta_fields of {cls.__name__} are not its fields "
            f"{', '.join(fields)}, each once",
            mend="name each field in one of the two",
        )

    def parts(instance: Any) -> tuple[Any, Hashable, tuple[str, ...]]:
        values = tuple(getattr(instance, name) for name in data)
        return values, tuple(getattr(instance, name) for name in meta), data

    def make(static: Any, children: Sequence[Any]) -> Any:
        given = {**dict(zip(data, children, strict=True)), **dict(zip(meta, static, strict=True))}
        return cls(**given)

    optree.register_pytree_node(
        cls,  # type: ignore[arg-type] # optree's types know containers only
        parts,
        make,  # type: ignore[arg-type] # the same
        path_entry_type=optree.GetAttrEntry,
        namespace=NAMESPACE,
    )
    return cls


__all__ = [
    "Structure",
    "all",
    "broadcast",
    "broadcast_prefix",
    "fill_none",
    "flatten",
    "flatten_with_path",
    "flatten_with_paths",
    "is_leaf",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "ravel",
    "reduce",
    "reduce_associative",
    "register_dataclass",
    "register_pytree_node",
    "static",
    "structure",
    "transpose",
    "unflatten",
]
