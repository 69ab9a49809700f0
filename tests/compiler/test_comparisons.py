"""Comparisons for equality: which values are read from memory, and how the interpreter rounds."""

from __future__ import annotations

import numpy as np
import pytest

import contraflow as cf
from contraflow.autograd import grad
from contraflow.compiler.comparisons import compared_values, kept_values
from contraflow.compiler.fuse import fuse
from contraflow.compiler.interpret import run_call
from contraflow.compiler.kernel import KernelCall, Limits, Loops
from contraflow.compiler.line_expressions import line_expressions
from contraflow.compiler.lower import KernelUse
from contraflow.compiler.tape import Tape, Value
from contraflow.dtypes import float32
from contraflow.expressions import expression as s
from contraflow.expressions.evaluate import contracted
from contraflow.render.clike import cuda, wgsl

INEXACT = Limits(exact=False)

HEAD = """tape t
  input %0 : float32[4, 5]  arg
  input %1 : float32[4, 5]  arg
  %2 = mul(%0, %1) : float32[4, 5]
  %3 = add(%2, %1) : float32[4, 5]
"""
FOUND_AGAIN = """  %4 = amax(%3, dim=(1,), keepdim=True) : float32[4, 1]
  %5 = eq(%3, %4) : bool[4, 5]
  return %5
"""


def tape_of(*lines: str, head: str = HEAD) -> Tape:
    return Tape.parse(head + "".join(f"  {line}\n" for line in lines)).verify()


def numbers(values: set[Value]) -> list[int]:
    return sorted(v.number for v in values)


def kernels(tape: Tape, limits: Limits) -> list[Loops]:
    uses = fuse(tape, set(), limits)
    return [use.call.kernel for use in uses if isinstance(use, KernelUse)]  # type: ignore[misc]


def test_devices_say_whether_their_arithmetic_is_exact() -> None:
    assert Limits().exact
    assert cuda.LIMITS.exact
    assert "--fmad=false" in cuda.OPTIONS
    assert not wgsl.LIMITS.exact


def test_what_is_compared_is_read_from_memory() -> None:
    tape = Tape.parse(HEAD + FOUND_AGAIN).verify()
    assert numbers(kept_values(tape, INEXACT)) == [3]
    (whole,) = kernels(tape, Limits())
    first, second = kernels(tape, INEXACT)
    assert len(whole.passes) == len(second.passes) == 2
    assert s.rounds(whole.roots)
    assert not s.rounds(second.roots)  # both sweeps read what the first kernel stores
    assert [store.value.fn for store in first.stores] == ["add"]


def test_exact_devices_know_nothing_of_it() -> None:
    tape = Tape.parse(HEAD + FOUND_AGAIN).verify()
    assert compared_values(tape, Limits()) == kept_values(tape, Limits()) == set()


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        # Operations that do not round lead back to what was rounded.
        (("%4 = abs(%3) : float32[4, 5]", "%5 = eq(%4, %0) : bool[4, 5]"), [3]),
        (("%4 = maximum(%3, %2) : float32[4, 5]", "%5 = ne(%0, %4) : bool[4, 5]"), [2, 3]),
        (
            (
                "%4 = strided(%3, shape=(4,), strides=(5,), offset=1) : float32[4]",
                "%5 = strided(%0, shape=(4,), strides=(5,), offset=0) : float32[4]",
                "%6 = eq(%4, %5) : bool[4]",
            ),
            [3],
        ),
        # One sum over a row, wherever it is read.
        (
            (
                "%4 = sum(%3, dim=(1,), keepdim=True) : float32[4, 1]",
                "%5 = eq(%0, %4) : bool[4, 5]",
            ),
            [],
        ),
        # Numbers, but not infinite ones; NaN; truth values; other comparisons.
        (("%4 = eq(%3, 0.5) : bool[4, 5]",), [3]),
        (("%4 = eq(%3, inf) : bool[4, 5]",), []),
        (("%4 = ne(%3, %3) : bool[4, 5]",), []),
        (("%4 = gt(%3, %0) : bool[4, 5]", "%5 = gt(%3, 0.0) : bool[4, 5]"), []),
        (
            (
                "%4 = gt(%3, %0) : bool[4, 5]",
                "%5 = gt(%3, %1) : bool[4, 5]",
                "%6 = eq(%4, %5) : bool[4, 5]",
            ),
            [],
        ),
        # A body that guards a quotient compares with a constant of its own.
        (("%4 = sinc(%3) : float32[4, 5]",), []),
        # Elements are compared with each other.
        (("%4, %5 = max(%3, dim=(1,), keepdim=False) : float32[4], int64[4]",), [3]),
    ],
    ids=lambda x: x[-1].split("= ")[1].split(" :")[0] if x and isinstance(x, tuple) else "",
)
def test_kept_values(lines: tuple[str, ...], kept: list[int]) -> None:
    tape = tape_of(*lines, f"return {lines[-1].split(' = ')[0]}")
    assert numbers(kept_values(tape, INEXACT)) == kept


