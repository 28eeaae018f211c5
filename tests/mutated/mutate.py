"""Changes texts and bytes at random, as damage and malice would."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

NUMBERS = (
    0, 1, -1, 2, 3, 7, 255, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64, 10**30,
    -(2**31), -(2**63), -(2**63) - 1,
)  # fmt: skip
_MORE = ("nan", "-inf", "1e400", "1e-400", "0x7FC00000", "0x", "1.", ".5", "٣", "9" * 5000, "?")
_STRANGE = "\x00\x1b\u202e²é\U0001d4b3\ud800\ufeff\t\n\\\"'%@#!<>[](){}:,=-+*.?"
_TOKEN = re.compile(r"-?\d+(?:\.\d+)?|\w+|\s+|.", re.DOTALL)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_OPENERS = "([{<-'"
_DEEP = (50, 2000, 100_000)


def text(seeds: Sequence[str], rng: random.Random) -> str:
    """Return one of the texts, changed in one place, or up to four."""
    tokens = _TOKEN.findall(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        if tokens:
            _change(tokens, seeds, rng)
    return "".join(tokens)


def _change(tokens: list[str], seeds: Sequence[str], rng: random.Random) -> None:
    at = rng.randrange(len(tokens))
    span = slice(at, at + rng.choice((1, 1, 2, 5, 20)))
    kind = rng.random()
    numbers = [i for i, token in enumerate(tokens) if _NUMBER.fullmatch(token)]
    if kind < 0.35 and numbers:
        tokens[rng.choice(numbers)] = str(rng.choice(NUMBERS))
    elif kind < 0.4 and numbers:
        tokens[rng.choice(numbers)] = rng.choice(_MORE)
    elif kind < 0.6:
        tokens[at] = rng.choice(_TOKEN.findall(rng.choice(seeds)) or [""])
    elif kind < 0.7:
        del tokens[span]
    elif kind < 0.8:
        tokens[at:at] = tokens[span]
    elif kind < 0.88:
        other = rng.randrange(len(tokens))
        tokens[at], tokens[other] = tokens[other], tokens[at]
    elif kind < 0.95:
        tokens.insert(at, rng.choice(_STRANGE))
    elif kind < 0.97:
        tokens.insert(at, rng.choice(_OPENERS) * rng.choice(_DEEP))
    else:
        del tokens[at:]


def data(seeds: Sequence[bytes], rng: random.Random) -> bytes:
    """Return one of the strings of bytes, changed in one place, or up to six."""
    found = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        if found:
            _damage(found, seeds, rng)
    return bytes(found)


def _damage(found: bytearray, seeds: Sequence[bytes], rng: random.Random) -> None:
    at, kind = rng.randrange(len(found)), rng.random()
    span = slice(at, at + rng.choice((1, 1, 2, 4, 8, 64)))
    if kind < 0.35:
        found[at] ^= 1 << rng.randrange(8)
    elif kind < 0.6:
        found[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256)))
    elif kind < 0.7:
        found[span] = rng.choice((b"\xff", b"\x00", b"\x80")) * len(found[span])
    elif kind < 0.78:
        del found[span]
    elif kind < 0.86:
        found[at:at] = found[span]
    elif kind < 0.94:
        other = rng.choice(seeds)
        start = rng.randrange(len(other) or 1)
        found[span] = other[start : start + len(found[span])]
    else:
        del found[at:]
