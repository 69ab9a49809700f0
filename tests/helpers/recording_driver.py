"""A driver of CUDA without a GPU: it notes calls, and copies memory of the host.

It stands for `cuda.bindings.driver`. Memory is the host's, so transfers and copies work; kernels
are noted and not run. Every call is noted with the GPU whose context is current in the thread, and
memory, streams, events and functions know their GPU: what belongs to another one is an error.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

MINOR = {0: 0, 1: 9}  # capability 8.x of each GPU


class CUresult(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_LAUNCH_FAILED = 719


class _Names:
    """Constants by name: each is its own name."""

    def __getattr__(self, name: str) -> str:
        return name


class RecordingDriver:
    """Two GPUs, of `total` bytes each."""

    CUresult = CUresult
    CUdevice_attribute = CUmemAllocationType = CUmemLocationType = _Names()
    CUmemPool_attribute = CUstreamCaptureMode = CUgraphNodeType = _Names()
    CUmemPoolProps = CUmemLocation = SimpleNamespace

    def __init__(self, total: int = 1 << 30) -> None:
        self.total = total
        self.calls: list[tuple[str, int | None]] = []  # with the GPU that was current
        self.launched: list[str] = []
        self.waiting: list[int] = []  # streams of others that wait for one of ours
        self.fails: dict[str, CUresult] = {}  # calls that fail
        self._local = threading.local()
        self._owner: dict[Any, int] = {}  # of handles, and of memory
        self._memory: dict[int, Any] = {}
        self._held = [0, 0]
        self._reserved = [0, 0]  # what the pool of a GPU has of the driver
        self._names: dict[int, str] = {}  # of functions
        self._graphs: dict[int, list[str]] = {}  # the kernels of graphs
        self._captured: list[str] | None = None
        self._recorded = 0.0
        self._times: dict[Any, float] = {}  # of events
        # Handles are higher than any size or flag that is passed beside them.
        self._numbers = itertools.count(1 << 62)

    def cuuint64_t(self, value: int) -> int:
        return value

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        answer = object.__getattribute__(self, f"_{name}")

        def call(*args: Any) -> tuple[Any, ...]:
            gpu = getattr(self._local, "gpu", None)
            self.calls.append((name, gpu))
            if name in self.fails:
                return (self.fails[name],)
            for x in args:
                x = x.value if isinstance(x, ctypes.c_void_p) else x
                if type(x) is int and self._owner.get(x, gpu) != gpu:
                    return (CUresult.CUDA_ERROR_INVALID_CONTEXT,)
            result = answer(*args)
            if isinstance(result, CUresult):
                return (result,)
            return (CUresult.CUDA_SUCCESS, *(() if result is None else result))

        return call

    def _handle(self, kind: str) -> tuple[int]:
        handle = next(self._numbers)  # a number, as memory has, but a small one
        self._owner[handle] = self._local.gpu
        return (handle,)

    # --- devices and contexts -------------------------------------------------------------

    def _cuInit(self, flags):
        return None

    def _cuDeviceGetCount(self):
        return (2,)

    def _cuDeviceGet(self, index):
        return (index,)

    def _cuDevicePrimaryCtxRetain(self, device):
        return ((device,),)  # a context is a tuple, and no handle

    def _cuCtxSetCurrent(self, context):
        (self._local.gpu,) = context

    def _cuDeviceGetAttribute(self, which, device):
        return (MINOR[device] if which.endswith("MINOR") else 8,)

    def _cuDeviceGetName(self, size, device):
        return (f"recorded GPU {device}".encode().ljust(size, b"\0"),)

    def _cuGetErrorString(self, status):
        return (status.name.encode(),)

    def _cuMemGetInfo(self):
        return self.total - self._reserved[self._local.gpu], self.total

    # --- memory ---------------------------------------------------------------------------

    def _take(self, size: int) -> int:
        held = ctypes.create_string_buffer(size + 512)
        pointer = -(-ctypes.addressof(held) // 512) * 512
        self._memory[pointer] = held
        return pointer

    def _cuMemPoolCreate(self, properties):
        assert properties.location.id == self._local.gpu
        return self._handle("pool")

    def _cuMemPoolSetAttribute(self, pool, which, value):
        return None

    def _cuMemPoolGetAttribute(self, pool, which):
        return (self._reserved[self._local.gpu],)

    def _cuMemPoolTrimTo(self, pool, size):
        self._reserved[self._local.gpu] = max(self._held[self._local.gpu], size)

    def _cuMemAllocFromPoolAsync(self, size, pool, stream):
        gpu = self._local.gpu
        if self._held[gpu] + size > self.total:
            # The driver reserves what it finds before it gives up, and keeps that.
            self._reserved[gpu] = self.total
            return CUresult.CUDA_ERROR_OUT_OF_MEMORY
        pointer = self._take(size)
        self._held[gpu] += size
        self._reserved[gpu] = max(self._reserved[gpu], self._held[gpu])
        self._owner[pointer] = gpu
        self._memory[pointer].taken = size
        return (pointer,)

    def _cuMemFreeAsync(self, pointer, stream):
        self._held[self._local.gpu] -= self._memory.pop(pointer).taken
        del self._owner[pointer]

    def _cuMemHostAlloc(self, size, flags):
        return (self._take(size),)

    def _copy(self, target, source, size, stream):
        target, source, size = (getattr(x, "value", x) for x in (target, source, size))
        ctypes.memmove(target, source, size)

    _cuMemcpyHtoDAsync = _cuMemcpyDtoHAsync = _cuMemcpyDtoDAsync = _copy

    def _cuMemsetD8Async(self, pointer, value, size, stream):
        ctypes.memset(pointer, value, size)

    # --- streams, events, kernels ---------------------------------------------------------

    def _cuStreamCreate(self, flags):
        return self._handle("stream")

    def _cuStreamSynchronize(self, stream):
        return None

    def _cuEventCreate(self, flags):
        return self._handle("event")

    def _cuEventRecord(self, event, stream):
        self._recorded += 1.5  # milliseconds, for whatever came before
        self._times[event] = self._recorded

    def _cuEventSynchronize(self, event):
        return None

    def _cuEventDestroy(self, event):
        return None

    def _cuStreamWaitEvent(self, stream, event, flags):
        self.waiting.append(stream)

    def _cuEventQuery(self, event):
        return None

    def _cuEventElapsedTime(self, start, end):
        return (self._times[end] - self._times[start],)

    def _cuModuleLoadData(self, code):
        return self._handle("module")

    def _cuModuleGetFunction(self, module, name):
        (handle,) = self._handle("function")
        self._names[handle] = name.decode()
        return (handle,)

    def _cuLaunchKernel(self, function, *rest):
        launched = self.launched if self._captured is None else self._captured
        launched.append(self._names[function.value])

    # --- graphs ---------------------------------------------------------------------------

    def _cuStreamBeginCapture(self, stream, mode):
        self._captured = []

    def _cuStreamEndCapture(self, stream):
        (handle,) = self._handle("graph")
        self._graphs[handle], self._captured = self._captured, None
        return (handle,)

    def _cuGraphCreate(self, flags):
        (handle,) = self._handle("graph")
        self._graphs[handle] = []
        return (handle,)

    def _cuGraphGetNodes(self, graph, most):
        return self._graphs[graph], len(self._graphs[graph])

    def _cuGraphNodeGetType(self, node):
        return ("CU_GRAPH_NODE_TYPE_KERNEL",)

    def _cuGraphKernelNodeGetParams(self, node):
        return (node,)

    def _cuGraphAddKernelNode(self, graph, needs, count, parameters):
        assert len(needs) == count
        self._graphs[graph].append(parameters)
        return (parameters,)

    def _cuGraphKernelNodeCopyAttributes(self, node, source):
        assert node == source

    def _cuGraphInstantiate(self, graph, flags):
        (handle,) = self._handle("executable")
        self._graphs[handle] = self._graphs[graph]
        return (handle,)

    def _cuGraphDestroy(self, graph):
        del self._graphs[graph]

    def _cuGraphExecDestroy(self, graph):
        del self._graphs[graph]

    def _cuGraphLaunch(self, graph, stream):
        self.launched += self._graphs[graph.value]
