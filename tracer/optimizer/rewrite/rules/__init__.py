"""Algebra that saves memory and time: the rewrite rules, as data.

A rule is a pattern and a replacement in the program's own notation, a name to switch it off by,
guards, and a source; `tracer.optimizer.rewrite.match.rules` applies them. docs/rules.md lists them.
"""

from __future__ import annotations

import functools

from tracer.optimizer.passes import Pass
from tracer.optimizer.rewrite.match.rule import Rule
from tracer.optimizer.rewrite.match.rules import rules_pass
from tracer.optimizer.rewrite.rules import diagonal, powers, products, selection, solving, stable

RULES: tuple[Rule, ...] = (
    *products.RULES,
    *diagonal.RULES,
    *solving.RULES,
    *selection.RULES,
    *stable.RULES,
    *powers.RULES,
)


def enabled(disabled: frozenset[str] = frozenset()) -> tuple[Rule, ...]:
    """Return the rules that are not switched off."""
    return tuple(rule for rule in RULES if rule.name not in disabled)


@functools.lru_cache(maxsize=16)
def rules_without(disabled: frozenset[str] = frozenset()) -> Pass:
    """Return the pass that applies the rules, without those that are switched off."""
    return rules_pass(enabled(disabled))


__all__ = ["RULES", "enabled", "rules_without"]
