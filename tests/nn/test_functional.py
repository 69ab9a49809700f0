"""nn.functional beyond the matrix: PyTorch's signatures, edge values, and gradients at ties.

Expected numbers are worked out by hand or by plain NumPy.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_common import refused

import contraflow as cf
from contraflow.autograd import grad, gradcheck, gradgradcheck
from contraflow.nn import functional as F
from contraflow.testing import assert_close, check_gradients

INF = math.inf


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def leaf(array: Any) -> cf.Tensor:
    return cf.tensor(np.asarray(array, np.float64), requires_grad=True)


def test_every_name_is_there() -> None:
    for name in F.__all__:
        assert callable(getattr(F, name)), name


# --- convolutions ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [5, 6, 7, 8])
def test_seed_6_input_gradient_where_the_stride_does_not_divide(size: int) -> None:
    x, w = leaf(random(1, 1, size, size)), leaf(np.ones((1, 1, 2, 2)))
    (g,) = grad(F.conv2d(x, w, stride=3).sum(), [x])
    assert g.shape == x.shape
    covered = np.zeros(size)
    for start in range(0, size - 1, 3):
        covered[start : start + 2] += 1
    assert_close(g, np.outer(covered, covered)[None, None])


def test_seed_4_layers_have_real_gradients() -> None:
    """What passes the incoming gradient through unchanged is found by differences."""
    x, w = random(2, 4, 5), random(4, seed=1)
    check_gradients(lambda x, w: F.layer_norm(x, (5,)) * w.sum(), [x, w])
    check_gradients(lambda x, w: F.batch_norm(x, None, None, w, None, True), [x, w])
    check_gradients(lambda x, w: F.instance_norm(x, weight=w), [x, w])
    check_gradients(
        lambda x, k: F.conv2d(x, k, padding=1), [random(1, 2, 4, 4), random(3, 2, 3, 3)]
    )

    def dropped(x: cf.Tensor) -> cf.Tensor:
        cf.manual_seed(3)
        return F.dropout(x, 0.5) * x

    check_gradients(dropped, [x])


def test_seed_5_mse_loss_uses_the_incoming_gradient_and_differentiates_its_target() -> None:
    x, t = leaf([1.0, 2.0]), leaf([3.0, 5.0])
    gx, gt = grad(F.mse_loss(x, t) * 10.0, [x, t])
    assert gx.tolist() == [-20.0, -30.0]
    assert gt.tolist() == [20.0, 30.0]


def test_positional_arguments_are_pytorchs() -> None:
    x, w, b = leaf(random(2, 2, 7, 7)), leaf(random(4, 1, 3, 3)), leaf(random(4))
    assert_close(
        F.conv2d(x, w, b, 2, 1, 1, 2),
        F.conv2d(input=x, weight=w, bias=b, stride=2, padding=1, dilation=1, groups=2),
    )
    assert F.conv_transpose2d(x, leaf(random(2, 3, 3, 3)), None, 2, 1, 1, 1, 1).shape == (
        2,
        3,
        14,
        14,
    )
    assert F.max_pool2d(x, 3, 2, 1, 1, True).shape == (2, 2, 4, 4)
    assert F.avg_pool2d(x, 3, 2, 1, False, False, 9).shape == (2, 2, 4, 4)
    assert F.unfold(x, 3, 1, 0, 2).shape == (2, 18, 9)
    assert F.fold(F.unfold(x, 3, 1, 0, 2), 7, 3, 1, 0, 2).shape == x.shape
    assert F.interpolate(x, 3).shape == (2, 2, 3, 3)
    assert F.group_norm(x, 2, None, None, 1e-3).shape == x.shape
    assert F.softmax(x, 1, dtype=cf.float32).dtype is cf.float32
    signature = inspect.signature(F.batch_norm).parameters
    assert list(signature)[1:6] == ["running_mean", "running_var", "weight", "bias", "training"]


def test_fold_of_unfold_counts_the_windows() -> None:
    ones = cf.ones(1, 1, 4, 4)
    counted = F.fold(F.unfold(ones, 3), (4, 4), 3)[0, 0]
    row = np.array([1.0, 2.0, 2.0, 1.0])
    assert_close(counted, np.outer(row, row).astype(np.float32))


def test_transposed_convolution_is_the_transpose() -> None:
    """<conv(x), y> = <x, conv_transpose(y)>, for the very same weight."""
    x, y, w = random(2, 3, 7, 6), random(2, 4, 3, 3, seed=1), random(4, 3, 3, 2, seed=2)
    there = F.conv2d(cf.tensor(x), cf.tensor(w), stride=2, padding=(0, 1), dilation=(1, 2))
    back = F.conv_transpose2d(
        cf.tensor(y), cf.tensor(w), stride=2, padding=(0, 1), dilation=(1, 2), output_padding=(0, 1)
    )
    assert back.shape == x.shape
    assert (there.numpy() * y).sum() == pytest.approx((back.numpy() * x).sum())


# --- pooling -----------------------------------------------------------------------------------


def test_max_pool_gives_its_gradient_to_the_first_of_the_largest() -> None:
    x = leaf(np.ones((1, 1, 3, 3)))
    values, indices = F.max_pool2d(x, 2, 1, return_indices=True)
    assert indices.tolist() == [[[[0, 1], [3, 4]]]]
    (g,) = grad(values.sum(), [x])
    assert g.tolist() == [[[[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]]]


def test_padding_of_max_pool_is_never_chosen() -> None:
    x = leaf(np.full((1, 1, 3), -INF))
    values, indices = F.max_pool1d(x, 3, 1, 1, return_indices=True)
    assert values.tolist() == [[[-INF] * 3]]
    assert indices.tolist() == [[[0, 0, 1]]]
    assert grad(values, [x], [cf.ones(1, 1, 3, dtype=cf.float64)])[0].tolist() == [
        [[2.0, 1.0, 0.0]]
    ]


def test_max_pool_keeps_nan() -> None:
    values, indices = F.max_pool1d(cf.tensor([[1.0, math.nan, 3.0, 0.0]]), 2, return_indices=True)
    assert math.isnan(values[0, 0].item())
    assert values[0, 1].item() == 3.0
    assert indices.tolist() == [[1, 2]]


def test_max_pool_indices_stay_integers() -> None:
    """An index kept as float32 is wrong past 2^24."""
    x = np.zeros((1, 1, 2**24 + 2), np.int8)
    x[..., -1] = 1
    _, indices = F.max_pool1d(cf.tensor(x), 2, 2, return_indices=True)
    assert indices.dtype is cf.int64
    assert indices[0, 0, -1].item() == 2**24 + 1


def test_avg_pool_counts_padding_as_asked() -> None:
    x = cf.ones(1, 1, 5)
    assert_close(F.avg_pool1d(x, 3, 2, 1), cf.tensor([[[2 / 3, 1.0, 2 / 3]]]))
    assert_close(F.avg_pool1d(x, 3, 2, 1, count_include_pad=False), cf.ones(1, 1, 3))
    # The window that hangs over the end counts neither what lies beyond the padding.
    assert_close(F.avg_pool1d(cf.ones(1, 1, 4), 3, 2, 0, True), cf.ones(1, 1, 2))
    assert_close(F.avg_pool2d(cf.ones(1, 4, 4), 2, divisor_override=1), cf.full((1, 2, 2), 4.0))


def test_a_window_in_ceil_mode_never_starts_in_the_padding() -> None:
    assert F.max_pool1d(cf.ones(1, 1, 4), 2, 3, 1, ceil_mode=True).shape == (1, 1, 2)
    assert F.max_pool1d(cf.ones(1, 1, 6), 2, 3, ceil_mode=True).shape == (1, 1, 2)
    assert F.max_pool1d(cf.ones(1, 1, 7), 2, 3, ceil_mode=True).shape == (1, 1, 3)


def test_adaptive_pools_split_unevenly() -> None:
    x = cf.tensor([[[1.0, 2.0, 3.0, 4.0, 5.0]]])
    assert F.adaptive_avg_pool1d(x, 3).tolist() == [[[1.5, 3.0, 4.5]]]
    values, indices = F.adaptive_max_pool1d(x, 3, return_indices=True)
    assert values.tolist() == [[[2.0, 4.0, 5.0]]]
    assert indices.tolist() == [[[1, 3, 4]]]
    assert F.adaptive_avg_pool2d(cf.ones(2, 3, 5, 7), (None, 2)).shape == (2, 3, 5, 2)


# --- resampling --------------------------------------------------------------------------------


def test_interpolate_by_hand() -> None:
    x = cf.tensor([[[0.0, 4.0]]])
    assert F.interpolate(x, 4).tolist() == [[[0.0, 0.0, 4.0, 4.0]]]
    assert F.interpolate(x, 4, mode="linear").tolist() == [[[0.0, 1.0, 3.0, 4.0]]]
    aligned = F.interpolate(x, 3, mode="linear", align_corners=True)
    assert aligned.tolist() == [[[0.0, 2.0, 4.0]]]
    assert F.interpolate(cf.tensor([[[1, 2]]]), 3).tolist() == [[[1, 1, 2]]]


def test_interpolate_does_not_spread_infinities() -> None:
    x = cf.tensor([[[1.0, 2.0, INF, 4.0, 5.0]]])
    assert F.interpolate(x, 5, mode="nearest").tolist() == x.tolist()
    up = F.interpolate(x, 10, mode="linear").tolist()[0][0]
    assert [math.isfinite(v) for v in up] == [True] * 3 + [False] * 4 + [True] * 3


def test_pixel_shuffle_and_back() -> None:
    x = cf.tensor(random(2, 8, 3, 2))
    assert_close(F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2), x)


# --- norms and softmax -------------------------------------------------------------------------


def test_softmax_of_nothing_and_of_infinities() -> None:
    assert F.softmax(cf.ones(0, 3), 1).shape == (0, 3)
    assert F.log_softmax(cf.ones(3, 0), 1).shape == (3, 0)
    assert F.softmax(cf.tensor(5.0), 0).item() == 1.0
    assert F.softmax(cf.tensor([-INF, 0.0]), 0).tolist() == [0.0, 1.0]
    assert all(map(math.isnan, F.softmax(cf.tensor([-INF, -INF]), 0).tolist()))


def test_half_precision_norms_compute_in_float32() -> None:
    x = cf.tensor([[300.0, -300.0]]).to(cf.float16)  # the squares overflow
    assert F.layer_norm(x, (2,)).tolist() == [[1.0, -1.0]]
    assert F.rms_norm(x, (2,)).tolist() == [[1.0, -1.0]]
    assert_close(F.normalize(x), cf.tensor([[0.7071, -0.7071]]).to(cf.float16))


def test_vectors_of_length_zero_have_a_finite_gradient() -> None:
    x, y = leaf([[0.0, 0.0], [3.0, 4.0]]), leaf([[1.0, 0.0], [3.0, 4.0]])
    for function in (lambda: F.normalize(x), lambda: F.cosine_similarity(x, y)):
        (g,) = grad(function().sum(), [x])
        assert np.isfinite(g.numpy()).all()
    assert F.cosine_similarity(x, y).tolist() == pytest.approx([0.0, 1.0])


def test_instance_norm_moves_its_running_statistics() -> None:
    x = random(3, 2, 5)
    average, variance = cf.zeros(2, dtype=cf.float64), cf.ones(2, dtype=cf.float64)
    F.instance_norm(cf.tensor(x), average, variance, momentum=0.5)
    assert_close(average, 0.5 * x.mean((0, 2)))
    assert_close(variance, 0.5 + 0.5 * x.var(2, ddof=1).mean(0))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: F.batch_norm(cf.ones(3), None, None), r"float32\[3\] has no channels"),
        (lambda: F.instance_norm(cf.ones(2, 3, 1)), r"float32\[2, 3, 1\] has 1 value per channel"),
        (lambda: F.dropout2d(cf.ones(3, 3)), r"dropout2d: float32\[3, 3\] has 2 dims; it needs 3"),
        (lambda: F.bilinear(cf.ones(2), cf.ones(3), cf.ones(1, 2, 2)), r"bilinear: float32\[2\]"),
    ],
)  # fmt: skip
def test_errors(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


# --- dropout -----------------------------------------------------------------------------------


@pytest.mark.parametrize("drop", [F.dropout1d, F.dropout2d, F.dropout3d])
def test_channel_dropout_keeps_or_drops_whole_channels(drop: Any) -> None:
    cf.manual_seed(1)
    rank = int(drop.__name__[-2])
    x = cf.ones(8, 16, *(3,) * rank)
    out = drop(x, 0.25).numpy().reshape(8 * 16, -1)
    assert set(np.unique(out)) == {np.float32(0.0), np.float32(4 / 3)}
    assert all(len(set(row)) == 1 for row in out)
    assert 0.1 < (out[:, 0] == 0).mean() < 0.4
    assert drop(x, 0.25, training=False) is x
    assert drop(x[0], 0.5).shape == x.shape[1:] if rank != 2 else True


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    cf.manual_seed(1)
    x = cf.randn(100_000)
    for p in (0.1, 0.5):
        out = F.alpha_dropout(x, p, training=True).numpy()
        assert abs(out.mean()) < 0.02
        assert abs(out.std() - 1) < 0.02
    assert F.alpha_dropout(x, 0.5) is x
    channels = F.feature_alpha_dropout(cf.ones(4, 50, 3), 0.5, training=True).numpy()
    assert len(np.unique(channels)) == 2
    assert (channels == channels[..., :1]).all()


def test_dropout_in_place() -> None:
    x = cf.ones(100)
    assert F.dropout(x, 0.5, inplace=True) is x
    assert set(x.tolist()) == {0.0, 2.0}


# --- attention ---------------------------------------------------------------------------------


def test_a_query_that_sees_nothing_gets_zeros() -> None:
    q, k, v = leaf(random(2, 4)), leaf(random(3, 4, seed=1)), leaf(random(3, 5, seed=2))
    mask = cf.tensor([[True, False, True], [False, False, False]])
    for given in (mask, cf.where(mask, 0.0, -INF).double()):
        out = F.scaled_dot_product_attention(q, k, v, given)
        assert out[1].tolist() == [0.0] * 5
        for g in grad(out.sum(), [q, k, v]):
            assert np.isfinite(g.numpy()).all()


def test_causal_attention_sees_the_past_only() -> None:
    q, k, v = (cf.tensor(random(2, 4, 3, seed=i)) for i in range(3))
    whole = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    part = F.scaled_dot_product_attention(q[:, 1:2], k[:, :2], v[:, :2])
    assert_close(whole[:, 1:2], part)
    mask = cf.tensor(np.tri(4, dtype=bool))
    assert_close(whole, F.scaled_dot_product_attention(q, k, v, mask))


def test_attention_is_one_node_of_every_order() -> None:
    q, k = leaf(random(2, 1, 3, 4)), leaf(random(2, 5, 4, seed=1))
    v, mask = leaf(random(5, 2, seed=2)), leaf(random(3, 5, seed=3))
    out = F.scaled_dot_product_attention(q, k, v, mask)
    assert out.shape == (2, 2, 3, 2)
    assert [end for end, _ in out.grad_fn.next_functions] == [q, k, v, mask]
    assert gradgradcheck(F.scaled_dot_product_attention, (q, k, v, mask))
    assert gradcheck(
        lambda *qkv: F.scaled_dot_product_attention(*qkv, is_causal=True, scale=0.7), (q, k, v)
    )


def test_attention_dropout_scales_what_survives() -> None:
    cf.manual_seed(0)
    ones = cf.ones(64, 4)
    out = F.scaled_dot_product_attention(ones, ones, cf.ones(64, 1), dropout_p=0.5)
    assert len(np.unique(out.numpy())) > 5
    assert abs(out.numpy().mean() - 1.0) < 0.1
    zero = F.scaled_dot_product_attention(ones, ones, ones, dropout_p=1.0)
    assert not zero.numpy().any()


# --- losses ------------------------------------------------------------------------------------


def test_a_class_that_is_not_there_is_refused_by_name() -> None:
    for name in ("cross_entropy", "nll_loss"):
        with refused(IndexError, f"{name}: index 5 is out of range for size 3."):
            getattr(cf.nn.functional, name)(cf.ones(2, 3), cf.tensor([0, 5]))


def test_cross_entropy_where_every_target_is_ignored() -> None:
    x, t = leaf(random(2, 3)), cf.tensor([-100, -100])
    assert math.isnan(F.cross_entropy(x, t).item())
    assert F.cross_entropy(x, t, reduction="sum").item() == 0.0
    assert F.cross_entropy(x, t, reduction="none").tolist() == [0.0, 0.0]


def test_cross_entropy_of_probabilities_equals_that_of_indices() -> None:
    x, t = cf.tensor(random(4, 3)), cf.tensor([0, 2, 1, 2])
    one_hot = cf.tensor(np.eye(3)[t.numpy()])
    for smoothing in (0.0, 0.3):
        for weight in (None, cf.tensor([1.0, 2.0, 0.5]).double()):
            for reduction in ("sum", "none"):
                kwargs = {"reduction": reduction, "label_smoothing": smoothing}
                found = F.cross_entropy(x, one_hot, weight, **kwargs)
                expected = F.cross_entropy(x, t, weight, **kwargs)
                assert_close(found, expected)


def test_a_target_beyond_the_classes_is_refused() -> None:
    with pytest.raises(IndexError, match="index 3 is out of range for size 3"):
        F.cross_entropy(cf.ones(1, 3), cf.tensor([3]))


def test_losses_at_the_edge_of_their_domain() -> None:
    x, t = leaf([0.0, 1.0]), cf.tensor([1.0, 0.0]).double()
    assert F.binary_cross_entropy(x, t, reduction="none").tolist() == [100.0, 100.0]
    assert_close(
        grad(F.binary_cross_entropy(x, t, reduction="sum"), [x])[0], np.array([-1e12, 1e12])
    )
    z = leaf([800.0, -800.0, 0.0])
    losses = F.binary_cross_entropy_with_logits(
        z, cf.tensor([0.0, 1.0, 0.5]).double(), reduction="none"
    )
    assert losses.tolist() == pytest.approx([800.0, 800.0, math.log(2)])
    (g,) = grad(losses.sum(), [z])
    assert g.tolist() == [1.0, -1.0, 0.0]
    none = F.kl_div(cf.tensor([-1.0, -2.0]), cf.tensor([0.0, 1.0]), reduction="none")
    assert none.tolist() == [0.0, 2.0]


def test_kinks_have_pytorchs_gradients() -> None:
    x = leaf([0.0, 1.0, -1.0])
    zero = cf.zeros(3, dtype=cf.float64)
    assert grad(F.l1_loss(x, zero, reduction="sum"), [x])[0].tolist() == [0.0, 1.0, -1.0]
    assert grad(F.huber_loss(x, zero, reduction="sum"), [x])[0].tolist() == [0.0, 1.0, -1.0]
    assert grad(F.smooth_l1_loss(x, zero, reduction="sum"), [x])[0].tolist() == [0.0, 1.0, -1.0]
    # A margin that is just met still has a gradient, as clamp has at its bound.
    target = cf.ones(3, dtype=cf.float64)
    met = F.margin_ranking_loss(x, x.detach(), target, reduction="sum")
    assert grad(met, [x])[0].tolist() == [-1.0] * 3


# --- tables ------------------------------------------------------------------------------------


def test_embedding_options() -> None:
    w, at = leaf(np.arange(8.0).reshape(4, 2)), cf.tensor([1, 1, 3])
    (g,) = grad(F.embedding(at, w, padding_idx=3).sum(), [w])
    assert g.tolist() == [[0.0, 0.0], [2.0, 2.0], [0.0, 0.0], [0.0, 0.0]]
    rows = F.embedding(at, w, scale_grad_by_freq=True)
    assert rows.tolist() == [[2.0, 3.0], [2.0, 3.0], [6.0, 7.0]]
    (g,) = grad(rows.sum(), [w])
    assert g.tolist() == [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
    table = cf.tensor([[3.0, 4.0], [6.0, 8.0], [0.3, 0.4]])
    F.embedding(cf.tensor([1, 2]), table, max_norm=5.0)
    assert_close(table, cf.tensor([[3.0, 4.0], [3.0, 4.0], [0.3, 0.4]]))
    with pytest.raises(NotImplementedError, match="embedding: sparse gradients"):
        F.embedding(at, w, sparse=True)


def test_embedding_bags() -> None:
    w = leaf(np.arange(8.0).reshape(4, 2))
    at, starts = cf.tensor([0, 1, 3, 3]), cf.tensor([0, 1, 1])
    total = F.embedding_bag(at, w, starts, mode="sum")
    assert total.tolist() == [[0.0, 1.0], [0.0, 0.0], [14.0, 17.0]]
    assert F.embedding_bag(at, w, starts, mode="max").tolist()[2] == [6.0, 7.0]
    assert F.embedding_bag(at.reshape(2, 2), w).tolist() == [[1.0, 2.0], [6.0, 7.0]]
    assert F.embedding_bag(at.reshape(2, 2), w, padding_idx=3).tolist()[1] == [0.0, 0.0]
    (g,) = grad(total[2].sum(), [w])
    assert g.tolist() == [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0], [2.0, 2.0]]


def test_bilinear_by_einsum() -> None:
    a, b, w, c = random(2, 3, 4), random(2, 3, 5), random(6, 4, 5), random(6)
    out = F.bilinear(*map(cf.tensor, (a, b, w, c)))
    assert_close(out, np.einsum("...i,oij,...j->...o", a, w, b) + c)
    check_gradients(F.bilinear, [a, b, w, c])


def _bag(at: Any, w: Any, starts: Any, mode: str) -> np.ndarray:
    """Bag by bag."""
    ends = [*starts[1:], len(at)]
    fold = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
    rows = [w[at[a:b]] for a, b in zip(starts, ends)]
    return np.stack([fold(r, 0) if len(r) else np.zeros(w.shape[1]) for r in rows])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_cut_by_offsets(mode: str) -> None:
    w, starts = random(6, 3), np.array([0, 3, 3, 4, 9])
    at = np.array([0, 2, 2, 5, 1, 3, 3, 4, 0, 2, 5])
    expected = _bag(at, w, starts, mode)

    def bags(w: Any, at: Any, starts: Any) -> Any:
        return F.embedding_bag(at, w, starts, mode=mode)

    given = cf.tensor(w), cf.tensor(at), cf.tensor(starts)
    assert_close(bags(*given), expected)
    assert_close(cf.compile(bags)(*given), expected)
    with_end = cf.tensor([*starts, len(at)])
    ended = F.embedding_bag(given[1], given[0], with_end, mode=mode, include_last_offset=True)
    assert_close(ended, expected)
    kept = at != 2
    cut = np.array([kept[:i].sum() for i in starts])
    padded = F.embedding_bag(given[1], given[0], given[2], mode=mode, padding_idx=-4)
    assert_close(padded, _bag(at[kept], w, cut, mode))
    check_gradients(lambda w: bags(w, *given[1:]), [w])
    if mode == "sum":
        check_gradients(
            lambda w, p: F.embedding_bag(
                given[1], w, given[2], mode=mode, per_sample_weights=p, padding_idx=2
            ),
            [w, random(11)],
        )


def test_of_equal_rows_in_a_bag_the_first_has_the_gradient() -> None:
    w = leaf([[1.0, 5.0], [1.0, 5.0], [0.0, 7.0]])
    largest = F.embedding_bag(cf.tensor([0, 1, 2]), w, cf.tensor([0]), mode="max")
    (g,) = grad(largest.sum(), [w])
    assert g.tolist() == [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]


def test_no_bag_looks_at_the_rows_of_another() -> None:
    # Were every row kept for every bag, this would take 4,000 times the memory of the rows.
    at, starts = cf.zeros(20_000, dtype=cf.int64), cf.arange(0, 20_000, 5)
    w = cf.ones(4, 64, requires_grad=True)
    with cf.profiler.profile() as profile:
        total = F.embedding_bag(at, w, starts, mode="sum")
        total.sum().backward()
    assert total.shape == (4000, 64)
    assert w.grad is not None
    assert w.grad[0, 0].item() == 20_000
    assert profile.peak_memory < 20 * 20_000 * 64 * 4


def test_linear_without_input_features_has_gradients() -> None:
    x, w, b = (cf.zeros(*shape, requires_grad=True) for shape in ((3, 0), (2, 0), (2,)))
    F.linear(x, w, b).sum().backward()
    assert (x.grad.shape, w.grad.shape, b.grad.tolist()) == ((3, 0), (2, 0), [3.0, 3.0])


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample_where_there_is_no_number(padding: str) -> None:
    x = cf.arange(1.0, 17.0).reshape(1, 1, 4, 4).requires_grad_()
    points = cf.tensor([[[[math.nan, 0.3], [0.3, math.nan], [0.0, 0.0]]]])
    near = F.grid_sample(x, points, "nearest", padding, align_corners=False)
    linear = F.grid_sample(x, points, "bilinear", padding, align_corners=False)
    cubic = F.grid_sample(x, points, "bicubic", padding, align_corners=False)
    assert cubic.isnan().reshape(-1).tolist() == [True, True, False]
    if padding == "zeros":
        assert near.reshape(-1).tolist() == [0.0, 0.0, 11.0]
        assert linear.isnan().reshape(-1).tolist() == [True, True, False]
    else:  # the first pixel of the dim
        assert near.reshape(-1).tolist() == [9.0, 3.0, 11.0]
        assert_close(linear.reshape(-1), cf.tensor([9.4, 3.1, 8.5]))
    (g,) = grad(linear.sum(), x)
    assert g.sum().item() == (1.0 if padding == "zeros" else 3.0)


def test_ctc_loss_refuses_lengths_that_are_not_there() -> None:
    log_probs, targets = F.log_softmax(cf.zeros(5, 2, 4), 2), cf.tensor([[1, 2], [2, 3]])

    def loss(lengths: Any, labels: Any) -> Any:
        return F.ctc_loss(log_probs, targets, lengths, labels)

    with refused(ValueError, "ctc_loss: input_lengths holds 6; it must be from 0 to 5."):
        loss((5, 6), (2, 2))
    with refused(ValueError, "ctc_loss: input_lengths holds -1; it must be from 0 to 5."):
        loss(cf.tensor([5, -1]), (2, 2))
    with refused(ValueError, "ctc_loss: target_lengths holds 3; it must be from 0 to 2."):
        loss((5, 5), (2, 3))
    with refused(ValueError, "ctc_loss: target_lengths add up to 4, but the targets are int64[3]."):
        F.ctc_loss(log_probs, cf.tensor([1, 2, 2]), (5, 5), (2, 2))
    compiled = cf.compile(loss)
    fitting = cf.tensor([5, 4]), cf.tensor([2, 1])
    assert_close(compiled(*fitting), loss(*fitting))
    with pytest.raises(IndexError, match="ctc_loss: index 6 is out of range"):
        compiled(cf.tensor([6, 5]), cf.tensor([2, 2]))


def test_norms_of_nothing() -> None:
    w = cf.ones(3, requires_grad=True)
    for shape in ((0, 3), (0, 3, 4), (2, 3, 0)):
        x = cf.zeros(*shape, requires_grad=True)
        (F.batch_norm(x, cf.zeros(3), cf.ones(3), w, training=True)).sum().backward()
        assert x.grad is not None
        assert x.grad.shape == shape
    assert F.instance_norm(cf.zeros(2, 3, 0), weight=w).shape == (2, 3, 0)


def test_linear_without_inputs_has_gradients() -> None:
    x, w, b = (cf.ones(*s, requires_grad=True) for s in ((3, 0), (4, 0), (4,)))
    for run in (F.linear, cf.compile(F.linear)):
        gradients = cf.autograd.grad(run(x, w, b).sum(), [x, w, b])
        assert [g.tolist() for g in gradients] == [[[]] * 3, [[]] * 4, [3.0] * 4]


@pytest.mark.parametrize("named", [0, 1, 3, 20])
def test_multilabel_margin_loss_of_few_and_of_many_classes(named: int) -> None:
    """In eager mode pairs are formed with the classes that are named, compiled with all."""
    rng, classes = np.random.default_rng(named), 20
    scores = rng.standard_normal((6, classes))
    target = np.full((6, classes), -1)
    for row in target:
        row[:named] = rng.permutation(classes)[:named]
    if named == 3:
        target[0, 1], target[1, 0], target[2, 3:] = target[0, 0], -1, 7
    want, slope = [], np.zeros_like(scores)
    for i, row in enumerate(target):
        ends = [*np.flatnonzero(row < 0), classes]
        chosen = row[: ends[0]]
        total = 0.0
        for j in chosen:
            for k in set(range(classes)) - set(chosen):
                gap = 1 - scores[i, j] + scores[i, k]
                total += max(gap, 0.0)
                slope[i, j] -= gap > 0
                slope[i, k] += gap > 0
        want.append(total / classes)
    for loss in (F.multilabel_margin_loss, cf.compile(F.multilabel_margin_loss)):
        x, labels = leaf(scores), cf.tensor(target)
        assert_close(loss(x, labels, reduction="none"), np.array(want))
        (g,) = grad(loss(x, labels, reduction="sum"), x)
        assert_close(g, slope / classes)
        assert_close(loss(x[0], labels[0]), np.array(want[0]))
    with pytest.raises(IndexError, match="20"):
        F.multilabel_margin_loss(cf.tensor(scores), cf.full((6, classes), classes))


def test_numbers_that_cannot_be() -> None:
    with refused(
        ValueError, "one_hot: num_classes is 0; it must be at least 1, or -1 to count them."
    ):
        F.one_hot(cf.tensor([0]), 0)
    with refused(ValueError, "local_response_norm: size is 0; it must be positive."):
        F.local_response_norm(cf.ones(1, 2, 3), 0)
    for chosen in (cf.topk, cf.kthvalue, cf.compile(cf.topk)):
        with pytest.raises(TypeError, match=r"cannot take .*float32.2., "):
            chosen(cf.ones(2), 1.0)


def test_celu_of_negative_alpha() -> None:
    """As in PyTorch: it is eager mode that limited what it takes the exponential of."""
    x = leaf([-2.0, -0.5, 1.0])
    out = F.celu(x, -1.0)
    (g,) = grad(out.sum(), x)
    assert_close(out.detach(), np.array([-np.expm1(2.0), -np.expm1(0.5), 1.0]))
    assert_close(g, np.array([np.exp(2.0), np.exp(0.5), 1.0]))
