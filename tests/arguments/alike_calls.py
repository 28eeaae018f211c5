"""Right calls of functions that take the same arguments; see `right_calls.py`."""

from __future__ import annotations

from tests.arguments.values import IMAGES, KEY, Call, V, X, call, first

ALIKE: dict[str, tuple[Call, str]] = {
    "0": (
        call(),
        """
default_device devices nn.initializers.delta_orthogonal nn.initializers.glorot_normal
nn.initializers.glorot_uniform nn.initializers.he_normal nn.initializers.he_uniform
nn.initializers.kaiming_normal nn.initializers.kaiming_uniform nn.initializers.lecun_normal
nn.initializers.lecun_uniform nn.initializers.normal nn.initializers.orthogonal
nn.initializers.truncated_normal nn.initializers.uniform nn.initializers.xavier_normal
nn.initializers.xavier_uniform numpy.__array_namespace_info__ numpy.get_printoptions
optimizers.scale_by_adam optimizers.scale_by_lion tree.static
""",
    ),
    "1": (
        call("a"),
        """
debug.print
""",
    ),
    "2": (
        call(2),
        """
numpy.bartlett numpy.blackman numpy.fft.fftfreq numpy.fft.rfftfreq numpy.hamming
numpy.hanning numpy.identity numpy.tri numpy.tril_indices numpy.triu_indices
scipy.linalg.dft scipy.linalg.hadamard scipy.linalg.helmert scipy.linalg.hilbert
scipy.linalg.invhilbert scipy.linalg.invpascal scipy.linalg.pascal scipy.special.bernoulli
tree.all
""",
    ),
    "3": (
        call(IMAGES, (2,)),
        """
lax.reduce_max lax.reduce_min lax.reduce_prod lax.reduce_sum
""",
    ),
    "4": (
        call(KEY),
        """
lax.bitwise_not lax.clz lax.population_count numpy.bitwise_count numpy.bitwise_invert
numpy.bitwise_not numpy.empty numpy.invert numpy.ones numpy.zeros random.bits random.cauchy
random.exponential random.gumbel random.laplace random.logistic random.lognormal
random.maxwell random.rademacher random.split
""",
    ),
    "5": (
        call(KEY, "float32"),
        """
lax.empty
""",
    ),
    "6": (
        call(KEY, (2,)),
        """
optimizers.join_schedules
""",
    ),
    "7": (
        call(KEY, 2),
        """
random.generalized_normal
""",
    ),
    "8": (
        call(KEY, KEY),
        """
lax.bitwise_and lax.bitwise_or lax.bitwise_xor lax.mulhi lax.shift_left
lax.shift_right_arithmetic lax.shift_right_logical lax.sort_key_val nn.initializers.ones
nn.initializers.zeros numpy.bitwise_and numpy.bitwise_left_shift numpy.bitwise_or
numpy.bitwise_right_shift numpy.bitwise_xor numpy.gcd numpy.lcm numpy.left_shift
numpy.right_shift
""",
    ),
    "9": (
        call(KEY, X),
        """
random.chisquare random.gamma random.geometric random.loggamma random.pareto random.poisson
random.rayleigh random.t random.wald
""",
    ),
    "10": (
        call(KEY, X, X),
        """
random.beta random.double_sided_maxwell random.f random.weibull_min
""",
    ),
    "11": (
        call(KEY, X, X, X),
        """
random.triangular
""",
    ),
    "12": (
        call(V),
        """
numpy.cumulative_prod numpy.cumulative_sum numpy.polyder numpy.polyint
scipy.linalg.companion scipy.linalg.fiedler scipy.linalg.hankel
""",
    ),
    "13": (
        call(V, V),
        """
numpy.linalg.outer numpy.polyadd numpy.polydiv numpy.polymul numpy.polysub
""",
    ),
    "14": (
        call(V, X),
        """
numpy.polyval
""",
    ),
    "15": (
        call(X),
        """
block_until_ready lax.abs lax.acos lax.acosh lax.asin lax.asinh lax.atan lax.atanh
lax.bessel_i1e lax.cbrt lax.ceil lax.cos lax.cosh lax.cumlogsumexp lax.cummax lax.cummin
lax.cumprod lax.cumsum lax.digamma lax.dtype lax.erf lax.erf_inv lax.erfc lax.exp lax.exp2
lax.expm1 lax.floor lax.is_finite lax.lgamma lax.linalg.cholesky lax.linalg.eigh
lax.linalg.hessenberg lax.linalg.lu lax.linalg.qr lax.linalg.schur lax.linalg.svd lax.log
lax.log1p lax.logistic lax.neg lax.optimization_barrier lax.reciprocal lax.round lax.rsqrt
lax.sign lax.sin lax.sinh lax.sort lax.sqrt lax.square lax.stop_gradient lax.tan lax.tanh
lax.unstack nn.celu nn.elu nn.gelu nn.glu nn.hard_sigmoid nn.hard_silu nn.hard_swish
nn.hard_tanh nn.identity nn.initializers.constant nn.leaky_relu nn.log1mexp nn.log_sigmoid
nn.log_softmax nn.logmeanexp nn.logsumexp nn.mish nn.relu nn.relu6 nn.selu nn.sigmoid
nn.silu nn.soft_sign nn.softmax nn.softplus nn.sparse_plus nn.sparse_sigmoid nn.squareplus
nn.standardize nn.swish nn.tanh numpy.abs numpy.absolute numpy.acos numpy.acosh numpy.all
numpy.amax numpy.amin numpy.angle numpy.any numpy.arccos numpy.arccosh numpy.arcsin
numpy.arcsinh numpy.arctan numpy.arctanh numpy.argmax numpy.argmin numpy.argsort
numpy.argwhere numpy.around numpy.array numpy.asanyarray numpy.asarray
numpy.ascontiguousarray numpy.asin numpy.asinh numpy.atan numpy.atanh numpy.atleast_1d
numpy.atleast_2d numpy.atleast_3d numpy.broadcast_arrays numpy.cbrt numpy.ceil
numpy.common_type numpy.conj numpy.conjugate numpy.copy numpy.corrcoef numpy.cos numpy.cosh
numpy.count_nonzero numpy.cov numpy.cumprod numpy.cumsum numpy.deg2rad numpy.degrees
numpy.diag numpy.diag_indices_from numpy.diagflat numpy.diagonal numpy.ediff1d
numpy.empty_like numpy.exp numpy.exp2 numpy.expm1 numpy.fabs numpy.fft.fft numpy.fft.fft2
numpy.fft.fftn numpy.fft.fftshift numpy.fft.hfft numpy.fft.ifft numpy.fft.ifft2
numpy.fft.ifftn numpy.fft.ifftshift numpy.fft.ihfft numpy.fft.irfft numpy.fft.irfft2
numpy.fft.irfftn numpy.fft.rfft numpy.fft.rfft2 numpy.fft.rfftn numpy.fix numpy.fliplr
numpy.flipud numpy.floor numpy.frexp numpy.from_dlpack numpy.i0 numpy.imag numpy.iscomplex
numpy.iscomplexobj numpy.isfinite numpy.isinf numpy.isnan numpy.isneginf numpy.isposinf
numpy.isreal numpy.isrealobj numpy.isscalar numpy.iterable numpy.linalg.cholesky
numpy.linalg.cond numpy.linalg.det numpy.linalg.diagonal numpy.linalg.eig numpy.linalg.eigh
numpy.linalg.eigvals numpy.linalg.eigvalsh numpy.linalg.inv numpy.linalg.matrix_norm
numpy.linalg.matrix_rank numpy.linalg.matrix_transpose numpy.linalg.norm numpy.linalg.pinv
numpy.linalg.qr numpy.linalg.slogdet numpy.linalg.svd numpy.linalg.svdvals
numpy.linalg.trace numpy.linalg.vector_norm numpy.log numpy.log10 numpy.log1p numpy.log2
numpy.logical_not numpy.matrix_transpose numpy.max numpy.mean numpy.median numpy.min
numpy.min_scalar_type numpy.modf numpy.nan_to_num numpy.nanargmax numpy.nanargmin
numpy.nancumprod numpy.nancumsum numpy.nanmax numpy.nanmean numpy.nanmedian numpy.nanmin
numpy.nanprod numpy.nanstd numpy.nansum numpy.nanvar numpy.ndenumerate numpy.ndim
numpy.negative numpy.nonzero numpy.ones_like numpy.poly numpy.positive numpy.prod numpy.ptp
numpy.rad2deg numpy.radians numpy.ravel numpy.real numpy.real_if_close numpy.reciprocal
numpy.result_type numpy.rint numpy.round numpy.shape numpy.sign numpy.signbit numpy.sin
numpy.sinc numpy.sinh numpy.size numpy.sort numpy.sort_complex numpy.spacing numpy.sqrt
numpy.square numpy.std numpy.sum numpy.tan numpy.tanh numpy.trace numpy.tril
numpy.tril_indices_from numpy.triu numpy.triu_indices_from numpy.trunc numpy.unique
numpy.unique_all numpy.unique_counts numpy.unique_inverse numpy.unique_values numpy.var
numpy.zeros_like optimizers.adam optimizers.adamw optimizers.add_decayed_weights
optimizers.chain optimizers.clip optimizers.clip_by_global_norm optimizers.constant_schedule
optimizers.global_norm optimizers.lion optimizers.piecewise_constant_schedule
optimizers.scale optimizers.scale_by_learning_rate optimizers.sgd optimizers.trace
optimizers.value_and_grad_from_state scipy.linalg.cho_factor scipy.linalg.cholesky
scipy.linalg.circulant scipy.linalg.det scipy.linalg.eigh scipy.linalg.expm
scipy.linalg.fiedler_companion scipy.linalg.hessenberg scipy.linalg.inv scipy.linalg.lu
scipy.linalg.lu_factor scipy.linalg.polar scipy.linalg.qr scipy.linalg.schur
scipy.linalg.sqrtm scipy.linalg.svd scipy.linalg.toeplitz scipy.signal.detrend
scipy.signal.stft scipy.signal.welch scipy.special.dawsn scipy.special.digamma
scipy.special.entr scipy.special.erf scipy.special.erfc scipy.special.erfcx
scipy.special.erfinv scipy.special.exp1 scipy.special.expi scipy.special.expit
scipy.special.factorial scipy.special.fresnel scipy.special.gamma scipy.special.gammaln
scipy.special.gammasgn scipy.special.i0 scipy.special.i0e scipy.special.i1 scipy.special.i1e
scipy.special.log_expit scipy.special.log_ndtr scipy.special.log_softmax
scipy.special.loggamma scipy.special.logit scipy.special.logsumexp scipy.special.ndtr
scipy.special.ndtri scipy.special.psi scipy.special.sici scipy.special.softmax
scipy.special.spence scipy.special.wofz scipy.special.zeta scipy.stats.cauchy.cdf
scipy.stats.cauchy.isf scipy.stats.cauchy.logcdf scipy.stats.cauchy.logpdf
scipy.stats.cauchy.logsf scipy.stats.cauchy.pdf scipy.stats.cauchy.ppf scipy.stats.cauchy.sf
scipy.stats.expon.cdf scipy.stats.expon.logcdf scipy.stats.expon.logpdf
scipy.stats.expon.logsf scipy.stats.expon.pdf scipy.stats.expon.ppf scipy.stats.expon.sf
scipy.stats.gumbel_l.cdf scipy.stats.gumbel_l.logcdf scipy.stats.gumbel_l.logpdf
scipy.stats.gumbel_l.logsf scipy.stats.gumbel_l.pdf scipy.stats.gumbel_l.ppf
scipy.stats.gumbel_l.sf scipy.stats.gumbel_r.cdf scipy.stats.gumbel_r.logcdf
scipy.stats.gumbel_r.logpdf scipy.stats.gumbel_r.logsf scipy.stats.gumbel_r.pdf
scipy.stats.gumbel_r.ppf scipy.stats.gumbel_r.sf scipy.stats.laplace.cdf
scipy.stats.laplace.logpdf scipy.stats.laplace.pdf scipy.stats.logistic.cdf
scipy.stats.logistic.isf scipy.stats.logistic.logpdf scipy.stats.logistic.pdf
scipy.stats.logistic.ppf scipy.stats.logistic.sf scipy.stats.mode scipy.stats.norm.cdf
scipy.stats.norm.isf scipy.stats.norm.logcdf scipy.stats.norm.logpdf scipy.stats.norm.logsf
scipy.stats.norm.pdf scipy.stats.norm.ppf scipy.stats.norm.sf scipy.stats.poisson.entropy
scipy.stats.rankdata scipy.stats.sem scipy.stats.uniform.cdf scipy.stats.uniform.logpdf
scipy.stats.uniform.pdf scipy.stats.uniform.ppf sharding.device_get sharding.device_put
sharding.local_parts tree.flatten tree.flatten_with_path tree.flatten_with_paths tree.leaves
tree.leaves_with_path tree.ravel tree.structure
""",
    ),
    "16": (
        call(X, 2),
        """
optimizers.cosine_decay_schedule
""",
    ),
    "17": (
        call(X, 2, 0, 2),
        """
optimizers.warmup_cosine_decay_schedule
""",
    ),
    "18": (
        call(X, 2, 2),
        """
optimizers.exponential_decay
""",
    ),
    "19": (
        call(X, X),
        """
lax.add lax.atan2 lax.broadcast_like lax.div lax.eq lax.ge lax.gt lax.igamma
lax.igamma_grad_a lax.igammac lax.le lax.lt lax.max lax.min lax.mul lax.ne lax.nextafter
lax.pow lax.rem lax.sub lax.zeta numpy.add numpy.allclose numpy.append numpy.arctan2
numpy.array_equal numpy.array_equiv numpy.atan2 numpy.copysign numpy.divide numpy.divmod
numpy.dot numpy.equal numpy.float_power numpy.floor_divide numpy.fmax numpy.fmin numpy.fmod
numpy.greater numpy.greater_equal numpy.heaviside numpy.hypot numpy.inner numpy.isclose
numpy.isin numpy.kron numpy.less numpy.less_equal numpy.linalg.matmul numpy.linalg.vecdot
numpy.logaddexp numpy.logaddexp2 numpy.logical_and numpy.logical_or numpy.logical_xor
numpy.matmul numpy.maximum numpy.minimum numpy.mod numpy.multiply numpy.nanpercentile
numpy.nanquantile numpy.nextafter numpy.not_equal numpy.outer numpy.pow numpy.power
numpy.remainder numpy.subtract numpy.true_divide numpy.vdot numpy.vecdot
optimizers.apply_updates scipy.linalg.expm_frechet scipy.linalg.qr_multiply
scipy.linalg.rsf2csf scipy.linalg.solve scipy.linalg.solve_continuous_lyapunov
scipy.linalg.solve_discrete_lyapunov scipy.linalg.solve_triangular scipy.signal.correlate
scipy.signal.correlate2d scipy.signal.fftconvolve scipy.special.beta scipy.special.betaln
scipy.special.boxcox scipy.special.boxcox1p scipy.special.comb scipy.special.expn
scipy.special.gammainc scipy.special.gammaincc scipy.special.kl_div scipy.special.owens_t
scipy.special.poch scipy.special.polygamma scipy.special.rel_entr scipy.special.xlog1py
scipy.special.xlogy scipy.stats.bernoulli.cdf scipy.stats.bernoulli.logpmf
scipy.stats.bernoulli.pmf scipy.stats.bernoulli.ppf scipy.stats.chi2.cdf
scipy.stats.chi2.logcdf scipy.stats.chi2.logpdf scipy.stats.chi2.logsf scipy.stats.chi2.pdf
scipy.stats.chi2.sf scipy.stats.gamma.cdf scipy.stats.gamma.logcdf scipy.stats.gamma.logpdf
scipy.stats.gamma.logsf scipy.stats.gamma.pdf scipy.stats.gamma.sf scipy.stats.gennorm.cdf
scipy.stats.gennorm.logpdf scipy.stats.gennorm.pdf scipy.stats.geom.logpmf
scipy.stats.geom.pmf scipy.stats.pareto.cdf scipy.stats.pareto.logcdf
scipy.stats.pareto.logpdf scipy.stats.pareto.logsf scipy.stats.pareto.pdf
scipy.stats.pareto.ppf scipy.stats.pareto.sf scipy.stats.poisson.cdf
scipy.stats.poisson.logpmf scipy.stats.poisson.pmf scipy.stats.t.logpdf scipy.stats.t.pdf
scipy.stats.vonmises.logpdf scipy.stats.vonmises.pdf scipy.stats.wrapcauchy.logpdf
scipy.stats.wrapcauchy.pdf tree.broadcast tree.broadcast_prefix tree.fill_none
tree.reduce_associative
""",
    ),
    "20": (
        call(X, X, 2),
        """
optimizers.linear_schedule
""",
    ),
    "21": (
        call(X, X, X),
        """
scipy.special.betainc scipy.special.hyp1f1 scipy.stats.beta.cdf scipy.stats.beta.logcdf
scipy.stats.beta.logpdf scipy.stats.beta.logsf scipy.stats.beta.pdf scipy.stats.beta.sf
scipy.stats.binom.logpmf scipy.stats.binom.pmf scipy.stats.nbinom.logpmf
scipy.stats.nbinom.pmf scipy.stats.truncnorm.cdf scipy.stats.truncnorm.logcdf
scipy.stats.truncnorm.logpdf scipy.stats.truncnorm.logsf scipy.stats.truncnorm.pdf
scipy.stats.truncnorm.sf
""",
    ),
    "22": (
        call(X, X, X, 2),
        """
optimizers.polynomial_schedule
""",
    ),
    "23": (
        call(X, X, X, X),
        """
scipy.special.hyp2f1 scipy.stats.betabinom.logpmf scipy.stats.betabinom.pmf
""",
    ),
    "24": (
        call(first),
        """
debug.callback debug.interruptible debug.nans debug.progress progress
""",
    ),
    "25": (
        call(first, X),
        """
tree.map_with_path
""",
    ),
}
"""Functions that take the same arguments."""
