"""The CUDA device over a driver that notes its calls: what can be held without a GPU."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import inspect
import multiprocessing
import re
import sys
import threading
import types
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.helpers.recording_driver import CUresult, RecordingDriver
from tests.helpers.walled import opened

import contraflow as cf
from contraflow import devices, thresholds
from contraflow.devices.cuda import compiler, memory
from contraflow.devices.cuda import driver as driver_module
from contraflow.devices.cuda.device import CudaDevice
from contraflow.devices.cuda.driver import Driver
from contraflow.devices.cuda.runs import CALLS
from contraflow.errors import DeviceError
from contraflow.render.clike import cuda

pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings is not installed")


@contextlib.contextmanager
def recorded(index: int = 0, total: int = 1 << 30) -> Iterator[tuple[CudaDevice, RecordingDriver]]:
    """A GPU of the recording driver, as the device "recorded"."""
    library = RecordingDriver(total)
    device = CudaDevice(Driver(index, library))
    device.name = "recorded"
    with opened(lambda: device, "recorded"):
        yield device, library


def a_step(place: str) -> None:
    """Transfers, eager ops, gradients and a compiled step."""
    x = cf.tensor(np.arange(6, dtype=np.float32).reshape(2, 3), device=place)
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    w = cf.ones(3, 4, device=place, requires_grad=True)
    (x @ w).tanh().sum().backward()
    x[cf.tensor([0, 1], device=place)].sum().item()
    optimizer = cf.optim.AdamW([w])

    @cf.compile
    def step(x):
        optimizer.zero_grad()
        loss = (x @ w).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(4):
        step(x)


@pytest.mark.parametrize("index", [0, 1])
def test_the_index_reaches_every_call(index):
    with recorded(index) as (device, library):
        a_step("recorded")
        other = threading.Thread(target=lambda: cf.ones(3, device="recorded").tolist())
        other.start()
        other.join()
        device.synchronize()
    first = next(i for i, (name, _) in enumerate(library.calls) if name == "cuCtxSetCurrent")
    assert {gpu for _, gpu in library.calls[first + 1 :] if _ != "cuCtxSetCurrent"} == {index}
    names = {name for name, _ in library.calls}
    assert {"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuLaunchKernel", "cuStreamCreate"} <= names
    assert len(library.launched) > 10


def test_the_recording_driver_refuses_what_belongs_to_another_gpu():
    library = RecordingDriver()
    zero, one = (Driver(i, library) for i in (0, 1))
    stream = one("cuStreamCreate", 1)
    one("cuStreamSynchronize", stream)
    with pytest.raises(DeviceError, match=r"cuda:0: cuStreamSynchronize failed: .*CONTEXT.*201"):
        zero("cuStreamSynchronize", stream)


def test_names_of_several(monkeypatch):
    library = RecordingDriver()
    monkeypatch.setitem(
        devices._openers, "cuda", lambda index=0: CudaDevice(Driver(index, library))
    )
    try:
        x = cf.zeros(2, device="cuda:1")
        assert str(x.device) == "cuda:1"
        assert str(cf.zeros(2, device="cuda:0").device) == "cuda"
        assert str((x + 1).device) == "cuda:1"
        with pytest.raises(RuntimeError, match="cuda:1"):
            x + cf.zeros(2, device="cuda")
    finally:
        for name in ("cuda", "cuda:1"):
            devices._loaded.pop(name, None)
            devices.other_devices.pop(name, None)


# --- memory --------------------------------------------------------------------------------------


def test_small_memory_is_used_again_without_the_driver():
    with recorded() as (device, library):
        x = device.allocate((100,), cf.float32)
        pointer, before = x.pointer, len(library.calls)
        assert pointer % memory.GRAIN == 0
        del x
        assert device.allocate((99,), cf.float32).pointer == pointer
        assert len(library.calls) == before


def test_the_peak_of_memory_is_noted():
    with recorded() as (device, _):
        start = device.memory.allocated
        x = device.allocate((1 << 20,), cf.float32)
        assert device.memory.allocated == start + (4 << 20)
        del x
        device.allocate((1,), cf.float32)
        assert device.memory.peak >= start + (4 << 20)
        assert device.memory.allocated == start + memory.GRAIN


def test_memory_that_is_kept_is_given_back_before_there_is_too_little():
    with recorded(total=64 << 20) as (device, _):
        kept = [device.allocate((1 << 18,), cf.float32) for _ in range(30)]
        del kept
        gc.collect()
        whole = device.allocate((10 << 20,), cf.float32)
        assert whole.nbytes == 40 << 20


def test_too_little_memory():
    with recorded(total=64 << 20) as (device, _):
        held = device.allocate((8 << 20,), cf.float32)
        with pytest.raises(
            cf.OutOfMemoryError,
            match=r"cuda:0: out of memory: 40.00 MiB were asked for. Tensors hold 32.00 MiB \(the "
            r"largest: 32.00 MiB.*holds 32.00 MiB, and 32.00 MiB of 64.00 MiB are free.",
        ):
            device.allocate((10 << 20,), cf.float32)
        assert held.pointer
        assert device.memory.reserved() < 33 << 20  # other processes find the rest free


def test_uploads_of_any_size():
    with recorded() as (device, _):
        for size in (0, 1, 1000, (memory.Transfers.PARTS + 1) * memory.Transfers.PART // 8 + 3):
            array = np.random.default_rng(0).standard_normal(size)
            np.testing.assert_array_equal(device.download(device.upload(array)), array)


# --- cf.cuda -------------------------------------------------------------------------------------


@pytest.fixture
def two_gpus(monkeypatch):
    """`cf.cuda` over the recording driver."""
    library = RecordingDriver()
    opener = lambda index=0: CudaDevice(Driver(index, library))  # noqa: E731
    monkeypatch.setitem(devices._openers, "cuda", opener)
    monkeypatch.setattr(driver_module, "bindings", lambda: library)
    yield library
    for name in ("cuda", "cuda:1"):
        devices._loaded.pop(name, None)
        devices.other_devices.pop(name, None)


def test_properties_and_memory(two_gpus):
    assert cf.cuda.is_available()
    assert cf.cuda.device_count() == 2
    assert cf.cuda.get_device_name(1) == "recorded GPU 1"
    assert cf.cuda.get_device_capability("cuda:1") == (8, 9)
    assert cf.cuda.get_device_properties().total_memory == 1 << 30
    before = cf.cuda.memory_allocated()
    x = cf.tensor(np.zeros(1 << 19), device="cuda")
    assert cf.cuda.memory_allocated() == before + (4 << 20)
    del x
    assert cf.cuda.memory_allocated() == before
    assert cf.cuda.max_memory_allocated() >= before + (4 << 20)
    cf.cuda.reset_peak_memory_stats()
    assert cf.cuda.max_memory_allocated() == before
    assert "tensors and programs" in cf.cuda.memory_summary()
    cf.cuda.empty_cache()
    assert ("cuMemPoolTrimTo", 0) in two_gpus.calls
    with pytest.raises(ValueError, match="synchronize: 'cpu' is not a CUDA device"):
        cf.cuda.synchronize("cpu")


def test_events(two_gpus):
    start, end = cf.cuda.Event(enable_timing=True), cf.cuda.Event(enable_timing=True)
    with pytest.raises(ValueError, match="elapsed_time: record both events first"):
        start.elapsed_time(end)
    start.record()
    end.record()
    assert end.query()
    assert start.elapsed_time(end) == 1.5
    with pytest.raises(ValueError, match="elapsed_time: make both events with enable_timing=True"):
        start.elapsed_time(cf.cuda.Event())
    del start, end
    cf.cuda.Event()
    assert ("cuEventDestroy", 0) in two_gpus.calls


def test_without_a_gpu_there_is_none(monkeypatch):
    monkeypatch.setattr(driver_module, "bindings", lambda: driver_that_answers(100))
    assert not cf.cuda.is_available()
    assert cf.cuda.device_count() == 0


# --- failures ------------------------------------------------------------------------------------


def fail(device: CudaDevice, kind: int, mark: int, index: int) -> None:
    """What a kernel writes that finds an index out of range."""
    seen = ctypes.c_int64.from_address(device.outcomes.words(kind) + 16).value
    (ctypes.c_int64 * 2).from_address(seen)[:] = [mark, index]
    (ctypes.c_int64 * 2).from_address(device.outcomes.words(kind))[:] = [mark, index]
    ctypes.c_int64.from_address(device.outcomes.words(kind) + 24).value = kind


def test_a_failure_is_told_once_with_op_and_line():
    with recorded() as (device, _):
        x = cf.ones(4, 3, device="recorded")
        found = x[cf.tensor([0, 7], device="recorded")]
        (run,) = device.outcomes.pending._runs
        fail(device, 0, (run.number << 32) + 1, 7)
        with pytest.raises(IndexError, match=r"getitem: index 7 .* at test_cuda_driver.py:\d+"):
            cf.ones(3, device="recorded")
        assert found.tolist() == [[0.0] * 3] * 2
        device.synchronize()


def test_calls_behind_one_that_failed_are_taken_back():
    with recorded() as (device, _):
        table = cf.nn.Embedding(5, 4).to("recorded")
        optimizer = cf.optim.Adam(table.parameters())

        @cf.compile
        def step(tokens):
            optimizer.zero_grad()
            loss = table(tokens).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        tokens = cf.tensor([0, 1], device="recorded")
        for _ in range(thresholds.cuda_graph_runs):  # recording one waits for the calls before it
            step(tokens)
        device.synchronize()
        cell = optimizer.state[table.weight]["step"]
        assert cell.value == thresholds.cuda_graph_runs
        for _ in range(3):
            step(tokens)
        assert cell.value == thresholds.cuda_graph_runs + 3
        runs = device.outcomes.pending._runs
        assert [run.late.undo is not None for run in runs] == [True] * 3
        fail(device, CALLS, (runs[1].number << 32) + 1, 9)
        with pytest.raises(IndexError, match=r"index 9 is out of range for size 5"):
            device.synchronize()
        assert cell.value == thresholds.cuda_graph_runs + 1
        assert ctypes.c_int64.from_address(device.outcomes.words(CALLS) + 24).value == 0


def test_runs_that_wait_are_bounded():
    with recorded() as (device, library):
        x = cf.ones(4, 3, device="recorded")
        at = cf.tensor([0], device="recorded")
        for _ in range(5 * thresholds.cuda_waiting_runs):
            x[at]
        assert len(device.outcomes.pending._runs) <= thresholds.cuda_waiting_runs
        assert ("cuEventSynchronize", 0) in library.calls


def test_errors_of_the_driver_name_the_call():
    with recorded() as (device, library):
        library.fails["cuLaunchKernel"] = CUresult.CUDA_ERROR_LAUNCH_FAILED
        with pytest.raises(
            DeviceError, match=r"cuda:0: \w+ failed: CUDA_ERROR_LAUNCH_FAILED \(719\)"
        ):
            cf.ones(3, device="recorded")
        library.fails.clear()
        assert device.upload(np.ones(3)).nbytes == 24


def line_of(function: Any) -> int:
    """The number of the last line of a function."""
    lines, first = inspect.getsourcelines(function)
    return first + len(lines) - 1


def test_a_kernel_that_the_driver_rejects_names_op_and_line():
    def rejected() -> None:
        x = cf.tensor([1.0, 2.0, 3.0], device="recorded")
        cf.atan2(x, x)

    with recorded() as (_, library):
        library.fails["cuModuleLoadData"] = CUresult.CUDA_ERROR_INVALID_VALUE
        with pytest.raises(DeviceError) as caught:
            rejected()
    text = str(caught.value)
    assert re.match(r"atan2: .*cuda:0: cuModuleLoadData failed: CUDA_ERROR_INVALID_VALUE", text)
    assert text.endswith(f"at test_cuda_driver.py:{line_of(rejected)}.")


def test_a_kernel_that_nvrtc_rejects_names_op_and_line(monkeypatch):
    monkeypatch.setattr(cuda, "render", lambda kernel, variant: "this is not CUDA")
    monkeypatch.setattr(compiler.cache, "read", lambda kind, name: None)

    def rejected() -> None:
        cf.tensor([1.0, 2.0, 3.0], device="recorded").cosh()

    with recorded(), pytest.raises(DeviceError) as caught:
        rejected()
    text = str(caught.value)
    assert text.startswith("cosh: NVRTC rejects ")
    assert text.endswith(f"at test_cuda_driver.py:{line_of(rejected)}.")


def test_a_lost_gpu_says_so_and_the_cpu_goes_on():
    with recorded() as (_, library):
        x = cf.tensor([1.0, 2.0], device="recorded")
        x * 3.0
        here = cf.tensor([1.0, 2.0])

        def lost() -> None:
            x * 3.0

        library.fails["cuLaunchKernel"] = CUresult.CUDA_ERROR_LAUNCH_FAILED
        with pytest.raises(DeviceError) as caught:
            lost()
        text = str(caught.value)
        assert text.startswith("mul: cuda:0: ")
        assert "the GPU is lost to this process" in text
        assert text.endswith(f"at test_cuda_driver.py:{line_of(lost)}.")
        assert (here * 2.0).tolist() == [2.0, 4.0]


def in_child(device: CudaDevice, queue: multiprocessing.Queue) -> None:
    try:
        device.allocate((1 << 20,), cf.float32)
    except DeviceError as error:
        queue.put(str(error))


@pytest.mark.skipif(sys.platform == "win32", reason="processes are not forked on Windows")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_is_told_to_spawn():
    with recorded() as (device, _):
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=in_child, args=(device, queue))
        child.start()
        assert "multiprocessing.get_context('spawn')" in queue.get(timeout=60)
        child.join()


def driver_that_answers(status: int) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        cuInit=lambda flags: (status,),
        cuGetErrorString=lambda status: (0, b"an error"),
        CUresult=int,
    )


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (100, "the driver finds no NVIDIA GPU"),
        (803, "the NVIDIA driver is too old; 580 or newer is needed"),
        (999, "cuInit failed: an error"),
    ],
)
def test_machines_without_a_gpu(status, text, monkeypatch):
    monkeypatch.setattr(driver_module, "bindings", lambda: driver_that_answers(status))
    with pytest.raises(DeviceError, match=text):
        driver_module.count_devices()


def test_a_package_that_is_missing_is_named_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    with pytest.raises(
        DeviceError,
        match=r"zeros: device 'cuda' is not available: .*pip install 'contraflow\[cuda\]'$",
    ):
        cf.zeros(3, device="cuda")


def test_dlpack_shares_the_memory_of_a_gpu():
    with recorded(1) as (device, library):
        x = cf.tensor([[1.0, 2.0], [3.0, 4.0]], device="recorded")
        assert x.__dlpack_device__() == (2, 1)
        y = cf.from_dlpack(x.T)
        assert y.storage.data.pointer == x.storage.data.pointer
        assert library.waiting == [device.exchange.stream]
        x.__dlpack__()
        x.__dlpack__(stream=-1)
        assert library.waiting[1:] == [1]
        with pytest.raises(ValueError, match=r"dlpack: stream is 0. It is the address of a CUDA"):
            x.__dlpack__(stream=0)


def test_memory_of_another_library_is_kept_until_kernels_have_run():
    class Owner:
        pass

    with recorded() as (device, library):
        owner = Owner()
        kept = weakref.ref(owner)
        buffer = device.exchange.adopt(1 << 40, 3, cf.float32, owner)
        assert device.address(buffer) == 1 << 40
        del owner, buffer
        gc.collect()
        assert kept() is not None
        library.calls.clear()
        device.allocate((1,), cf.float32)
        assert kept() is None
        assert "cuStreamSynchronize" in [name for name, _ in library.calls]
