"""Ops that are applied again as they were before: the same results, nodes, errors and modes."""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow import nn, thresholds
from contraflow.expressions import philox
from contraflow.operation.context import apply
from contraflow.operation.op import REGISTRY
from contraflow.runtime import eager_programs
from contraflow.testing import make_inputs


@pytest.fixture(autouse=True)
def nothing_is_known() -> None:
    eager_programs.forget()


def test_a_number_is_taken_as_it_comes():
    assert [cf.full((2,), float(i)).tolist() for i in range(5)] == [[i, i] for i in range(5)]
    x = cf.tensor([0.0, 1.0])
    mask = cf.tensor([True, False])
    assert [cf.where(mask, x, i / 2).tolist() for i in range(5)] == [[0, i / 2] for i in range(5)]


def test_zeros_of_both_signs_are_told_apart():
    x = cf.tensor([[1.0, 2.0]])
    for _ in range(5):
        padded = [cf.nn.functional.pad(x, (1, 0), value=zero)[0, 0].item() for zero in (0.0, -0.0)]
        assert [math.copysign(1, z) for z in padded] == [1, -1]


def test_modes_are_looked_at_in_every_call():
    x = cf.ones(3, 2, requires_grad=True)
    for _ in range(5):
        assert cf.softmax(x, 1).requires_grad
        with cf.no_grad():
            assert not cf.softmax(x, 1).requires_grad
        with cf.inference_mode():
            assert x.sum(1).is_inference()
        assert not x.detach().sum(1).is_inference()


def test_the_default_dtype_may_change():
    counts = cf.tensor([1, 2])
    for _ in range(3):
        assert cf.softmax(counts.to(cf.float32), 0).dtype is cf.float32
        assert counts.sum().dtype is cf.int64
        assert (counts / 2).dtype is cf.float32
    cf.set_default_dtype(cf.float64)
    try:
        assert (counts / 2).dtype is cf.float64
        assert cf.zeros(2).dtype is cf.float64
    finally:
        cf.set_default_dtype(cf.float32)


def test_hooks_for_saved_values_are_called_every_time():
    x = cf.ones(2, 3, requires_grad=True)
    packed: list[tuple[int, ...]] = []

    def pack(t: cf.Tensor) -> cf.Tensor:
        packed.append(t.shape)
        return t

    for _ in range(4):
        cf.softmax(x, 1)
        with cf.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            cf.softmax(x, 1)
    assert packed == [(2, 3)] * 4


def test_a_node_knows_the_line_of_its_own_call():
    x = cf.ones(2, 3, requires_grad=True)
    numbers = set()
    for _ in range(5):
        first = cf.softmax(x, 1).grad_fn
        second = cf.softmax(x, 1).grad_fn
        assert first.line.code is second.line.code
        numbers.add((first.line.number, second.line.number))
    ((one, other),) = numbers
    assert other == one + 1


def test_an_input_that_was_overwritten_is_noticed():
    for _ in range(4):
        out = cf.softmax(cf.ones(2, 3, requires_grad=True), 1)
        with cf.no_grad():
            out.mul_(2.0)
        with pytest.raises(cf.GradientError, match="softmax saved"):
            out.sum().backward()


def test_a_view_whose_base_was_written_has_its_place_in_the_graph():
    for _ in range(4):
        x, y = cf.ones(3, requires_grad=True), cf.zeros(2, 3)
        row = y[1]
        y[1] = x * 2
        (gradient,) = cf.autograd.grad(row.sum(), x)
        assert gradient.tolist() == [2, 2, 2]


def test_a_wrong_index_is_an_error_however_often_the_op_ran():
    x, good, bad = cf.ones(2, 3), cf.tensor([[0, 1]]), cf.tensor([[0, 3]])
    for _ in range(4):
        cf.gather(x, 1, good)
        with pytest.raises(IndexError, match="gather: index 3 is out of range for size 3"):
            cf.gather(x, 1, bad)
        with pytest.raises(IndexError, match="index -3 is out of range for dim 0 with size 2"):
            x[cf.tensor([0, -3])]
        assert x[cf.tensor([-2, 1])].shape == (2, 3)


def test_a_float_that_is_written_is_rounded_as_a_tensor_of_it_is():
    numbers = [0.1, -0.0, 1e300, 65520.0, 1e-8, math.inf]
    for dtype in (cf.float32, cf.float64, cf.float16, cf.bfloat16):
        x = cf.zeros(3, dtype=dtype)
        for count, number in enumerate(numbers, 1):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                x[1] = number
            made = cf.full((), number, dtype=dtype)
            assert x[1].numpy().tobytes() == made.numpy().tobytes(), (dtype, number)
            assert x.storage.version == count
            assert x[::2].tolist() == [0, 0]


def test_a_number_that_is_written_over_a_saved_value_is_noticed():
    x = cf.ones(2, requires_grad=True)
    y = x * 1.0
    out = y * y
    with cf.no_grad():
        y[0] = 3.0
    with pytest.raises(cf.GradientError, match="setitem overwrote it"):
        out.sum().backward()


def test_slices_are_copied_in_place_as_they_are_out_of_place():
    whole = cf.arange(24.0).reshape(2, 4, 3)
    x, index, source = whole[1], cf.tensor([2, 0]), -cf.ones(2, 3)
    expected = x.clone().index_copy(0, index, source)
    before = whole[0].tolist()
    version = whole.storage.version
    assert x.index_copy_(0, index, source) is x
    assert (x.tolist(), whole[0].tolist()) == (expected.tolist(), before)
    assert whole.storage.version == version + 1
    x.index_copy_(-1, cf.tensor([0, 1, 2]), x.flip(1))  # which shares no memory
    x[cf.tensor([0, 1])] = x[2:]  # which does
    assert x[0].tolist() == x[2].tolist()


