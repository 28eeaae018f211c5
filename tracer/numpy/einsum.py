"""einsum: sums of products in Einstein's notation, in the order that opt_einsum finds.

References
----------
Smith and Gray, opt_einsum, JOSS 2018.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import opt_einsum

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import as_arrays, convert, reshape, transpose
from tracer.array.dispatch import apply, compound
from tracer.array.promotion import Dtype, promote_types, result_type
from tracer.errors import ArgumentError, ShapeError
from tracer.ir import as_dtype
from tracer.numpy.contraction import Labels, contract, sum_lonely


def einsum(
    subscripts: Any,
    *operands: Any,
    optimize: Any = "auto",
    preferred_element_type: Any = None,
) -> Array:
    """Sum of products in Einstein's notation.

    Parameters
    ----------
    subscripts : str
        Such as "ij,jk->ik"; "..." means axes that are broadcast.
    *operands : array_like
        One for each group of labels. Or, without subscripts, each followed by the list of its
        labels, integers, and maybe the result's labels at the end, as in NumPy.
    optimize : str or bool or sequence
        How opt_einsum finds the order of the products; False is left to right.
    preferred_element_type : dtype, optional
        Dtype of the result, as in JAX. Sums are in it, or in the operands' where that is wider.

    Returns
    -------
    Array
        The promoted dtype, or the preferred one.

    Raises
    ------
    ShapeError
        Labels and shapes do not fit.
    ArgumentError
        The subscripts are malformed.
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _from_lists(subscripts, *operands)
    arrays = as_arrays(*operands)
    inputs, output = _parse(subscripts, arrays)
    path = _path(subscripts, inputs, output, arrays, optimize)
    wanted = result_type(*arrays)
    if preferred_element_type is not None:
        wanted = _preferred(wanted, as_dtype(preferred_element_type))
    return _einsum(*arrays, inputs=inputs, output=output, path=path, wanted=wanted)


def _preferred(dtype: Dtype, preferred: Dtype) -> Dtype:
    if dtype.kind == "c" != preferred.kind:
        raise ArgumentError(
            f"einsum of {dtype} cannot be {preferred}", mend="prefer a complex dtype, or none"
        )
    return preferred


def _from_lists(*pairs: Any) -> tuple[str, tuple[Any, ...]]:
    """Return subscripts and operands for operands that are each followed by their labels."""
    try:
        subscripts, operands = opt_einsum.parser.convert_interleaved_input(pairs)
    except (ValueError, TypeError, IndexError) as error:
        raise ArgumentError(
            "einsum: the first argument is no string of subscripts, and no labels follow each of "
            "the operands",
            mend='give subscripts first, such as "ij,jk->ik"',
        ) from error
    return subscripts, tuple(operands)


def _parse(subscripts: str, arrays: Sequence[Array]) -> tuple[tuple[str, ...], str]:
    try:
        inputs, output, _ = opt_einsum.parser.parse_einsum_input(
            (subscripts, *[array.shape for array in arrays]), shapes=True
        )
    except (ValueError, TypeError, IndexError) as error:
        raise ArgumentError(
            f"einsum({subscripts!r}) of shapes {[array.shape for array in arrays]}: {error}",
            mend="give one group of labels for each operand, one label for each axis",
        ) from error
    groups = tuple(inputs.split(","))
    if len(groups) != len(arrays) or any(
        len(group) != array.ndim for group, array in zip(groups, arrays, strict=False)
    ):
        raise ShapeError(
            f"einsum({subscripts!r}) does not fit shapes {[array.shape for array in arrays]}",
            mend="give one group of labels for each operand, one label for each axis",
        )
    return groups, output


