"""Which cores the workers of the CPU's thread pool run on."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from tests.helpers.plans import LARGE, array, chain

from contraflow import config
from contraflow.devices.cpu import jit, program
from contraflow.devices.cpu.pool import pool
from contraflow.devices.cpu.pool_code import has_futex, together_text

CORE = 3 * 64 + 8  # in the pool's block, the core of the last caller

pytestmark = pytest.mark.skipif(
    not has_futex(), reason="only on Linux do workers leave a core by themselves"
)


def current_core() -> int:
    return int(ctypes.CDLL(None).sched_getcpu())


def moves(try_once: Callable[[int], int]) -> int:
    """How many of 20 tries ended on another core than they began on."""
    found = 0
    cores = os.sched_getaffinity(0)
    try:
        for _ in range(20):
            core = current_core()
            os.sched_setaffinity(0, {core})
            os.sched_setaffinity(0, cores)
            found += try_once(core) != core
    finally:
        os.sched_setaffinity(0, cores)
    return found


@pytest.fixture
def leave_caller() -> Callable[[int], None]:
    """Leaves the core of a caller, as a worker does that wakes up."""
    address = jit.function("leave_caller", together_text())
    block = ctypes.create_string_buffer(1024)

    def leave(core: int) -> None:
        ctypes.c_int32.from_address(ctypes.addressof(block) + CORE).value = core
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(ctypes.addressof(block))

    return leave


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core only")
def test_a_worker_leaves_the_core_of_the_caller(leave_caller):
    cores = os.sched_getaffinity(0)

    def leave(core: int) -> int:
        leave_caller(core)
        assert os.sched_getaffinity(0) == cores  # all are its own again
        return current_core()

    assert moves(leave) >= 15  # a busy system may move it back at any time


def test_a_worker_stays_where_the_caller_is_not(leave_caller):
    cores = os.sched_getaffinity(0)
    leave_caller(-1)
    leave_caller(max(cores) + 1)
    assert os.sched_getaffinity(0) == cores


def test_a_worker_that_has_one_core_only_stays(leave_caller):
    cores, core = os.sched_getaffinity(0), current_core()
    os.sched_setaffinity(0, {core})
    try:
        leave_caller(core)
        assert os.sched_getaffinity(0) == {core}
    finally:
        os.sched_setaffinity(0, cores)


@pytest.mark.parametrize("alone", [False, True], ids=["all cores", "one core"])
def test_jobs_leave_the_cores_of_workers_as_they_are(alone, monkeypatch):
    cores = os.sched_getaffinity(0)
    given = {current_core()} if alone else cores
    monkeypatch.setattr(config, "num_threads", 2)
    os.sched_setaffinity(0, given)
    try:
        pool.stop()
        loaded = program.load(chain(LARGE))
        x, out = array(LARGE), np.zeros(LARGE, np.float32)
        for _ in range(20):
            loaded.replay([x, out], [])
            threading.Event().wait(0.003)  # workers go to sleep
        assert np.array_equal(out, x[::-1] * 2 + 1)
        worker = next(t for t in threading.enumerate() if t.name == "contraflow-1")
        # No job waits for a worker that wakes up late, and one that leaves the caller's core has
        # fewer for a moment: a worker has them all again soon, or never.
        end = time.monotonic() + 10
        while (kept := os.sched_getaffinity(worker.native_id or 0)) != given:
            assert time.monotonic() < end, f"the worker has {kept}, not {given}"
    finally:
        os.sched_setaffinity(0, cores)
        pool.stop()
