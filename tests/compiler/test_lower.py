"""Lowering: which axis the vectors run along, and how contractions read their operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow.compiler import folds, ordered, scan_parts
from contraflow.compiler.fuse import fuse
from contraflow.compiler.kernel import (
    STRIDED,
    Contraction,
    KernelCall,
    LaneCosts,
    Limits,
    Loops,
    contraction,
)
from contraflow.compiler.passes import optimize
from contraflow.compiler.tape import Tape
from contraflow.dtypes import DType
from contraflow.shapes import numel


def calls(text: str, limits: Limits | None = None) -> list[KernelCall]:
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


SUMS = """
        tape t
          input %0 : float32[32, 16]  arg
          %1 = sum(%0, dim=(1,), keepdim=False) : float32[32]
          return %1
"""


@pytest.mark.parametrize(("fold", "size"), [(16, 32), (1, 16)])
def test_the_device_says_what_a_fold_along_a_lane_costs(fold: int, size: int) -> None:
    """Rows of 16 are read across, unless adding up the lanes of a vector takes no time."""
    assert Limits().costs.fold == 16
    (call,) = calls(SUMS, Limits(costs=LaneCosts(fold=fold)))
    assert call.sizes[call.kernel.lane] == size


PLACED = """
        tape t
          input %0 : float32[8, 200]  arg
          input %1 : int64[8, 200]  arg
          input %2 : float32[8, 50, 3]  arg
"""


@pytest.mark.parametrize(
    "line",
    [
        "%3 = argsort(%0, dim=1, descending=False, stable=True) : int64[8, 200]",
        "%3 = cumsum(%0, dim=1) : float32[8, 200]",
        "%3 = scatter_add(%0, %1, %0, dim=1) : float32[8, 200]",
        "%3 = sum(%0, dim=(0, 1), keepdim=False) : float32[]",
        "%3 = contract(%2, %2, spec='bmk,bnk->mn') : float32[50, 50]",
        "%3 = assign(%0, %2, shape=(8, 50, 3), strides=(200, 3, 1), offset=0) : float32[8, 200]",
    ],
)
@pytest.mark.parametrize("narrow", [False, True])
def test_every_kernel_has_its_lane_by_the_costs_of_the_device(
    line: str, narrow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs, asked = LaneCosts(vector=5 + narrow), []  # others: what was lowered before is kept
    for module in (folds, ordered, scan_parts):

        def noted(given: LaneCosts, *rest: Any, lane_of: Any = module.lane_of) -> Any:
            asked.append(given)
            return lane_of(given, *rest)

        monkeypatch.setattr(module, "lane_of", noted)
    kernels = frozenset(("scatter", "scan", "sort"))
    calls(
        f"{PLACED} {line}\n return %3",
        Limits(
            costs=costs, kernels=kernels, many_threads=True, sorted_points=128,
            int64_bits=32 if narrow else 64,
        ),
    )  # fmt: skip
    assert asked
    assert set(asked) == {costs}


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
    assert call.kernel is contraction(cf.float32, cf.float32, (2, 3))
    assert call.sizes == (1, 1, 5, 4, 16, 16, 2, 3, 3)
    assert call.strides[0] == (0, 0, 256, 1280, 1)
    assert call.strides[1] == (0, 0, 648, 18, 1, 324, 18, 1)


def test_windows_are_copied_in_their_longest_runs() -> None:
    *copies, call = calls(CONVOLUTION)
    assert call.kernel is contraction(cf.float32, cf.float32, None)
    assert call.strides[1] == (0, 0, 1, 1024)
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
    assert call.kernel is contraction(cf.float32, cf.float32, digits)


# --- batches -------------------------------------------------------------------------------------


HEADS = """
        tape t
          input %0 : float32[2, 5, 3, 4, 8]  arg
          %1 = strided(%0, shape=(2, 4, 5, 8), strides=(480, 8, 96, 1), offset=0) : float32[2, 4, 5, 8]
          %2 = strided(%0, shape=(2, 4, 8, 5), strides=(480, 8, 1, 96), offset=32) : float32[2, 4, 8, 5]
          %3 = matmul(%1, %2) : float32[2, 4, 5, 5]
          %4 = strided(%0, shape=(2, 4, 5, 8), strides=(480, 8, 96, 1), offset=64) : float32[2, 4, 5, 8]
          %5 = matmul(%3, %4) : float32[2, 4, 5, 8]
