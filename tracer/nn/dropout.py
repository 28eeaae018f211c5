"""Dropout."""

from __future__ import annotations

from tracer import numpy as tnp
from tracer import random
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert
from tracer.errors import ArgumentError
from tracer.numpy.ufunc import full_like, select


def dropout(key: ArrayLike, x: ArrayLike, *, rate: float = 0.5) -> Array:
    """Set a random share of the elements to zero and scale the others up, so the mean is kept.

    Parameters
    ----------
    key : Array of uint32, shape (2,)
        Which elements; see `tracer.random.key`.
    x : array_like
        Numbers.
    rate : float
        Probability that an element is dropped, from 0 up to, but not including, 1.

    Returns
    -------
    Array, the shape of `x`
        In the dtype of `x`; float64 for integers.

    Raises
    ------
    ArgumentError
        The rate is no such probability.

    References
    ----------
    Srivastava et al., Dropout: A Simple Way to Prevent Neural Networks from Overfitting, JMLR 2014.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> y = tracer.nn.dropout(tracer.random.key(0), tnp.ones(1000), rate=0.2)
    >>> sorted(set(y.tolist()))
    [0.0, 1.25]
    """
    if not 0 <= rate < 1:
        raise ArgumentError(
            f"a dropout rate cannot be {rate!r}",
            mend="give a probability of 0 or more and less than 1",
        )
    array = as_array(x)
    array = convert(array, promotion.division_dtype(array.dtype))
    keep = 1 - float(rate)
    kept = random.bernoulli(key, tnp.asarray(keep, "float32"), array.shape)
    scaled = array / keep
    return select(kept, scaled, full_like(scaled, 0))
