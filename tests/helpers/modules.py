"""A module with every kind of part, and numbers to compare."""

from __future__ import annotations

import numpy as np

import contraflow as cf
from contraflow import nn


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(actual, expected, tolerance=1e-5):
    actual = actual.detach().numpy() if isinstance(actual, cf.Tensor) else actual
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


class Block(nn.Module):
    """A parameter, a buffer, and two children of which one is used twice."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(cf.ones(3))
        self.register_buffer("offset", cf.zeros(3))
        self.inner = nn.Linear(3, 3)
        self.again = self.inner
        self.last = nn.Linear(3, 1)

    def forward(self, x):
        return self.last(self.inner(x * self.scale + self.offset))
