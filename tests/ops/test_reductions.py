"""Reductions, scans, sorts and contractions: what the matrix of test_ops.py cannot see.

PyTorch's signatures, values at the edges (nothing to reduce, infinities, NaN, ties, zeros), and the
order in which einsum and chains of matrices are multiplied.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow import config
from contraflow.autograd import grad
from contraflow.ops.linalg import einsum as einsum_module
from contraflow.testing import assert_close, check_gradients

INF, NAN = float("inf"), float("nan")
X = np.arange(24.0).reshape(2, 3, 4) - 7.0


def leaf(values: Any) -> cf.Tensor:
    return cf.tensor(np.asarray(values, np.float64), requires_grad=True)


def gradient(function: Any, values: Any) -> list[Any]:
    """The gradient of the sum of what `function` gives."""
    x = leaf(values)
    (g,) = grad(function(x).sum(), x)
    found: list[Any] = g.tolist()
    return found


# --- signatures --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "nansum", "nanmean"])
@pytest.mark.parametrize("dim", [None, (), 0, -1, (0, 2), [0, -1]])
@pytest.mark.parametrize("keepdim", [False, True])
def test_dims_are_given_in_every_form(name: str, dim: Any, keepdim: bool) -> None:
    reference = getattr(np, {"amax": "max", "amin": "min"}.get(name, name))
    axis = None if dim in (None, ()) else dim if isinstance(dim, int) else tuple(dim)
    expected = reference(X, axis=axis, keepdims=keepdim)
    assert_close(getattr(cf, name)(cf.tensor(X), dim, keepdim), expected)
    assert_close(getattr(cf.tensor(X), name)(dim=dim, keepdim=keepdim), expected)


@pytest.mark.parametrize("name", ["sum", "prod", "nansum"])
def test_the_input_is_cast_before_it_is_reduced(name: str) -> None:
    x = cf.tensor([1.5, 1.5])
    assert getattr(x, name)(dtype=cf.int64).tolist() == {"sum": 2, "prod": 1, "nansum": 2}[name]
    assert getattr(cf.tensor([True, True]), name)().dtype is cf.int64
    assert getattr(cf.tensor([1, 2], dtype=cf.int8), name)(0, dtype=cf.float16).dtype is cf.float16


@pytest.mark.parametrize("name", ["mean", "var", "std", "nanmean", "quantile", "norm"])
def test_integers_have_no_mean(name: str) -> None:
    arguments = (0.5,) if name == "quantile" else ()
    with pytest.raises(TypeError, match=r"int64\[2\] is not floating-point\. Use x\.float\(\)"):
        getattr(cf.tensor([1, 2]), name)(*arguments)
    assert cf.tensor([1, 2]).mean(dtype=cf.float32).item() == 1.5


def test_every_form_of_max() -> None:
    x = cf.tensor([[1.0, 5.0, 2.0], [7.0, 0.0, 7.0]])
    assert x.max().item() == 7.0
    found = x.max(1)
    assert found.values.tolist() == [5.0, 7.0]
    assert found.indices.tolist() == [1, 0]
    assert x.max(dim=0, keepdim=True)[0].shape == (1, 3)
    assert cf.max(x, cf.tensor(3.0)).tolist() == cf.max(x, other=cf.tensor(3.0)).tolist()
    assert cf.aminmax(x, dim=1).max.tolist() == [5.0, 7.0]


def test_results_with_several_parts_have_names() -> None:
    x = cf.tensor([[2.0, 1.0]])
    assert x.sort()._fields == x.topk(1)._fields == x.cummax(0)._fields == ("values", "indices")
    compiled = cf.compile(lambda x: x.sort())(x)
    assert compiled.values.tolist() == [[1.0, 2.0]]


def test_every_form_of_var() -> None:
    x = cf.tensor(X)
    for unbiased in (False, True):
        expected = np.var(X, axis=1, ddof=int(unbiased))
        for found in (
            x.var(1, unbiased),
            x.var(1, unbiased=unbiased),
            x.var(dim=(1,), correction=int(unbiased)),
            cf.var_mean(x, 1, unbiased).var,
            x.std(1, unbiased) ** 2,
        ):
            assert_close(found, expected)
        assert_close(x.var(unbiased), np.var(X, ddof=int(unbiased)))
    with pytest.raises(TypeError, match="var: give unbiased or correction, not both"):
        x.var(1, True, correction=0)


def test_argmax_counts_through_all_dims() -> None:
    x = cf.tensor([[1.0, 9.0], [3.0, 9.0]])
    assert x.argmax().item() == 1
    assert x.argmax(keepdim=True).shape == (1, 1)
    assert x.argmin(0, True).tolist() == [[0, 0]]


def test_truth() -> None:
    x = cf.tensor([[1, 0], [2, 3]])
    assert x.all(1).tolist() == [False, True]
    assert x.any(dim=(0, 1)).item() is True
    assert x.all(dim=()).tolist() == [[True, False], [True, True]]  # no dims, not all of them
    assert x.to(cf.uint8).all().dtype is cf.uint8
    assert cf.tensor([]).all().item() is True
    assert cf.tensor([]).any().item() is False
    assert cf.tensor([NAN]).any().item() is True


# --- values and gradients at the edges ---------------------------------------------------------


@pytest.mark.parametrize("values", [[2.0, 3.0, 4.0], [0.0, 3.0, 4.0, 5.0], [0.0, 0.0, 2.0]])
def test_prod_with_zeros(values: list[float]) -> None:
    x = np.array(values)
    others = [float(np.prod(np.delete(x, i))) for i in range(len(x))]
    assert gradient(lambda t: t.prod(), x) == others
    assert gradient(lambda t: t.prod(0, keepdim=True), x) == others
    check_gradients(lambda t: t.prod(), [x], order=3)
    check_gradients(lambda t: t.cumprod(0), [x], order=3)


def test_nothing_to_reduce() -> None:
    empty = cf.zeros(2, 0)
    assert empty.sum(1).tolist() == [0.0, 0.0]
    assert empty.prod(1).tolist() == [1.0, 1.0]
    assert empty.logsumexp(1).tolist() == [-INF, -INF]
    assert np.isnan(empty.mean().item())
    assert empty.amax(0).shape == (0,)
    with pytest.raises(ValueError, match=r"amax: float32\[2, 0\] has no elements"):
        empty.amax(1)


def test_logsumexp_with_infinities() -> None:
    x = cf.tensor([[-INF, -INF], [-INF, 2.0], [INF, 1.0], [1000.0, 1000.0]], dtype=cf.float64)
    assert_close(x.logsumexp(1), np.array([-INF, 2.0, INF, 1000.0 + np.log(2.0)]))
    assert gradient(lambda t: t.logsumexp(0), [-INF, 2.0]) == [0.0, 1.0]
    assert gradient(lambda t: t.logcumsumexp(0)[-1:], [-INF, 3.0]) == [0.0, 1.0]


def test_ties_share_and_nan_takes_all() -> None:
    assert gradient(lambda t: t.amax(), [3.0, 3.0, 1.0]) == [0.5, 0.5, 0.0]
    assert gradient(lambda t: t.max(), [NAN, 3.0]) == [1.0, 0.0]
    assert gradient(lambda t: t.max(0).values, [3.0, 3.0]) == [1.0, 0.0]
    assert gradient(lambda t: t.cummax(0).values, [3.0, 3.0, 1.0]) == [1.0, 2.0, 0.0]


def test_degenerate_deviations() -> None:
    assert gradient(lambda t: t.std(), [2.0, 2.0]) == [0.0, 0.0]
    assert np.isnan(cf.tensor([1.0]).var().item())
    assert cf.tensor([1.0, 2.0]).var(0, correction=3).item() == INF


def test_halves_do_not_overflow_on_the_way() -> None:
    x = cf.full((64,), 2000.0, dtype=cf.float16)
    assert x.mean().item() == 2000.0
    assert x.var().item() == 0.0
    assert cf.full((4,), 300.0, dtype=cf.float16).norm().item() == 600.0


# --- order -------------------------------------------------------------------------------------


def test_sorting_is_stable_and_nan_is_the_largest() -> None:
    x = cf.tensor([2.0, NAN, 1.0, 2.0, NAN])
    assert x.argsort().tolist() == [2, 0, 3, 1, 4]
    assert x.argsort(descending=True).tolist() == [1, 4, 0, 3, 2]
    assert x.sort(stable=True, dim=0).indices.tolist() == [2, 0, 3, 1, 4]
    assert x.topk(2).indices.tolist() == [1, 4]
    assert x.kthvalue(3).values.item() == 2.0
    assert gradient(lambda t: t.sort(0).values[:1] * 5.0, [4.0, 1.0]) == [0.0, 5.0]


@pytest.mark.parametrize(
    ("data", "skip", "shares"),
    [
        ([1.0, 2.0, 2.0, 3.0, 2.0], False, [0, 1 / 3, 1 / 3, 0, 1 / 3]),
        ([1.0, np.nan, 2.0, np.nan], False, [0, 0.5, 0, 0.5]),
        ([1.0, np.nan, 2.0, np.nan, 1.0], True, [0.5, 0, 0, 0, 0.5]),
    ],
)
def test_equal_medians_share_the_gradient(data: Any, skip: bool, shares: list[float]) -> None:
    x = cf.tensor(data, dtype=cf.float64, requires_grad=True)
    (x.nanmedian() if skip else x.median()).backward()
    assert_close(x.grad, np.array(shares))


def test_medians_and_quantiles() -> None:
    x = cf.tensor([[1.0, NAN, 3.0, 2.0], [4.0, 1.0, 2.0, 3.0]])
    assert np.isnan(x.median(1).values.tolist()[0])
    assert x.median(1).indices.tolist() == [1, 2]  # of four numbers the second
    assert x.nanmedian(1).values.tolist() == [2.0, 2.0]
    assert np.isnan(x.median().item())
    assert x[1].quantile(0.5).item() == 2.5
    assert x[1].quantile(cf.tensor([0.0, 0.5, 1.0])).tolist() == [1.0, 2.5, 4.0]
    assert np.isnan(x.quantile(0.5, dim=1, keepdim=True).tolist()[0][0])
    assert x.nanquantile(0.5, 1).tolist() == [2.0, 2.5]
    assert cf.tensor([3, 1, 3, 2, 2]).mode().values.item() == 2


def test_cumulative_extremes_take_the_later_of_two() -> None:
    found = cf.tensor([1.0, 1.0, 3.0, 2.0, NAN, 5.0]).cummax(0)
    assert found.indices.tolist() == [0, 1, 2, 2, 4, 4]


def test_differences() -> None:
    x = cf.tensor([1, 3, 6])
    assert x.diff().tolist() == [2, 3]
    assert cf.diff(x, 1, -1, cf.tensor([0]), cf.tensor([10])).tolist() == [1, 2, 3, 4]
    assert cf.tensor([True, False, False]).diff().tolist() == [True, False]


# --- products ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("i,j", [(3,), (4,)]),
        ("ii", [(3, 3)]),
        ("iij->ji", [(3, 3, 2)]),
        ("ba", [(2, 3)]),
        ("a...b,b...->a...", [(2, 3, 4), (4, 3)]),
        ("...ij,...jk", [(2, 1, 3, 4), (5, 4, 2)]),
        ("ab,cd,ef->acebdf", [(2, 2), (2, 3), (3, 2)]),
        ("ij,kj,jl,l->ik", [(2, 3), (4, 3), (3, 2), (2,)]),
        (" i j , j -> i ", [(2, 3), (3,)]),
    ],
)
def test_einsum_means_what_numpy_means(equation: str, shapes: list[tuple[int, ...]]) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    expected = np.einsum(equation, *arrays)
    assert_close(cf.einsum(equation, *map(cf.tensor, arrays)), expected)
    assert_close(cf.einsum(equation, [cf.tensor(a) for a in arrays]), expected)


def test_einsum_by_numbers() -> None:
    a, b = cf.tensor(X[0]), cf.tensor(X[1])
    assert_close(cf.einsum(a, [0, 1], b, [2, 1], [2, 0]), X[1] @ X[0].T)
    assert_close(cf.einsum(a, [..., 0], b, [..., 0]), (X[0] * X[1]).sum(1))


def test_einsum_broadcasts_ones() -> None:
    a, b = np.ones((3, 1)), np.ones((2, 4))
    assert_close(cf.einsum("ij,kj->ikj", cf.tensor(a), cf.tensor(b)), np.ones((3, 2, 4)))


def test_einsum_multiplies_small_things_first(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    contract = einsum_module.contract

    def spy(a: Any, b: Any, spec: str) -> Any:
        seen.append(spec)
        return contract(a, b, spec=spec)

    monkeypatch.setattr(einsum_module, "contract", spy)
    monkeypatch.setattr(config, "eager_kernels", False)  # whose recording is a second call
    cf.einsum("ab,bc,c->a", cf.ones(50, 40), cf.ones(40, 30), cf.ones(30))
    assert seen == ["bc,c->b", "ab,b->a"]  # never a matrix by a matrix


def test_a_permuted_operand_is_a_view() -> None:
    x = cf.ones(2, 3)
    assert cf.einsum("ij->ji", x).storage is x.storage


def test_chains_are_multiplied_in_the_cheapest_order() -> None:
    compiled = cf.compile(lambda *matrices: cf.linalg.multi_dot(matrices))
    chain = [cf.ones(10, 100), cf.ones(100, 5), cf.ones(5, 50)]
    assert compiled(*chain).shape == (10, 50)
    made = [line.split(" : ")[1] for line in str(compiled.tape).splitlines() if "matmul(" in line]
    assert [text.split("]")[0] for text in made] == ["float32[10, 5", "float32[10, 50"]
    assert cf.chain_matmul(*chain).shape == (10, 50)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("addmm", [(3, 4), (4, 2)]),
        ("addmv", [(3, 4), (4,)]),
        ("addr", [(3,), (4,)]),
        ("addbmm", [(2, 3, 4), (2, 4, 5)]),
        ("baddbmm", [(2, 3, 4), (2, 4, 5)]),
    ],
)
def test_beta_zero_ignores_what_is_added(name: str, shapes: Any) -> None:
    a, b = (cf.ones(shape) for shape in shapes)
    added = getattr(cf.tensor(NAN), name)(a, b, beta=0, alpha=2)
    plain = getattr(cf.tensor(0.0), name)(a, b)
    assert_close(added, plain * 2.0)


def test_products_of_integers() -> None:
    a = cf.tensor([[1, 2], [3, 4]])
    assert (a @ a).dtype is cf.int64
    assert cf.compile(lambda a: a @ a)(a).tolist() == (a @ a).tolist() == [[7, 10], [15, 22]]
    with pytest.raises(TypeError, match="are bool"):
        (a > 1) @ (a > 1)


def test_mode_of_no_rows() -> None:
    for shape, dim, expected in (((0, 4), -1, (0,)), ((2, 3, 0), 1, (2, 0))):
        values, indices = cf.mode(cf.zeros(shape), dim)
        assert values.shape == indices.shape == expected
        assert indices.dtype is cf.int64
    assert cf.mode(cf.zeros(0, 4), 1, keepdim=True)[0].shape == (0, 1)
    with pytest.raises(ValueError, match=r"mode: float32\[0, 4\] has no elements along dim 0"):
        cf.mode(cf.zeros(0, 4), 0)


@pytest.mark.parametrize("compiled", [False, True])
def test_derivatives_at_uneven_distances(compiled: bool) -> None:
    """The numbers are PyTorch's."""
    x = cf.tensor([[1.0, 4.0, 9.0, 5.0], [2.0, 0.0, -3.0, 7.0]], dtype=cf.float64)
    points = cf.tensor([0.0, 1.0, 3.0, 7.0], dtype=cf.float64)
    call: Any = cf.compile(cf.gradient) if compiled else cf.gradient
    inner = [[17 / 6, 4 / 3], [-11 / 6, -1 / 6]]
    for order, first, last in ((1, [3, -2], [-1, 2.5]), (2, [19 / 6, -13 / 6], [-10 / 3, 31 / 6])):
        (found,) = call(x, spacing=(points,), dim=-1, edge_order=order)
        expected = [[a, *b, c] for a, b, c in zip(first, inner, last)]
        np.testing.assert_allclose(found, expected, rtol=1e-14)
    rows, columns = call(x, spacing=(cf.tensor([1.0, 4.0], dtype=cf.float64), points))
    np.testing.assert_allclose(rows, [[1 / 3, -4 / 3, -4, 2 / 3]] * 2, rtol=1e-14)
    assert columns.tolist() == call(x, spacing=[points], dim=[1])[0].tolist()
    with pytest.raises(ValueError, match="gradient: spacing has 1 entries for 2 dims; it must be"):
        cf.gradient(x, spacing=(points,))
    with pytest.raises(ValueError, match=r"gradient: the points float64\[2\] do not fit dim 1 of"):
        cf.gradient(x, spacing=(points[:2],), dim=1)