"""  # noqa: E501


def test_heads_are_read_where_they_lie() -> None:
    scores, out = calls(f"{HEADS} return %5")
    assert scores.sizes == (2, 4, 5, 5, 8)
    assert scores.strides == ((480, 8, 96, 1), (480, 8, 1, 96), (100, 25, 5, 1))
    assert out.sizes == (2, 4, 5, 8, 5)
    assert out.strides == ((100, 25, 5, 1), (480, 8, 96, 1), (160, 40, 8, 1))


def test_heads_are_written_where_they_are_read() -> None:
    *_, out = calls(
        f"""{HEADS}
          %6 = strided(%5, shape=(2, 5, 4, 8), strides=(160, 8, 40, 1), offset=0) : float32[2, 5, 4, 8]
          %7 = clone(%6) : float32[2, 5, 4, 8]
          %8 = strided(%7, shape=(2, 5, 32), strides=(160, 32, 1), offset=0) : float32[2, 5, 32]
          %9 = exp(%8) : float32[2, 5, 32]
          return %9
        """  # noqa: E501
    )[:2]
    assert isinstance(out.kernel, Contraction)
    assert out.strides[2] == (160, 8, 32, 1)


def test_a_product_that_somebody_else_reads_stays_where_it_is() -> None:
    *_, out, copy = calls(
        f"""{HEADS}
          %6 = strided(%5, shape=(2, 5, 4, 8), strides=(160, 8, 40, 1), offset=0) : float32[2, 5, 4, 8]
          %7 = clone(%6) : float32[2, 5, 4, 8]
          return %5, %7
        """  # noqa: E501
    )
    assert out.strides[2] == (160, 40, 8, 1)
    assert isinstance(copy.kernel, Loops)


def test_a_product_is_not_written_element_by_element() -> None:
    """The heads of a place would lie side by side, so rows would be scattered."""
    *_, out, copy = calls(
        f"""{HEADS}
          %6 = strided(%5, shape=(2, 5, 8, 4), strides=(160, 8, 1, 40), offset=0) : float32[2, 5, 8, 4]
          %7 = clone(%6) : float32[2, 5, 8, 4]
          return %7
        """  # noqa: E501
    )
    assert out.strides[2] == (160, 40, 8, 1)
    assert isinstance(copy.kernel, Loops)


def test_a_transposed_product_is_a_product_of_transposes() -> None:
    (call,) = calls(
        """
        tape t
          input %0 : float32[6, 7]  arg
          input %1 : float32[7, 8]  arg
          %2 = matmul(%0, %1) : float32[6, 8]
          %3 = strided(%2, shape=(8, 6), strides=(1, 8), offset=0) : float32[8, 6]
          %4 = clone(%3) : float32[8, 6]
          return %4
        """
    )
    assert call.sizes == (1, 1, 8, 6, 7)
    assert call.strides == ((0, 0, 1, 8), (0, 0, 1, 7), (0, 0, 6, 1))


PARTS = """
        tape t
          input %0 : float32[6, 7]  arg
          input %1 : float32[7, 8]  arg
          %2 = matmul(%0, %1) : float32[6, 8]
          %3 = add(%0, 1) : float32[6, 7]
          %4 = matmul(%3, %1) : float32[6, 8]
          %5 = full(0, shape=(6, {parts}, 8), dtype=float32) : float32[6, {parts}, 8]
          %6 = assign(%5, %2, shape=(6, 8), strides=({row}, 1), offset=8) : float32[6, {parts}, 8]
          %7 = assign(%6, %4, shape=(6, 8), strides=({row}, 1), offset=0) : float32[6, {parts}, 8]
          return %7
