"""Match: algebraic rewrites that avoid large tensors."""

from tracer.optimizer.passes import Pass
from tracer.optimizer.rewrite.match.contraction import match_contractions
from tracer.optimizer.rewrite.match.inner_products import write_out_inner_products
from tracer.optimizer.rewrite.match.unroll import (
    UNROLL_NAME,
    unroll_short_reductions,
    unroll_without_product_pass,
)

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
