"""Attention whose scores and mask are functions of positions, against PyTorch."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import contraflow as cf
from contraflow.nn.attention import flex_attention as ours

B, H, L, S, E = 2, 4, 5, 7, 8
SCORES = {
    "none": None,
    "relative": lambda score, b, h, q, k: score + 0.1 * (q - k) * (h + 1),
    "bounded": lambda score, b, h, q, k: 2 * (score / 2).tanh() + b,
}
MASKS = {
    "none": None,
    "causal": lambda b, h, q, k: q >= k,
    "nothing for some": lambda b, h, q, k: (q >= 2) & (k < 5),
    "by head": lambda b, h, q, k: (q >= k) | (h == b),
}


def arrays(heads: int = H) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    shapes = [(B, H, L, E), (B, heads, S, E), (B, heads, S, E)]
    return [random.standard_normal(shape) for shape in shapes]


def test_masks_and_their_blocks() -> None:
    mask = ours.create_block_mask(MASKS["causal"], 2, None, 256, 300, BLOCK_SIZE=(128, 100))
    assert mask.shape == (2, 1, 256, 300)
    assert mask.seq_lengths == (256, 300)
    assert mask.to_dense().tolist() == [[[[1, 1, 0], [1, 1, 1]]]] * 2
    assert mask.sparsity() == pytest.approx(100 / 6)
    window = ours.and_masks(MASKS["causal"], lambda b, h, q, k: q - k < 2)
    seen = ours.create_mask(window, None, None, 3, 3)[0, 0]
    assert seen.tolist() == [[True, False, False], [True, True, False], [False, True, True]]
    either = ours.or_masks(MASKS["causal"], lambda b, h, q, k: k == 2)
    assert ours.create_mask(either, None, None, 2, 3)[0, 0].tolist() == [
        [True, False, True], [True, True, True],
    ]  # fmt: skip


def test_a_mask_may_read_tensors() -> None:
    document = cf.tensor([0, 0, 1, 1])
    seen = ours.create_mask(lambda b, h, q, k: document[q] == document[k], None, None, 4, 4)[0, 0]
    assert seen.int().tolist() == [[1, 1, 0, 0]] * 2 + [[0, 0, 1, 1]] * 2


def test_wrong_shapes_are_refused() -> None:
    q, k, v = map(cf.tensor, arrays())
    mask = ours.create_block_mask(MASKS["causal"], None, None, 3, 3)
    with pytest.raises(ValueError, match=r"the mask is for \(3, 3\) queries and keys, but there"):
        ours.flex_attention(q, k, v, block_mask=mask)
    with pytest.raises(ValueError, match=r"queries have 4 heads and keys 2\. Pass enable_gqa"):
        ours.flex_attention(q, k[:, :2], v[:, :2])
    with pytest.raises(ValueError, match="queries, keys and values have four dims"):
        ours.flex_attention(q[0], k, v)


@pytest.mark.parametrize("mask", MASKS)
def test_gradients(mask: str) -> None:
    inputs = [cf.tensor(each[:1, :2], requires_grad=True) for each in arrays()]
    block = ours.create_block_mask(MASKS[mask], 1, 2, L, S) if MASKS[mask] else None

    def attend(*inputs):
        return ours.flex_attention(*inputs, SCORES["bounded"], block)

    assert cf.autograd.gradcheck(attend, inputs)


@pytest.mark.peers
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", SCORES)
def test_flex_attention_is_pytorchs(score: str, mask: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    theirs = pytest.importorskip("torch.nn.attention.flex_attention")
    found = []
    for library, functions in ((torch, theirs), (cf, ours)):
        inputs = [library.tensor(each) for each in arrays()]
        block = None
        if MASKS[mask] is not None:
            block = functions.create_block_mask(MASKS[mask], B, H, L, S, device="cpu")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch asks to compile it
            out = functions.flex_attention(*inputs, SCORES[score], block)
        found.append(out.numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-7)  # PyTorch's is rounded


@pytest.mark.peers
def test_the_logarithm_of_sums_and_shared_keys_are_pytorchs() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    theirs = pytest.importorskip("torch.nn.attention.flex_attention")
    found = []
    for library, functions in ((torch, theirs), (cf, ours)):
        inputs = [library.tensor(each) for each in arrays(heads=2)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out, lse = functions.flex_attention(
                *inputs, SCORES["relative"], scale=0.3, enable_gqa=True, return_lse=True
            )
        found.append((out.numpy(), lse.numpy()))
    for expected, got in zip(*found):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("mask", MASKS)
def test_what_is_asked_for_beside_the_result(mask: str) -> None:
    query, key, value = (cf.tensor(each) for each in arrays())
    scores = query @ key.mT * query.shape[-1] ** -0.5
    block = None
    if MASKS[mask] is not None:
        block = ours.create_block_mask(MASKS[mask], B, H, L, S)
        scores = scores.masked_fill(~block.mask, -np.inf)
    asked = ours.AuxRequest(lse=True, max_scores=True)
    out, beside = ours.flex_attention(query, key, value, block_mask=block, return_aux=asked)
    _, lse = ours.flex_attention(query, key, value, block_mask=block, return_lse=True)
    np.testing.assert_array_equal(beside.lse.numpy(), lse.numpy())
    np.testing.assert_allclose(beside.max_scores.numpy(), scores.amax(-1).numpy(), rtol=1e-6)
    again, beside = ours.flex_attention(
        query, key, value, block_mask=block, return_aux=ours.AuxRequest()
    )
    assert beside == (None, None)
    assert cf.equal(again, out)
