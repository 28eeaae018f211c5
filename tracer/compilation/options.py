"""The options of `compile`, from arguments and from the environment."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tracer import lowering
from tracer.array.defaults import read_default_float
from tracer.compilation.donation import Donatable, Donation, resolve_donation
from tracer.compilation.parameters import read_names
from tracer.compilation.statics import Statics, resolve_statics
from tracer.errors import ArgumentError
from tracer.optimizer.pipeline import SPLIT_NAME
from tracer.optimizer.selection import rule_names, switched_off
from tracer.sharding import Spread
from tracer.storage import Checkpoints
from tracer.units import parse_bytes, parse_flags, parse_share

AUTO = "auto"
_SPLIT = {AUTO: True, "never": False}
Result = TypeVar("Result")


@dataclass(frozen=True)
class CompileOptions:
    """Checked options; sizes in bytes, `limit` is None, a number, "auto" or a percentage.

    `donatable` is what a refusal may propose to donate, where the program's arguments are not those
    that the caller passes; None: each argument.
    """

    limit: int | str | None
    donation: Donation
    statics: Statics
    device: Any
    threshold_bytes: int | None
    split_bytes: int | None
    split: bool
    disabled: frozenset[str] = frozenset()
    planning_seconds: float | None = None
    spread: Spread | None = None
    donatable: tuple[Donatable, ...] | None = None
    checkpoints: Checkpoints | None = None


def read_checkpoints(folder: Any, seconds: float) -> Checkpoints | None:
    """Check `checkpoint=` and `checkpoint_seconds=` of `compile`."""
    if folder is None:
        return None
    if not isinstance(folder, str | os.PathLike):
        raise ArgumentError(
            f"checkpoint is the path of a folder, not {folder!r}",
            mend='such as checkpoint="checkpoints"; it is made when it is needed',
        )
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise ArgumentError(
            f"checkpoint_seconds is a number of seconds from 0, not {seconds!r}",
            mend="leave it out for one checkpoint a minute",
        )
    return Checkpoints(Path(folder), float(seconds))


def compile_options(
    fn: Callable[..., Any],
    memory_limit: float | str | None,
    donate_argnums: int | Sequence[int],
    donate_argnames: str | Sequence[str],
    static_argnums: int | Sequence[int],
    static_argnames: str | Sequence[str],
    device: Any,
    tensor_size_threshold: int | str | None,
    tensor_split_size: int | str | None,
    split: str,
    passes: str | Sequence[str] | None = None,
    planning_seconds: float | None = None,
) -> CompileOptions:
    """Check the arguments of `compile`; the environment replaces None.

    `TRACER_MEMORY_LIMIT` gives a limit to an unchanged script, and
    `TRACER_FLAGS="--tensor_size_threshold=1GB --tensor_split_size=500MB"` are the two options of
    Artemev et al. 2022. `TRACER_PASSES="-split,-log1p"` is `passes` for all programs together, and
    `TRACER_DISABLE_RULES="inverse-times,log1p"` the same without the minus.
    """
    flags = from_environment("TRACER_FLAGS", parse_flags) or {}
    limit = _limit(memory_limit)
    if limit is None:
        limit = from_environment("TRACER_MEMORY_LIMIT", _limit)
    disabled = from_environment("TRACER_DISABLE_RULES", rule_names) or frozenset()
    disabled |= from_environment("TRACER_PASSES", switched_off) or frozenset()
    disabled |= frozenset() if passes is None else switched_off(passes)
    threshold = _bytes(tensor_size_threshold, flags.get("tensor_size_threshold"))
    split_size = _bytes(tensor_split_size, flags.get("tensor_split_size"))
    positions = _positions("donate_argnums", donate_argnums)
    donation = resolve_donation(fn, positions, donate_argnames)
    names = read_names("static_argnames", static_argnames)
    positions = _positions("static_argnums", static_argnums)
    statics = resolve_statics(fn, positions, tuple(sorted(names)))
    both = {*set(donation.positions) & set(statics.positions), *donation.names & statics.names}
    if both:
        raise ArgumentError(
            f"argument {min(both, key=str)!r} is both donated and static",
            mend="a static argument has no memory to donate: name it in one of the two only",
        )
    if split not in _SPLIT:
        raise ArgumentError(
            f"split is {' or '.join(map(repr, _SPLIT))}, not {split!r}",
            mend='leave it out: "auto" computes in slices where the limit asks for it or it is '
            "faster",
        )
    in_slices = _SPLIT[split] and SPLIT_NAME not in disabled
    return CompileOptions(
        limit, donation, statics, device, threshold, split_size, in_slices, disabled,
        _seconds(planning_seconds),
    )  # fmt: skip


def bound_programs_if_asked() -> None:
    """Bound the programs that are kept for equal graphs, if the environment says so.

    `TRACER_FLAGS="--program_cache_size=100MB"`, read when tracer is imported.

    Raises
    ------
    ArgumentError
        `TRACER_FLAGS` has an unknown flag, or a value that is no size.
    """
    flags = from_environment("TRACER_FLAGS", parse_flags) or {}
    if "program_cache_size" in flags:
        lowering.bound_cache(flags["program_cache_size"])


def set_default_float_if_asked() -> None:
    """Set the default float that `TRACER_DEFAULT_FLOAT` names, read when tracer is imported."""
    from_environment("TRACER_DEFAULT_FLOAT", read_default_float)


def _seconds(value: float | None) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise ArgumentError(
            f"planning_seconds is a number of seconds from 0, not {value!r}",
            mend="give float('inf') to search to the end",
        )
    return float(value)


def _limit(value: float | str | None) -> int | str | None:
    if value is None or value == AUTO:
        return value
    if isinstance(value, str) and value.rstrip().endswith("%"):
        parse_share(value)
        return value
    # The least bytes that a plan names are none where a program has none.
    return 0 if type(value) is int and value == 0 else parse_bytes(value)


def limit_of_free(limit: str, free_bytes: int) -> int:
    """Return the bytes that "auto" or a percentage stands for, of what a device has free."""
    return free_bytes if limit == AUTO else max(1, int(parse_share(limit) * free_bytes))


def from_environment(variable: str, read: Callable[[str], Result]) -> Result | None:
    """Read an environment variable; None if it is not set. An error of `read` names it."""
    text = os.environ.get(variable)
    if not text:
        return None
    try:
        return read(text)
    except ArgumentError as error:
        raise ArgumentError(
            f"{error.what} (in the environment variable {variable})", mend=error.mend
        ) from error


def _bytes(argument: int | str | None, flag: int | None) -> int | None:
    return flag if argument is None else parse_bytes(argument)


def _positions(name: str, value: int | Sequence[int]) -> tuple[int, ...]:
    items = tuple(value) if isinstance(value, Sequence) else (value,)
    try:
        positions = tuple(sorted({operator.index(item) for item in items}))
    except TypeError as error:
        raise ArgumentError(
            f"{name} takes positions of arguments, not {value!r}",
            mend=f"give an int or a tuple of ints, such as {name}=(0,)",
        ) from error
    if positions and positions[0] < 0:
        raise ArgumentError(
            f"{name} takes positions from 0, not {value!r}",
            mend="count from the front: the first argument is 0",
        )
    return positions
