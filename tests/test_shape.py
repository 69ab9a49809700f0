"""Joining, cutting and rearranging: what the matrix cannot see."""

from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow.testing import assert_close

X = np.arange(12.0).reshape(3, 4)
pad = cf.nn.functional.pad


def test_views_share_memory() -> None:
    x = cf.tensor(X)
    views = [
        x.view(4, 3), x.view(2, -1), x.t(), x.movedim(0, 1), x.narrow(0, 1, 2), x.diagonal(1),
        x.unflatten(1, (2, 2)), x.unfold(1, 2, 1), x.as_strided((2, 2), (1, 4), 3), x.ravel(),
        x.swapaxes(0, 1), x.broadcast_to((2, 3, 4)), *x.split(2), *x.chunk(2, 1), *x.unbind(1),
        *x.tensor_split(2), *x.hsplit(2), x.squeeze((0, 1)), x[None].squeeze((0, 2)),
    ]  # fmt: skip
    assert all(v.storage is x.storage for v in views)
    x.narrow(1, -1, 1).fill_(-1.0)
    assert_close(x[:, 3], np.full(3, -1.0))


def test_view_never_copies() -> None:
    with pytest.raises(ValueError, match=r"view: float64.* without a copy\. Use reshape\."):
        cf.tensor(X).t().view(12)
    assert cf.tensor(X).view_as(cf.zeros(2, 6)).shape == (2, 6)


@pytest.mark.parametrize("cut", ["split", "chunk", "unbind"])
def test_pieces_made_together_are_not_written_to_under_grad(cut: str) -> None:
    x = cf.tensor(X, requires_grad=True) * 1.0
    first = getattr(x, cut)(2 if cut != "unbind" else 0)[0]
    with pytest.raises(cf.GradientError, match="one of several made together by split"):
        first.add_(1.0)
    with pytest.raises(cf.GradientError, match="one of several made together"):
        first[0].add_(1.0)
    with cf.no_grad():
        first.add_(1.0)
    assert_close(x[0], X[0] + 1.0)


def test_cat_promotes_and_skips_vectors_without_elements() -> None:
    joined = cf.cat([cf.tensor([1, 2]), cf.tensor([0.5])])
    assert joined.dtype is cf.float32
    assert cf.cat([cf.zeros(0), cf.ones(2, 3)], 1).shape == (2, 3)
    assert cf.concat((cf.ones(1), cf.ones(2)), dim=0).shape == (3,)
    assert cf.concatenate([cf.ones(1, 2), cf.ones(1, 3)], axis=-1).shape == (1, 5)
    with pytest.raises(TypeError, match="cat: expected a tuple or list of tensors, not float32"):
        cf.cat(cf.ones(2))
    with pytest.raises(TypeError, match="stack: expected tensors, not int"):
        cf.stack([cf.ones(2), 3])


def test_only_inputs_that_need_a_gradient_get_one() -> None:
    a, b = cf.ones(2, requires_grad=True), cf.ones(3)
    out = cf.cat([a, b]) * cf.arange(5)
    out.sum().backward()
    assert a.grad is not None
    assert a.grad.tolist() == [0.0, 1.0]
    assert b.grad is None


def test_pad_takes_pytorchs_order() -> None:
    x = cf.tensor(X)
    assert pad(x, (1, 0, 0, 2)).shape == (5, 5)
    assert pad(x, [0, -1]).tolist() == X[:, :3].tolist()
    assert pad(x, (1, 1), "reflect")[0].tolist() == [1.0, 0.0, 1.0, 2.0, 3.0, 2.0]
    assert pad(x, (1, 2), mode="replicate")[0].tolist() == [0.0, 0.0, 1.0, 2.0, 3.0, 3.0, 3.0]
    assert pad(x, (1, 2), mode="circular")[0].tolist() == [3.0, 0.0, 1.0, 2.0, 3.0, 0.0, 1.0]
    assert pad(x, (1, 0), value=float("-inf"))[0, 0].item() == float("-inf")
    with pytest.raises(ValueError, match="mode 'reflect' takes no value"):
        pad(x, (1, 1), "reflect", 1.0)


def test_roll_without_dims_rolls_the_flat_tensor() -> None:
    x = cf.tensor(X)
    assert_close(x.roll(5), np.roll(X, 5))
    assert_close(x.roll((1, -1, 2), (0, 1, 0)), np.roll(X, (3, -1), (0, 1)))
    with pytest.raises(ValueError, match="roll: 2 shifts for 0 dims"):
        x.roll((1, 2))


def test_repeat_and_tile_take_numbers_one_by_one() -> None:
    x = cf.tensor([1.0, 2.0])
    assert x.repeat(2, 2).shape == x.tile(2, 2).shape == (2, 4)
    assert x.repeat(1).storage is not x.storage
    assert x.flip(0).tolist() == x.flip((0,)).tolist() == x.flip(dims=[0]).tolist() == [2.0, 1.0]


