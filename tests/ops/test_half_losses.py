"""Losses in half precision: computed in float32, and rounded once, eager and compiled.

`cross_entropy` begins with `log_softmax`, whose results are half precision themselves; so its
losses are rounded twice, and there is one unit more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import contraflow as cf

F = cf.nn.functional
ROWS, CLASSES = 17, 9
Loss = Callable[..., Any]
ONE_ROUNDING = 0.51  # of float32 before it there is little
LOSSES: dict[str, tuple[Loss, str]] = {
    "nll_loss": (lambda x, w, k, **how: F.nll_loss(x, k, weight=w, **how), "xck"),
    "nll_loss, equal weights": (lambda x, k, **how: F.nll_loss(x, k, **how), "xk"),
    "kl_div": (lambda x, p, **how: F.kl_div(x, p, **how), "xp"),
    "mse_loss": (lambda x, y, w, **how: F.mse_loss(x, y, weight=w, **how), "xyw"),
    "l1_loss": (lambda x, y, w, **how: F.l1_loss(x, y, weight=w, **how), "xyw"),
    "smooth_l1_loss": (F.smooth_l1_loss, "xy"),
    "huber_loss": (F.huber_loss, "xy"),
    "poisson_nll_loss": (F.poisson_nll_loss, "xy"),
    "gaussian_nll_loss": (F.gaussian_nll_loss, "xyw"),
    "margin_ranking_loss": (F.margin_ranking_loss, "xys"),
    "hinge_embedding_loss": (F.hinge_embedding_loss, "xs"),
    "cosine_embedding_loss": (
        lambda x, y, s, **how: F.cosine_embedding_loss(x, y, s[:, 0], **how), "xys",
    ),
    "triplet_margin_loss": (F.triplet_margin_loss, "xyw"),
    "soft_margin_loss": (F.soft_margin_loss, "xs"),
    "multi_margin_loss": (lambda x, w, k, **how: F.multi_margin_loss(x, k, weight=w, **how), "xck"),
    "multilabel_soft_margin_loss": (F.multilabel_soft_margin_loss, "xp"),
    "binary_cross_entropy": (lambda p, q, w, **how: F.binary_cross_entropy(p, q, w, **how), "pqw"),
    "binary_cross_entropy_with_logits": (
        lambda x, p, w, **how: F.binary_cross_entropy_with_logits(x, p, w, **how), "xpw",
    ),
}  # fmt: skip
SUMS: dict[str, tuple[Loss, str]] = {
    "cross_entropy": (lambda x, w, k, **how: F.cross_entropy(x, k, weight=w, **how), "xck"),
    "cross_entropy, smoothed": (
        lambda x, k, **how: F.cross_entropy(x, k, label_smoothing=0.1, **how), "xk",
    ),
    "cross_entropy of probabilities": (lambda x, p, **how: F.cross_entropy(x, p, **how), "xp"),
}  # fmt: skip


def arguments(kinds: str, seed: int) -> list[np.ndarray]:
    """x, y: any numbers; p, q: probabilities; s: signs; w, c: weights; k: classes."""
    rng, shape = np.random.default_rng(seed), (ROWS, CLASSES)
    made = {
        "x": rng.standard_normal(shape), "y": rng.standard_normal(shape),
        "p": rng.uniform(0.05, 0.95, shape), "q": rng.uniform(0.05, 0.95, shape),
        "s": rng.choice([-1.0, 1.0], shape), "w": rng.uniform(0.5, 2.0, shape),
        "c": rng.uniform(0.5, 2.0, CLASSES), "k": rng.integers(0, CLASSES, ROWS),
    }  # fmt: skip
    return [made[kind] for kind in kinds]


def worst(loss: Loss, kinds: str, dtype: cf.dtype, reduction: str, compiled: bool) -> float:
    """The largest error in units in the last place, or of 1/16 where a result is smaller."""

    def function(*given: Any) -> Any:
        return loss(*given, reduction=reduction)

    called = cf.compile(function) if compiled else function
    errors = []
    for seed in range(8):
        given = [
            cf.tensor(a) if a.dtype.kind == "i" else cf.tensor(a).to(dtype)
            for a in arguments(kinds, seed)
        ]
        exact = function(*(x.double() if x.dtype is dtype else x for x in given))
        found = called(*given)
        assert found.dtype is dtype
        size = np.maximum(np.abs(exact.numpy()), 1 / 16)
        unit = cf.finfo(dtype).eps * np.exp2(np.floor(np.log2(size)))
        errors.append(float(np.max(np.abs(found.double().numpy() - exact.numpy()) / unit)))
    return max(errors)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("dtype", [cf.float16, cf.bfloat16], ids=str)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_rounded_once(
    name: str, reduction: str, dtype: cf.dtype, compiled: bool
) -> None:
    assert worst(*LOSSES[name], dtype, reduction, compiled) <= ONE_ROUNDING


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("dtype", [cf.float16, cf.bfloat16], ids=str)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("name", SUMS)
def test_what_follows_log_softmax_is_rounded_once(
    name: str, reduction: str, dtype: cf.dtype, compiled: bool
) -> None:
    assert worst(*SUMS[name], dtype, reduction, compiled) <= 1 + ONE_ROUNDING
