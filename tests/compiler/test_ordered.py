"""Scatters, scans and sorts among other lines: where they run, and in which memory."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from contraflow.compiler.fuse import fuse
from contraflow.compiler.kernel import Limits, Scatter, Sort
from contraflow.compiler.lower import HostUse
from contraflow.compiler.plan import make_plan
from contraflow.compiler.tape import Tape
from contraflow.devices import lookup
from contraflow.devices.hazards import barriers
from contraflow.render.llvm.kernels import render
from contraflow.runtime.executable import Native

SORT = "argsort(%0, dim=1, descending=False, stable=True)"
LINES = {
    "scatter_sum": "scatter_sum(%0, %1, dim=0, shape=(4, 300)) : float32[4, 300]",
    "cumsum": "cumsum(%0, dim=1, reverse=True) : float32[9, 300]",
    "argsort": f"{SORT} : int64[9, 300]",
}


def tape_of(*rows: str) -> Tape:
    inputs = "  input %0 : float32[9, 300]  arg\n  input %1 : int64[9, 300]  arg\n"
    return Tape.parse(f"tape t\n{inputs}" + "\n".join(f"  {row}" for row in rows)).verify()


def planned(tape: Tape) -> Any:
    limits = lookup("cpu").limits
    return make_plan(tape, fuse(tape, set(), limits), set(), limits)[0]


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_device_without_the_kernel_asks_the_host(line: str) -> None:
    uses = fuse(tape_of(f"%2 = {line}", "return %2"), set(), Limits())
    assert [type(use) for use in uses] == [HostUse]


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_text_parses_at_every_width(line: str, vector_bytes: int) -> None:
    uses: Any = fuse(tape_of(f"%2 = {line}", "return %2"), set(), lookup("cpu").limits)
    text = render(uses[-1].call.kernel, vector_bytes=vector_bytes)
    llvm.parse_assembly(text).verify()
    assert not any(flag in text for flag in ("fast", "reassoc", "nnan", "ninf", "nsz"))


def test_a_sum_is_formed_where_it_is_wanted() -> None:
    """Zeros are stored into the result itself: no third step copies them."""
    plan = planned(tape_of(f"%2 = {LINES['scatter_sum']}", "return %2"))
    assert len(plan.steps) == 2
    assert plan.arena_bytes == 0


def test_a_base_that_is_needed_again_is_copied() -> None:
    tape = tape_of(
        "%2 = mul(%0, 2.0) : float32[9, 300]",
        "%3 = scatter(%2, %1, %0, dim=0) : float32[9, 300]",
        "return %2, %3",
    )
    x, index = np.ones(2700, np.float32), np.zeros(2700, np.int64)
    doubled, scattered = Native(tape).run([x, index], ())
    np.testing.assert_array_equal(doubled, 2.0)
    np.testing.assert_array_equal(scattered, [[1.0] * 300] + [[2.0] * 300] * 8)


def test_threads_meet_between_sorts_that_share_scratch() -> None:
    other = SORT.replace("False", "True")
    plan = planned(
        tape_of(f"%2 = {SORT} : int64[9, 300]", f"%3 = {other} : int64[9, 300]", "return %2, %3")
    )
    assert all(isinstance(step.call.kernel, Sort) for step in plan.steps)
    scratch = [slot for slot in plan.slots if slot.kind == "temp"]
    assert [slot.offset for slot in scratch] == [0, 0]
    assert barriers(plan.steps, plan.slots) == [True, False]


def test_a_wrong_index_leaves_an_input_as_it_was() -> None:
    """What may fail does not happen in the memory of an input that is written to."""
    tape = tape_of(
        "%2 = scatter_add(%0, %1, %0, dim=0) : float32[9, 300]", "write %0 = %2", "return"
    )
    x, index = np.ones(2700, np.float32), np.zeros(2700, np.int64)
    index[7] = 9
    program = Native(tape)
    assert sum(isinstance(step.call.kernel, Scatter) for step in program.plan.steps) == 1
    with pytest.raises(IndexError, match="scatter_add: index 9 is out of range"):
        program.run([x, index], ())
    np.testing.assert_array_equal(x, 1.0)
    index[7] = 0
    program.run([x, index], ())
    np.testing.assert_array_equal(x.reshape(9, 300)[:2].T, [[10.0, 1.0]] * 300)