def test_meshgrid_and_its_kin() -> None:
    a, b = cf.tensor([1, 2, 3]), cf.tensor([4, 5])
    grids = cf.meshgrid(a, b, indexing="xy")
    assert grids[0].shape == (2, 3)
    assert cf.cartesian_prod(a, b).tolist()[:3] == [[1, 4], [1, 5], [2, 4]]
    assert cf.combinations(a).tolist() == [[1, 2], [1, 3], [2, 3]]
    assert cf.tril_indices(2, 2).tolist() == [[0, 1, 1], [0, 0, 1]]
    assert cf.block_diag(cf.ones(1, 2), cf.ones(1)).tolist() == [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


def test_as_strided_stays_within_the_tensor() -> None:
    x = cf.tensor(X)
    with pytest.raises(ValueError, match=r"reach elements 4 to 12; float64.* lies in 0 to 11"):
        x.as_strided((3,), (4,), 4)
    with pytest.raises(NotImplementedError, match="is not contiguous; use"):
        x.clone().requires_grad_().t().as_strided((2,), (1,))
    overlapping = x.as_strided((2, 3), (1, 1))
    with pytest.raises(cf.GradientError, match="has elements that share memory"):
        overlapping.add_(1.0)


def test_in_place_twins() -> None:
    x = cf.tensor(X)
    x.tril_().fill_diagonal_(9.0)
    assert x.tolist()[1] == [4.0, 9.0, 0.0, 0.0]
    x.masked_fill_(x == 9.0, 0).index_fill_(1, cf.tensor([-1]), 1.0)
    assert x.tolist()[1] == [4.0, 0.0, 0.0, 1.0]
    x.index_add_(0, cf.tensor([0, 0]), cf.ones(2, 4, dtype=cf.float64), alpha=2)
    assert x.tolist()[0] == [4.0, 4.0, 4.0, 5.0]
    x.put_(cf.tensor([0, -1]), cf.tensor([7.0, 8.0], dtype=cf.float64))
    assert (x[0, 0].item(), x[2, 3].item()) == (7.0, 8.0)
    x.index_copy_(0, cf.tensor([1]), cf.zeros(1, 4, dtype=cf.float64))
    assert x.tolist()[1] == [0.0] * 4


@pytest.mark.parametrize(
    "name", ["squeeze_", "unsqueeze_", "t_", "transpose_", "swapaxes_", "as_strided_"]
)
def test_a_shape_cannot_be_changed_in_place(name: str) -> None:
    with pytest.raises(NotImplementedError, match=f"{name}: a tensor keeps its shape. Use"):
        getattr(cf.ones(2, 1), name)()


def test_compiled_pieces_without_elements() -> None:
    x = cf.tensor(X[:, :1])

    def written(x: Any) -> Any:
        y = x * 1.0
        y[:, 1:] = x[:, 1:]
        return y

    assert cf.compile(lambda x: x[:, 1:] * 2.0)(x).shape == (len(X), 0)
    assert_close(cf.compile(lambda x: cf.cat([x * 2.0, x[len(X) :] * 2.0]))(x), 2.0 * X[:, :1])
    assert_close(cf.compile(written)(x), x)


def test_compiled_split_and_cat() -> None:
    def swap(x: Any) -> Any:
        a, b = x.chunk(2, -1)
        return cf.cat([-b, a], -1)

    assert_close(cf.compile(swap)(cf.tensor(X)), swap(cf.tensor(X)))
    x = cf.tensor(X, requires_grad=True)
    loss = cf.compile(lambda x: cf.autograd.grad((swap(x) * x.detach()).sum(), x)[0])
    assert_close(loss(x), np.concatenate([X[:, 2:], -X[:, :2]], 1))


def test_compiled_cat_of_many() -> None:
    parts = [cf.tensor(X + i, requires_grad=True) for i in range(40)]

    def loss(*parts: Any) -> Any:
        joined = cf.cat(parts, 1)
        return joined.detach(), *cf.autograd.grad((joined * joined).sum(), parts)

    for found, expected in zip(cf.compile(loss)(*parts), loss(*parts), strict=True):
        assert_close(found, expected)


def test_cat_with_a_vector_of_nothing_that_requires_grad() -> None:
    nothing, x = cf.zeros(0, requires_grad=True), cf.ones(2, 3, requires_grad=True)
    joined = cf.cat([nothing, x], 1)
    assert joined.shape == (2, 3)
    joined.sum().backward()
    assert nothing.grad is not None
    assert nothing.grad.shape == (0,)
    assert cf.cat([nothing, cf.ones(2, 3)]).requires_grad


def test_more_dims_than_there_can_be() -> None:
    assert (cf.zeros([1] * 64) + 1).sum().item() == 1
    for name, make in {
        "zeros": lambda: cf.zeros([1] * 65),
        "tensor": lambda: cf.tensor(eval("[" * 65 + "]" * 65)),
        "reshape": lambda: cf.zeros(1).reshape([1] * 65),
        "expand": lambda: cf.zeros(1).expand([1] * 65),
    }.items():
        with pytest.raises(ValueError, match=f"{name}: a tensor has at most 64 dims."):
            make()
