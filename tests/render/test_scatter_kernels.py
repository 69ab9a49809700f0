"""Scatters as generated code: the order of additions, wrong indices, and every layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.native import run_native
from tests.helpers.sequence_kernels import kernel_uses, run_op, strided, values

import contraflow as cf
from contraflow import config, dtypes
from contraflow.compiler.kernel import Scatter
from contraflow.dtypes import DType

SIZES = (0, 1, 7, 16, 65)


def indices(shape: Any, size: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, size, shape)


@pytest.mark.parametrize("columns", [1, 3, 8, 40, 130])
@pytest.mark.parametrize("rows", SIZES)
def test_rows_are_added_in_their_order(rows: int, columns: int) -> None:
    """Wide rows are cut across, narrow ones are dealt out: the bits are the same."""
    g, index = values((rows, columns)), indices((rows,), 5)
    run_op("sum_at", (g, index[None]), {"dims": (0,), "shape": (5, columns), "wrap": False})


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_sums_of_every_dtype(dtype: DType) -> None:
    """Half precision is added in float32 and rounded once; integers wrap."""
    g, index = values((19, 6), dtype), indices((19, 6), 4)
    run_op("scatter_sum", (g, index), {"dim": 0, "shape": (4, 6)})
    run_op("scatter_add", (values((19, 3), dtype, 2), indices((19, 6), 3), g), {"dim": 1})


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("layout", [lambda x: x, strided], ids=("dense", "strided"))
def test_every_dim_and_layout(dim: int, layout: Any) -> None:
    shape = (3, 5, 17)
    large = tuple(n + (d == dim) for d, n in enumerate(shape))
    x, src = layout(values(large, seed=3)), layout(values(shape))
    index = layout(indices(shape, large[dim]))
    for op in ("scatter", "scatter_add"):
        run_op(op, (x, index, src), {"dim": dim})
    repeated = np.broadcast_to(index[:1, :1, :1].copy(), shape)
    run_op("scatter_add", (x, repeated, src), {"dim": dim})


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["prod", "amax", "amin"])
@pytest.mark.parametrize("dtype", [cf.float32, cf.bfloat16, cf.int32, cf.bool], ids=str)
def test_folds(dtype: DType, reduce: str, include_self: bool) -> None:
    x, src, index = values((4, 9), dtype), values((11, 9), dtype, 5), indices((11, 9), 4)
    if dtype.is_floating_point:
        src[0, :3], x[1, 3:5] = (np.nan, -np.inf, -0.0), np.nan
    params = {"dim": 0, "reduce": reduce, "include_self": include_self}
    run_op("scatter_fold", (x, index, src), params)


@pytest.mark.parametrize("accumulate", [True, False])
def test_points_and_negative_indices(accumulate: bool) -> None:
    x, at = values((4, 3, 9)), np.array([[0, -1, 3, -4, 0], [2, -3, 0, 1, 2]])
    how = {"accumulate": accumulate, "wrap": True}
    run_op("put_at", (x, at, values((5, 9))), {"dims": (0, 1), **how})
    run_op("put_at", (x, at % 4, values((5, 3))), {"dims": (0, 2), **how})
    run_op("put_at", (values((4, 3)), at, values((5,))), {"dims": (0, 1), **how})
    run_op("put_at", (x, at[:, :0], values((0, 9))), {"dims": (0, 1), **how})


@pytest.mark.parametrize("dtype", [cf.uint8, cf.int16, cf.int32], ids=str)
def test_indices_of_every_dtype(dtype: DType) -> None:
    index = indices((12, 5), 7).astype(dtype.numpy)
    run_op("scatter_sum", (values((12, 5)), index), {"dim": 0, "shape": (7, 5)})


@pytest.mark.parametrize("shares", [1, 2, 5])
@pytest.mark.parametrize(
    ("op", "g", "index", "params"),
    [
        ("sum_at", (9, 40), (1, 9), {"dims": (0,), "shape": (6, 40), "wrap": True}),
        ("sum_at", (9, 4), (1, 9), {"dims": (0,), "shape": (6, 4), "wrap": True}),
        ("scatter_sum", (9,), (9,), {"dim": 0, "shape": (6,)}),
        ("scatter_sum", (9, 40), (9, 40), {"dim": 0, "shape": (6, 40)}),
        ("scatter_sum", (9, 4), (9, 4), {"dim": 1, "shape": (9, 6)}),
        ("scatter_sum", (9,), (9,), {"dim": 0, "shape": (0,)}),
    ],
)
def test_a_wrong_index_is_told_and_writes_nothing(
    op: str, g: Any, index: Any, params: Any, shares: int
) -> None:
    wrong = -7
    at = indices(index, 6) if params["shape"][0] else np.zeros(index, np.int64)
    at.reshape(-1)[5] = wrong
    uses, _, memory = kernel_uses(op, (np.ones(g, np.float32), at), params)
    (use,) = (use for use in uses if isinstance(use.call.kernel, Scatter))
    out = np.zeros(int(np.prod(params["shape"])) + 2, np.float32)
    bound: list[Any] = []
    scalars: list[Any] = []
    for operand, place in zip(use.call.kernel.operands, use.places):
        if operand.mode == "scalar":
            bound.append((None, len(scalars)))
            scalars.append(place.value)
        elif operand.mode == "inout":
            bound.append((out, 1))
        else:
            bound.append((memory[place.value], place.offset))
    records = run_native(use.call, bound, scalars, edges=range(shares + 1), line=11)
    found = {record for record in records if record != (0, 0)}
    told = wrong + 6 if params.get("wrap") else 0 if not params["shape"][0] else wrong
    assert found <= {(12, wrong), (12, told)}
    assert found
    right = np.sum((at >= 0) & (at < params["shape"][params.get("dim", 0)]))
    assert out.sum() == right * np.prod(g) / at.size
    assert out[0] == out[-1] == 0


def test_a_kernel_serves_every_size() -> None:
    kernels = set()
    for rows, columns, size in ((7, 40, 5), (100, 64, 3), (2, 9, 4)):
        params = {"dims": (0,), "shape": (size, columns), "wrap": False}
        uses = kernel_uses("sum_at", (values((rows, columns)), indices((1, rows), size)), params)[0]
        kernels |= {use.call.kernel for use in uses if isinstance(use.call.kernel, Scatter)}
    assert len(kernels) == 1


def test_a_program_blames_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile_mode", "native")
    x, index = cf.zeros(4, 3), cf.tensor([0, 4])
    before = x.clone()

    @cf.compile
    def add(x: Any, index: Any) -> Any:
        return x.index_add_(0, index, cf.ones(2, 3))

    with pytest.raises(IndexError, match=r"index_add: index 4 .* size 4, at .*test_scatter"):
        add(x, index)
    assert cf.equal(x, before)
    add(x, cf.tensor([0, 3]))
    assert x.sum().item() == 6


def test_no_host_step_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile_mode", "native")
    weight, index = cf.randn(50, 8, requires_grad=True), cf.randint(0, 50, (4, 6))

    @cf.compile
    def step(weight: Any, index: Any) -> Any:
        (cf.nn.functional.embedding(index, weight) ** 2).sum().backward()
        return weight.grad

    g = step(weight, index)
    assert "host" not in str(step.explain())
    expected = np.zeros((50, 8), np.float32)
    np.add.at(expected, index.numpy(), 2 * weight.detach().numpy()[index.numpy()])
    np.testing.assert_array_equal(g.numpy(), expected)


def test_large_eager_calls_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    g, index = values((400, 70)), indices((400,), 30)
    expected = np.zeros((30, 70))  # carried in float64
    np.add.at(expected, index, g)
    for kernels in (True, False):
        monkeypatch.setattr(config, "eager_kernels", kernels)
        out = cf.zeros(30, 70).index_add(0, cf.tensor(index), cf.tensor(g))
        np.testing.assert_array_equal(out.numpy(), expected.astype(np.float32))
