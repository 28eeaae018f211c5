"""The programs that are kept in memory, bounded in bytes."""

from __future__ import annotations

from dataclasses import dataclass

from tracer.lowering.run.program_cache import DEFAULT_BYTES, ProgramCache


@dataclass(frozen=True)
class Held:
    held_bytes: int


def test_what_was_asked_for_longest_ago_goes_first() -> None:
    cache: ProgramCache[str, Held] = ProgramCache(10)
    first = cache.keep("first", Held(4))
    cache.keep("second", Held(4))
    assert cache.get("first") is first
    cache.keep("third", Held(5))
    assert [cache.get(key) is None for key in ("first", "second", "third")] == [False, True, False]
    assert cache.nbytes == 9


def test_one_that_is_too_large_is_not_kept() -> None:
    cache: ProgramCache[str, Held] = ProgramCache(10)
    large = Held(11)
    assert cache.keep("large", large) is large
    assert (len(cache), cache.nbytes) == (0, 0)


def test_the_program_of_another_thread_is_kept() -> None:
    cache: ProgramCache[str, Held] = ProgramCache()
    assert cache.most_bytes == DEFAULT_BYTES
    theirs = cache.keep("key", Held(4))
    assert cache.keep("key", Held(4)) is theirs
    assert cache.nbytes == 4
    cache.clear()
    assert (cache.get("key"), cache.nbytes) == (None, 0)
