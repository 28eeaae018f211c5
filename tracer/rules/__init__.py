"""Algebra that saves memory and time: the rewrite rules, as data.

A rule is a pattern and a replacement in the program's own notation, a name to switch it off by,
guards, and a source; `tracer.optimizer.match.rules` applies them. docs/rules.md lists them.
"""

from __future__ import annotations

import difflib
import functools

from tracer.errors import ArgumentError
from tracer.optimizer.match import CONTRACTIONS, INNER_PRODUCTS, UNROLL
from tracer.optimizer.match.rule import Rule
from tracer.optimizer.match.rules import rules_pass
from tracer.optimizer.passes import Pass
from tracer.optimizer.pipeline import OPTIONAL_PASSES
from tracer.rules import diagonal, powers, products, selection, solving, stable

RULES: tuple[Rule, ...] = (
    *products.RULES,
    *diagonal.RULES,
    *solving.RULES,
    *selection.RULES,
    *stable.RULES,
    *powers.RULES,
)
PASSES: tuple[Pass, ...] = (INNER_PRODUCTS, UNROLL, CONTRACTIONS)
"""Rewrites of families of expressions that no finite list of patterns describes."""


NAMES: frozenset[str] = frozenset([rule.name for rule in RULES]) | OPTIONAL_PASSES
"""What can be switched off."""


def rule_names(text: str) -> frozenset[str]:
    """Read the names of rewrites, as `TRACER_DISABLE_RULES` gives them.

    Parameters
    ----------
    text : str
        Names, separated by commas.

    Raises
    ------
    ArgumentError
        There is no rewrite of that name.

    Examples
    --------
    >>> from tracer.rules import rule_names
    >>> sorted(rule_names("inverse-times, match-contractions"))
    ['inverse-times', 'match-contractions']
    """
    names = frozenset(word.strip() for word in text.split(",") if word.strip())
    for name in sorted(names - NAMES):
        close = difflib.get_close_matches(name, NAMES, n=1)
        guess = f"did you mean {close[0]}? " if close else ""
        raise ArgumentError(
            f"there is no rewrite rule {name!r}",
            mend=f"{guess}the names are {', '.join(sorted(NAMES))}",
        )
    return names


@functools.lru_cache(maxsize=16)
def matching(disabled: frozenset[str] = frozenset()) -> tuple[Pass, ...]:
    """Return the passes that rewrite expressions, without those that are switched off."""
    enabled = tuple(rule for rule in RULES if rule.name not in disabled)
    passes = tuple(item for item in PASSES if item.option not in disabled)
    return (rules_pass(enabled), *passes) if enabled else passes


__all__ = ["NAMES", "PASSES", "RULES", "matching", "rule_names"]
