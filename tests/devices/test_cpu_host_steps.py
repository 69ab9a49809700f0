"""Host steps between kernels, and errors of programs."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from tests.helpers.plans import LARGE, array, chain, load, map_step

from contraflow.compiler.kernel import (
    KernelCall,
    Loops,
    Operand,
    Store,
)
from contraflow.compiler.plan import SCALARS, Binding, HostStep, KernelStep, Plan, Slot
from contraflow.devices.cpu import program
from contraflow.dtypes import float32, int64
from contraflow.expressions import expression as s

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
    return Plan(slots, steps, [8 * n], [])


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
    return Plan(slots, [KernelStep(call, bindings, line) for line in lines], [], [int64])


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
