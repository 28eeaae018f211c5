"""Names of passes and rules, as `passes=` and the environment give them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence, Set

from tracer.errors import ArgumentError
from tracer.optimizer.pipeline import OPTIONAL_PASSES
from tracer.optimizer.rewrite.rules import RULES

_RULE_NAMES = frozenset(rule.name for rule in RULES)
_ALL_RULES = "apply-rules"
NAMES: frozenset[str] = (_RULE_NAMES | OPTIONAL_PASSES) - {_ALL_RULES}
"""What can be switched off; "apply-rules" means all rules."""


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
    >>> from tracer.optimizer.selection import rule_names
    >>> sorted(rule_names("inverse-times, match-contractions"))
    ['inverse-times', 'match-contractions']
    """
    return _known(_words(text))


def switched_off(passes: str | Sequence[str]) -> frozenset[str]:
    """Return the passes and rules that a selection leaves out.

    Parameters
    ----------
    passes : str or sequence of str
        Names, separated by commas in a str. With a minus in front of each, these are left out;
        without, these run and no others that can be switched off. "apply-rules" is all rules.

    Raises
    ------
    ArgumentError
        There is no pass or rule of that name, or only some names have a minus.

    Examples
    --------
    >>> from tracer.optimizer.selection import NAMES, switched_off
    >>> sorted(switched_off("-schedule, -log1p"))
    ['log1p', 'schedule']
    >>> sorted(NAMES - switched_off(["split", "fuse-scans"]))
    ['fuse-scans', 'split']
    """
    if not isinstance(passes, str | Sequence | Set):
        raise ArgumentError(
            f"passes takes names, not {passes!r}",
            mend='write them in a str or a sequence, such as passes="-split,-log1p"',
        )
    words = _words(passes) if isinstance(passes, str) else tuple(map(str, passes))
    out = [word for word in words if word.startswith("-")]
    if not out:
        return NAMES - _known(words)
    if len(out) < len(words):
        raise ArgumentError(
            f"passes {', '.join(map(repr, words))}: some have a minus, others have none",
            mend="write a minus before each name, or before none to run only these",
        )
    return _known([word[1:] for word in out])


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _known(words: Sequence[str]) -> frozenset[str]:
    """Return the names, all rules for their pass; refuse those that nothing has."""
    names = frozenset(words) - {_ALL_RULES}
    if "expand" in names:
        raise ArgumentError(
            "expand cannot be switched off or run alone: no program can do without it",
            mend="leave it out of the names",
        )
    for name in sorted(names - NAMES):
        close = difflib.get_close_matches(name, NAMES, n=1)
        guess = f"did you mean {close[0]}? " if close else ""
        raise ArgumentError(
            f"there is no pass or rewrite rule {name!r}",
            mend=f"{guess}the names are {', '.join(sorted(NAMES | {_ALL_RULES}))}",
        )
    return names | _RULE_NAMES if _ALL_RULES in words else names


__all__ = ["NAMES", "rule_names", "switched_off"]
