"""The cpu device: programs, threads, scratch memory, and processes."""

from __future__ import annotations

import ctypes
import os
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
from tests.helpers.plans import LARGE, array, chain, load, map_kernel, map_step

import contraflow as cf
from contraflow import devices, thresholds
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
from contraflow.devices.cpu import jit, program
from contraflow.devices.cpu.pool import pool
from contraflow.devices.cpu.pool_code import MOST_SHARES, together_text
from contraflow.devices.hazards import barriers
from contraflow.dtypes import float32, int64
from contraflow.expressions import expression as s


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
    return Plan(slots, steps, [8 * m * n], []), inputs


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


@pytest.mark.parametrize("stride", [1, 2])
def test_bits_of_filters_for_each_channel_do_not_depend_on_the_number_of_threads(threads, stride):
    random = np.random.default_rng(0)
    x, weight = (
        cf.tensor(random.standard_normal(shape, np.float32)).requires_grad_()
        for shape in ((3, 5, 61, 75), (5, 1, 3, 3))
    )

    def gradients(x, weight):
        out = cf.conv2d(x, weight, stride=stride, padding=1, groups=5)
        return (out.detach(), *cf.autograd.grad((out * out).sum(), [x, weight]))

    compiled, results = cf.compile(gradients), []
    for count in (1, 2, 3, 5):
        threads(count)
        # Of three parts of 9 taps one is empty: it must not add them up beside another.
        for _ in range(20):
            results.append([found.numpy().copy() for found in compiled(x, weight)])
    for found in results[1:]:
        for one, other in zip(found, results[0], strict=True):
            np.testing.assert_array_equal(bits(one), bits(other))


def test_without_workers_one_thread_runs_all_shares(threads, monkeypatch):
    monkeypatch.setattr("contraflow.devices.cpu.pool.has_workers", lambda: False)
    threads(3)
    x, out = array(LARGE), np.zeros(LARGE, np.float32)
    program.load(chain(LARGE)).replay([x, out], [])
    np.testing.assert_array_equal(out, x[::-1] * 2 + 1)


def test_workers_start_when_needed_and_stop(threads, sleeping):
    threads(3)
    program.load(chain(LARGE))  # workers start at once where their code is new
    pool.stop()
    before = threading.active_count()
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
    return ctypes.c_int32.from_address(pool._block + 192).value


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
    mutex_and_condition = ctypes.string_at(pool._block + 256, 256)
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
    monkeypatch.setattr("contraflow.devices.cpu.pool_code.has_futex", lambda: False)
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
            [],
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


@pytest.mark.parametrize("count", [2, 3, 7])
def test_no_job_waits_for_a_thread_that_does_nothing(threads, monkeypatch, count):
    # As one that the system has stopped, or has not woken yet, for the whole time.
    pool.stop()
    absent = threading.Thread()
    monkeypatch.setattr(pool, "_start", lambda: pool._threads.append(absent))
    threads(count)
    loaded = program.load(chain(LARGE))
    x, out = array(LARGE), np.zeros(LARGE, np.float32)
    try:
        for _ in range(3):
            out[:] = 0
            loaded.replay([x, out], [])
            np.testing.assert_array_equal(out, x[::-1] * 2 + 1)
    finally:
        pool.forget()


def test_more_threads_than_cores_do_every_phase_once(threads):
    # They are stopped at any moment, and others take their shares.
    slots = [Slot("output", float32, n) for n in (LARGE, LARGE, 2000, 2000)]
    steps: list[KernelStep | HostStep] = []
    for _ in range(20):
        steps += [
            map_step(lambda x: x + 1.0, LARGE, 0, 1),  # of which parts are taken as they come
            map_step(lambda x: x + 1.0, 2000, 2, 3),
            map_step(lambda x: x * 0.5, LARGE, 1, 0),
            map_step(lambda x: x * 0.5, 2000, 3, 2),
        ]
    loaded = program.load(Plan(slots, steps, [], []))
    arrays = [np.zeros(slot.numel, np.float32) for slot in slots]
    expected = np.float32(0)
    for _ in range(20):
        expected = (expected + np.float32(1)) * np.float32(0.5)
    for count in (16, 2, 5, 16):
        threads(count)
        for _ in range(25):
            arrays[0][:] = arrays[2][:] = 0
            loaded.replay(arrays, [])
            assert (arrays[0] == expected).all()
            assert (arrays[2] == expected).all()


