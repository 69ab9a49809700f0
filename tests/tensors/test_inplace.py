"""Writing to tensors in place: gradients through views, versions, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_common import leaf, place, refused, temporary

import contraflow as cf
from contraflow.operation.kinds import view
from contraflow.operation.op import REGISTRY
from contraflow.operation.samples import Array, Sample
from contraflow.ops.nn.window import windows
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close, check_gradients

# --- in place ------------------------------------------------------------------------------------


def test_in_place_on_a_tensor_that_is_no_leaf() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2.0
    y += 1.0
    y.mul_(3.0)
    y.sum().backward()
    assert_close(x.grad, np.array([6.0, 6.0]))
    assert_close(y, np.array([9.0, 15.0]))
    assert y._version == 2


def test_in_place_makes_a_plain_tensor_part_of_the_graph() -> None:
    x = leaf(1.0, 2.0)
    y = cf.zeros(2, dtype=cf.float64)
    y.add_(x * 3.0)
    assert not y.is_leaf
    y.sum().backward()
    assert_close(x.grad, np.array([3.0, 3.0]))


def written_column(x: Tensor, z: Tensor) -> Tensor:
    y = x * 2.0
    y[:, 0] = z.sin()
    return y * y


def base_then_view(x: Tensor, z: Tensor) -> Tensor:
    y = x * 2.0
    column = y[:, 1]
    y.mul_(3.0)
    return column * z


def view_then_base(x: Tensor, z: Tensor) -> Tensor:
    y = x * 2.0
    column = y[:, 1]
    column.mul_(3.0)
    column.add_(z * z)
    return y * y


def view_of_view(x: Tensor, z: Tensor) -> Tensor:
    y = x * 2.0
    row = y.T[1]
    part = row[1:]
    part.copy_(z[1:] * z[1:])
    part += 1.0
    return y * row.sum()


def sibling_views(x: Tensor, z: Tensor) -> Tensor:
    y = x * 2.0
    left, whole = y[:, :2], y.reshape(-1)
    left[:, 0] = z
    whole[1::3] = 4.0
    return left.sin() * whole.sum()


def written_twice(x: Tensor, z: Tensor) -> Tensor:
    y = x * 2.0
    y[0] = z[0] * 2.0
    y[0] = z[1] * 3.0
    y[:, 2] += z
    return y * y


def whole_tensor(x: Tensor, z: Tensor) -> Tensor:
    y = x * 2.0
    before = y + 1.0
    y[...] = z.unsqueeze(1)
    return before + y


def transposed_in_place(x: Tensor, z: Tensor) -> Tensor:
    y = x * 2.0
    square = y[:, :3].clone()
    square.copy_(square.T)
    square[0] = square[1] + z * 2.0
    return square * square


def plain_base(x: Tensor, z: Tensor) -> Tensor:
    y = cf.zeros(3, 3, dtype=cf.float64)
    y[1] = z * 2.0
    y[:, 1] = x[:, 0] * 3.0
    return y * y


def expanded_value(x: Tensor, z: Tensor) -> Tensor:
    y = x * 2.0
    y[:2] = z[0]
    return y * y


@pytest.mark.parametrize(
    "function",
    [
        written_column, base_then_view, view_then_base, view_of_view, sibling_views, written_twice,
        whole_tensor, transposed_in_place, plain_base, expanded_value,
    ],
)  # fmt: skip
def test_writes_through_views_have_right_gradients(function: Callable[..., Tensor]) -> None:
    rng = np.random.default_rng(0)
    check_gradients(function, [rng.standard_normal((3, 3)), rng.standard_normal(3)])


def test_a_write_under_no_grad_changes_data_only() -> None:
    x = leaf(1.0, 2.0)
    y = x * 3.0
    node = y.grad_fn
    with cf.no_grad():
        y[0] = 100.0
        x.mul_(2.0)
    assert y.grad_fn is node
    assert_close(y, np.array([100.0, 6.0]))
    y.sum().backward()
    assert_close(x.grad, np.array([3.0, 3.0]))
    assert_close(x, np.array([2.0, 4.0]))


def test_a_write_through_detach_changes_data_and_version() -> None:
    x = leaf(1.0, 2.0)
    x.detach().mul_(2.0)
    assert_close(x, np.array([2.0, 4.0]))
    assert x._version == 1
    assert x.is_leaf


def test_the_value_of_a_write_may_overlap_its_target() -> None:
    x = cf.tensor([1.0, 2.0, 3.0, 4.0])
    x[1:] = x[:-1]
    assert x.tolist() == [1.0, 1.0, 2.0, 3.0]
    y = leaf(1.0, 2.0, 3.0) * 1.0
    y[:2] = y[1:]
    assert y.tolist() == [2.0, 3.0, 3.0]


def test_an_in_place_result_must_fit() -> None:
    x = cf.ones(3)
    with refused(ValueError, "add_: the result float32[2, 3] does not fit into float32[3]."):
        x.add_(cf.ones(2, 3))
    count = cf.tensor([1, 2])
    with refused(TypeError, "add_: the result is float32 and cannot be written into int64[2]."):
        count.add_(0.5)
    assert x._version == count._version == 0


NO_GRAD = "Write under contraflow.no_grad(), or to a copy."


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (lambda t: t.add_(1.0), "add_"),
        (lambda t: t.copy_(cf.ones(2)), "copy_"),
        (lambda t: t.zero_(), "fill_"),
        (lambda t: t.__setitem__(slice(None), 1.0), "setitem"),
    ],
)
def test_refused_a_leaf_that_requires_grad(write: Callable[[Tensor], Any], name: str) -> None:
    x = leaf(1.0, 2.0)
    with refused(
        cf.GradientError,
        f"{name}: float64[2] is a leaf that requires grad and cannot be written in place. ",
        NO_GRAD,
    ):
        write(x)
    assert x._version == 0
    assert x.tolist() == [1.0, 2.0]
    with cf.no_grad():
        write(x)


def test_refused_a_view_that_is_itself_a_leaf() -> None:
    part = cf.ones(4)[:2].requires_grad_()
    with refused(
        cf.GradientError,
        f"add_: float32[2] is a leaf that requires grad and cannot be written in place. {NO_GRAD}",
    ):
        part.add_(1.0)


def test_refused_a_view_of_a_leaf_that_requires_grad() -> None:
    x = leaf(1.0, 2.0)
    with refused(
        cf.GradientError,
        "setitem: float64[] is a view of a leaf that requires grad and cannot be written in place.",
        f" {NO_GRAD}",
    ):
        x[0] = 5.0
    assert x.tolist() == [1.0, 2.0]
    with cf.no_grad():
        x[0] = 5.0
    assert x.tolist() == [5.0, 2.0]


SEVERAL = (
    "add_: float64[1] is a view made under no_grad, or one of several made together by split, "
    "chunk or unbind; writing to it under grad is refused. Clone it before."
)


def test_refused_a_view_made_under_no_grad() -> None:
    y = leaf(1.0, 2.0) * 2.0
    with cf.no_grad():
        part = y[:1]
        part.add_(1.0)  # under no_grad it is a plain write
    with refused(cf.GradientError, SEVERAL):
        part.add_(1.0)


def test_refused_one_of_several_views_made_together() -> None:
    def head(x: Any) -> Any:
        """The first element."""
        return x.slice(0, 0, 1, 1)

    samples = lambda: (Sample((Array((2,)),)),)  # noqa: E731
    with temporary(view, head, vjp={"x": lambda g: g}, several=True, samples=samples) as op:
        y = leaf(1.0, 2.0) * 2.0
        with refused(cf.GradientError, SEVERAL):
            op(y).add_(1.0)


@pytest.mark.parametrize(
    "make",
    [lambda t: t.expand(3, 2), lambda t: windows(t.reshape(1, 2), (1, 2), (1, 1), (1, 1))],
)
def test_refused_a_destination_that_overlaps_itself(make: Callable[[Tensor], Tensor]) -> None:
    target = make(cf.ones(2))
    if target.shape != (3, 2):
        target = windows(cf.ones(1, 4), (1, 2), (1, 1), (1, 1))
    with refused(
        cf.GradientError,
        f"fill_: float32[{', '.join(map(str, target.shape))}] has elements that share memory (it ",
        "was expanded or cut into windows). Use .clone() before writing to it.",
    ):
        target.fill_(1.0)


def test_a_strided_base_whose_view_is_irregular() -> None:
    base = cf.from_numpy(np.asfortranarray(np.zeros((2, 3))))
    flat = base.T.reshape(6)
    assert flat.storage is base.storage
    with pytest.raises(cf.GradientError, match="is not a regular part of its base"):
        flat[:2] = leaf(1.0, 2.0)
    assert base._version == 0


# --- versions ------------------------------------------------------------------------------------


def test_seed_15_a_saved_value_that_was_overwritten_names_both_lines() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2.0
    z = y.sin()  # saved here
    y.add_(1.0)  # overwritten here
    with refused(
        cf.GradientError,
        f"sin saved float64[2] at {place('saved here')} for its backward, but add_ ",
        f"overwrote it at {place('overwritten here')}. Use the out-of-place form, or ",
        "clone it before.",
    ):
        z.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (lambda y: y[:1].mul_(2.0), "mul_"),
        (lambda y: y.detach().zero_(), "fill_"),
        (lambda y: y.__setitem__(0, 1.0), "setitem"),
        (lambda y: y.data.copy_(cf.ones(2)), "copy_"),
    ],
)
def test_seed_15_every_way_of_writing_counts(write: Callable[[Tensor], Any], name: str) -> None:
    y = leaf(1.0, 2.0) * 2.0
    z = y.exp().sum() + (y * y).sum()
    write(y)
    with pytest.raises(cf.GradientError, match=f"mul saved .* but {name} overwrote it at"):
        z.backward()


def test_seed_15_an_output_that_was_overwritten() -> None:
    y = leaf(1.0).exp()
    y.mul_(2.0)
    with pytest.raises(cf.GradientError, match=r"exp saved float64\[1\] at .* but mul_ overwrote"):
        y.backward()


def test_seed_15_what_saved_nothing_does_not_complain() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2.0
    z = y + 1.0
    y.mul_(5.0)
    z.sum().backward()
    assert_close(x.grad, np.array([2.0, 2.0]))


def test_a_saved_leaf_whose_data_was_replaced() -> None:
    x = leaf(1.0)
    y = x.sin()
    x.data = cf.zeros(1, dtype=cf.float64)
    (g,) = cf.autograd.grad(y, x, create_graph=True)
    assert_close(g.detach(), np.cos([1.0]))  # of what was computed
    (h,) = cf.autograd.grad(g, x)
    assert_close(h, -np.sin([1.0]))


# --- long chains ---------------------------------------------------------------------------------


def turned(x: Tensor, times: int) -> Tensor:
    """A view of a view of a view ..., which is what `x[1:].t()` is."""
    y = x[1:].t()
    for _ in range(times):
        y = y.t()
    return y


def write_through_many(x: Tensor, z: Tensor) -> Tensor:
    y = x * 2.0
    turned(y, 20).mul_(z)
    return y * y


def read_through_many(x: Tensor, z: Tensor) -> Tensor:
    y = x * 2.0
    shown = turned(y, 20)
    repeated = turned(y, 2)[0].expand(4, 2).t()
    for _ in range(10):
        repeated = repeated.t()
    y.mul_(3.0)
    y[0] = z[0]
    return shown * z + repeated.sum()


def strided_base(x: Tensor, z: Tensor) -> Tensor:
    y = cf.arange(6.0, dtype=cf.float64).reshape(3, 2).t().detach()  # its memory is not in order
    shown = y
    for _ in range(20):
        shown = shown.t()
    shown[1:].mul_(z[0, 0])
    return y * x.t()


@pytest.mark.parametrize("function", [write_through_many, read_through_many, strided_base])
def test_a_view_of_many_views(function: Callable[..., Tensor]) -> None:
    rng = np.random.default_rng(0)
    check_gradients(function, [rng.standard_normal((3, 2)), rng.standard_normal((2, 2))])


def test_a_view_of_many_views_keeps_few_moves() -> None:
    y = leaf(1.0, 2.0)[None] * 1.0
    for _ in range(1000):
        y = y.t()
        assert len(y._view_ops) <= 9
    y.mul_(2.0)
    steps, node = 0, y.node
    while node is not None and node.name != "assign":
        (node, _), steps = node.next_functions[0], steps + 1
    assert steps <= 9


def test_rows_written_one_by_one_copy_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write, and its gradient, touches its row alone."""
    copies = []
    assign = REGISTRY["assign"]
    whole: Any = assign.ref

    def counted(*args: Any, **how: Any) -> Any:
        copies.append(args)
        return whole(*args, **how)

    monkeypatch.setattr(assign, "ref", counted)
    w = leaf(1.0, 2.0)
    rows = cf.zeros(50, 2, dtype=cf.float64)
    for i in range(50):
        rows[i] = w * float(i)
    rows[3] = 0.0
    (rows * rows).sum().backward()
    squares = sum(i * i for i in range(50)) - 9
    assert_close(w.grad, 2 * squares * w.detach())
    assert not copies


def test_gradients_of_a_written_row_are_not_shared() -> None:
    x, z = leaf(1.0, 2.0), leaf(3.0)
    y = x * 1.0
    y[:1] = z
    seen = []
    y.register_hook(lambda g: seen.append(g))
    y.backward(cf.ones(2, dtype=cf.float64), retain_graph=True)
    y.backward(cf.ones(2, dtype=cf.float64))
    assert [g.tolist() for g in seen] == [[1.0, 1.0], [1.0, 1.0]]
    assert (x.grad.tolist(), z.grad.tolist()) == ([0.0, 2.0], [2.0])
