"""Nested arguments and results (pytrees): flatten, unflatten, map.

Containers are tuples, lists, dicts (keys sorted), named tuples, None (an empty tree) and classes
registered with `register_pytree_node`. Everything else is a leaf. Built on optree.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import optree

NAMESPACE = "tracer"
Structure = optree.PyTreeSpec
"""Structure of a tree without its leaves; hashable and comparable."""


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """Return the leaves of a tree, in order, and its structure.

    Examples
    --------
    >>> from tracer import tree
    >>> leaves, structure = tree.flatten({"b": 2, "a": (1, None)})
    >>> leaves
    [1, 2]
    """
    return optree.tree_flatten(tree, namespace=NAMESPACE)


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


def map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:  # noqa: A001 - the field's term
    """Apply a function to the leaves of one tree, or of several trees of one structure."""
    return optree.tree_map(function, tree, *rest, namespace=NAMESPACE)


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


def leaves(tree: Any) -> list[Any]:
    """Return the leaves of a tree, in order."""
    return flatten(tree)[0]


def structure(tree: Any) -> Structure:
    """Return the structure of a tree."""
    return flatten(tree)[1]


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
        lambda instance: tuple(flatten(instance)),  # type: ignore[arg-type, return-value]
        unflatten,  # type: ignore[arg-type]
        namespace=NAMESPACE,
    )
    return cls


__all__ = [
    "Structure",
    "broadcast_prefix",
    "fill_none",
    "flatten",
    "flatten_with_paths",
    "is_leaf",
    "leaves",
    "map",
    "register_pytree_node",
    "structure",
    "unflatten",
]
