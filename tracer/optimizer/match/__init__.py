"""Match: algebraic rewrites that avoid large tensors."""

from tracer.optimizer.match.contraction import match_contractions
from tracer.optimizer.match.inner_products import write_out_inner_products
from tracer.optimizer.match.unroll import (
    UNROLL_NAME,
    unroll_short_reductions,
    unroll_without_product_pass,
)
from tracer.optimizer.passes import Pass

INNER_PRODUCTS = Pass("write out inner products", write_out_inner_products, exact=False)
UNROLL = Pass(UNROLL_NAME, unroll_short_reductions)
CONTRACTIONS = Pass("match contractions", match_contractions, exact=False)

__all__ = [
    "CONTRACTIONS",
    "INNER_PRODUCTS",
    "UNROLL",
    "match_contractions",
    "unroll_short_reductions",
    "unroll_without_product_pass",
    "write_out_inner_products",
]