def test_a_job_of_very_many_shares_is_run_by_one_thread(threads):
    pool.stop()
    before = threading.active_count()
    threads(MOST_SHARES + 1)
    x, out = array(LARGE), np.zeros(LARGE, np.float32)
    program.load(chain(LARGE)).replay([x, out], [])
    np.testing.assert_array_equal(out, x[::-1] * 2 + 1)
    assert threading.active_count() == before


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
    loaded = program.load(Plan(slots, [KernelStep(call, bindings)], [], [int64, float32]))
    x, out = array(5), np.zeros(5, np.float32)
    for offset, factor in ((3, 0.5), (-7, 2.0)):
        loaded.replay([x, out], [offset, factor])
        np.testing.assert_array_equal(out, x * np.float32(factor) + np.float32(offset))


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
    return barriers(built, slots)


def test_barriers_stand_where_data_crosses():
    assert meets(((3,), (0,)), ((0,), (1,))) == [True, False]  # write, then read
    assert meets(((0,), (3,)), ((4,), (0,))) == [True, False]  # read, then write
    assert meets(((3,), (0,)), ((4,), (0,))) == [True, False]  # write, then write
    assert meets(((3,), (0,)), ((3,), (1,)), ((4,), (5,))) == [False, False, False]
    assert meets(((3,), (0,)), ((3,), (2,))) == [True, False]  # temporaries that share memory
    assert meets(((3,), (0,)), ((3,), (1,)), ((0, 1), (5,)), ((3,), (4,))) == [
        False, True, False, False,
    ]  # fmt: skip


# --- processes ---------------------------------------------------------------------------------


def run_script(body: str, tmp_path, sleeping: str = "futex") -> subprocess.CompletedProcess[str]:
    """Run code that has this module's helpers in a process of its own."""
    root = str(Path(__file__).resolve().parents[2])
    head = f"import sys; sys.path.insert(0, {root!r})\nfrom {__name__} import *\n"
    if sleeping == "condition":
        head += "sys.modules['contraflow.devices.cpu.pool_code'].has_futex = lambda: False\n"
    environment = {**os.environ, "CONTRAFLOW_CACHE_DIR": str(tmp_path), "CONTRAFLOW_THREADS": "2"}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", head + textwrap.dedent(body)],
        capture_output=True, text=True, timeout=120, env=environment, check=False,
    )  # fmt: skip


def test_importing_starts_no_thread(tmp_path):
    done = run_script("devices.lookup('cpu'); print(threading.active_count())", tmp_path)
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_knows_nothing_of_a_replay_that_went_on(tmp_path):
    done = run_script(
        """
        n = 1 << 22
        x, out, own = array(n), np.zeros(n, np.float32), np.zeros(n, np.float32)
        loaded = program.load(chain(n))
        loaded.replay([x, out], [])
        # Nearly always in the middle of a row, with some of its tickets taken, when a child forks.
        stop = threading.Event()
        replays = lambda: [loaded.replay([x, out], []) for _ in iter(stop.is_set, True)]
        busy = threading.Thread(target=replays, daemon=True)
        busy.start()
        for _ in range(20):
            child = os.fork()
            if child == 0:
                loaded.replay([x, own], [])
                os._exit(7 if np.array_equal(own, x[::-1] * 2 + 1) else 8)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        stop.set()
        busy.join()
        """,
        tmp_path,
    )
    assert (done.stdout.split(), done.stderr) == (["7"] * 20, "")


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
        replays = lambda: [run() for _ in iter(stop.is_set, True)]
        busy = threading.Thread(target=replays, daemon=True)
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
        sys.modules['contraflow.devices.cpu.pool_code'].IDLE_SPIN = 2
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
