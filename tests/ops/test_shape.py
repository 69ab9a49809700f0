"""Joining, cutting and rearranging: what the matrix cannot see."""

from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_common import refused

import contraflow as cf
from contraflow.autograd.graph import Graph
from contraflow.errors import GradientError
from contraflow.tensors.tensor import Tensor
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


def test_shapes_are_given_one_by_one_as_a_sequence_or_by_name() -> None:
    x = cf.tensor(X)
    for spread in (x.expand, x.broadcast_to):
        for found in (spread(2, 3, 4), spread([2, 3, 4]), spread(size=(2, 3, 4))):
            assert found.shape == (2, 3, 4)
    assert x.view(size=(2, 6)).shape == (2, 6)
    assert cf.tensor(1.0).broadcast_to(2).tolist() == [1.0, 1.0]
    assert cf.broadcast_to(x, shape=(1, 3, 4)).shape == (1, 3, 4)
    with pytest.raises(TypeError, match="argument 'sizes' is unknown"):
        x.broadcast_to(sizes=(2, 3, 4))


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


IN_PLACE = {
    "squeeze_": (1,),
    "unsqueeze_": (0,),
    "t_": (),
    "transpose_": (0, 1),
    "swapaxes_": (0, 1),
    "swapdims_": (0, 1),
    "as_strided_": ((3,), (1,)),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_tensor_becomes_its_own_view(name: str) -> None:
    def turned(x: cf.Tensor) -> cf.Tensor:
        y = x * 1.0
        assert getattr(y, name)(*IN_PLACE[name]) is y
        return y

    x = cf.arange(3.0).reshape(3, 1)
    expected = getattr(x, name[:-1])(*IN_PLACE[name])
    for function in (turned, cf.compile(turned)):
        found = function(x)
        assert found.shape == expected.shape
        assert_close(found, expected)
    other, y = x.detach(), x.detach()
    getattr(y, name)(*IN_PLACE[name]).add_(1)  # the memory is the same
    assert other.flatten().tolist() == [1.0, 2.0, 3.0]


def test_what_backward_keeps_stays_as_it_was_when_a_shape_changes_in_place() -> None:
    w, x = cf.ones(2, 2, requires_grad=True), cf.tensor([[1.0, 2.0], [3.0, 4.0]])
    y = (w * x).sum()
    x.t_()
    y.backward()
    assert w.grad.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_view_of_a_tensor_whose_shape_changed_is_refused_once_that_is_written() -> None:
    w, x = cf.ones(2, 2, requires_grad=True), cf.zeros(2, 2)
    row = x[0]
    x.t_()
    x.add_(w)
    with pytest.raises(GradientError, match="shape was changed in place"):
        row * 2


def test_a_shape_that_a_graph_knows_cannot_be_changed_in_place() -> None:
    x = cf.ones(2, 1)
    with pytest.raises(GradientError, match=r"squeeze_: .* requires grad.* Use x = x.squeeze"):
        (x.clone().requires_grad_() * 2).squeeze_()
    with pytest.raises(cf.CaptureError, match=r"squeeze_ changes the shape of float32\[2, 1\]"):
        cf.compile(lambda: x.squeeze_() + 1)()


def test_compiled_pieces_without_elements() -> None:
    x = cf.tensor(X[:, :1])

    def written(x: Any) -> Any:
        y = x * 1.0
        y[:, 1:] = x[:, 1:]
        return y

    assert cf.compile(lambda x: x[:, 1:] * 2.0)(x).shape == (len(X), 0)
    assert_close(cf.compile(lambda x: cf.cat([x * 2.0, x[len(X) :] * 2.0]))(x), 2.0 * X[:, :1])
    assert_close(cf.compile(written)(x), x)


def test_cat_beside_vectors_of_nothing_has_gradients() -> None:
    x, nothing = cf.ones(2, 3, requires_grad=True), cf.zeros(0, requires_grad=True)
    for call in (cf.cat, cf.compile(lambda xs, dim: cf.cat(xs, dim))):
        out = call([nothing, x, nothing, x * 2.0], 1)
        g, none = cf.autograd.grad(out.sum(), [x, nothing])
        assert (g.tolist(), none.shape) == ([[3.0] * 3] * 2, (0,))


def test_cat_of_vectors_of_nothing_alone_takes_every_dim() -> None:
    nothing = cf.zeros(0)
    for dim in (1, 5, -3):
        for call in (cf.cat, cf.compile(lambda xs, dim: cf.cat(xs, dim))):
            assert call([nothing], dim).shape == (0,)
            assert call([nothing, nothing.long()], dim).spec == nothing.spec
    with pytest.raises(IndexError, match="cat: dim 2 is out of range"):
        cf.cat([nothing, cf.zeros(2, 3)], dim=2)


def test_norm_except_dim_of_a_vector_is_the_absolute_value() -> None:
    assert cf.norm_except_dim(cf.tensor([-1.0, 2.0])).tolist() == [1.0, 2.0]
    assert cf.norm_except_dim(cf.tensor([[3.0, 4.0], [0.0, 2.0]]), 2, -2).tolist() == [[5.0], [2.0]]


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


# --- many parts --------------------------------------------------------------------------------


def many_parts(x: Tensor) -> dict[str, tuple[Tensor, ...]]:
    """More than eager mode makes a node each of; the third cuts a view of `x`."""
    return {
        "unbind": x.unbind(0),
        "split": x.split([1, 0, *[2] * 19, 1], 1),
        "chunk": (x * 1.0).t()[2:].chunk(38, 0),
    }


def test_many_parts_are_one_node() -> None:
    data = np.random.default_rng(0).standard_normal((40, 40))
    x = cf.tensor(data, requires_grad=True)
    for name, parts in many_parts(x).items():
        node = parts[0].grad_fn
        assert node.name == name
        assert [part.edge for part in parts] == [(node, i) for i in range(len(parts))]
        assert [part.spec for part in parts] == node.output_specs
        assert str(node.line).startswith("test_shape.py:")
    text = str(Graph(cf.stack([p * 2.0 for p in x.unbind(0)])))
    assert "= unbind(leaf0) : float64[40], float64[40], float64[40], ... 40 in all" in text
    assert "= stack(%2, %3, %4, ... 40 in all) : float64[40, 40]" in text
    arrays = {
        "unbind": list(data),
        "split": np.split(data, np.cumsum([1, 0, *[2] * 19]), 1),
        "chunk": np.split(data.T[2:], 38, 0),
    }
    for name, parts in many_parts(x).items():
        assert [part.tolist() for part in parts] == [a.tolist() for a in arrays[name]]
        with cf.no_grad():
            assert [p.tolist() for p in many_parts(x)[name]] == [p.tolist() for p in parts]


@pytest.mark.parametrize("name", ["unbind", "split", "chunk"])
@pytest.mark.parametrize("used", [slice(None), slice(3, 20, 5), slice(0, 1), slice(-1, None)])
def test_gradients_of_many_parts(name: str, used: slice) -> None:
    """As of few parts, which are nodes each, in both orders, with graphs, by compiled code."""
    rng = np.random.default_rng(1)
    x = cf.tensor(rng.standard_normal((40, 40)), requires_grad=True)
    weights = cf.tensor(rng.standard_normal((40, 40)))

    def loss(x: Tensor) -> Tensor:
        parts = many_parts(x)[name][used]
        flat = [(p * p * p).sum() for p in parts]
        return (cf.stack(flat) * weights[0, : len(flat)]).sum()

    (want,) = cf.autograd.grad(cf.compile(loss)(x), x)
    (got,) = cf.autograd.grad(loss(x), x, create_graph=True)
    (second,) = cf.autograd.grad((got * weights).sum(), x)
    assert_close(got.detach(), want)
    assert_close(second, (6 * x * weights * (want / (3 * x * x))).detach())
    (threaded,) = cf.autograd.grad(loss(x), x, workers=2)
    assert threaded.array.tobytes() == want.array.tobytes()
    found = cf.autograd.gradients(loss(x), all=True)
    assert_close(found[x], want)


def test_looking_at_one_of_many_parts() -> None:
    x = cf.ones(20, 3, requires_grad=True)
    parts = x.unbind(0)
    seen: list[Any] = []
    parts[4].register_hook(lambda g: seen.append(g.tolist()) or g * 10.0)
    parts[5].retain_grad()
    (parts[4].sum() * 2.0).backward()  # each may go backward by itself
    (parts[5].sum() * 3.0).backward()
    assert seen == [[2.0, 2.0, 2.0]]
    assert parts[5].grad.tolist() == [3.0, 3.0, 3.0]
    assert x.grad[3:7, 0].tolist() == [0.0, 20.0, 3.0, 0.0]
    with pytest.raises(cf.GradientError, match="one of several made together"):
        (x * 1.0).unbind(0)[0].add_(1.0)
    whole = parts[2].grad_fn(*(cf.full((3,), float(i)) for i in range(20)))
    assert whole[:, 1].tolist() == list(range(20))
    with cf.no_grad():
        x.unbind(0)[1].add_(1.0)
    assert x[1].tolist() == [2.0, 2.0, 2.0]


def test_stacking_and_joining_many() -> None:
    rng = np.random.default_rng(2)
    rows = [cf.tensor(rng.standard_normal(3), requires_grad=i % 3 > 0) for i in range(20)]
    rows[7] = rows[7].detach().to(cf.float32).requires_grad_()
    for dim in (0, 1, -1):
        out = cf.stack(rows, dim)
        assert out.dtype is cf.float64
        assert out.tolist() == np.stack([r.detach().numpy() for r in rows], dim).tolist()
        assert out.grad_fn.name == "stack"
        needing = [r for r in rows if r.requires_grad]
        weights = cf.tensor(rng.standard_normal(out.shape))
        found = cf.autograd.grad((out * out * weights).sum(), needing, create_graph=True)
        twice = cf.autograd.grad(sum(g.sum() for g in found), needing)
        of = [w for r, w in zip(rows, weights.unbind(dim)) if r.requires_grad]
        for r, w, g, h in zip(needing, of, found, twice):
            assert_close(g.detach(), (2 * r * w).detach().to(r.dtype))
            assert_close(h, (2 * w).to(r.dtype))
    joined = cf.cat([r.reshape(1, 3) for r in rows], 0)
    (of_five,) = cf.autograd.grad((joined * joined).sum(), rows[5])
    assert_close(of_five, 2 * rows[5].detach())
    with refused(
        ValueError, "stack: float64[2] does not fit float64[3]; all must have the same shape."
    ):
        cf.stack([*rows, cf.ones(2, dtype=cf.float64)])
    with pytest.raises(IndexError, match="stack: dim 2 is out of range"):
        cf.stack(rows, 2)


def test_a_view_of_another_dtype_has_the_same_bytes() -> None:
    x = cf.tensor([[1.0, -2.0], [0.5, 3.0]])
    expected = x.numpy().view(np.int32)
    np.testing.assert_array_equal(x.view(cf.int32).numpy(), expected)
    np.testing.assert_array_equal(x.view(dtype=cf.int16).numpy(), x.numpy().view(np.int16))
    assert cf.arange(8, dtype=cf.uint8).view(cf.float64).shape == (1,)
    assert cf.ones(2).requires_grad_().view(cf.int32).requires_grad is False
    y = cf.zeros(2)
    y.view(cf.int32)[0] = 0x3F800000
    assert y.tolist() == [1.0, 0.0]
    for wrong, message in (
        (lambda: cf.ones(3, dtype=cf.uint8).view(cf.int32), r"view: uint8\[3\] with strides"),
        (lambda: cf.ones(4, 4).T.view(cf.int16), "cannot be viewed as int16: .* contiguous"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()
    with pytest.raises(cf.GradientError, match="requires grad"):
        cf.ones(2, requires_grad=True).view(cf.bfloat16)
    with pytest.raises(cf.CaptureError, match=r"view\(\) as another dtype needs the value"):
        cf.compile(lambda x: x.view(cf.int32))(x)
