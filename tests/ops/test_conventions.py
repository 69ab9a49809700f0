"""PyTorch's conventions at the edges: what its own samples of these functions found.

`test_peers.py` compares whole ops with PyTorch; these need no PyTorch, and are about arguments that
an op's samples do not have.
"""

from __future__ import annotations

import numpy as np
import pytest

import contraflow as cf
import contraflow.nn.functional as F
from contraflow.testing import assert_close


def test_factors_beside_integers_are_cut_to_integers():
    x, a, b = cf.ones(2, dtype=cf.int64), cf.ones((2, 3), dtype=cf.int64), cf.ones(3).long()
    assert_close(cf.addmv(x, a, b, beta=0.6, alpha=2.9), cf.tensor([6, 6]))
    assert_close(
        cf.addr(x.bool(), x.bool(), x.bool(), beta=3, alpha=2), cf.tensor([[True] * 2] * 2)
    )


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod"])
def test_a_dtype_that_was_asked_for_is_that_of_the_result(name):
    out = getattr(cf.ones((2, 3), dtype=cf.uint8), name)(1, dtype=cf.int8)
    assert out.dtype is cf.int8


def test_no_differences_leave_out_what_would_be_joined():
    x = cf.tensor([1.0, 3.0])
    assert_close(cf.diff(x, 0, prepend=x), x)


def test_a_value_that_fills_one_place_twice_has_its_gradient_once():
    value = cf.tensor(2.0, requires_grad=True)
    cf.zeros(3).index_fill(0, cf.tensor([1, 1, -2]), value).sum().backward()
    assert value.grad.item() == 1.0


def test_an_empty_index_gathers_nothing_of_any_shape():
    x = cf.ones(5, requires_grad=True)
    out = x.gather(0, cf.zeros((2, 0), dtype=cf.int64))
    assert out.shape == (2, 0)
    out.sum().backward()
    assert_close(x.grad, np.zeros(5))


def test_dropout_of_channels_needs_channels_in_training_only():
    x = cf.ones(5)
    assert_close(F.feature_alpha_dropout(x, training=False), x)
    with pytest.raises(ValueError, match="has no channels"):
        F.feature_alpha_dropout(x, training=True)


def test_weighed_covariance_is_that_of_repeated_observations():
    x = cf.tensor([[1.0, 2.0, 4.0], [0.5, 3.0, 1.0]])
    often = cf.tensor([2, 0, 3])
    assert_close(cf.cov(x, fweights=often), cf.cov(x.repeat_interleave(often, 1)))


def test_weighed_covariance_is_promoted_by_weights_that_are_not_counts():
    x = cf.tensor([[1.0, 2.0, 4.0], [3.0, 1.0, 5.0]], dtype=cf.bfloat16)
    counts, weights = cf.tensor([1, 2, 1]), cf.tensor([0.5, 1.0, 1.0])
    assert cf.cov(x, fweights=counts).dtype is cf.bfloat16
    assert cf.cov(x, fweights=counts, aweights=weights).dtype is cf.float32
    assert cf.cov(x, aweights=weights.double()).dtype is cf.float64


def test_cdist_knows_its_modes():
    x = cf.tensor([[0.0, 3.0], [4.0, 0.0]])
    assert_close(cf.cdist(x, x, 2.0, "use_mm_for_euclid_dist"), np.array([[0.0, 5.0], [5.0, 0.0]]))
    with pytest.raises(ValueError, match="cdist: compute_mode is 'fast'; it must be one of use_mm"):
        cf.cdist(x, x, compute_mode="fast")


def test_a_hermitian_pseudo_inverse_reads_the_lower_triangle():
    x = cf.tensor([[2.0, 9.0], [1.0, 3.0]])
    expected = np.linalg.inv(np.array([[2.0, 1.0], [1.0, 3.0]]))
    assert_close(cf.linalg.pinv(x, hermitian=True), expected)


def test_tolerances_of_a_rank_may_be_one_for_each_matrix():
    x = cf.tensor([np.diag([1.0, 0.1]), np.diag([1.0, 0.1])])
    assert_close(cf.linalg.matrix_rank(x, rtol=cf.tensor([0.01, 0.5])), cf.tensor([2, 1]))
    assert_close(cf.linalg.matrix_rank(x, atol=cf.tensor([2.0, 0.5])), cf.tensor([0, 1]))


def test_linalg_is_stricter_or_milder_than_what_it_shares_a_name_with():
    assert_close(cf.linalg.vander(cf.tensor(3.0), N=3), np.array([[1.0, 3.0, 9.0]]))
    with pytest.raises(ValueError, match="different numbers of dims"):
        cf.linalg.cross(cf.ones((2, 3)), cf.ones(3))


def test_tensor_equations():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3, 6)), rng.standard_normal((2, 3))
    assert_close(cf.linalg.tensorsolve(cf.tensor(a), cf.tensor(b)), np.linalg.tensorsolve(a, b))
    assert_close(cf.linalg.tensorinv(cf.tensor(a)), np.linalg.tensorinv(a))
    with pytest.raises(ValueError, match="is not a square map when its first 1 dims are rows"):
        cf.linalg.tensorinv(cf.tensor(a), 1)
    with pytest.raises(ValueError, match="does not map a tensor to float64"):
        cf.linalg.tensorsolve(cf.tensor(a), cf.tensor(b[0]))


