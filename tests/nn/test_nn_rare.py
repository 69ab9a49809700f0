"""Fractional pooling, the adaptive softmax, linear cross entropy, and attention as a function."""

from __future__ import annotations

import re

import numpy as np
import pytest

import contraflow as cf
from contraflow import nn
from contraflow.nn import functional as F
from contraflow.nn import projection


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("n", [2, 3])
def test_fractional_pooling_takes_the_largest_of_its_windows(n, compiled):
    cf.manual_seed(0)
    pool = getattr(nn, f"FractionalMaxPool{n}d")(2, output_ratio=0.6, return_indices=True)
    x = cf.randn(2, 3, *(9,) * n, requires_grad=True)

    def run(x):
        values, indices = pool(x)
        values.sum().backward()
        return values.detach(), indices

    run = cf.compile(run) if compiled else run
    values, indices = run(x)
    assert values.shape == (2, 3, *(5,) * n)
    rows = x.detach().numpy().reshape(6, -1)
    flat = indices.numpy().reshape(6, -1)
    np.testing.assert_array_equal(np.take_along_axis(rows, flat, 1), values.numpy().reshape(6, -1))
    counts = np.zeros_like(rows)
    np.add.at(counts, (np.arange(6)[:, None], flat), 1)
    np.testing.assert_array_equal(x.grad.numpy().reshape(6, -1), counts)
    drawn = [run(x)[1].tolist() for _ in range(4)]
    assert any(again != indices.tolist() for again in drawn)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.FractionalMaxPool2d(2), "FractionalMaxPool2d: give either output_size or outp"),
        (
            lambda: nn.FractionalMaxPool2d(2, output_ratio=(0.5, 1.5)),
            "FractionalMaxPool2d: output_ratio is (0.5, 1.5); it must be between 0 and 1, one for",
        ),
        (
            lambda: F.fractional_max_pool2d(cf.zeros(3, 4, 4), 3, output_size=3),
            "fractional_max_pool2d: [3, 3] windows of [3, 3] do not fit into float32[3, 4, 4].",
        ),
        (
            lambda: F.fractional_max_pool3d(cf.zeros(3, 4), 2, output_size=2),
            "fractional_max_pool3d: float32[3, 4] has 2 dims; it needs [n, channels] or [channels]",
        ),
        (
            lambda: F.fractional_max_pool2d(
                cf.zeros(2, 3, 4, 4), 2, 2, _random_samples=cf.zeros(1, 3, 2)
            ),
            "fractional_max_pool2d: _random_samples is float32[1, 3, 2] and should be [2, 3, 2].",
        ),
        (
            lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 9, [5, 3]),
            "AdaptiveLogSoftmaxWithLoss: cutoffs are [5, 3]; they must be whole numbers that rise",
        ),
        (
            lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 9, [3])(cf.zeros(2, 4), cf.tensor([1])),
            "AdaptiveLogSoftmaxWithLoss: input float32[2, 4] and target int64[1] must be [n, 4]",
        ),
        (
            lambda: nn.LinearCrossEntropyLoss(4, 3, weight=cf.ones(4)),
            "LinearCrossEntropyLoss: weight is float32[4]; 3 classes need shape [3].",
        ),
        (
            lambda: nn.LinearCrossEntropyLoss(4, 3, label_smoothing=1.5),
            "LinearCrossEntropyLoss: label_smoothing is 1.5; it must be between 0 and 1.",
        ),
        (
            lambda: F.linear_cross_entropy(cf.ones(2, 3, 4), cf.ones(5, 4), cf.tensor([0, 1])),
            "linear_cross_entropy: input is float32[2, 3, 4]; it must be [in_features] or [n, in_",
        ),
        (
            lambda: F.linear_cross_entropy(cf.ones(2, 4), cf.ones(5, 3), cf.tensor([0, 1])),
            "linear_cross_entropy: linear_weight float32[5, 3] does not fit input float32[2, 4]; "
            "it must be [classes, ..., 4].",
        ),
        (
            lambda: F.linear_cross_entropy(cf.ones(4), cf.ones(5, 2, 4), cf.tensor([0, 1])),
            "linear_cross_entropy: linear_weight float32[5, 2, 4] needs a batch, and input is "
            "float32[4]; give input[None].",
        ),
        (
            lambda: F.linear_cross_entropy(
                cf.ones(2, 4), cf.ones(5, 4), cf.tensor([0, 1]), linear_bias=cf.ones(4)
            ),
            "linear_cross_entropy: linear_bias float32[4] does not fit linear_weight float32[5, 4]",
        ),
        (
            lambda: F.linear_cross_entropy(
                cf.ones(2, 4), cf.ones(5, 4), cf.ones(2, 5), ignore_index=-100
            ),
            "linear_cross_entropy: ignore_index is -100, but class probabilities float32[2, 5] hav",
        ),
        (
            lambda: nn.LinearCrossEntropyOptions(acc_policy="fast"),
            "LinearCrossEntropyOptions: acc_policy is 'fast'; it must be one of 'auto', 'accurate'",
        ),
        (
            lambda: nn.LinearCrossEntropyOptions(chunking_method="aspect_ratio:0"),
            "LinearCrossEntropyOptions: chunking_method is 'aspect_ratio:0'; it must be 'auto', '",
        ),
        (
            lambda: nn.LinearCrossEntropyOptions(batch_chunk_size=0),
            "LinearCrossEntropyOptions: batch_chunk_size is 0; it must be at least 1, or None.",
        ),
        (
            lambda: nn.LinearCrossEntropyOptions(
                batch_chunk_size=3, chunking_method="aspect_ratio"
            ).rows_of(8, 4, 8),
            "LinearCrossEntropyOptions: batch_chunk_size is 3, but chunking_method 'aspect_ratio' "
            "finds 4 rows; give one of them.",
        ),
    ],
)
def test_arguments_that_do_not_fit(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_adaptive_softmax_gives_probabilities(compiled):
    cf.manual_seed(0)
    module = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0)
    x, target = cf.randn(5, 8), cf.tensor([0, 3, 4, 9, 19])

    def run(x, target):
        output, loss = module(x, target)
        loss.backward()
        return output.detach(), loss.detach(), module.log_prob(x).detach(), module.predict(x)

    output, loss, everything, found = (cf.compile(run) if compiled else run)(x, target)
    np.testing.assert_allclose(cf.exp(everything).sum(1).numpy(), 1, rtol=1e-5)
    chosen = everything.numpy()[np.arange(5), target.numpy()]
    np.testing.assert_allclose(output.numpy(), chosen, rtol=1e-5)
    np.testing.assert_allclose(loss.item(), -chosen.mean(), rtol=1e-5)
    assert found.tolist() == everything.argmax(1).tolist()
    assert all(p.grad is not None for p in module.parameters())
    for wrong in (20, -1):
        with pytest.raises(IndexError, match=f"index {wrong} is out of range for size 20"):
            module(x[0], cf.tensor(wrong))


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    "given",
    [
        {"ignore_index": 1},
        {"bias": True, "weight": cf.tensor([1.0, 2.0, 0.5, 3.0], dtype=cf.float64)},
        {"bias": True, "out_features": (3, 2), "label_smoothing": 0.1, "ignore_index": 2},
        {"probabilities": True, "label_smoothing": 0.2},
    ],
    ids=lambda given: " ".join(given),
)
def test_linear_cross_entropy_by_chunks_is_that_of_all_logits(given, reduction, compiled):
    cf.manual_seed(0)
    given = {**given, "reduction": reduction, "dtype": cf.float64}
    probabilities = given.pop("probabilities", False)
    spread = given.get("out_features", ())
    target = cf.randint(0, 4, (7, *spread))
    if probabilities:
        target = cf.softmax(cf.randn(7, 4, dtype=cf.float64), 1)
    module = nn.LinearCrossEntropyLoss(5, 4, **given)
    x = cf.randn(7, 5, dtype=cf.float64, requires_grad=True)

    def run(x, target):
        loss = module(x, target)
        (loss * loss).sum().backward()
        return loss.detach()

    expected = [run(x, target), *(t.grad for t in (x, *module.parameters()))]
    logits = (x @ module.linear.weight.mT).reshape(7, 4, *spread)
    if module.linear.bias is not None:
        logits = logits + module.linear.bias.reshape(4, *spread)
    kept = {"weight": module.weight, "label_smoothing": module.label_smoothing}
    ignored = -100 if module.ignore_index is None else module.ignore_index
    whole = F.cross_entropy(logits, target, ignore_index=ignored, reduction=reduction, **kept)
    np.testing.assert_allclose(expected[0].numpy(), whole.detach().numpy(), rtol=1e-12)

    module.options = nn.LinearCrossEntropyOptions(batch_chunk_size=3)
    for t in (x, *module.parameters()):
        t.grad = None
    actual = [(cf.compile(run) if compiled else run)(x, target)]
    actual += [t.grad for t in (x, *module.parameters())]
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-11, atol=1e-13)


