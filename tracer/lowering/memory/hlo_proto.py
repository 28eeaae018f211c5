"""Read protocol buffers, field by field: xla/service/hlo.proto and xla/xla_data.proto."""

from __future__ import annotations

from typing import Any


def packed(content: Any) -> tuple[int, ...]:
    """Return the numbers of a repeated field, which come one by one or all in one."""
    if isinstance(content, int):
        return (content,)
    numbers, at = [], 0
    while at < len(content):
        number = content[at]
        at += 1
        if number > 127:
            number, at = _longer(content, at, number)
        numbers.append(number)
    return tuple(numbers)


def fields(data: bytes) -> list[tuple[int, Any]]:
    """Return the numbers and contents of a message's fields: integers, or bytes.

    Most numbers take one byte or two, and are read here: calls would be half of the time.
    """
    found: list[tuple[int, Any]] = []
    add = found.append
    at, end = 0, len(data)
    while at < end:
        key = data[at]
        at += 1
        if key > 127:
            key, at = _longer(data, at, key)
        wire = key & 7
        if wire == 0 or wire == 2:
            content = data[at]
            at += 1
            if content > 127:
                content, at = _longer(data, at, content)
            if wire == 0:
                add((key >> 3, content))
                continue
            size = content
        else:
            size = 8 if wire == 1 else 4
        add((key >> 3, data[at : at + size]))
        at += size
    return found


def _longer(data: bytes, at: int, first: int) -> tuple[int, int]:
    """Read the rest of a number of several bytes."""
    value, shift = first & 127, 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


__all__ = ["fields", "packed"]
