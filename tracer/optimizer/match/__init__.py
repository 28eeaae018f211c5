"""Match: algebraic rewrites that avoid large tensors."""

from tracer.optimizer.match.contraction import match_contractions
from tracer.optimizer.match.unroll import unroll_short_reductions
from tracer.optimizer.passes import Pass

UNROLL = Pass("unroll short reductions", unroll_short_reductions)
CONTRACTIONS = Pass("match contractions", match_contractions, exact=False)

__all__ = ["CONTRACTIONS", "UNROLL", "match_contractions", "unroll_short_reductions"]