@pytest.mark.parametrize(
    ("dim", "index", "source", "error", "text"),
    [
        (0, [0, 4], (2, 3), IndexError, "index 4 is out of range"),
        (0, [0, -1], (2, 3), IndexError, "index -1 is out of range"),
        (0, [0, 1], (2, 2), ValueError, "index_copy: float32.2, 2. does not fit"),
        (2, [0, 1], (2, 3), IndexError, "dim 2 is out of range"),
    ],
)
def test_a_wrong_copy_of_slices_changes_nothing(dim, index, source, error, text):
    x = cf.zeros(4, 3)
    with pytest.raises(error, match=text):
        x.index_copy_(dim, cf.tensor(index), cf.ones(*source))
    assert x.storage.version == 0
    assert not x.any()


def test_a_copy_of_slices_in_a_graph_has_gradients():
    x, source = cf.ones(3, 2, requires_grad=True), cf.ones(1, 2, requires_grad=True)
    y = x * 2
    y.index_copy_(0, cf.tensor([1]), source)
    y.sum().backward()
    assert x.grad.tolist() == [[2, 2], [0, 0], [2, 2]]
    assert source.grad.tolist() == [[1, 1]]
    saved = y * y
    with cf.no_grad():
        y.index_copy_(0, cf.tensor([1]), source)
    with pytest.raises(cf.GradientError, match="index_copy_ overwrote it"):
        saved.sum().backward()


@pytest.mark.parametrize("cut", ["unbind", "split"])
def test_pieces_say_how_they_came_from_their_base(cut: str):
    x = cf.arange(40.0).reshape(20, 2)
    pieces = x.unbind() if cut == "unbind" else x.split(2)
    for i, part in enumerate(pieces):
        t = x
        for op, params in part.view_ops:
            t = cf.operation.context.apply(op, (t,), params)
        assert t.layout == part.layout
        assert (part + 0).tolist() == (x[i] if cut == "unbind" else x[2 * i : 2 * i + 2]).tolist()


def test_neighbouring_draws_do_not_depend_on_how_many_are_made_at_once():
    for make, dtype in (
        (philox.uniforms, cf.float32), (philox.uniforms, cf.float64),
        (philox.normals, cf.float32), (philox.normals, cf.float64),
    ):  # fmt: skip
        per_block = 2 if dtype is cf.float64 else 4
        for offset in (0, 5, 31, (1 << 64) - 2):
            blocks = [make(7, offset + i, per_block, dtype) for i in range(40)]
            whole = make(7, offset, per_block * 40, dtype)
            assert np.array_equal(np.concatenate(blocks), whole), (make, dtype, offset)


def test_a_recorded_tensor_is_not_taken_for_one_like_it():
    x = cf.ones(2, 3)
    for _ in range(5):
        cf.softmax(x, 1)
    made = {}

    @functools.lru_cache
    def weights(dim):
        return cf.softmax(made["x"], dim)

    @cf.compile
    def function(x):
        made["x"] = x * 2.0
        return weights(1)

    with pytest.raises(cf.CaptureError, match="weights, a function with an lru_cache"):
        function(x)


def several_results() -> list[tuple[str, int]]:
    """Samples of composites that declare one result and give several."""
    found = []
    for op in REGISTRY.values():
        if not op.is_composite or len(op.outs) > 1:
            continue
        for i, sample in enumerate(op.samples()):
            if isinstance(applied(op.name, i, False), tuple) or "return_indices" in sample.params:
                found.append((op.name, i))
    return found


def applied(name: str, number: int, needs: bool) -> Any:
    op = REGISTRY[name]
    sample = list(op.samples())[number]
    arrays = [cf.tensor(x) if isinstance(x, np.ndarray) else x for x in make_inputs(sample)]
    if needs:
        arrays = [
            x.requires_grad_() if isinstance(x, cf.Tensor) and x.dtype.is_floating_point else x
            for x in arrays
        ]
    return apply(op, tuple(arrays), sample.params)


@pytest.mark.parametrize("least", [1, 1 << 40], ids=["as one program", "by parts"])
def test_results_that_are_not_declared_are_there_in_every_call(least):
    cases = several_results()
    assert {"adaptive_max_pool1d", "max_pool2d", "meshgrid", "chunk"} <= {name for name, _ in cases}
    for name, number in cases:
        expected = applied(name, number, False)
        with thresholds.using(eager_composite=least, eager_kernel=least):
            for needs in (False, True, False, True, True):
                outs = applied(name, number, needs)
                assert type(outs) is type(expected), (name, number)
                assert len(outs) == len(expected), (name, number)
                for out, wanted in zip(outs, expected):
                    assert out.dtype is wanted.dtype, (name, number)
                    assert np.array_equal(out.detach().numpy(), wanted.numpy()), (name, number)


@pytest.mark.parametrize("pool", [nn.functional.adaptive_max_pool1d, nn.functional.max_pool1d])
def test_indices_of_large_pools_are_there_in_every_call(pool):
    x = cf.randn(4, 16, 700, generator=cf.Generator().manual_seed(0))
    assert x.numel() > thresholds.eager_kernel
    for _ in range(4):
        leaf = x.clone().requires_grad_()
        values, indices = pool(leaf, 3, return_indices=True)
        assert cf.equal(values, x.gather(2, indices))
        (values.mul_(2) * 1).sum().backward()
        assert cf.equal(leaf.grad, cf.zeros_like(x).scatter_add(2, indices, values * 0 + 2))