def test_linear_cross_entropy_has_the_logits_of_one_chunk_at_a_time(monkeypatch):
    rows, linear = [], projection.linear
    monkeypatch.setattr(
        projection, "linear", lambda x, *rest: rows.append(len(x)) or linear(x, *rest)
    )
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=3)
    module = nn.LinearCrossEntropyLoss(5, 4, options=options)
    kept = []
    with cf.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.shape) or t, lambda t: t):
        loss = module(cf.randn(8, 5), cf.randint(0, 4, (8,)))
    assert rows == [3, 3, 2]
    assert (3, 4) not in kept, "the logits of a chunk were kept"
    loss.backward()
    assert sorted(rows) == [2, 2, 3, 3, 3, 3]


def test_rows_of_a_chunk():
    def rows(batch, in_features, num_classes, **options):
        return nn.LinearCrossEntropyOptions(**options).rows_of(batch, in_features, num_classes)

    assert rows(1000, 64, 50_000) == 1
    assert rows(4096, 512, 32_768) == 32
    assert rows(4096, 512, 32_768, chunking_method="aspect_ratio") == 64
    assert rows(100, 64, 8, chunking_method="aspect_ratio") == 100
    assert rows(100, 64, 8, chunking_method=None) == 100
    assert rows(100, 64, 8, chunking_method=None, batch_chunk_size=30) == 30
    assert rows(5, 64, 8, batch_chunk_size=30) == 5


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_attention_as_a_function_is_that_of_the_module(compiled):
    module = nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True)
    query, key = cf.randn(4, 3, 8), cf.randn(5, 3, 8)

    def call(query, key):
        return F.multi_head_attention_forward(
            query, key, key, 8, 2, module.in_proj_weight, module.in_proj_bias, module.bias_k,
            module.bias_v, True, 0.0, module.out_proj.weight, module.out_proj.bias,
        )  # fmt: skip

    call = cf.compile(call) if compiled else call
    for a, b in zip(call(query, key), module(query, key, key), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"in_proj_weight": None}, "use_separate_proj_weight is False, so it needs in_proj_weight"),
        ({"embed_dim_to_check": 6}, "query float32[4, 3, 8] must have the width 6, which must div"),
        ({"num_heads": 3}, "must have the width 8, which must divide into 3 heads"),
        ({"bias_k": cf.zeros(1, 1, 8)}, "bias_k and bias_v must be given together"),
        ({"static_k": cf.zeros(6, 5, 3)}, "static_k and static_v must be [6, s, 4], got float32[6"),
        ({"is_causal": True}, "is_causal only describes attn_mask; pass attn_mask too"),
    ],
)
def test_attention_as_a_function_refuses(changed, message):
    x = cf.zeros(4, 3, 8)
    call = {
        "query": x, "key": x, "value": x, "embed_dim_to_check": 8, "num_heads": 2,
        "in_proj_weight": cf.zeros(24, 8), "in_proj_bias": None, "bias_k": None, "bias_v": None,
        "add_zero_attn": False, "dropout_p": 0.0, "out_proj_weight": cf.zeros(8, 8),
        "out_proj_bias": None,
    }  # fmt: skip
    with pytest.raises(ValueError, match="multi_head_attention_forward: .*" + re.escape(message)):
        F.multi_head_attention_forward(**{**call, **changed})


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5), (2, 3, 4, 4), (2, 3, 2, 2, 2)])
def test_sync_batch_norm_of_one_process_is_a_batch_norm(shape):
    cf.manual_seed(0)
    plain = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[
        len(shape)
    ](3)
    synced = nn.SyncBatchNorm(3)
    synced.load_state_dict(plain.state_dict())
    for training in (True, True, False):
        plain.train(training)
        synced.train(training)
        x = cf.randn(*shape)
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        for layer, given in ((plain, a), (synced, b)):
            layer.zero_grad()
            (layer(given) ** 3.0).sum().backward()
        assert plain(a).tolist() == synced(b).tolist()
        assert a.grad.tolist() == b.grad.tolist()
        for p, q in zip(plain.parameters(), synced.parameters()):
            assert p.grad.tolist() == q.grad.tolist()
    for name, value in plain.state_dict().items():
        assert value.tolist() == synced.state_dict()[name].tolist(), name


def test_converted_batch_norms_share_their_tensors():
    model = nn.Sequential(nn.Conv2d(1, 3, 1), nn.BatchNorm2d(3), nn.Sequential(nn.BatchNorm2d(3)))
    model.eval()
    names, parameters = list(model.state_dict()), list(model.parameters())
    x = cf.randn(2, 1, 4, 4)
    expected = model(x).tolist()
    made = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert [type(m) for m in made.modules()].count(nn.SyncBatchNorm) == 2
    assert list(made.state_dict()) == names
    assert all(p is q for p, q in zip(made.parameters(), parameters))
    assert not any(m.training for m in made.modules())
    assert made(x).tolist() == expected
    with pytest.raises(NotImplementedError, match="there is one process"):
        nn.SyncBatchNorm(3, process_group=object())
