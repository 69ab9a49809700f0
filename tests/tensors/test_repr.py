"""How tensors print: PyTorch's layout, with our names in the suffixes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.helpers.engine_common import refused

import contraflow as cf
from contraflow.tensors.tensor import Tensor

try:
    import torch
except ImportError:
    torch = None

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: cf.tensor([1.0, 2.5]), "tensor([1.0000, 2.5000])"),
        (lambda: cf.tensor([1.0], requires_grad=True), "tensor([1.], requires_grad=True)"),
        (lambda: cf.tensor([1.0], requires_grad=True) * 2, "tensor([2.], grad_fn=<mul>)"),
        (lambda: cf.tensor(3), "tensor(3)"),
        (lambda: cf.tensor([True, False]), "tensor([ True, False])"),
        (lambda: cf.ones(1, dtype=cf.bfloat16), "tensor([1.], dtype=contraflow.bfloat16)"),
        (lambda: cf.ones(1, dtype=cf.float64), "tensor([1.], dtype=contraflow.float64)"),
        (lambda: cf.ones(2, 1), "tensor([[1.],\n        [1.]])"),
        (lambda: cf.tensor([1e-5, 1.0]), "tensor([1.0000e-05, 1.0000e+00])"),
        (lambda: cf.tensor([NAN, 100.0]), "tensor([ nan, 100.])"),
        (lambda: cf.zeros(2, 0), "tensor([], size=(2, 0))"),
        (lambda: cf.zeros(0, dtype=cf.int64), "tensor([], dtype=contraflow.int64)"),
        (lambda: cf.arange(1001), "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
        (lambda: cf.nn.Parameter(cf.ones(1)),
         "Parameter containing:\ntensor([1.], requires_grad=True)"),
    ],
)  # fmt: skip
def test_repr(make: Callable[[], Tensor], text: str) -> None:
    assert repr(make()) == text


def test_repr_of_a_view_whose_base_was_written() -> None:
    base = cf.zeros(2)
    part = base[:1]
    base.copy_(cf.ones(2, requires_grad=True))
    assert repr(part) == "tensor([1.], grad_fn=<slice>)"


def test_the_default_dtype_is_not_written() -> None:
    before = cf.get_default_dtype()
    cf.set_default_dtype(cf.float64)
    try:
        assert repr(cf.ones(1)) == "tensor([1.])"
        assert repr(cf.ones(1, dtype=cf.float32)) == "tensor([1.], dtype=contraflow.float32)"
    finally:
        cf.set_default_dtype(before)


def test_a_number_is_formatted_and_nothing_else_is() -> None:
    assert f"{cf.tensor(3.14159):.2f} {cf.tensor(7):03d} {cf.tensor(2)}" == "3.14 007 2"
    assert f"loss {cf.tensor(1.0, requires_grad=True)}" == "loss 1.0"
    assert f"{cf.ones(1)} {cf.nn.Parameter(cf.tensor(1.0))}" == (
        "tensor([1.]) " + repr(cf.nn.Parameter(cf.tensor(1.0)))
    )
    with pytest.raises(TypeError, match="unsupported format string"):
        f"{cf.ones(2):.2f}"


def test_print_options_are_kept_and_put_back() -> None:
    x = cf.tensor([3.14159, 2.0])
    with cf.printoptions(precision=2, sci_mode=True):
        assert repr(x) == "tensor([3.14e+00, 2.00e+00])"
        assert cf.get_printoptions()["precision"] == 2
    assert repr(x) == "tensor([3.1416, 2.0000])"
    with cf.printoptions(threshold=4, edgeitems=1):
        assert repr(cf.arange(9).reshape(3, 3)) == (
            "tensor([[0,  ..., 2],\n        ...,\n        [6,  ..., 8]])"
        )
    with refused(ValueError, "set_printoptions: edgeitems is 0; it must be at least 1."):
        cf.set_printoptions(edgeitems=0)
    with refused(
        ValueError, "set_printoptions: profile 'long' is unknown. Known: default, short, full."
    ):
        cf.set_printoptions(profile="long")
    assert repr(x) == "tensor([3.1416, 2.0000])"


def _tensors(lib: Any) -> Iterator[Any]:
    """The same tensors in one library or the other."""
    for data in [
        1.5, 3.0, 3, True, NAN, INF, -INF, 0.0, -0.0, 1e10, 1e-10, [1.0, 2.5], [0.0, 0.0], [],
        [[], []], [NAN, 1.0], [INF, 1.5], [-INF, 1.0], [NAN, INF], [1e-5, 1.0], [1000.0, 1.0],
        [1001.0, 1.0], [999.5, 1.0], [1e8, 1e8], [2e8, 2e8], [1e-4, 1e-4], [0.5e-4, 1e-4],
        [100000.5, 99999.5], [True, False], [1, -10, 100], [[1.5, -2.0], [3.0, 4.0]],
        [[[1.0, 2.0]], [[3.0, 4.0]]], [1e30, NAN], [1e-30, 0.0], list(range(30)),
        [i / 7 for i in range(25)], [float(i) for i in range(40)], [-1e-3, 1.0], [12345.678],
        [1e38, 1e-38], [999999.0, 1.5], [[float(i * j) for i in range(15)] for j in range(3)],
    ]:  # fmt: skip
        yield lib.tensor(data)
    for name in ("float64", "float16", "bfloat16"):
        yield lib.tensor([1.5, 7000.0, -0.1], dtype=getattr(lib, name))
    for name in ("int8", "int32", "uint8", "bool"):
        yield lib.tensor([[1, 0], [1, 1]], dtype=getattr(lib, name))
    for shape in ((0, 3), (30, 40), (7, 7, 30), (2000, 1), (1, 2000), (2, 2, 2, 2), (10, 11, 12)):
        yield lib.ones(shape) / 3
        yield lib.zeros(shape, dtype=lib.int64)
    yield lib.arange(1000)
    yield lib.arange(1001.0) / 7
    yield lib.tensor([0.1] * 13, dtype=lib.float64, requires_grad=True)


@pytest.mark.peers
@pytest.mark.skipif(torch is None, reason="needs PyTorch, which `make peers` installs")
@pytest.mark.parametrize(
    "options",
    [
        {}, {"precision": 2}, {"sci_mode": True}, {"sci_mode": False}, {"linewidth": 40},
        {"profile": "full", "linewidth": 120}, {"profile": "short"},
        {"threshold": 5, "edgeitems": 1},
    ],
)  # fmt: skip
def test_pytorch_prints_the_same(options: dict[str, Any]) -> None:
    try:
        torch.set_printoptions(**options)
        with cf.printoptions(**options):
            for ours, theirs in zip(_tensors(cf), _tensors(torch), strict=True):
                assert _joined(repr(ours)) == _joined(repr(theirs))
    finally:
        torch.set_printoptions(profile="default")


def _joined(text: str) -> str:
    """Our name is longer than PyTorch's, so lines may break before other suffixes."""
    text = text.replace("torch.", "contraflow.")
    return re.sub(r",\s+(dtype|requires_grad)", r", \1", text)


def test_a_dtype_has_one_spelling_in_texts() -> None:
    x = cf.ones(1, dtype=cf.float16).dtype
    assert (str(x), f"{x}", repr(x)) == ("float16", "float16", "contraflow.float16")
