"""What a traced function rests on beside its arguments: the modules that it runs, as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
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


@dataclass(frozen=True)
class Assigned:
    """An attribute of a module that became a tensor without data, and what it was."""

    module: torch.nn.Module
    name: str
    before: Any
    is_state: bool


class WatchedModules:
    """The modules that ran, as they were before.

    Attributes
    ----------
    states : dict of int to ModuleState
        By the module's id.
    """

    def __init__(self) -> None:
        self.states: dict[int, ModuleState] = {}
        self._attributes: list[tuple[torch.nn.Module, list[dict[str, Any]]]] = []

    def note(self, module: torch.nn.Module, _: Any = None) -> None:
        """Note a module and its parts, before they run."""
        for part in module.modules():
            if id(part) not in self.states:
                self.states[id(part)] = state_of(part)
                self._attributes.append((part, [dict(x) for x in _attributes_of(part)]))

    def undo(self) -> list[Assigned]:
        """Give all modules the attributes that they had; return those that lack data now."""
        found = self.undo_tensors()
        for module, kept in self._attributes:
            for now, before in zip(_attributes_of(module), kept, strict=True):
                now.clear()
                now.update(before)
        return found

    def undo_tensors(self) -> list[Assigned]:
        """Do so with attributes that became tensors without data only, and return these."""
        found = []
        for module, kept in self._attributes:
            for now, before in zip(_attributes_of(module), kept, strict=True):
                for name in [name for name, x in now.items() if isinstance(x, FakeTensor)]:
                    is_state = now is not module.__dict__
                    found.append(Assigned(module, name, before.get(name), is_state))
                    del now[name]
                    if name in before:
                        now[name] = before[name]
        return found


def _attributes_of(module: torch.nn.Module) -> tuple[dict[str, Any], ...]:
    return module.__dict__, module._parameters, module._buffers


@contextmanager
def watching_modules() -> Iterator[WatchedModules]:
    """Note each module that runs, before it does; leave no tensors without data in them."""
    watched = WatchedModules()
    hook = register_module_forward_pre_hook(watched.note)
    try:
        yield watched
    finally:
        hook.remove()
        watched.undo_tensors()


def surroundings() -> tuple[Any, ...]:
    """Return the settings of torch that decide what a function computes."""
    return (
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
    )
