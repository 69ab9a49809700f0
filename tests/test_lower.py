"""Lowering: which axis the vectors run along, and how contractions read their operands."""

from __future__ import annotations

from typing import Any

import pytest

import contraflow as cf
from contraflow.fuse import fuse
from contraflow.kernel import STRIDED, Call, Contraction, Limits, Loops
from contraflow.passes import optimize
from contraflow.tape import Tape


def calls(text: str, limits: Limits | None = None) -> list[Call]:
    """The kernel calls of a tape."""
    tape = optimize(Tape.parse(text).verify())
    uses: list[Any] = fuse(tape, set(), limits or Limits())
    return [use.call for use in uses]


def test_small_operands_do_not_decide_about_the_lane() -> None:
    """Statistics of channels are read along the places, where the large operand is dense."""
    (call,) = calls(
        """
        tape t
          input %0 : float32[8, 4, 256]  arg
          input %1 : float32[1, 4, 1]  arg
          input %2 : float32[1, 4, 1]  arg
          %3 = sub(%0, %1) : float32[8, 4, 256]
          %4 = mul(%3, %2) : float32[8, 4, 256]
          %5 = sum(%4, dim=(0, 2), keepdim=False) : float32[4]
          return %5
        """
    )
    assert call.sizes[call.kernel.lane] == 256


def test_a_lane_is_not_shorter_than_it_need_be() -> None:
    """The largest of each pair of pairs: dense along two elements, strided along many."""
    (call,) = calls(
        """
        tape t
          input %0 : float32[64, 64]  arg
          %1 = strided(%0, shape=(2, 2, 32, 32), strides=(64, 1, 128, 2), offset=0) : float32[2, 2, 32, 32]
          %2 = amax(%1, dim=(0, 1), keepdim=False) : float32[32, 32]
          return %2
        """  # noqa: E501
    )
    assert call.sizes[call.kernel.lane] == 32


def test_a_shifted_read_keeps_its_strides() -> None:
    """Taps side by side are read by the vector, not gathered."""
    (call,) = calls(
        """
        tape t
          input %0 : float32[5, 3, 30]  arg
          %1 = sum_windows(%0, kernel=(3,), stride=(1,), dilation=(1,), size=(32,), start=(0,)) : float32[5, 32]
          return %1
        """  # noqa: E501
    )
    assert isinstance(call.kernel, Loops)
    assert call.kernel.operands[0].strides == (STRIDED, 1)


CONVOLUTION = """
        tape t
          input %0 : float32[4, 2, 18, 18]  arg
          input %1 : float32[4, 5, 16, 16]  arg
          %2 = strided(%0, shape=(4, 2, 3, 3, 16, 16), strides=(648, 324, 18, 1, 18, 1), offset=0) : float32[4, 2, 3, 3, 16, 16]
          %3 = contract(%1, %2, spec='noxy,ncijxy->ocij') : float32[5, 2, 3, 3]
          return %3
"""  # noqa: E501


def test_windows_are_read_where_they_lie() -> None:
    (call,) = calls(CONVOLUTION, Limits(windows=True))
    assert call.kernel == Contraction(cf.float32, cf.float32, (2, 3))
    assert call.sizes == (1, 5, 4, 16, 16, 2, 3, 3)
    assert call.strides[0] == (0, 256, 1280, 1)
    assert call.strides[1] == (0, 648, 18, 1, 324, 18, 1)


def test_windows_are_copied_in_their_longest_runs() -> None:
    *copies, call = calls(CONVOLUTION)
    assert call.kernel == Contraction(cf.float32, cf.float32)
    assert call.strides[1] == (0, 1, 1024)
    assert max(copy.sizes[copy.kernel.lane] for copy in copies) == 256
    assert min(copy.sizes[copy.kernel.lane] for copy in copies) == 16


@pytest.mark.parametrize(("inner", "digits"), [(4, (2, 1)), (64, (1, 1))])
def test_short_sums_are_not_summed_one_by_one(inner: int, digits: Any) -> None:
    """A sum over two dims that do not lie evenly: A is copied, or they are summed in turn."""
    *_, call = calls(
        f"""
        tape t
          input %0 : float32[3, 8, {inner}]  arg
          input %1 : float32[3, 9, {inner}]  arg
          %2 = contract(%0, %1, spec='bmk,bnk->mn') : float32[8, 9]
          return %2
        """,
        Limits(windows=True),
    )
    assert call.kernel == Contraction(cf.float32, cf.float32, digits)


# --- patterns ------------------------------------------------------------------------------------


def test_groups_that_do_the_same_have_one_kernel() -> None:
    """Whatever they do it to: other values, other offsets, other numbers."""
    first, second = calls(
        """
        tape t
          input %0 : float32[4, 6]  arg
          input %1 : float32[4, 6]  arg
          %2 = strided(%0, shape=(4, 3), strides=(6, 1), offset=0) : float32[4, 3]
          %3 = mul(%2, 2.0) : float32[4, 3]
          %4 = strided(%1, shape=(4, 3), strides=(6, 1), offset=3) : float32[4, 3]
          %5 = mul(%4, 3.0) : float32[4, 3]
          return %3, %5
        """
    )
    assert first.kernel is second.kernel
    assert first == second


def test_a_literal_s_type_is_part_of_a_pattern() -> None:
    """1 and True are equal, and not the same operand."""
    kinds = [
        calls(
            f"""
            tape t
              input %0 : float32[4]  arg
              %1 = mul(%0, {number}) : float32[4]
              return %1
            """
        )[0].kernel.operands[1].dtype
        for number in ("1", "1.0", "True")
    ]  # fmt: skip
    assert kinds == [cf.int64, cf.float32, cf.bool]


def test_a_kernel_has_no_more_lines_than_a_device_likes() -> None:
    rows = [f"%{i} = tanh(%{i - 1}) : float32[4]" for i in range(1, 101)]
    text = "\n".join(["tape t", "input %0 : float32[4]  arg", *rows, "return %100"])
    assert len(calls(text, Limits(lines=1000))) == 1
    assert len(calls(text, Limits(lines=25))) == 4
    assert len(calls(text)) == 3