SELECTED = "%4 = amax(%3, dim=(1,), keepdim=True) : float32[4, 1]"
DIFFERENCE = (SELECTED, "%5 = sub(%3, %4) : float32[4, 5]")


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        ((SELECTED, "%5 = ge(%3, %4) : bool[4, 5]"), [3]),
        ((*DIFFERENCE, "%6 = gt(%5, -1.0) : bool[4, 5]"), [3]),
        ((*DIFFERENCE, "%6 = sqrt(%5) : float32[4, 5]"), [3]),
        ((*DIFFERENCE, "%6 = to_dtype(%5, dtype=int64) : int64[4, 5]"), [3]),
        ((SELECTED, "%5 = div(%3, %4) : float32[4, 5]", "%6 = floor(%5) : float32[4, 5]"), [3]),
        ((*DIFFERENCE, "%6 = exp(%5) : float32[4, 5]", "%7 = ge(%6, 1.0) : bool[4, 5]"), [3]),
        # Elements at other coordinates, and elements of either of two.
        (
            (
                "%4 = argsort(%3, dim=1, descending=False, stable=False) : int64[4, 5]",
                "%5 = gather(%3, %4, dim=1) : float32[4, 5]",
                "%6 = lt(%3, %5) : bool[4, 5]",
            ),
            [3],
        ),
        (
            (
                "%4 = maximum(%3, %0) : float32[4, 5]",
                "%5 = sub(%4, %3) : float32[4, 5]",
                "%6 = sqrt(%5) : float32[4, 5]",
            ),
            [3],
        ),
        # A difference in the last digit does not show.
        (DIFFERENCE, []),
        (
            (
                *DIFFERENCE,
                "%6 = exp(%5) : float32[4, 5]",
                "%7 = sum(%6, dim=(1,), keepdim=True) : float32[4, 1]",
                "%8 = div(%6, %7) : float32[4, 5]",
            ),
            [],
        ),
        (
            (
                *DIFFERENCE,
                "%6 = exp(%5) : float32[4, 5]",
                "%7 = sum(%6, dim=(1,), keepdim=True) : float32[4, 1]",
                "%8 = log(%7) : float32[4, 1]",
                "%9 = sub(%5, %8) : float32[4, 5]",
            ),
            [],
        ),
        # What was selected is one value; tests for NaN and infinity.
        ((SELECTED, "%5 = ge(%4, 0.5) : bool[4, 1]", "%6 = ge(%3, 0.5) : bool[4, 5]"), []),
        ((*DIFFERENCE, "%6 = isnan(%5) : bool[4, 5]"), []),
        ((*DIFFERENCE, "%6 = isfinite(%5) : bool[4, 5]"), []),
    ],
)
def test_values_that_meet_what_was_selected_of_them(
    lines: tuple[str, ...], kept: list[int]
) -> None:
    tape = tape_of(*lines, f"return {lines[-1].split(' = ')[0]}")
    assert numbers(kept_values(tape, INEXACT)) == kept
    assert numbers(kept_values(tape, Limits())) == []


