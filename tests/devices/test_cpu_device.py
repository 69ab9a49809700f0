"""The cpu device: programs, threads, scratch memory, errors, and the cache of machine code."""

from __future__ import annotations

import ast
import ctypes
import os
import stat
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from tests.helpers.native import bits

import contraflow as cf
from contraflow import config, devices, thresholds
from contraflow.compiler.kernel import (
    STRIDED,
    Contraction,
    KernelCall,
    KernelFold,
    Loops,
    Operand,
    Store,
)
from contraflow.compiler.plan import SCALARS, Binding, HostStep, KernelStep, Plan, Slot
from contraflow.devices.cpu import cache, jit, program
from contraflow.devices.cpu.pool import has_futex, pool, together_text
from contraflow.dtypes import DType, float32, int64
from contraflow.expressions import expression as s
from contraflow.render.llvm.kernels import GENERATOR, entry_name, render, text_identity

LARGE = 100_003  # beyond what runs on one thread


@pytest.fixture
def threads(monkeypatch):
    def use(n: int) -> None:
        monkeypatch.setattr(config, "num_threads", n)

    return use


@pytest.fixture(params=["futex", "condition"])
def sleeping(request, monkeypatch):
    """Workers that sleep in one of the two ways; before and after, the system's own."""
    if request.param == "futex" and not has_futex():
        pytest.skip("this system has no futex that we know")
    pool.stop()
    monkeypatch.setattr("contraflow.devices.cpu.pool.has_futex", lambda: request.param == "futex")
    yield request.param
    pool.stop()


def load(k: int, dtype: DType = float32) -> s.Expr:
    return s.leaf("load", dtype, k)


def map_kernel(body, inputs: int = 1) -> Loops:
    value = body(*(load(k) for k in range(inputs)))
    operands = (*(Operand(float32, "in", (1,)),) * inputs, Operand(float32, "out", (1,)))
    return Loops(1, 0, 0, operands, (), (Store(inputs, value, False),))


def map_step(body, n: int, *slots: int) -> KernelStep:
    kernel = map_kernel(body, len(slots) - 1)
    return KernelStep(KernelCall(kernel, (n,), ((1,),) * len(slots)), tuple(map(Binding, slots)))


