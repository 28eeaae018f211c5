"""Files in a shared folder: whole or not at all, checked, bounded in bytes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.interrupted.moments import DROPPED, at_every_call
from tracer.compilation.stored.files import FileStore
from tracer.errors import CacheWarning

HEAD = 15 + 32


def keep(store: FileStore, key: str, content: bytes, age: int) -> None:
    store.write(key, content)
    then = time.time() - age
    os.utime(store.folder / f"{key}.program", (then, then))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@DROPPED
def test_an_interrupt_leaves_no_unfinished_file(tmp_path: Path) -> None:
    store = FileStore(tmp_path, 1000)

    def after() -> None:
        assert names(tmp_path) in ([], ["a.program"])

    assert at_every_call(lambda: store.write("a", b"content"), after) > 20


def test_what_was_written_is_read(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "new" / "folder", 1000)
    assert store.read("a") is None
    store.write("a", b"content")
    assert FileStore(tmp_path / "new" / "folder", 1000).read("a") == b"content"
    assert names(store.folder) == ["a.program"]
    assert store.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "foreign", "longer"])
def test_a_damaged_file_is_ignored_with_a_warning_and_rewritten(
    tmp_path: Path, damage: str
) -> None:
    store = FileStore(tmp_path, 1000)
    store.write("a", b"content")
    file = tmp_path / "a.program"
    whole = file.read_bytes()
    damaged = {
        "truncated": whole[:-1],
        "flipped": whole[:-1] + bytes([whole[-1] ^ 1]),
        "empty": b"",
        "foreign": b"#!/bin/sh\n" * 20,
        "longer": whole + b"\0",
    }
    file.write_bytes(damaged[damage])
    with pytest.warns(CacheWarning, match="damaged"):
        assert store.read("a") is None
    store.write("a", b"content")
    assert store.read("a") == b"content"


def test_a_file_under_another_name_is_damaged(tmp_path: Path) -> None:
    store = FileStore(tmp_path, 1000)
    store.write("a", b"content")
    (tmp_path / "a.program").rename(tmp_path / "b.program")
    with pytest.warns(CacheWarning, match=r"b\.program is damaged"):
        assert store.read("b") is None


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    store = FileStore(tmp_path, 3 * (HEAD + 10))
    for age, key in enumerate("cba"):
        keep(store, key, b"0123456789", 100 + age)
    assert store.read("a") is not None  # now the last to go
    store.write("d", b"0123456789")
    assert names(tmp_path) == ["a.program", "c.program", "d.program"]
    store.write("e", b"01234567890")
    assert names(tmp_path) == ["d.program", "e.program"] or len(names(tmp_path)) == 2
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= store.most_bytes


def test_a_file_that_is_rewritten_makes_its_own_room(tmp_path: Path) -> None:
    store = FileStore(tmp_path, 2 * (HEAD + 10))
    for age, key in enumerate("ab"):
        keep(store, key, b"0123456789", 100 + age)
    store.write("a", b"9876543210")
    assert names(tmp_path) == ["a.program", "b.program"]


def test_a_file_larger_than_all_may_be_is_not_written(tmp_path: Path) -> None:
    store = FileStore(tmp_path, HEAD + 10)
    store.write("a", b"0123456789")
    store.write("b", b"0123456789+")
    assert names(tmp_path) == ["a.program"]


def test_files_of_others_stay_and_abandoned_ones_go(tmp_path: Path) -> None:
    store = FileStore(tmp_path, 1000)
    for name, age in (("notes.txt", 9999), ("new.unfinished", 0), ("old.unfinished", 9999)):
        (tmp_path / name).write_bytes(b"?")
        os.utime(tmp_path / name, (time.time() - age, time.time() - age))
    store.write("a", b"content")
    assert names(tmp_path) == ["a.program", "new.unfinished", "notes.txt"]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    store = FileStore(tmp_path, 1000)
    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(CacheWarning, match="no space left"):
        store.write("a", b"content")
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = FileStore(tmp_path / "file", 1000)
    with pytest.warns(CacheWarning, match="nothing can be written"):
        store.write("a", b"content")
    with pytest.warns(CacheWarning, match="cannot be read"):
        assert store.read("a") is None
