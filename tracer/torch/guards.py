"""What a traced function rests on beside its arguments: the modules that it runs, as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook


@dataclass(frozen=True)
class ModuleState:
    """A module, whether it trained, and which tensors it had."""

    module: torch.nn.Module
    is_training: bool
    tensors: tuple[int, ...]

    @property
    def is_unchanged(self) -> bool:
        """Tell whether the module is as it was."""
        return self == state_of(self.module)


def state_of(module: torch.nn.Module) -> ModuleState:
    """Return the state of one module, without those of its parts."""
    own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
    return ModuleState(module, module.training, tuple(map(id, own)))


@contextmanager
def watching_modules() -> Iterator[dict[int, ModuleState]]:
    """Note each module that runs, before it does."""
    seen: dict[int, ModuleState] = {}

    def note(module: Any, _: Any) -> None:
        for part in module.modules():
            if id(part) not in seen:
                seen[id(part)] = state_of(part)

    hook = register_module_forward_pre_hook(note)
    try:
        yield seen
    finally:
        hook.remove()


def surroundings() -> tuple[Any, ...]:
    """Return the settings of torch that decide what a function computes."""
    return (
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
    )