def array(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


def chain(n: int) -> Plan:
    """out = (reversed copy of 2x) + 1 through two temporaries: data crosses threads."""
    reverse = Loops(
        1, 0, 0, (Operand(float32, "in", (STRIDED,)), Operand(float32, "out", (1,))), (),
        (Store(1, load(0), False),),
    )  # fmt: skip
    slots = [
        Slot("input", float32, n), Slot("temp", float32, n, 0),
        Slot("temp", float32, n, 4 * n + 64), Slot("output", float32, n),
    ]  # fmt: skip
    steps: list[KernelStep | HostStep] = [
        map_step(lambda x: x * 2.0, n, 0, 1),
        KernelStep(KernelCall(reverse, (n,), ((-1,), (1,))), (Binding(1, n - 1), Binding(2))),
        map_step(lambda x: x + 1.0, n, 2, 3),
    ]
    return Plan(slots, steps, 8 * n + 64, [])


def test_device_is_found_and_states_its_limits():
    device = devices.lookup("cpu")
    assert device.name == "cpu"
    assert device.limits.bindings > 100
    assert device.limits.alignment % jit.vector_bytes() == 0


@pytest.mark.parametrize("n", [1, 100, LARGE])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_program_with_temporaries(n, count, threads):
    threads(count)
    loaded = program.load(chain(n))
    for seed in range(20):
        x, out = array(n, seed), np.zeros(n, np.float32)
        loaded.replay([x, out], [])
        np.testing.assert_array_equal(out, x[::-1] * 2 + 1)


def test_buffers_may_be_addresses():
    x, out = array(10), np.zeros(10, np.float32)
    loaded = program.load(chain(10))
    loaded.replay([x.ctypes.data, out.ctypes.data], [])
    np.testing.assert_array_equal(out, x[::-1] * 2 + 1)
    other = np.zeros(10, np.float32)
    loaded.replay([x, other], [])
    np.testing.assert_array_equal(out, other)


def test_a_new_array_in_the_place_of_an_old_one_is_noticed():
    loaded = program.load(chain(4))
    for seed in range(50):
        out = np.zeros(4, np.float32)
        loaded.replay([array(4, seed), out], [])
        np.testing.assert_array_equal(out, array(4, seed)[::-1] * 2 + 1)


def training_plan() -> tuple[Plan, list[np.ndarray]]:
    """A layer's matmul, bias and relu, a row softmax and a column sum: every kind of kernel."""
    m, n, k = 96, 160, 200
    x = load(0)
    left, right = s.leaf("left", float32, 0), s.leaf("right", float32, 0)
    zero, low = s.const(0, float32), s.const(-np.inf, float32)
    largest = KernelFold((x,), (s.maximum(left, right),), (low,))
    e = s.exp(x - s.leaf("reduced", float32, (0, 0)))
    summed = KernelFold((e,), (left + right,), (zero,))
    rows = (Operand(float32, "in", (STRIDED, 1)), Operand(float32, "out", (STRIDED, 1)))
    softmax = Loops(
        1, 1, 1, rows, (largest, summed),
        (Store(1, e / s.leaf("reduced", float32, (1, 0)), True),),
    )  # fmt: skip
    relu = Loops(
        2, 0, 1, (rows[0], Operand(float32, "in", (0, 1)), rows[1]), (),
        (Store(2, s.maximum(load(0) + load(1), 0.0), False),),
    )  # fmt: skip
    column = Loops(
        1, 1, 0, (Operand(float32, "in", (1, STRIDED)), Operand(float32, "out", (1, 0))),
        (KernelFold((x,), (left + right,), (zero,)),),
        (Store(1, s.leaf("reduced", float32, (0, 0)), False),),
    )  # fmt: skip
    sizes = (m * k, k * n, n, m * n, m * n, m * n, n)
    kinds = ("input", "input", "input", "temp", "temp", "output", "output")
    offsets = (0, 0, 0, 0, 4 * m * n, 0, 0)
    slots = [Slot(kind, float32, size, at) for kind, size, at in zip(kinds, sizes, offsets)]
    strides = ((0, 0, k, 1), (0, 0, n, 1), (0, 0, n, 1))
    product = KernelCall(Contraction(float32, float32), (1, 1, m, n, k), strides)
    steps: list[KernelStep | HostStep] = [
        KernelStep(product, (Binding(0), Binding(1), Binding(3))),
        KernelStep(
            KernelCall(relu, (m, n), ((n, 1), (0, 1), (n, 1))), (Binding(3), Binding(2), Binding(4))
        ),
        KernelStep(KernelCall(softmax, (m, n), ((n, 1), (n, 1))), (Binding(4), Binding(5))),
        KernelStep(KernelCall(column, (n, m), ((1, n), (1, 0))), (Binding(5), Binding(6))),
    ]
    inputs = [array(size, i) for i, size in enumerate(sizes[:3])]
    return Plan(slots, steps, 8 * m * n, []), inputs


def test_bits_do_not_depend_on_the_number_of_threads(threads, sleeping):
    plan, (x, w, b) = training_plan()
    loaded = program.load(plan)
    results = []
    for count in (1, 2, 3, 5, 2):
        threads(count)
        for _ in range(10):
            out, sums = np.zeros((96, 160), np.float32), np.zeros(160, np.float32)
            loaded.replay([x, w, b, out, sums], [])
            results.append((out, sums))
    hidden = np.maximum(x.reshape(96, 200) @ w.reshape(200, 160) + b, 0)
    e = np.exp(hidden - hidden.max(1, keepdims=True))
    expected = e / e.sum(1, keepdims=True)
    np.testing.assert_allclose(results[0][0], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(results[0][1], expected.sum(0), rtol=1e-4)
    for out, sums in results[1:]:
        np.testing.assert_array_equal(bits(out), bits(results[0][0]))
        np.testing.assert_array_equal(bits(sums), bits(results[0][1]))


def test_without_workers_one_thread_runs_all_shares(threads, monkeypatch):
    monkeypatch.setattr("contraflow.devices.cpu.pool.has_workers", lambda: False)
    threads(3)
    x, out = array(LARGE), np.zeros(LARGE, np.float32)
    program.load(chain(LARGE)).replay([x, out], [])
    np.testing.assert_array_equal(out, x[::-1] * 2 + 1)


def test_workers_start_when_needed_and_stop(threads, sleeping):
    before = threading.active_count()
    threads(3)
    loaded = program.load(chain(LARGE))
    x, out = array(LARGE), np.zeros(LARGE, np.float32)
    assert threading.active_count() == before
    loaded.replay([x, out], [])
    assert threading.active_count() == before + 2
    pool.stop()
    assert threading.active_count() == before
    out[:] = 0
    loaded.replay([x, out], [])
    np.testing.assert_array_equal(out, x[::-1] * 2 + 1)


def workers_asleep() -> int:
    return ctypes.c_int32.from_address(pool._block + 128).value


def test_workers_fall_asleep_and_are_woken(threads, sleeping):
    threads(3)
    loaded = program.load(chain(LARGE))
    x, out = array(LARGE), np.zeros(LARGE, np.float32)
    for _ in range(5):
        out[:] = 0
        loaded.replay([x, out], [])
        np.testing.assert_array_equal(out, x[::-1] * 2 + 1)
        deadline = time.monotonic() + 60
        while workers_asleep() < 2:
            assert time.monotonic() < deadline, "the workers still spin"
            time.sleep(0.001)
    mutex_and_condition = ctypes.string_at(pool._block + 384, 256)
    assert any(mutex_and_condition) == (sleeping == "condition")


def test_a_worker_does_not_sleep_through_a_call_just_made(sleeping):
    block = np.zeros(96, np.int64)
    at, text = block.ctypes.data, together_text()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(jit.function("prepare", text))(at)
    sleep = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)(jit.function("sleep", text))
    block[0] = 8
    worker = threading.Thread(target=sleep, args=(at, 7), daemon=True)
    worker.start()
    worker.join(timeout=60)
    assert not worker.is_alive()


@pytest.mark.parametrize("machine", ["x86_64", "amd64", "arm64", "riscv64"])
def test_the_workers_of_systems_without_futex_are_valid_code(machine, monkeypatch):
    monkeypatch.setattr("contraflow.devices.cpu.pool.has_futex", lambda: False)
    monkeypatch.setattr("platform.machine", lambda: machine)
    text = together_text()
    llvm.parse_assembly(text).verify()
    assert "pthread_cond_wait" in text
    assert "syscall" not in text


def test_small_programs_wake_no_worker(threads):
    pool.stop()
    threads(2)
    before = threading.active_count()
    program.load(chain(1000)).replay([array(1000), np.zeros(1000, np.float32)], [])
    assert threading.active_count() == before


def test_every_part_of_a_long_kernel_is_done_once(threads, sleeping):
    assert thresholds.cpu_long_loop <= LARGE
    slots = [Slot("output", float32, LARGE), Slot("output", float32, 1000)]
    loaded = program.load(
        Plan(
            slots,
            [
                map_step(lambda x: x + 1.0, LARGE, 0, 0),  # dealt out, nobody waits after it
                map_step(lambda x: x + 1.0, 1000, 1, 1),
                map_step(lambda x: x * 2.0, LARGE, 0, 0),
            ],
            0,
            [],
        )
    )
    x, y, expected = np.zeros(LARGE, np.float32), np.zeros(1000, np.float32), 0
    for count in (1, 2, 3, 7, 2):
        threads(count)
        x[:] = y[:] = expected = 0
        for i in range(20):
            loaded.replay([x, y], [])
            expected = 2 * (expected + 1)
            np.testing.assert_array_equal(x, np.float32(expected))
            np.testing.assert_array_equal(y, i + 1)


def test_a_wrong_index_in_any_part_is_found_and_the_next_call_runs(threads):
    table, places = cf.randn(50), cf.randint(0, 50, (2 * LARGE,))
    step = cf.compile(lambda at: table[at] * 2)
    for count in (1, 2, 3):
        threads(count)
        for wrong in (0, LARGE // 2, LARGE, 2 * LARGE - 1):
            bad = places.clone()
            bad[wrong] = 50
            with pytest.raises(IndexError, match="50"):
                step(bad)
            assert (step(places) == table[places] * 2).all()


def test_work_counts_points_and_multiply_adds():
    assert program.work(KernelCall(map_kernel(lambda x: x), (1000,), ((1,), (1,)))) == 1000
    contraction = KernelCall(Contraction(float32, float32), (2, 3, 4, 5, 6), ((0, 0, 0, 0),) * 3)
    assert program.work(contraction) == 2 * 3 * 4 * 5 * 6 // 8


def test_work_counts_what_is_done_at_each_point():
    size = ((1000,), ((1,), (1,)))
    work = [program.work(KernelCall(map_kernel(f), *size)) for f in (s.abs_, s.exp, s.erf)]
    assert work == sorted(set(work))
    assert work[0] == 1000
    # What is the same at all points of a row is not done at each.
    operands = (Operand(float32, "in", (0, 1)), Operand(float32, "in", (1, 0)))
    store = Store(2, load(0) * s.exp(load(1)), inner=True)
    row = Loops(1, 1, 1, (*operands, Operand(float32, "out", (1, 1))), (), (store,))
    assert program.work(KernelCall(row, (10, 100), ((0, 1), (1, 0), (100, 1)))) == 1000


def test_threads_that_meet_more_often_need_more_work():
    call = KernelCall(map_kernel(lambda x: x), (4 * thresholds.cpu_shared_work,), ((1,), (1,)))
    tiny = KernelCall(map_kernel(lambda x: x), (1,), ((1,), (1,)))
    assert not program._is_small([call])
    assert program._is_small([call, tiny, tiny])


def test_scalars_are_given_per_replay():
    operands = (
        Operand(float32, "in", (1,)), Operand(float32, "scalar"), Operand(int64, "scalar"),
        Operand(float32, "out", (1,)),
    )  # fmt: skip
    value = load(0) * load(1) + s.cast(load(2, int64), float32)
    kernel = Loops(1, 0, 0, operands, (), (Store(3, value, False),))
    call = KernelCall(kernel, (5,), ((1,), (), (), (1,)))
    bindings = (Binding(0), Binding(SCALARS, 1), Binding(SCALARS, 0), Binding(1))
    slots = [Slot("input", float32, 5), Slot("output", float32, 5)]
    loaded = program.load(Plan(slots, [KernelStep(call, bindings)], 0, [int64, float32]))
    x, out = array(5), np.zeros(5, np.float32)
    for offset, factor in ((3, 0.5), (-7, 2.0)):
        loaded.replay([x, out], [offset, factor])
        np.testing.assert_array_equal(out, x * np.float32(factor) + np.float32(offset))


# --- host steps --------------------------------------------------------------------------------


def host_plan(n: int, run) -> Plan:
    """y = 2x; z = run(y as [2, n / 2]); out = z + 1"""
    slots = [
        Slot("input", float32, n), Slot("temp", float32, n, 0),
        Slot("temp", float32, n, 4 * n), Slot("output", float32, n),
    ]  # fmt: skip
    shapes = {1: (2, n // 2), 2: (2, n // 2)}
    steps = [
        map_step(lambda x: x * 2.0, n, 0, 1),
        HostStep("reverse", run, (1,), (2,), shapes),
        map_step(lambda x: x + 1.0, n, 2, 3),
    ]
    return Plan(slots, steps, 8 * n, [])


@pytest.mark.parametrize("n", [10, 2 * LARGE])
def test_host_step_between_kernels(n, threads):
    threads(2)
    seen = []

    def reverse(y):
        seen.append((y.shape, y.flags.c_contiguous))
        return y[::-1]

    x, out = array(n), np.zeros(n, np.float32)
    program.load(host_plan(n, reverse)).replay([x, out], [])
    np.testing.assert_array_equal(out, np.roll(x, n // 2) * 2 + 1)
    assert seen == [((2, n // 2), True)]


def test_a_host_step_may_run_a_program():
    inner, result = program.load(chain(10)), np.zeros(10, np.float32)

    def nested(y):
        inner.replay([np.zeros(10, np.float32), result], [])
        return y

    x, out = array(10), np.zeros(10, np.float32)
    program.load(host_plan(10, nested)).replay([x, out], [])
    np.testing.assert_array_equal(out, x * 2 + 1)
    np.testing.assert_array_equal(result, np.ones(10))


def test_programs_within_programs_get_the_same_memory_again(monkeypatch):
    made, allocate = [], program._allocate
    monkeypatch.setattr(program, "_allocate", lambda size: made.append(size) or allocate(size))
    monkeypatch.setattr(program, "_scratch", program._Scratch())
    inner = program.load(chain(10))
    outer = program.load(host_plan(10, lambda y: inner.replay([y, np.zeros_like(y)], []) or y))
    for _ in range(3):
        outer.replay([array(10), np.zeros(10, np.float32)], [])
    assert len(made) == 2


def test_an_exception_in_a_host_step_leaves_the_device_usable():
    def fail(y):
        raise ZeroDivisionError

    x, out = array(10), np.zeros(10, np.float32)
    with pytest.raises(ZeroDivisionError):
        program.load(host_plan(10, fail)).replay([x, out], [])
    finished = []

    def elsewhere():
        program.load(chain(10)).replay([x, out], [])
        finished.append(True)

    other = threading.Thread(target=elsewhere)
    other.start()
    other.join(timeout=60)
    assert finished, "the lock was not given back"
    np.testing.assert_array_equal(out, x[::-1] * 2 + 1)


def test_programs_of_several_threads_do_not_mix(threads, sleeping):
    threads(2)
    loaded = {n: program.load(chain(n)) for n in (100, 5000, LARGE)}
    wrong = []

    def work(n: int, seed: int) -> None:
        for i in range(20):
            x, out = array(n, seed + i), np.zeros(n, np.float32)
            loaded[n].replay([x, out], [])
            if not np.array_equal(out, x[::-1] * 2 + 1):
                wrong.append(n)

    runs = [threading.Thread(target=work, args=(n, 7 * n)) for n in loaded for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join(timeout=120)
    assert not wrong
    assert not any(run.is_alive() for run in runs)


# --- errors ------------------------------------------------------------------------------------


def gather_plan(n: int, lines: tuple[int, ...]) -> Plan:
    at = s.checked(load(1, int64), load(3, int64))
    operands = (
        Operand(float32, "in", (0,)), Operand(int64, "in", (1,)), Operand(float32, "out", (1,)),
        Operand(int64, "scalar"),
    )  # fmt: skip
    value = s.leaf("load", float32, 0, at)
    kernel = Loops(1, 0, 0, operands, (), (Store(2, value, False),))
    call = KernelCall(kernel, (n,), ((0,), (1,), (1,), ()))
    bindings = (Binding(0), Binding(1), Binding(2), Binding(SCALARS, 0))
    slots = [Slot("input", float32, 30), Slot("input", int64, n), Slot("output", float32, n)]
    return Plan(slots, [KernelStep(call, bindings, line) for line in lines], 0, [int64])


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("n", [20, 2 * LARGE])
def test_an_index_out_of_range_is_an_error_with_its_tape_line(n, count, threads):
    threads(count)
    loaded = program.load(gather_plan(n, (11, 12)))
    table, index, out = array(30), np.arange(n) % 30, np.zeros(n, np.float32)
    loaded.replay([table, index, out], [30])
    np.testing.assert_array_equal(out, table[index])
    index[n - 3] = 31
    with pytest.raises(IndexError, match=r"^index 31 is out of range$") as caught:
        loaded.replay([table, index, out], [30])
    assert caught.value.line == 11
    index[n - 3] = 3
    loaded.replay([table, index, out], [30])
    np.testing.assert_array_equal(out, table[index])


# --- barriers ----------------------------------------------------------------------------------


def meets(*steps: tuple[tuple[int, ...], tuple[int, ...]]) -> list[bool]:
    """Barriers of steps given as (slots read, slots written); slots 0-2 are temps, 3-5 inputs."""
    temps = [Slot("temp", float32, 16, at) for at in (0, 64, 32)]  # slot 2 overlaps both others
    slots = temps + [Slot("input", float32, 16) for _ in range(3)]
    built = []
    for read, written in steps:
        modes = ["in"] * len(read) + ["out"] * len(written)
        operands = tuple(Operand(float32, mode, (1,)) for mode in modes)
        call = KernelCall(Loops(1, 0, 0, operands, (), ()), (16,), ((1,),) * len(modes))
        built.append(KernelStep(call, tuple(map(Binding, read + written))))
    return program.barriers(built, slots)


def test_barriers_stand_where_data_crosses():
    assert meets(((3,), (0,)), ((0,), (1,))) == [True, False]  # write, then read
    assert meets(((0,), (3,)), ((4,), (0,))) == [True, False]  # read, then write
    assert meets(((3,), (0,)), ((4,), (0,))) == [True, False]  # write, then write
    assert meets(((3,), (0,)), ((3,), (1,)), ((4,), (5,))) == [False, False, False]
    assert meets(((3,), (0,)), ((3,), (2,))) == [True, False]  # temporaries that share memory
    assert meets(((3,), (0,)), ((3,), (1,)), ((0, 1), (5,)), ((3,), (4,))) == [
        False, True, False, False,
    ]  # fmt: skip


# --- the cache ---------------------------------------------------------------------------------


def unique_kernel(number: float) -> tuple[str, str]:
    kernel = map_kernel(lambda x: x * number)
    return entry_name(kernel, vector_bytes=16), render(kernel, vector_bytes=16)


def test_object_code_is_kept_and_damage_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache_folder", tmp_path)
    name, text = unique_kernel(1234.5)
    compiled = []
    emit = jit._emit
    monkeypatch.setattr(jit, "_emit", lambda text, on: compiled.append(text) or emit(text, on))

    def forget_and_load() -> int:
        jit._addresses.clear()
        jit.function(name, text)
        return len(compiled)

    assert forget_and_load() == 1
    (entry,) = (tmp_path / "cpu").iterdir()
    assert stat.S_IMODE(entry.parent.stat().st_mode) == 0o700
    assert forget_and_load() == 1
    content = entry.read_bytes()
    for damaged in (content[:-1], content[:40] + b"x" + content[41:], b"", b"short"):
        entry.write_bytes(damaged)
        before = len(compiled)
        assert forget_and_load() == before + 1
        assert entry.read_bytes() == content
    assert [path.name for path in entry.parent.iterdir()] == [entry.name]


def test_threads_compile_what_one_does(tmp_path, monkeypatch):
    """Several kernels at once give the same object code, and an error reaches who asked."""
    monkeypatch.setattr(config, "cache_folder", tmp_path)
    kernels = [unique_kernel(41.5 + n) for n in range(6)]
    sources = [jit.FunctionSource(name, text, lambda text=text: text) for name, text in kernels]
    found = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(config, "num_threads", threads)
        found.append(jit._compiled([(s.name, s) for s in sources]))
    assert len(found[0]) == 6
    assert found[0] == found[1] == found[2]
    broken = [
        jit.FunctionSource(f"wrong{n}", f"wrong {n}", lambda: "this is no text") for n in range(4)
    ]
    with pytest.raises(RuntimeError, match="expected top-level entity"):
        jit.functions([*sources, *broken])


def test_no_text_is_written_for_machine_code_that_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache_folder", tmp_path)
    kernels = [map_kernel(lambda x, n=n: x * n) for n in (31.5, 32.5)]
    texts = []
    monkeypatch.setattr(program, "render", lambda k, **w: texts.append(k) or render(k, **w))

    def forget_and_compile() -> int:
        jit._addresses.clear()
        program._entries.clear()
        assert len(set(program._compile([*kernels, *kernels]))) == 2
        return len(texts)

    assert forget_and_compile() == 2
    assert forget_and_compile() == 2
    for entry in (tmp_path / "cpu").iterdir():
        entry.write_bytes(b"damaged")
    assert forget_and_compile() == 4


def test_a_text_s_identity_is_that_of_everything_that_decides_about_it():
    """Kernel, width, and the modules that write it: all that the renderer imports."""
    first, second = (map_kernel(lambda x, n=n: x * n) for n in (1.5, 2.5))
    identities = {text_identity(k, vector_bytes=w) for k in (first, second) for w in (16, 32)}
    assert len(identities) == 4
    assert text_identity(map_kernel(lambda x: x * 1.5), vector_bytes=16) in identities
    found, waiting = set(), ["render.llvm.kernels"]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += imported_from_the_package(module)
    assert found - {"errors", "printing", "threads"} == set(GENERATOR)


def imported_from_the_package(module: str) -> list[str]:
    """The modules of contraflow that a module names in its imports."""
    tree = ast.parse(Path(sys.modules[f"contraflow.{module}"].__file__).read_text())
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("contraflow"):
            parent = node.module.removeprefix("contraflow").removeprefix(".")
            inner = [f"{parent}.{alias.name}".lstrip(".") for alias in node.names]
            modules = [name for name in inner if f"contraflow.{name}" in sys.modules]
            names += modules or [parent]
    return names


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(config, "cache_folder", tmp_path / "file" / "below")
    assert jit.function(*unique_kernel(77.25))


def test_the_cache_is_bounded_and_keeps_what_was_used_last(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache_folder", tmp_path)
    monkeypatch.setattr(cache, "MOST_BYTES", 8 * 1032)
    for i in range(7):
        cache.write(f"{i}.o", bytes([i]) * 1000)
        os.utime(tmp_path / "cpu" / f"{i}.o", (i, i))
    assert cache.read("0.o") == bytes(1000)  # used just now
    for i in range(7, 20):
        cache.write(f"{i}.o", bytes(1000))
        entries = list((tmp_path / "cpu").iterdir())
        assert sum(entry.stat().st_size for entry in entries) <= cache.MOST_BYTES
        if i == 8:
            assert cache.read("0.o") is not None
            assert cache.read("1.o") is None
    assert cache.read("19.o") is not None


@pytest.mark.parametrize("place", ["cpu", "."])
def test_a_cache_that_others_can_write_to_is_refused(tmp_path, monkeypatch, place):
    monkeypatch.setattr(config, "cache_folder", tmp_path)
    cache.write("a.o", b"code")
    assert cache.read("a.o") == b"code"
    (tmp_path / place).chmod(0o777)
    with pytest.warns(RuntimeWarning, match=f"others can write to {tmp_path}/cpu, so no machine"):
        assert cache.read("a.o") is None
    cache.write("b.o", b"code")  # which has been said
    (tmp_path / place).chmod(0o700)
    assert cache.read("b.o") is None
    assert cache.read("a.o") == b"code"


def test_a_cache_in_a_sticky_folder_is_used(tmp_path, monkeypatch):
    tmp_path.chmod(0o1777)
    monkeypatch.setattr(config, "cache_folder", tmp_path)
    cache.write("a.o", b"code")
    assert cache.read("a.o") == b"code"


def test_a_cache_of_somebody_else_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache_folder", tmp_path)
    cache.write("a.o", b"code")
    monkeypatch.setattr(os, "getuid", lambda: (tmp_path / "cpu").stat().st_uid + 1)
    with pytest.warns(RuntimeWarning, match="others can write"):
        assert cache.read("a.o") is None


def test_a_kernel_is_compiled_once_however_many_threads_ask(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache_folder", tmp_path)
    name, text = unique_kernel(4321.5)
    compiled = []
    emit = jit._emit
    monkeypatch.setattr(jit, "_emit", lambda text, on: compiled.append(text) or emit(text, on))
    found: list[int] = []
    asking = [
        threading.Thread(target=lambda: found.append(jit.function(name, text))) for _ in range(8)
    ]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert len(compiled) == 1
    assert len(set(found)) == 1
    assert len(found) == 8


# --- processes ---------------------------------------------------------------------------------


def run_script(body: str, tmp_path, sleeping: str = "futex") -> subprocess.CompletedProcess[str]:
    """Run code that has this module's helpers in a process of its own."""
    root = str(Path(__file__).resolve().parents[2])
    head = f"import sys; sys.path.insert(0, {root!r})\nfrom {__name__} import *\n"
    if sleeping == "condition":
        head += "sys.modules['contraflow.devices.cpu.pool'].has_futex = lambda: False\n"
    environment = {**os.environ, "CONTRAFLOW_CACHE_DIR": str(tmp_path), "CONTRAFLOW_THREADS": "2"}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", head + textwrap.dedent(body)],
        capture_output=True, text=True, timeout=120, env=environment, check=False,
    )  # fmt: skip


def test_importing_starts_no_thread(tmp_path):
    done = run_script("devices.lookup('cpu'); print(threading.active_count())", tmp_path)
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_runs_programs(tmp_path, sleeping):
    done = run_script(
        """
        def run():
            x, out = array(LARGE), np.zeros(LARGE, np.float32)
            loaded.replay([x, out], [])
            assert np.array_equal(out, x[::-1] * 2 + 1)

        loaded = program.load(chain(LARGE))
        run()
        # Another thread is in the middle of replays, lock and workers in any state, at each fork.
        stop = threading.Event()
        busy = threading.Thread(target=lambda: [run() for _ in iter(stop.is_set, True)])
        busy.start()
        for _ in range(10):
            child = os.fork()
            if child == 0:
                run()
                run()
                os._exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
            run()
        stop.set()
        busy.join()
        print("done")
        """,
        tmp_path,
        sleeping,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_no_call_is_missed_by_workers_about_to_sleep(tmp_path, sleeping):
    done = run_script(
        """
        sys.modules['contraflow.devices.cpu.pool'].IDLE_SPIN = 2
        loaded = program.load(chain(LARGE))
        x, out = array(LARGE), np.zeros(LARGE, np.float32)
        for _ in range(3000):
            loaded.replay([x, out], [])
        assert np.array_equal(out, x[::-1] * 2 + 1)
        print("done")
        """,
        tmp_path,
        sleeping,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize("idle", [0.0, 0.1], ids=["spin", "sleep"])
def test_the_process_ends_cleanly_while_workers_spin_or_sleep(tmp_path, sleeping, idle):
    done = run_script(
        f"""
        loaded = program.load(chain(LARGE))
        x, out = array(LARGE), np.zeros(LARGE, np.float32)
        for _ in range(20):
            loaded.replay([x, out], [])
        time.sleep({idle})
        """,
        tmp_path,
        sleeping,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("op", ["floor_divide", "remainder", "fmod"])
@pytest.mark.parametrize("n", [1, 13, 100_000])
def test_integers_divided_by_zero_are_refused_as_in_eager_mode(op: str, n: int) -> None:
    a, b = cf.ones(n, dtype=cf.int64), cf.ones(n, dtype=cf.int64)
    state = cf.zeros(n, dtype=cf.int64)

    def step(a: Any, b: Any) -> Any:
        out = getattr(cf, op)(a, b)
        state.add_(out)
        return out

    compiled = cf.compile(step)
    expected = step(a, b).tolist()
    assert compiled(a, b).tolist() == expected
    b[n // 2] = 0
    before = state.tolist()
    with pytest.raises(ZeroDivisionError, match=f"{op}: integers cannot be divided by zero, at "):
        compiled(a, b)
    assert state.tolist() == before


@pytest.mark.parametrize(
    ("present", "named"),
    [({"neon": True}, "+neon"), ({"avx512f": True}, "+avx512f,-prefer-256-bit")],
)
def test_only_features_that_the_processor_knows_are_named(present, named, monkeypatch):
    found = llvm.FeatureMap(present)
    monkeypatch.setattr(jit, "_features", lambda: found)
    assert jit.features.__wrapped__() == named
