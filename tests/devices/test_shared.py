"""What devices share: cutting plans into runs of kernels, words of a run, runs that fail later."""

from __future__ import annotations

from typing import Any

import pytest

import contraflow as cf
from contraflow.compiler.plan import HostStep, Plan
from contraflow.devices.failures import IndexOutOfRange, LateFailure, PendingRuns
from contraflow.devices.run_words import RunWords
from contraflow.devices.segments import KernelRun, kernel_steps, segments


def compiled_plan(function, *args: cf.Tensor | float) -> Plan:
    compiled = cf.compile(function)
    compiled(*args)
    return compiled.programs[0].executable.plan


def test_host_steps_cut_a_plan_into_runs_of_kernels():
    plan = compiled_plan(lambda x: cf.linalg.inv(x @ x + 1).exp().sum(dim=1) @ x, cf.eye(3))
    found = list(segments(plan))
    assert [type(s) for s in found] == [KernelRun, HostStep, KernelRun]
    runs = [s for s in found if isinstance(s, KernelRun)]
    assert [s for run in runs for s in run.steps] == kernel_steps(plan)
    assert [(run.first, run.stop) for run in runs] == [(0, 2), (2, len(kernel_steps(plan)))]


def test_the_last_risk_of_a_run_is_its_last_kernel_that_checks_indices():
    at = cf.tensor([1, 0])
    plan = compiled_plan(lambda x: (x[at] @ x)[at] @ x, cf.ones(3, 3))
    (run,) = segments(plan)
    assert run.last_risk == max(i for i, s in enumerate(kernel_steps(plan)) if s.may_fail) > 0
    (run,) = segments(compiled_plan(lambda x: x + 1, cf.ones(3)))
    assert run.last_risk is None


def test_words_of_a_run_are_addresses_and_scalars_in_one_block():
    x, n = cf.ones(3), cf.tensor([1, 2, 3])
    plan = compiled_plan(lambda x, n, a, b: (x * a, n + b), x, n, 0.5, 7)
    words = RunWords(plan)
    words.set_addresses(1 << 60, 6, 7, 9)
    words.put(3, 8)
    kinds = [dtype.is_floating_point for dtype in plan.scalar_dtypes]
    given = tuple(0.1 if kind else -(1 << 62) for kind in kinds)
    assert sorted(kinds) == [False, True]
    words.set_scalars(*given)
    assert [plan.slots[i].kind for i in words.slots] == ["input", "input", "output", "output"]
    assert words.addresses == [1 << 60, 6, 7, 8]
    assert words.scalars == given
    assert len(words.block) == RunWords.size(plan) == 6


def late(log: list[str], name: str, is_call: bool) -> LateFailure:
    def undo() -> list[Any]:
        log.append(f"undo {name}")
        return []

    return LateFailure(lambda error: IndexError(f"{name}: {error}"), undo if is_call else None)


def test_a_call_that_fails_takes_the_calls_behind_it_along_and_no_op():
    log: list[str] = []
    pending = PendingRuns()
    names = ("a", "b", "op", "c")
    numbers = {
        name: pending.add(
            late(log, name, name != "op"), lambda name=name: log.append(f"clear {name}")
        )
        for name in names
    }
    assert pending.failed(numbers["b"], IndexOutOfRange(7, 0)) == [numbers["b"], numbers["c"]]
    assert log == ["undo c", "undo b"]
    assert pending.failed(numbers["op"], IndexOutOfRange(8, 0)) == [numbers["op"]]
    assert log[2:] == ["clear op"]
    with pytest.raises(IndexError, match=r"^b: index 7 is out of range$"):
        pending.raise_first()
    pending.raise_first()
    pending.ended_well(numbers["a"])
    assert not len(pending)


def test_a_run_that_cannot_fail_is_noted_behind_one_that_may():
    pending = PendingRuns()
    call, op = late([], "call", True), late([], "op", False)
    assert not pending.concerns(None, True)
    assert not pending.concerns(call, False)
    assert pending.concerns(call, True)
    assert pending.concerns(op, True)
    pending.add(call, list)
    assert pending.concerns(call, False)
    assert not pending.concerns(op, False)
