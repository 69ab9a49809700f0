"""The whole in two seconds: a model is trained by hand and its loss falls."""

from __future__ import annotations

import numpy as np

import contraflow as cf


def test_training_lowers_the_loss() -> None:
    rng = np.random.default_rng(0)
    inputs = cf.tensor(rng.standard_normal((32, 4)).astype(np.float32))
    hidden = rng.standard_normal((4, 2)).astype(np.float32)
    targets = (inputs @ cf.tensor(hidden)).tanh()
    weight = cf.zeros(4, 2, requires_grad=True)
    losses = []
    for _ in range(100):
        difference = (inputs @ weight).tanh() - targets
        loss = (difference * difference).mean()
        losses.append(loss.item())
        loss.backward()
        with cf.no_grad():
            weight -= 0.5 * weight.grad
        weight.grad = None
    assert losses[-1] < 0.01 * losses[0]
    assert losses == sorted(losses, reverse=True)
