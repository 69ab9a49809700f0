"""Limits of devices that decide about plans: memory that is read and written, and bindings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from contraflow.compiler.fuse import fuse
from contraflow.compiler.interpret import run_call, run_tape
from contraflow.compiler.kernel import Limits
from contraflow.compiler.passes import optimize
from contraflow.compiler.plan import SCALARS, KernelStep, Plan, make_plan
from contraflow.compiler.tape import Tape
from contraflow.errors import DeviceError
from contraflow.render.clike import wgsl

MOMENTUM = """tape t
  input %0 : float32[40, 30]  state
  input %1 : float32[40, 30]  state
  input %2 : float32[40, 30]  arg
  %3 = mul(%1, 0.5) : float32[40, 30]
  %4 = add(%3, %2) : float32[40, 30]
  %5 = mul(%4, 0.1) : float32[40, 30]
  %6 = sub(%0, %5) : float32[40, 30]
  write %0 = %6
  write %1 = %4
  return
"""
CENTRED = """tape t
  input %0 : float32[40, 30]  state
  input %1 : float32[40]  state
  %2 = sum(%0, dim=(1,), keepdim=False) : float32[40]
  %3 = add(%1, %2) : float32[40]
  write %1 = %3
  return
"""


# The rows are read at the same point by amax, and anywhere by gather: as two operands.
GATHERED = """tape t
  input %0 : float32[1, 4, 6]  arg
  input %1 : int64[1, 4, 6]  arg
  %2 = amax(%0, dim=(2,), keepdim=True) : float32[1, 4, 1]
  %3 = gather(%0, %1, dim=2) : float32[1, 4, 6]
  %4 = mul(%2, %3) : float32[1, 4, 6]
  %5 = mul(%4, %4) : float32[1, 4, 6]
  %6 = mul(%4, 3.0) : float32[1, 4, 6]
  return %2, %3, %4, %5, %6
"""


def planned(text: str, limits: Limits) -> tuple[Tape, Plan, Sequence[Any]]:
    tape = optimize(Tape.parse(text).verify())
    plan, words = make_plan(tape, fuse(tape, set(), limits), set(), limits)
    return tape, plan, words


def kernel_steps(plan: Plan) -> list[KernelStep]:
    steps = [step for step in plan.steps if isinstance(step, KernelStep)]
    assert len(steps) == len(plan.steps)
    return steps


def shared(plan: Plan) -> int:
    """How many operands are written where another operand of the kernel reads."""
    count = 0
    for step in kernel_steps(plan):
        operands = list(zip(step.call.kernel.operands, step.bindings))
        read = [b.slot for o, b in operands if o.mode in ("in", "inout")]
        count += sum(b.slot in read for o, b in operands if o.mode == "out")
    return count


def run(plan: Plan, words: Sequence[Any], inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Run a plan by the interpreter, in memory of its own for each slot."""
    given = iter(inputs)
    memory = [
        next(given).reshape(-1).copy()
        if slot.kind == "input"
        else np.zeros(slot.numel, slot.dtype.numpy)
        for slot in plan.slots
    ]
    for step in kernel_steps(plan):
        bound: list[Any] = [
            (None, b.offset) if b.slot == SCALARS else (memory[b.slot], b.offset)
            for b in step.bindings
        ]
        run_call(step.call, bound, words)
    return memory


