"""Programs for arrays that are padded: what lies behind the end takes no part in the results.

A function is traced twice, for the exact size and for the padded one. Both graphs must have the
same nodes; axes that have the one size in the first and the other in the second are *padded*, and
constants that differ (the length that a mean divides by) are handed in at run time. Then the axis
rules decide. Along a parallel axis an element of a result hangs on the same elements of the
operands, so that nothing behind the end is ever read. A reduced axis is masked before it is
reduced, with what the op's record says is neutral. Anything else is refused: the axis would be
needed whole.
"""

from tracer.optimizer.rewrite.padding.comparison import Comparison, Use, compare
from tracer.optimizer.rewrite.padding.masking import Masked, masked

__all__ = ["Comparison", "Masked", "Use", "compare", "masked"]
