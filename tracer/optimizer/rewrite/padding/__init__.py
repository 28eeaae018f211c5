"""Programs for padded arrays: the padding takes no part in the results.

A function is traced twice, for the exact size and for the padded one. Both graphs must have the
same nodes. Axes that differ in size are *padded*. Constants that differ (such as the length that a
mean divides by) become run-time inputs. Then the axis rules decide. Along a parallel axis an
element of a result depends only on the same elements of the operands, so the padding is never read.
A reduced axis is masked with the value that the op's record calls neutral. Anything else is
refused: the axis would be needed whole.
"""

from tracer.optimizer.rewrite.padding.comparison import Comparison, Use, compare
from tracer.optimizer.rewrite.padding.masking import Masked, masked

__all__ = ["Comparison", "Masked", "Use", "compare", "masked"]
