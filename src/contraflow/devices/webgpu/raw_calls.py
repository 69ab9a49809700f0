"""Calls of the library under wgpu itself: several times faster than its public interface.

They use names of wgpu that are not public, of the versions that were tested: `is_known` says
whether the installed one is among them. With others the device works by `PublicCalls`.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from contraflow.devices.webgpu.adapters import told
from contraflow.devices.webgpu.calls import READ, BufferCopy, PublicCalls, QueuedRun
from contraflow.devices.webgpu.runs import whole_words

try:
    import wgpu
    from wgpu.backends.wgpu_native import _api, ffi, lib
except (ImportError, OSError, RuntimeError):  # told when an adapter is asked for
    lib = None

_VERSIONS = ((0, 32),)
# Seconds for which a read asks again and again whether the GPU is done, before it sleeps: to be
# woken takes as long as a small step of training.
_ASKING = 5e-4


def is_known() -> bool:
    """Whether the installed version of wgpu is one that these calls were tested with."""
    return lib is not None and tuple(wgpu.version_info[:2]) in _VERSIONS


class RawCalls(PublicCalls):
    """By functions of the native library. Pipelines and bind groups are pointers here."""

    def __init__(self, device: Any) -> None:
        super().__init__(device)
        self._device, self._queue = device._internal, device.queue._internal
        self._pipelines: list[Any] = []  # pointers do not keep them
        self._offset = ffi.new("uint32_t[1]")
        self._commands = ffi.new("WGPUCommandBuffer[1]")
        self._encoder = ffi.new("WGPUCommandEncoderDescriptor *")
        self._pass = ffi.new("WGPUComputePassDescriptor *")
        self._finish = ffi.new("WGPUCommandBufferDescriptor *")
        self._group = ffi.new("WGPUBindGroupDescriptor *")
        software = device.adapter.info["adapter_type"] == "CPU"
        self._asking = 0.0 if software else _ASKING  # software needs the processor itself
        self._mapped: bool | None = None  # None until it is known
        self._on_mapped = ffi.callback(
            "void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)", self._note_mapped
        )
        self._map_info = _api.new_struct(
            "WGPUBufferMapCallbackInfo",
            mode=lib.WGPUCallbackMode_AllowProcessEvents,
            callback=self._on_mapped,
        )

    def bind_group(self, layout: Any, entries: Sequence[tuple[int, Any, int, int]]) -> Any:
        found = ffi.new("WGPUBindGroupEntry[]", len(entries))
        for entry, (binding, buffer, at, nbytes) in zip(found, entries):
            entry.binding, entry.buffer = binding, buffer._internal
            entry.offset, entry.size = at, nbytes
        group = self._group
        group.layout, group.entryCount, group.entries = layout._internal, len(entries), found
        made = told(_api.libf.wgpuDeviceCreateBindGroup, self._device, group)
        return ffi.gc(made, lib.wgpuBindGroupRelease)

    def pipeline(self, code: str, entry: str, layout: Any) -> Any:
        made = super().pipeline(code, entry, layout)
        self._pipelines.append(made)
        return made._internal

    def _module(self, code: str) -> Any:
        """A text whose loops are left as they are: all of ours end, and the counters that wgpu adds
        to each would keep compilers from unrolling them. Accesses are checked all the same."""
        source = _api.new_struct_p("WGPUShaderSourceWGSL *", code=_api.to_c_string_view(code))
        source[0].chain.next = ffi.NULL
        source[0].chain.sType = lib.WGPUSType_ShaderSourceWGSL
        descriptor = _api.new_struct_p(
            "WGPUShaderModuleDescriptor *",
            nextInChain=ffi.cast("WGPUChainedStruct *", source),
            label=_api.to_c_string_view(""),
        )
        checks = lib.WGPUShaderRuntimeChecks_BoundsChecks
        made = _api.libf.wgpuDeviceCreateShaderModuleTrusted(self._device, descriptor, checks)
        return _api.GPUShaderModule("", made, self.device)

    def write(self, buffer: Any, at: int, data: Any) -> None:
        source = ffi.from_buffer(data)
        write, nbytes = _api.libf.wgpuQueueWriteBuffer, ffi.sizeof(source)
        told(write, self._queue, buffer._internal, at, source, nbytes)

    def submit(self, commands: Any) -> None:
        self._commands[0] = commands
        told(_api.libf.wgpuQueueSubmit, self._queue, 1, self._commands)

    def _encode(self, runs: Sequence[QueuedRun]) -> Any:
        set_pipeline = lib.wgpuComputePassEncoderSetPipeline
        set_group = lib.wgpuComputePassEncoderSetBindGroup
        dispatch = lib.wgpuComputePassEncoderDispatchWorkgroups
        offset, nothing = self._offset, ffi.NULL
        encoder = lib.wgpuDeviceCreateCommandEncoder(self._device, self._encoder)
        running = last = None
        for items, base in runs:
            for item in items:
                if type(item) is BufferCopy:
                    if running is not None:
                        self._end(running)
                        running = last = None
                    source, source_at, target, target_at, nbytes = item
                    lib.wgpuCommandEncoderCopyBufferToBuffer(
                        encoder, source._internal, source_at, target._internal, target_at, nbytes
                    )
                    continue
                pipeline, group, x, y, scalars = item
                if running is None:
                    running = lib.wgpuCommandEncoderBeginComputePass(encoder, self._pass)
                if pipeline is not last:
                    set_pipeline(running, pipeline)
                    last = pipeline
                if scalars < 0:
                    set_group(running, 0, group, 0, nothing)
                else:
                    offset[0] = base + scalars
                    set_group(running, 0, group, 1, offset)
                dispatch(running, x, y, 1)
        if running is not None:
            self._end(running)
        # An error of any of these is told here.
        commands = _api.libf.wgpuCommandEncoderFinish(encoder, self._finish)
        lib.wgpuCommandEncoderRelease(encoder)
        return ffi.gc(commands, lib.wgpuCommandBufferRelease)

    def _end(self, running: Any) -> None:
        lib.wgpuComputePassEncoderEnd(running)
        lib.wgpuComputePassEncoderRelease(running)

    def _note_mapped(self, status: Any, message: Any, first: Any, second: Any) -> None:
        self._mapped = status == lib.WGPUMapAsyncStatus_Success

    def read(self, staging: Any, target: Any) -> None:
        told(self._read, staging._internal, target)

    def _read(self, buffer: Any, target: Any) -> None:
        nbytes = len(target)
        whole = whole_words(nbytes)
        self._mapped = None
        _api.libf.wgpuBufferMapAsync(buffer, READ, 0, whole, self._map_info)
        if self._asking:
            end = perf_counter() + self._asking
            while self._mapped is None and perf_counter() < end:
                lib.wgpuDevicePoll(self._device, 0, ffi.NULL)
        if self._mapped is None:
            _api.libf.wgpuDevicePoll(self._device, 1, ffi.NULL)
        if self._mapped is None:
            raise RuntimeError("the GPU was waited for, and a buffer was not mapped.")
        if not self._mapped:
            raise RuntimeError("the device was lost while it was read from")
        source = lib.wgpuBufferGetConstMappedRange(buffer, 0, whole)
        ffi.memmove(target, source, nbytes)
        lib.wgpuBufferUnmap(buffer)
