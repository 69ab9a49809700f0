"""Windows that overlap many times: their sums are scattered, not written out term by term."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import contraflow as cf
import contraflow.nn.functional as F
from contraflow import config, thresholds
from contraflow.autograd import grad
from contraflow.ops.nn.window import overlap
from contraflow.testing import assert_close

WAYS: dict[str, tuple[tuple[int, ...], Callable[[Any], Any]]] = {
    "max_pool1d": ((2, 3, 11), lambda x: F.max_pool1d(x, 4, stride=1, padding=1)),
    "max_pool2d": ((2, 5, 7), lambda x: F.max_pool2d(x, (2, 3), stride=1, dilation=(2, 1))),
    "max_pool3d": ((1, 4, 5, 4), lambda x: F.max_pool3d(x, 2, stride=1)),
    "avg_pool1d": ((2, 3, 11), lambda x: F.avg_pool1d(x, 4, stride=2, padding=1)),
    "avg_pool2d": ((2, 5, 7), lambda x: F.avg_pool2d(x, (2, 3), stride=(2, 1))),
    "avg_pool3d": ((1, 4, 5, 4), lambda x: F.avg_pool3d(x, 2, stride=1)),
    "unfold": ((1, 2, 5, 6), lambda x: F.unfold(x, (2, 3), dilation=(1, 2), padding=1)),
    "fold": ((1, 6, 16), lambda x: F.fold(x, (5, 6), (2, 3), stride=1)),
    "Tensor.unfold": ((3, 9), lambda x: x.unfold(1, 4, 2)),
    "conv_transpose2d": (
        (1, 2, 3, 4),
        lambda x: F.conv_transpose2d(x, cf.ones(2, 1, 2, 3, dtype=x.dtype), stride=2, padding=1),
    ),
}


def results(function: Callable[[Any], Any], x: Any) -> list[Any]:
    """The value, the gradient of a weighed sum, and the gradient of that."""
    out = function(x)
    weight = cf.arange(out.numel(), dtype=x.dtype).reshape(out.shape).sin()
    (first,) = grad((out * out * weight).sum(), [x], create_graph=True)
    (second,) = grad((first * first).sum(), [x])
    return [out, first, second]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", WAYS)
def test_both_ways_agree(name: str, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, function = WAYS[name]
    monkeypatch.setattr(config, "eager_kernels", False)
    x = cf.tensor(np.random.default_rng(0).standard_normal(shape)).requires_grad_()
    expected = results(function, x)
    with thresholds.using(written_terms=0):
        found = (cf.compile if compiled else lambda f: f)(lambda x: results(function, x))(x)
    for a, b in zip(found, expected):
        assert_close(a, b)


def test_how_many_windows_cover_an_element() -> None:
    assert overlap((3, 3), (1, 1), (1, 1)) == 9
    assert overlap((3, 3), (3, 3), (1, 1)) == 1
    assert overlap((5,), (2,), (1,)) == 3
    assert overlap((4,), (2,), (3,)) == 4  # no more than it has taps


def test_large_windows_take_no_long_programs() -> None:
    assert overlap((500,), (1,), (1,)) > thresholds.written_terms
    x = cf.rand(1, 1, 1500).requires_grad_()

    def step(x: Any) -> Any:
        total = F.max_pool1d(x, 500, stride=1).sum() + F.avg_pool1d(x, 500, stride=1).sum()
        return grad(total + F.unfold(x[..., None], (500, 1)).sum(), x)[0]

    compiled: Any = cf.compile(step)
    assert_close(compiled(x), step(x))
    terms = [line.op.name for line in compiled.tape.lines]
    assert "sum_windows" not in terms
    assert "put_windows" not in terms