def _path(
    subscripts: str,
    inputs: tuple[str, ...],
    output: str,
    arrays: Sequence[Array],
    optimize: Any,
) -> tuple[tuple[int, ...], ...]:
    sizes = _label_sizes(inputs, arrays, subscripts)
    if len(arrays) <= 2:
        return (tuple(range(len(arrays))),)
    if optimize is False:
        return tuple((0, 1) for _ in arrays[1:])
    strategy = "auto" if optimize is True else optimize
    equation = ",".join(inputs) + "->" + output
    shapes = [tuple(sizes[label] for label in group) for group in inputs]
    path, _ = opt_einsum.contract_path(equation, *shapes, shapes=True, optimize=strategy)
    return tuple(tuple(step) for step in path)


def _label_sizes(
    inputs: tuple[str, ...], arrays: Sequence[Array], subscripts: str = ""
) -> dict[Hashable, int]:
    """Return the size of each label; an axis of size one is broadcast."""
    sizes: dict[Hashable, int] = {}
    for group, array in zip(inputs, arrays, strict=True):
        for label, size in zip(group, array.shape, strict=True):
            known = sizes.get(label, 1)
            if 1 not in (known, size) and known != size:
                raise ShapeError(
                    f"einsum({subscripts!r}): label {label} has sizes {known} and {size}",
                    mend="axes with one label have one size (or 1)",
                )
            sizes[label] = size if known == 1 else known
    return sizes


@compound
def _einsum(
    *arrays: Array,
    inputs: tuple[str, ...],
    output: str,
    path: tuple[tuple[int, ...], ...],
    wanted: Dtype,
) -> Array:
    sizes = _label_sizes(inputs, arrays)
    dtype = promote_types(result_type(*arrays), wanted)
    terms = [
        _prepare(convert(array, dtype), tuple(group), sizes)
        for group, array in zip(inputs, arrays, strict=True)
    ]
    for step in path:
        chosen = [terms.pop(position) for position in sorted(step, reverse=True)][::-1]
        terms.append(_combine(chosen, terms, tuple(output)))
    result, labels = terms[0]
    result, labels = sum_lonely(result, labels, (), tuple(output))
    return convert(transpose(result, tuple(labels.index(label) for label in output)), wanted)


Term = tuple["Array", Labels]


def _combine(chosen: list[Term], rest: list[Term], output: Labels) -> Term:
    x, x_labels = chosen[0]
    for y, y_labels in chosen[1:]:
        needed = {label for _, labels in rest for label in labels} | set(output)
        present = dict.fromkeys((*x_labels, *y_labels))
        if not rest and len(chosen) == 2:
            out = output
        else:
            out = tuple(label for label in present if label in needed)
        x, x_labels = contract(x, x_labels, y, y_labels, out), out
    return x, x_labels


def _prepare(x: Array, labels: Labels, sizes: dict[Hashable, int]) -> Term:
    """Take diagonals of repeated labels, and drop axes of size one that others have larger."""
    kept = [axis for axis, label in enumerate(labels) if x.shape[axis] == sizes[label]]
    x = reshape(x, tuple(x.shape[axis] for axis in kept))
    labels = tuple(labels[axis] for axis in kept)
    while len(set(labels)) < len(labels):
        first, second = next(
            (i, j)
            for i in range(len(labels))
            for j in range(i + 1, len(labels))
            if labels[i] == labels[j]
        )
        x = _diagonal(x, first, second)
        labels = (
            *[label for axis, label in enumerate(labels) if axis not in (first, second)],
            labels[first],
        )
    return x, labels


def _diagonal(x: Array, first: int, second: int) -> Array:
    rest = tuple(axis for axis in range(x.ndim) if axis not in (first, second))
    return main_diagonal(transpose(x, (*rest, first, second)))


def main_diagonal(x: Array) -> Array:
    """Return the diagonal of the last two axes, which are of equal size."""
    size = x.shape[-1]
    flat = reshape(x, (*x.shape[:-2], size * size))
    ndim = flat.ndim
    return apply(
        ops.slice,
        flat,
        start=(0,) * ndim,
        limit=flat.shape,
        strides=(*(1,) * (ndim - 1), size + 1),
    )
