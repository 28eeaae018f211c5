"""The limits of the control groups that this process is in (Linux), versions 1 and 2.

Groups are nested, and the limit of any of them holds for all below: each is read from the group of
/proc/self/cgroup up to the root. In a container the group's path may be the host's, which is not
mounted inside; its root is then the container's own group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path("/")
_MOUNT = "sys/fs/cgroup"
_UNIFIED = ("unified", "")
"""Where version 2 is mounted: beside version 1, or alone."""


@dataclass(frozen=True)
class Group:
    """One control group: its folder, and whether it is of version 2."""

    folder: Path
    is_unified: bool

    def number(self, name: str) -> int | None:
        """Return the number that a file of the group says; None where it sets no limit."""
        words = self.words(name)
        return int(words[0]) if words and words[0].lstrip("-").isdigit() else None

    def words(self, name: str) -> list[str]:
        """Return the words of a file; none where the group has no such file."""
        file = self.folder / name
        return file.read_text(encoding="ascii").split() if file.is_file() else []


def groups_of(controller: str, root: Path = ROOT) -> Iterator[Group]:
    """Yield the groups of a controller that this process is in, the innermost first.

    Parameters
    ----------
    controller : str
        "memory" or "cpu".
    root : Path
        Where /proc and /sys are.
    """
    file = root / "proc/self/cgroup"
    if not file.is_file():
        return
    for line in file.read_text(encoding="utf-8").splitlines():
        _, names, path = line.split(":", 2)
        if not names:
            mounts, is_unified = [root / _MOUNT / name for name in _UNIFIED], True
        elif controller in names.split(","):
            mounts, is_unified = [root / _MOUNT / name for name in (names, controller)], False
        else:
            continue
        mount = next((mount for mount in mounts if mount.is_dir()), None)
        if mount is not None:
            yield from _upwards(mount, path, is_unified)


def _upwards(mount: Path, path: str, is_unified: bool) -> Iterator[Group]:
    inside = PurePosixPath(path.lstrip("/"))
    # A group outside of what the process sees is written with "..": only the root is known.
    steps = () if ".." in inside.parts else (inside, *inside.parents)
    for folder in dict.fromkeys((*(mount / step for step in steps), mount)):
        if folder.is_dir():
            yield Group(folder, is_unified)


__all__ = ["ROOT", "Group", "groups_of"]
