"""The folders of tests/ are the rooms of tracer/, or suites that concern several of them."""

from __future__ import annotations

from pathlib import Path

import tracer

TESTS = Path(__file__).parents[1]
PACKAGE = Path(tracer.__file__).parent
SUITES = {
    "architecture": "what the source as a whole promises: walls, errors, folders, legs of the CI",
    "benchmarks": "the instruments and programs of benchmarks/",
    "devices": "several devices, several processes, machines that are absent",
    "docs": "links and paths of the pages",
    "end_to_end": "from a call to its result, through all rooms",
    "fuzz": "random programs, compiled in every way",
    "interrupted": "programs that are interrupted at random moments",
    "jax_behaviours": "what JAX's own tests ask for",
    "mutated": "inputs that were changed at random",
    "memory": "resident memory, measured in fresh processes",
    "sweep": "every op and pair of ops, compiled",
}
"""The folders that are no room, and what they have in common."""


def misplaced(tests: Path, package: Path) -> list[str]:
    """Return the folders that are neither a room nor a suite, and the test files in no folder."""
    loose = [path.name for path in tests.glob("test_*.py")]
    folders = {path.parent.relative_to(tests) for path in tests.glob("*/**/*.py")}
    strange = [str(folder) for folder in folders if not _is_known(folder, package)]
    return sorted(loose + strange)


def _is_known(folder: Path, package: Path) -> bool:
    room = package / folder
    is_suite = folder.parts[0] in SUITES
    return is_suite or room.is_dir() or room.with_suffix(".py").is_file()


def test_each_folder_is_a_room_or_a_suite() -> None:
    assert misplaced(TESTS, PACKAGE) == []


def test_suites_are_there_and_are_no_rooms() -> None:
    assert {name for name in SUITES if not (TESTS / name).is_dir()} == set()
    assert {name for name in SUITES if (PACKAGE / name).exists()} == set()


def test_what_is_misplaced_is_found(tmp_path: Path) -> None:
    tests, package = tmp_path / "tests", tmp_path / "package"
    for path in (
        tests / "test_loose.py",
        tests / "conftest.py",
        tests / "room" / "test_one.py",
        tests / "room" / "inner" / "test_two.py",
        tests / "room" / "lounge" / "test_three.py",
        tests / "attic" / "helpers.py",
        tests / "file" / "test_four.py",
        tests / "fuzz" / "corpus" / "test_five.py",
        package / "room" / "inner" / "one.py",
        package / "file.py",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert misplaced(tests, package) == ["attic", "room/lounge", "test_loose.py"]
