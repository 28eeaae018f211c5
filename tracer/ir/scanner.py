"""Tokens of the text form, with errors that give line and column. The grammar is in `parse.py`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tracer.errors import ArgumentError

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|\#[^\n]*)
  | (?P<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
  | (?P<number>bits:0x[0-9a-f]+|-?(?:nan|inf)\b|-?\d+(?:\.\d*)?(?:e[+-]?\d+)?)
  | (?P<name>%\d+)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<mark>[][(){}:,=])
    """,
    re.VERBOSE,
)
_KINDS = {
    "name": "a value such as %0",
    "word": "a name",
    "number": "a number",
    "end": "the end of the text",
}


class Token(NamedTuple):
    """A word of the text: its kind (a group of the pattern, or "end"), its text and place."""

    kind: str
    text: str
    start: int


class Scanner:
    """Cuts a text into tokens and hands them out one by one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._scan()
        self.position = 0

    def _scan(self) -> list[Token]:
        tokens = []
        start = 0
        while start < len(self.text):
            match = _TOKEN.match(self.text, start)
            if match is None:
                self.refuse(f"unexpected {self.text[start]!r}", start)
            if match.lastgroup != "space":
                tokens.append(Token(str(match.lastgroup), match.group(), start))
            start = match.end()
        return [*tokens, Token("end", "", start)]

    def refuse(self, what: str, start: int, cause: BaseException | None = None) -> NoReturn:
        """Raise `ArgumentError` with the line and column of character `start`."""
        line = self.text.count("\n", 0, start) + 1
        column = start - (self.text.rfind("\n", 0, start) + 1) + 1
        shown = self.text.split("\n")[line - 1].strip()
        raise ArgumentError(
            f"not the text of a graph: line {line}, column {column}: {what}\n  text:  {shown}",
            mend="see tracer.ir.parse for the grammar, or print a graph as an example",
        ) from cause

    @property
    def next(self) -> Token:
        """The token that comes next."""
        return self.tokens[self.position]

    def take(self) -> Token:
        """Return the next token and go past it; the last one, "end", stays."""
        token = self.next
        self.position = min(self.position + 1, len(self.tokens) - 1)
        return token

    def accept(self, text: str) -> bool:
        """Take the mark or word `text` if it is next."""
        found = self.next.kind in ("mark", "word") and self.next.text == text
        if found:
            self.take()
        return found

    def expect(self, kind: str) -> Token:
        """Take a token of a kind, or the mark or word itself; raise `ArgumentError` otherwise."""
        token = self.take()
        if kind in _KINDS:
            found = token.kind == kind
        else:
            found = token.kind in ("mark", "word") and token.text == kind
        if not found:
            wanted = _KINDS.get(kind, repr(kind))
            self.refuse(f"expected {wanted}, found {_shown(token)}", token.start)
        return token

    def listed(self, item: Callable[[], Any], close: str) -> list[Any]:
        """Read items with commas between them up to `close`; a comma may come before it."""
        items: list[Any] = []
        while not self.accept(close):
            if items:
                self.expect(",")
                if self.accept(close):
                    break
            items.append(item())
        return items


def _shown(token: Token) -> str:
    return "the end of the text" if token.kind == "end" else repr(token.text)


def number(text: str, dtype: np.dtype[Any]) -> Any:
    """Read a real number as an element of `dtype`; `bits:0x...` gives its bits."""
    if text.startswith("bits:"):
        bits = np.array(int(text.removeprefix("bits:"), 16), f"u{dtype.itemsize}")
        return np.frombuffer(bits.tobytes(), dtype)[0]
    if dtype.kind in "iu":
        return dtype.type(int(text))
    with np.errstate(over="ignore"):
        return np.array(float(text)).astype(dtype)[()]


__all__ = ["Scanner", "Token", "number"]
