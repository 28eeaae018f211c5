"""A compiled program: the hot path from buffers to buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from tracer.ir import Graph
from tracer.lowering import shims
from tracer.lowering.allocator import blocks_kept
from tracer.lowering.copies import ArrayCopy, aliases_of, copies_of
from tracer.lowering.device import Device
from tracer.lowering.failures import absent, execution_failure, given_twice
from tracer.lowering.memory import MemoryStats, measure
from tracer.lowering.shims import Buffer

_NEW_PAGES_BYTES = 1 << 20
"""Blocks of this size are given back to the system when they are freed (`backend`)."""


class Executable:
    """A graph compiled for one device.

    Made by `compile_graph`. Calling it is the hot path: it takes about four microseconds, returns
    before the program has run, and does not check shapes and dtypes (XLA compares sizes in bytes
    only), so callers do.

    Attributes
    ----------
    device : Device
        Where it runs.
    donate : tuple of int
        Inputs whose buffers are given away at each call.
    """

    def __init__(
        self,
        raw: Any,
        graph: Graph,
        device: Device,
        donate: Sequence[int],
        aliases: Mapping[int, int],
    ) -> None:
        self.raw = raw
        self.device = device
        self.donate = tuple(donate)
        self._freed = tuple(position for position in donate if position not in aliases)
        """Donated inputs that XLA does not know of."""
        self.input_types = graph.input_types
        self.output_types = graph.output_types
        self._execute = raw.execute_sharded if device.is_present else self._refuse
        self._handlers = [
            shims.result_handler(type.shape, type.dtype, device.sharding)
            for type in graph.output_types
        ]

    def __call__(self, *buffers: Buffer) -> list[Buffer]:
        """Run the program.

        Parameters
        ----------
        *buffers : Buffer
            One for each input, of its type and on the device.

        Returns
        -------
        list of Buffer
            One for each output. They may still be in the making.

        Raises
        ------
        DonatedArrayError
            A buffer was donated before, or is donated and passed twice.
        DTypeError
            An argument is no buffer.
        ExecutionError
            XLA failed, for one because the device is out of memory.
        """
        if self._freed:
            self._check_freed(buffers)
        try:
            if self._packs:
                with blocks_kept(self.memory.product_bytes):
                    results = self._execute(buffers).consume_with_handlers(self._handlers)
            else:
                results = self._execute(buffers).consume_with_handlers(self._handlers)
        except (RuntimeError, TypeError) as error:
            raise execution_failure(error, buffers) from error
        if self.donate:
            for position in self.donate:
                # Also where no result took it over: the promise is that it is gone in any case, so
                # that a program does not work by luck.
                buffers[position].delete()
        return results  # type: ignore[no-any-return]

    def _check_freed(self, buffers: Sequence[Buffer]) -> None:
        """Refuse a buffer that is passed twice and freed after the call; XLA refuses the others."""
        for position in self._freed:
            if sum(buffer is buffers[position] for buffer in buffers) > 1:
                raise given_twice(position)

    def _refuse(self, _: Sequence[Buffer]) -> Any:
        raise absent(self.device)

    @cached_property
    def _packs(self) -> bool:
        """Whether products make blocks that would be new pages each time.

        Convolutions are no faster for it, and leave freed blocks in the heap of each thread.
        """
        return self.memory.product_bytes >= _NEW_PAGES_BYTES

    @cached_property
    def memory(self) -> MemoryStats:
        """What the program needs in bytes, by XLA's count and our model of what XLA hides."""
        return measure(self.raw, self.device.platform)

    @cached_property
    def aliases(self) -> Mapping[int, int]:
        """The result that lies in the memory of an input, by XLA's own configuration."""
        return aliases_of(self.hlo())

    @cached_property
    def copies(self) -> Sequence[ArrayCopy]:
        """The arrays that the program copies."""
        return copies_of(self.hlo())

    def hlo(self) -> str:
        """Return the optimised HLO as text, in the order of execution."""
        return str(self.raw.hlo_modules()[0].to_string())