@pytest.mark.parametrize("text", [MOMENTUM, CENTRED], ids=("maps", "folds"))
def test_memory_that_is_read_and_written_has_one_operand(text: str) -> None:
    _, plan, words = planned(text, Limits())
    tape, apart, others = planned(text, Limits(aliasing=False))
    assert shared(plan) > 0
    assert shared(apart) == 0
    assert [len(step.writes) for step in apart.steps] == [len(step.writes) for step in plan.steps]
    random = np.random.default_rng(0)
    arrays = [
        random.standard_normal(spec.shape).astype(np.float32)
        for spec in (tape.specs[v] for v in tape.inputs)
    ]
    wanted = run_tape(tape, dict(zip(tape.inputs, arrays)))
    for memory in (run(plan, words, arrays), run(apart, others, arrays)):
        held = dict(zip(tape.inputs, memory))
        for target, v in tape.writes.items():
            np.testing.assert_allclose(held[target], wanted[v].reshape(-1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", [2, 6, 7, 12])
def test_many_tensors_are_joined_within_the_bindings(count: int) -> None:
    inputs = "".join(f"  input %{i} : float32[{i + 1}, 5]  arg\n" for i in range(count))
    names = ", ".join(f"%{i}" for i in range(count))
    rows = count * (count + 1) // 2
    line = f"  %{count} = cat({names}, dim=0) : float32[{rows}, 5]\n  return %{count}\n"
    _, plan, words = planned(f"tape t\n{inputs}{line}", wgsl.LIMITS)
    kernels = [step.call.kernel for step in kernel_steps(plan)]
    assert len(kernels) == (1 if count <= 6 else count)
    assert all(wgsl.render(kernel) for kernel in kernels)
    assert plan.arena_bytes == 0  # each part is stored where it belongs
    arrays = [np.full((i + 1, 5), i, np.float32) for i in range(count)]
    found = run(plan, words, arrays)[len(arrays)]
    np.testing.assert_array_equal(found.reshape(rows, 5), np.concatenate(arrays))


def test_values_that_are_read_in_two_ways_are_counted_twice() -> None:
    tape, plan, words = planned(GATHERED, wgsl.LIMITS)
    assert all(wgsl.render(step.call.kernel) for step in kernel_steps(plan))
    x = np.random.default_rng(5).standard_normal((1, 4, 6)).astype(np.float32)
    indices = np.random.default_rng(6).integers(0, 6, (1, 4, 6))
    wanted = run_tape(tape, dict(zip(tape.inputs, (x, indices))))
    found = run(plan, words, [x, indices])
    results = [m for slot, m in zip(plan.slots, found) if slot.kind == "output"]
    for result, v in zip(results, tape.outputs, strict=True):
        np.testing.assert_allclose(result, wanted[v].reshape(-1), rtol=1e-6)


def test_many_folds_are_several_kernels() -> None:
    """Each keeps a result per thread in memory that a group shares, of which WebGPU has little."""
    lines = ["  %1 = mul(%0, 0.0) : float32[300]", *_sums(20)]
    text = "\n".join(["tape t", "  input %0 : float32[300]  arg", *lines, "  return %90", ""])
    (whole,) = kernel_steps(planned(text, Limits(lines=1000))[1])
    with pytest.raises(DeviceError, match="shares 21504 bytes within a workgroup"):
        wgsl.render(whole.call.kernel)
    _, plan, words = planned(text, wgsl.LIMITS._replace(lines=1000))
    assert len(plan.steps) > 1
    assert all(wgsl.render(step.call.kernel) for step in kernel_steps(plan))
    x = np.random.default_rng(4).random(300).astype(np.float32)
    found = next(m for s, m in zip(plan.slots, run(plan, words, [x])) if s.kind == "output")
    np.testing.assert_allclose(found, 210 * x.sum(), rtol=1e-5)


def _sums(count: int) -> list[str]:
    """Lines that add up the sums of as many multiples of the first input; the last is %90."""
    lines = ["  %2 = sum(%1, dim=(0,), keepdim=False) : float32[]"]
    total = 2
    for i in range(count):
        scaled, part, following = 3 + 3 * i, 4 + 3 * i, 5 + 3 * i
        following = 90 if i == count - 1 else following
        lines += [
            f"  %{scaled} = mul(%0, {float(i + 1)}) : float32[300]",
            f"  %{part} = sum(%{scaled}, dim=(0,), keepdim=False) : float32[]",
            f"  %{following} = add(%{total}, %{part}) : float32[]",
        ]
        total = following
    return lines
