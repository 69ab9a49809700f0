"""Long folds: where they are cut, what the kernels store, and that threads change no bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow import config, thresholds
from contraflow.compiler.folds import may_return
from contraflow.compiler.fuse import fuse
from contraflow.compiler.kernel import BLOCK, KernelCall, part_length
from contraflow.compiler.passes import optimize
from contraflow.compiler.tape import Tape
from contraflow.devices import lookup
from contraflow.testing import assert_close

LONG, PART = thresholds.long_fold, thresholds.fold_part
LONGEST_ROW, FEW_ROWS = thresholds.long_row, thresholds.few_long_rows


def calls(text: str) -> list[KernelCall]:
    """The kernels of a tape."""
    tape = optimize(Tape.parse(text).verify())
    return [use.call for use in fuse(tape, set(), lookup("cpu").limits)]


def reduction(
    shape: tuple[int, ...], op: str = "sum", dim: tuple[int, ...] = (0,)
) -> list[KernelCall]:
    kept = [n for d, n in enumerate(shape) if d not in dim]
    return calls(f"""
        tape t
          input %0 : float32{list(shape)}  arg
          %1 = {op}(%0, dim={dim}, keepdim=False) : float32{kept}
          return %1
    """)


# --- where folds are cut -----------------------------------------------------------------------


def test_a_short_fold_is_one_kernel() -> None:
    (call,) = reduction((LONG, 3))
    assert call.kernel.cut is None


def test_a_long_fold_is_two_kernels() -> None:
    part, rest = reduction((LONG + 1, 3))
    assert part.kernel.cut == 2
    assert part.sizes == (3, 3, LONG + 1)  # columns, parts, rows
    assert rest.kernel.cut is None
    assert rest.sizes == (3, 3)


def test_a_very_long_fold_is_cut_again() -> None:
    n = PART * (LONG + 1)
    sizes = [call.sizes for call in reduction((n,))]
    assert [s[0] for s in sizes[:-1]] == [LONG + 1, -(-(LONG + 1) // PART)]
    assert len(sizes) == 3


def test_any_fold_is_cut() -> None:
    for op in ("amax", "amin", "prod"):
        assert len(reduction((3, 5 * LONG), op, (1,))) == 2


def test_what_makes_the_terms_and_what_uses_the_sum_stay_with_it() -> None:
    n = 4 * LONG
    found = calls(f"""
        tape t
          input %0 : float32[{n}, 5]  arg
          input %1 : float32[{n}, 5]  arg
          %2 = mul(%0, %1) : float32[{n}, 5]
          %3 = sum(%2, dim=(0,), keepdim=False) : float32[5]
          %4 = tanh(%3) : float32[5]
          return %4
    """)
    assert [len(call.kernel.operands) for call in found] == [3, 2]


def test_rows_are_visited_again_where_they_stay_in_a_cache() -> None:
    assert may_return(1, LONG)
    assert not may_return(1, LONG + 1)
    assert may_return(FEW_ROWS, LONGEST_ROW)
    assert not may_return(FEW_ROWS, LONGEST_ROW + 1)

    def softmax(rows: int, columns: int) -> int:
        cf.nn.functional.softmax(x := cf.rand(rows, columns), 1)
        compiled = cf.compile(lambda x: cf.nn.functional.softmax(x, 1))
        assert_close(compiled(x), cf.nn.functional.softmax(x.double(), 1).float())
        return sum(name.startswith(("row_", "column_")) for name in compiled.kernels)

    assert softmax(FEW_ROWS, LONG + 1) < softmax(2, LONG + 1)


def test_parts_are_whole_blocks_and_cover_everything() -> None:
    for size in (LONG + 1, 12345, 99_999, 1 << 20, 10_000_019):
        parts = -(-size // PART)
        length = part_length(size, parts)
        assert length % BLOCK == 0
        assert size <= parts * length
        assert length <= PART


def test_nothing_to_cut() -> None:
    (call,) = reduction((0, 3))
    assert call.kernel.cut is None


# --- what they compute -------------------------------------------------------------------------

FOLDS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda x: x.sum(),
    "columns": lambda x: x.sum(0),
    "rows": lambda x: x.mT.sum(1),
    "mean": lambda x: (x * 1.5).mean(0, keepdim=True),
    "largest": lambda x: x.max(0)[0],
    "place": lambda x: x.argmax(0),
    "first place": lambda x: (x > 5.0).to(cf.int64).argmax(),
    "product": lambda x: (x * 1e-6 + 1.0).prod(0),
    "all": lambda x: (x > -9.0).all(),
    "counted": lambda x: (x > 3.0).sum(0),
    "norm": lambda x: x.norm(),
    "std": lambda x: x.std(0),
    "softmax": lambda x: cf.nn.functional.softmax(x, 0),
    "logsumexp": lambda x: x.logsumexp(0),
    "two": lambda x: x.sum(0) * x.amax(0) + x.mean(),
    "stored too": lambda x: (y := x.tanh(), y.sum())[1] + y,
    "half": lambda x: x.to(cf.bfloat16).sum(0),
    "gathered": lambda x: x[cf.arange(x.shape[0] - 1, -1, -1)].sum(0),
}
ROUNDED = {"product": 1e-4}  # its factors are rounded, and each rounds the product


def data(*shape: int) -> Any:
    """Mostly of one sign, so that sums do not cancel."""
    return cf.tensor((np.random.default_rng(3).standard_normal(shape) + 3.0).astype(np.float32))


SHAPES = [(30_001, 3), (20_000, 1), (9_000, 40), (3, 8_500)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FOLDS)
def test_long_folds(name: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    x = data(*shape)
    result = cf.compile(FOLDS[name])(x)
    monkeypatch.setattr(config, "eager_kernels", False)
    expected = FOLDS[name](x.double()).to(result.dtype)
    assert_close(result, expected, rtol=ROUNDED.get(name))


@pytest.mark.parametrize("name", FOLDS)
def test_threads_change_no_bit(name: str) -> None:
    x = data(70_001, 5)
    compiled, before = cf.compile(FOLDS[name]), cf.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3, 7):
            cf.set_num_threads(threads)
            found.append(compiled(x).to(cf.float32).numpy().tobytes())
    finally:
        cf.set_num_threads(before)
    assert len(set(found)) == 1


def test_an_index_out_of_range_in_a_long_fold() -> None:
    index = cf.arange(50_000) % 10
    compiled = cf.compile(lambda x, i: x[i].sum())
    assert compiled(cf.ones(10), index).item() == 50_000
    with pytest.raises(IndexError, match="index 12 is out of range"):
        compiled(cf.ones(10), cf.where(index == 9, 12, index))