def test_contracted_sums_round_once() -> None:
    a, b, c, d = (s.leaf("input", float32, i) for i in range(4))
    assert contracted((a * b + c,)) == (s.fma(a, b, c),)
    assert contracted((c + a * b,)) == (s.fma(a, b, c),)
    assert contracted((a * b - c,)) == (s.fma(a, b, -c),)
    assert contracted((c - a * b,)) == (s.fma(-a, b, c),)
    assert contracted((a * b + c * d,)) == (s.fma(a, b, c * d),)
    assert contracted((a * b + c * d,), last=True) == (s.fma(c, d, a * b),)
    assert contracted((s.muladd(a, b, c), a + b)) == (s.fma(a, b, c), a + b)


def test_sweeps_round_differently() -> None:
    """The kernel of the exact device loses the maximum: it computes it again, with other bits."""
    random = np.random.default_rng(1)
    (use,) = fuse(Tape.parse(HEAD + FOUND_AGAIN).verify(), set(), Limits())
    assert isinstance(use, KernelUse)
    call: KernelCall = use.call
    found = []
    for contracts in (None, 0, 1):
        x, w, out = random.random(20, np.float32), random.random(20, np.float32), np.zeros(20, bool)
        arrays = [(x, 0), (w, 0), (out, 0)]
        run_call(call, arrays, (), contracts)
        found.append(int(out.reshape(4, 5).any(1).sum()))
    assert found[0] == 4
    assert min(found[1:]) < 4


# --- half precision ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [cf.float16, cf.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["amax", "norm"])
def test_half_precision_is_found_again(dtype: cf.DType, name: str) -> None:
    """A kernel computes it in float32, and rounds what it stores for another."""

    def loss(x: cf.Tensor, w: cf.Tensor, v: cf.Tensor) -> cf.Tensor:
        y = x * w + v * x
        found = y.amax(1) if name == "amax" else cf.linalg.vector_norm(y, float("inf"), dim=1)
        return found.sum()

    cf.manual_seed(3)
    points = [cf.randn(*shape).to(dtype).requires_grad_() for shape in ((16, 33), (33,), (16, 33))]
    inside = cf.compile(lambda *points: grad(loss(*points), points))(*points)
    outside = grad(cf.compile(loss)(*points), points)
    for g, other in zip(inside, outside, strict=True):
        assert g.isfinite().all()
        assert (g == other).all()
    assert (inside[2] != 0).sum(1).min() > 0  # every row has a largest element


@pytest.mark.parametrize("dtype", [cf.float16, cf.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["not below", "no difference", "root", "softmax"])
def test_half_precision_is_found_beside_what_was_selected(dtype: cf.DType, name: str) -> None:
    def found(x: cf.Tensor, w: cf.Tensor) -> cf.Tensor:
        y = x * w
        if name == "softmax":
            y = y.softmax(1)
        peak = y.amax(1, keepdim=True)
        if name == "no difference":
            return (peak - y) == 0
        return (peak - y).sqrt() == 0 if name == "root" else y >= peak

    cf.manual_seed(3)
    points = [cf.rand(64, 33).to(dtype) for _ in range(2)]
    assert cf.compile(found)(*points).any(1).all()


def test_lines_alike_share_what_they_compute():
    tape = tape_of(
        "%4 = mul(%3, %0) : float32[4, 5]",
        "%5 = mul(%4, %4) : float32[4, 5]",
        "%6 = mul(%4, 2.0) : float32[4, 5]",
        "%7 = to_dtype(%6, dtype=float64) : float64[4, 5]",
        "%8 = to_dtype(%7, dtype=float32) : float32[4, 5]",
        "%9 = mul(%7, %7) : float64[4, 5]",
        "return %8, %9",
    )
    shown = {line.outs[0].number: line_expressions(tape, line) for line in tape.lines}
    formulas = {number: each.formula for number, each in shown.items() if each is not None}
    assert formulas[2] is formulas[4] is formulas[6]
    assert len({formulas[number] for number in (2, 3, 5, 7, 8, 9)}) == 6
    assert [shown[number].given[1] for number in (2, 6)] == [tape.specs[Value(1)], 2.0]
