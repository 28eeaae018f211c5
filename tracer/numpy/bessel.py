"""Modified Bessel functions of the first kind: i0, i1, and scaled i0e, i1e.

Each is a Chebyshev expansion in x / 4 - 1 up to 8, and above, times sqrt(x), in 16 / x - 1, as in
Cephes (Moshier 1989). The coefficients were computed anew in 40 digits.
"""

from __future__ import annotations

from tracer.array.array import Array
from tracer.numpy.arithmetic import abs, sign
from tracer.numpy.creation import zeros_like
from tracer.numpy.elementwise import exp, sqrt, where
from tracer.numpy.floats import floats, in_float32
from tracer.numpy.ufunc import select, unary

_BORDER = 8.0
_I0_SMALL = (
    0.33839763720473803,
    -0.3046826723431984,
    0.17162090152220877,
    -0.09490109704804764,
    0.04930528423967071,
    -0.02373741480589947,
    0.010546460394594998,
    -0.004324309995050576,
    0.0016394756169413357,
    -0.0005763755745385824,
    0.00018850288509584165,
    -5.754195010082104e-05,
    1.6448448070728896e-05,
    -4.4167383584587505e-06,
    1.1173875391201037e-06,
    -2.670793853940612e-07,
    6.046995022541919e-08,
    -1.300025009986248e-08,
    2.6598237246823866e-09,
    -5.189795601635263e-10,
    9.675809035373237e-11,
    -1.726826291441556e-11,
    2.95505266312964e-12,
    -4.856446783111929e-13,
    7.676185498604936e-14,
    -1.1685332877993451e-14,
    1.715391285555133e-15,
    -2.4312798465479534e-16,
    3.330794518822111e-17,
)
_I0_LARGE = (
    0.4022452055070544,
    0.0033691164782556943,
    6.889758346916825e-05,
    2.8913705208347567e-06,
    2.0489185894690638e-07,
    2.266668990498178e-08,
    3.3962320257083865e-09,
    4.94060238822497e-10,
    1.1889147107846439e-11,
    -3.1499165279632416e-11,
    -1.3215811840447712e-11,
    -1.7941785315068031e-12,
    7.180124451383544e-13,
    3.852778382742207e-13,
    1.5400862175254496e-14,
    -4.1505693472956814e-14,
    -9.554846698876227e-15,
    3.811680669773637e-15,
    1.7725601326876224e-15,
    -3.425485632813028e-16,
    -2.8276239474901295e-16,
    3.4612230262168945e-17,
    4.46561975928066e-17,
)
_I1_SMALL = (
    0.12629359322181682,
    -0.17641651835783406,
    0.1026436586898471,
    -0.05294598120809499,
    0.024726449030626516,
    -0.010564084894626197,
    0.004156422944312888,
    -0.0015135724506312532,
    0.0005122859561685758,
    -0.00016176081582589674,
    4.781565107550054e-05,
    -1.3273163656039436e-05,
    3.4702513081376785e-06,
    -8.568720264695455e-07,
    2.0032947535521353e-07,
    -4.445059128796328e-08,
    9.381537386495773e-09,
    -1.8872497517228294e-09,
    3.625590281552117e-10,
    -6.663489723502027e-11,
    1.1736186298890901e-11,
    -1.9839743977649436e-12,
    3.223793365945575e-13,
    -5.042185504727912e-14,
    7.600684294735408e-15,
    -1.1055969477353862e-15,
    1.5536319577362005e-16,
    -2.1114212143581653e-17,
)
_I1_LARGE = (
    0.38928811750914005,
    -0.009761097491361469,
    -0.00011058893876262371,
    -3.882564808877691e-06,
    -2.512236237870209e-07,
    -2.6314688468895196e-08,
    -3.835380385964237e-09,
    -5.589743462196584e-10,
    -1.8974958123505413e-11,
    3.2526035830154884e-11,
    1.4125807436613779e-11,
    2.0356285441470867e-12,
    -7.198551776245783e-13,
    -4.083551111092268e-13,
    -2.1015418427767096e-14,
    4.272440016720685e-14,
    1.042027698417305e-14,
    -3.814403072864722e-15,
    -1.8803547751167118e-15,
    3.308202324015505e-16,
    2.962628963550372e-16,
    -3.209526065053033e-17,
    -4.650303677651668e-17,
)


def _expansion(t: Array, coefficients: tuple[float, ...]) -> Array:
    """Sum a Chebyshev series by Clenshaw's recurrence."""
    later, last = zeros_like(t), zeros_like(t)
    for coefficient in coefficients[:0:-1]:
        last, later = 2 * t * last - later + coefficient, last
    return t * last - later + coefficients[0]


def _near(x: Array, coefficients: tuple[float, ...]) -> Array:
    # `where`, as the gradient of minimum is halved at the border itself.
    return _expansion(where(x > _BORDER, _BORDER, x) / 4 - 1, coefficients)


def _far(x: Array, coefficients: tuple[float, ...]) -> Array:
    x = where(x > _BORDER, x, _BORDER)
    return _expansion(16 / x - 1, coefficients) / sqrt(x)


@in_float32
def _scaled_0(x: Array) -> Array:
    size = abs(x)
    return select(size > _BORDER, _far(size, _I0_LARGE), _near(size, _I0_SMALL))


@in_float32
def _scaled_1(x: Array) -> Array:
    size = abs(x)
    far = sign(x) * _far(size, _I1_LARGE)
    return select(size > _BORDER, far, x * _near(size, _I1_SMALL))


def _unscaled(x: Array, scaled: Array) -> Array:
    """Multiply by exp(abs(x)) in two steps: it may overflow where the result does not."""
    root = exp(abs(x) / 2)
    return root * scaled * root


@in_float32
def _whole_0(x: Array) -> Array:
    return _unscaled(x, _scaled_0(x))


@in_float32
def _whole_1(x: Array) -> Array:
    return _unscaled(x, _scaled_1(x))


def _i0e(x: Array) -> Array:
    return _scaled_0(floats("i0e", x))


def _i1e(x: Array) -> Array:
    return _scaled_1(floats("i1e", x))


def _i0(x: Array) -> Array:
    return _whole_0(floats("i0", x))


def _i1(x: Array) -> Array:
    return _whole_1(floats("i1", x))


i0 = unary("i0", _i0, "Modified Bessel function of order 0.", returns="Floats.")
i1 = unary("i1", _i1, "Modified Bessel function of order 1.", returns="Floats.")
i0e = unary("i0e", _i0e, "Modified Bessel function of order 0 times exp(-|x|).", returns="Floats.")
i1e = unary("i1e", _i1e, "Modified Bessel function of order 1 times exp(-|x|).", returns="Floats.")
