"""Match: algebraic rewrites that avoid large tensors."""

from tracer.optimizer.match.contraction import match_contractions
from tracer.optimizer.match.inner_products import write_out_inner_products
from tracer.optimizer.match.unroll import unroll_short_reductions
from tracer.optimizer.passes import Pass

INNER_PRODUCTS = Pass("write out inner products", write_out_inner_products, exact=False)
UNROLL = Pass("unroll short reductions", unroll_short_reductions)
CONTRACTIONS = Pass("match contractions", match_contractions, exact=False)

__all__ = [
    "CONTRACTIONS",
    "INNER_PRODUCTS",
    "UNROLL",
    "match_contractions",
    "unroll_short_reductions",
    "write_out_inner_products",
]