def test_limits_beside_integers_are_cut_to_integers():
    x = cf.tensor([-2, 0, 2])
    assert_close(F.hardtanh(x, -1.5, 1.5), cf.tensor([-1, 0, 1]))
    assert_close(F.threshold(x, 0.5, -9.5), cf.tensor([-9, -9, 2]))


def test_polygamma_is_a_method_too():
    x = cf.tensor([0.5, 2.0])
    assert_close(x.polygamma(1), cf.polygamma(1, x))


def test_a_part_does_not_start_at_a_truth_value():
    with pytest.raises(TypeError, match=r"narrow: start is bool\[\]; it must be an integer"):
        cf.ones(5).narrow(0, cf.tensor(True), 1)


def test_functions_that_write_in_place_have_functions_of_their_names():
    x = cf.tensor([0.0, 1.0])
    assert cf.exp_(x) is x
    assert_close(x, np.exp([0.0, 1.0]))
    with pytest.raises(AttributeError, match="has no attribute 'matmul_'"):
        _ = cf.matmul_


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling_undoes_pooling(n):
    x = cf.arange(float(4**n)).reshape(1, 1, *(4,) * n)
    pooled, indices = getattr(F, f"max_pool{n}d")(x, 2, return_indices=True)
    unpool = getattr(F, f"max_unpool{n}d")
    out = unpool(pooled, indices, 2)
    assert out.shape == x.shape
    assert_close(out.sum(), pooled.sum())
    assert unpool(pooled, indices, 2, output_size=(5,) * n).shape == (1, 1, *(5,) * n)
    with pytest.raises(ValueError, match="is not within a stride"):
        unpool(pooled, indices, 2, output_size=(6,) * n)


def test_a_triplet_may_have_a_distance_of_its_own():
    a, b, c = (cf.tensor([[v]]) for v in (0.0, 1.0, 3.0))
    loss = F.triplet_margin_with_distance_loss(
        a, b, c, distance_function=lambda x, y: (x - y).abs().sum(-1), margin=4.0, swap=True
    )
    assert_close(loss, np.array(3.0))
    with pytest.raises(ValueError, match="margin is 0; it must be positive"):
        F.triplet_margin_with_distance_loss(a, b, c, margin=0)


@pytest.mark.parametrize(
    "layer",
    [
        cf.nn.BatchNorm1d(4, bias=False),
        cf.nn.GroupNorm(2, 4, bias=False),
        cf.nn.InstanceNorm1d(4, affine=True, bias=False),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_a_norm_may_scale_without_shifting(layer):
    assert layer.bias is None
    assert layer.weight.shape == (4,)
    assert layer(cf.ones((2, 4, 3))).shape == (2, 4, 3)


def test_an_empty_batch_changes_no_statistics():
    layer = cf.nn.BatchNorm1d(3)
    assert layer(cf.zeros((0, 3))).shape == (0, 3)
    assert_close(layer.running_var, np.ones(3))


def test_arguments_have_their_names():
    a, b = cf.tensor([[2.0, 0.0], [0.0, 4.0]]), cf.tensor([2.0, 4.0])
    assert_close(b.pow(exponent=2), np.array([4.0, 16.0]))
    assert_close(cf.float_power(b, exponent=2.0), np.array([4.0, 16.0]))
    assert_close(cf.heaviside(input=b * 0, values=b), b)
    assert_close(cf.linalg.solve(A=a, B=b), np.ones(2))
    with pytest.raises(NotImplementedError, match="gather: sparse gradients are absent"):
        a.gather(0, cf.zeros((1, 2), dtype=cf.int64), sparse_grad=True)


def test_integers_at_equal_distances_lie_between_integers():
    assert cf.linspace(4.3, -3, 4, dtype=cf.int64).tolist() == [4, 1, 0, -3]
    assert cf.logspace(0, 1.2, 2, dtype=cf.int64).tolist() == [1, 10]


def test_special_functions_have_their_own_names():
    x = cf.tensor([0.25, 2.0])
    assert_close(cf.special.expit(x), x.sigmoid())
    assert_close(cf.special.gammaln(x), x.lgamma())
    assert_close(cf.special.entr(cf.tensor([1.0, 0.0, -1.0])), np.array([0.0, 0.0, -np.inf]))
    assert_close(cf.special.ndtr(cf.tensor([0.0, -40.0])), np.array([0.5, 0.0]))


def test_an_empty_dim_has_no_runs():
    assert cf.unique_consecutive(cf.zeros((5, 0, 5)), dim=1).shape == (5, 0, 5)


def test_a_number_beside_a_tensor_does_not_widen_it():
    for x in (cf.tensor(0.5), cf.tensor([0.5])):
        assert cf.xlogy(x, 2.5).dtype is cf.float32
        assert cf.special.xlog1py(2.5, x).dtype is cf.float32
