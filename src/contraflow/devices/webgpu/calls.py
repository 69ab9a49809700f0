"""Calls of wgpu: everything that happens on the device goes through here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from contraflow.devices.webgpu.adapters import told

# Flags as WebGPU numbers them.
_MAP_READ, _COPY_SRC, _COPY_DST, _UNIFORM, _STORAGE = 0x1, 0x4, 0x8, 0x40, 0x80
_COMPUTE = 0x4  # of shader stages
READ = 0x1  # of map modes

STORAGE = _STORAGE | _COPY_SRC | _COPY_DST
UNIFORM = _UNIFORM | _COPY_DST
STAGING = _MAP_READ | _COPY_DST


class Dispatch(NamedTuple):
    """A kernel that is run; `scalars` is where its host scalars lie, -1 where it has none."""

    pipeline: Any
    group: Any
    x: int
    y: int
    scalars: int = -1


class BufferCopy(NamedTuple):
    """Bytes that are copied from one buffer to another."""

    source: Any
    source_at: int
    target: Any
    target_at: int
    nbytes: int


QueueItem = Dispatch | BufferCopy
# Items in order, and where the host scalars of their run begin.
QueuedRun = tuple[Sequence[QueueItem], int]


class Calls(Protocol):
    """The functions of wgpu that a device needs."""

    def buffer(self, nbytes: int, usage: int) -> Any:
        """A buffer."""

    def bind_group(self, layout: Any, entries: Sequence[tuple[int, Any, int, int]]) -> Any:
        """A bind group of (binding, buffer, offset, bytes)."""

    def pipeline(self, code: str, entry: str, layout: Any) -> Any:
        """The pipeline of a text; `layout` is that of its one bind group."""

    def layout(self, kinds: dict[int, str], dynamic: int) -> Any:
        """The layout of a bind group; the offset of binding `dynamic` comes with each dispatch."""

    def write(self, buffer: Any, at: int, data: Any) -> None:
        """Copy bytes to a buffer, after all that was submitted so far."""

    def encode(self, runs: Sequence[QueuedRun]) -> Any:
        """Commands that run items in order, to be submitted once."""

    def submit(self, commands: Any) -> None:
        """Run commands after those that were submitted before."""

    def read(self, staging: Any, target: Any) -> None:
        """Fill an array of bytes from a staging buffer, once what was submitted is done."""


class PublicCalls:
    """By the public interface of wgpu."""

    def __init__(self, device: Any) -> None:
        self.device, self.queue = device, device.queue

    def buffer(self, nbytes: int, usage: int) -> Any:
        return told(self.device.create_buffer, size=nbytes, usage=usage)

    def bind_group(self, layout: Any, entries: Sequence[tuple[int, Any, int, int]]) -> Any:
        found = [
            {"binding": i, "resource": {"buffer": buffer, "offset": at, "size": nbytes}}
            for i, buffer, at, nbytes in entries
        ]
        return told(self.device.create_bind_group, layout=layout, entries=found)

    def layout(self, kinds: dict[int, str], dynamic: int) -> Any:
        entries = []
        for i, kind in kinds.items():
            buffer = {"type": kind, "has_dynamic_offset": i == dynamic}
            entries.append({"binding": i, "visibility": _COMPUTE, "buffer": buffer})
        return told(self.device.create_bind_group_layout, entries=entries)

    def pipeline(self, code: str, entry: str, layout: Any) -> Any:
        layouts = told(self.device.create_pipeline_layout, bind_group_layouts=[layout])
        compute = {"module": told(self._module, code), "entry_point": entry}
        return told(self.device.create_compute_pipeline, layout=layouts, compute=compute)

    def _module(self, code: str) -> Any:
        return self.device.create_shader_module(code=code)

    def write(self, buffer: Any, at: int, data: Any) -> None:
        told(self.queue.write_buffer, buffer, at, data)

    def encode(self, runs: Sequence[QueuedRun]) -> Any:
        return told(self._encode, runs)

    def submit(self, commands: Any) -> None:
        told(self.queue.submit, [commands])

    def _encode(self, runs: Sequence[QueuedRun]) -> Any:
        encoder = self.device.create_command_encoder()
        running, last = None, None
        for items, base in runs:
            for item in items:
                if type(item) is BufferCopy:
                    if running is not None:
                        running.end()
                        running = last = None
                    encoder.copy_buffer_to_buffer(*item)
                    continue
                pipeline, group, x, y, scalars = item
                if running is None:
                    running = encoder.begin_compute_pass()
                if pipeline is not last:
                    running.set_pipeline(pipeline)
                    last = pipeline
                if scalars < 0:
                    running.set_bind_group(0, group)
                else:
                    running.set_bind_group(0, group, [base + scalars])
                running.dispatch_workgroups(x, y)
        if running is not None:
            running.end()
        return encoder.finish()

    def read(self, staging: Any, target: Any) -> None:
        nbytes = len(target)
        told(staging.map_sync, READ, 0, nbytes)
        try:
            target[:] = np.frombuffer(staging.read_mapped(0, nbytes, copy=False), np.uint8)
        finally:
            staging.unmap()