"""


def test_products_are_written_as_parts_of_a_whole() -> None:
    """None is copied, and nothing is made of which nothing would be left."""
    _, first, second = calls(PARTS.format(parts=2, row=16))
    assert first.strides[2] == second.strides[2] == (0, 0, 16, 1)


def test_what_no_part_replaces_is_made() -> None:
    kinds = [type(call.kernel) for call in calls(PARTS.format(parts=3, row=24))]
    assert kinds == [Loops, Loops, Contraction, Contraction], "the sum, the zeros and the products"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("float32[3, 1, 4, 5]", "float32[2, 5, 6]"),
        ("float32[3, 1, 4, 5]", "float32[1, 2, 5, 6]"),
        ("float32[4, 5]", "float32[3, 2, 5, 6]"),
    ],
)
def test_batches_that_repeat_an_operand_do_not_copy_it(left: str, right: str) -> None:
    (call,) = calls(
        f"""
        tape t
          input %0 : {left}  arg
          input %1 : {right}  arg
          %2 = matmul(%0, %1) : float32[3, 2, 4, 6]
          return %2
        """
    )
    assert numel(call.sizes) == 3 * 2 * 4 * 6 * 5


VALUES = {cf.float32: 3, cf.bfloat16: 2, cf.int64: 100}  # so small that sums are exact


def whole_numbers(seed: int, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    most = VALUES[dtype]
    return np.random.default_rng(seed).integers(1 - most, most, shape)


@pytest.mark.parametrize("dtype", VALUES, ids=str)
@pytest.mark.parametrize(
    "sizes",
    [(2, 5, 3, 4), (1, 5, 3, 4), (2, 5, 1, 4), (2, 1, 3, 1), (0, 5, 3, 4), (2, 0, 3, 4),
     (2, 5, 0, 4), (2, 5, 3, 0), (3, 33, 2, 17)],
)  # fmt: skip
def test_attention_over_parts_of_a_projection(dtype: DType, sizes: tuple[int, ...]) -> None:
    """What heads give, and the gradient of what they were made of."""
    batch, tokens, heads, width = sizes

    @cf.compile
    def step(x: cf.Tensor, g: cf.Tensor) -> Any:
        q, k, v = (x.reshape(batch, tokens, 3, heads, width)[:, :, j] for j in range(3))
        q, k, v = (part.swapaxes(1, 2) for part in (q, k, v))
        out = (q @ k.mT @ v).swapaxes(1, 2).reshape(batch, tokens, heads * width)
        return (out, cf.autograd.grad(out, [x], [g])[0]) if x.requires_grad else (out,)

    x = whole_numbers(1, (batch, tokens, 3 * heads * width), dtype)
    g = whole_numbers(2, (batch, tokens, heads * width), dtype)
    q, k, v = (part.reshape(batch, tokens, heads, width) for part in np.split(x, 3, axis=2))
    g_heads = g.reshape(batch, tokens, heads, width)
    scores = np.einsum("bthd,bshd->bhts", q, k)
    g_scores = np.einsum("bthd,bshd->bhts", g_heads, v)
    expected = [np.einsum("bhts,bshd->bthd", scores, v)]
    parts = [
        np.einsum("bhts,bshd->bthd", g_scores, k),
        np.einsum("bhts,bthd->bshd", g_scores, q),
        np.einsum("bhts,bthd->bshd", scores, g_heads),
    ]
    expected.append(np.stack(parts, axis=2))
    given = cf.tensor(x, dtype=dtype, requires_grad=dtype.is_floating_point)
    for found, want in zip(step(given, cf.tensor(g, dtype=dtype)), expected):
        wanted = cf.tensor(want.reshape(found.shape), dtype=dtype)
        np.testing.assert_array_equal(found.detach().numpy(), wanted.numpy())


@pytest.mark.parametrize("dtype", VALUES, ids=str)
@pytest.mark.parametrize(
    ("left", "right", "out"),
    [
        ("ghmk", "ghkn", "ghmn"), ("mghk", "knhg", "mghn"), ("gmhk", "gnhk", "gmhn"),
        ("gmk", "hkn", "ghmn"), ("ghmk", "kn", "mhgn"), ("hmk", "gkhn", "gmnh"),
        ("gfhmk", "hgfkn", "fghmn"), ("fghmk", "hgkn", "nmhgf"), ("gmhk", "knh", "hgm"),
    ],
)  # fmt: skip
def test_products_of_batches_in_any_order(dtype: Any, left: str, right: str, out: str) -> None:
    extents = dict(zip("fghmnk", (2, 3, 4, 5, 6, 7)))
    a, b = (
        whole_numbers(seed, tuple(extents[c] for c in labels), dtype)
        for seed, labels in enumerate((left, right))
    )
    letters = out if set("mn") <= set(out) else out + "n"
    spec = f"{left},{right}->{letters}"
    product = cf.compile(lambda a, b: cf.einsum(spec, a, b))
    found = product(cf.tensor(a, dtype=dtype), cf.tensor(b, dtype=dtype))
    wanted = cf.tensor(np.einsum(spec, a, b), dtype=dtype)
    np.testing.assert_array_equal(found.numpy(), wanted.numpy())


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


@pytest.mark.parametrize("spec", ["bij,bjk->ik", "bji,bjk->ik", "bij,jbk->ik", "ibj,bjk->ik"])
@pytest.mark.parametrize(("b", "j"), [(3, 0), (0, 3), (0, 0)])
def test_sums_over_several_dims_of_which_some_are_empty(spec: str, b: int, j: int) -> None:
    sizes = {"b": b, "i": 4, "j": j, "k": 2}
    left, right = spec.split("->")[0].split(",")
    x, y = (cf.ones(*(sizes[c] for c in letters)) for letters in (left, right))
    found = cf.compile(lambda x, y: cf.einsum(spec, x, y))(x, y)
    np.testing.assert_array_equal(found.numpy(), np.zeros((4, 2)))
