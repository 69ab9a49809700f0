"""Calls on few elements that eager mode leaves to NumPy at once, and those that it may not."""

from __future__ import annotations

import numpy as np
import pytest

import contraflow as cf

ROWS, MASK = [0, -1], [True, False, True, False]


def numbers() -> cf.Tensor:
    return cf.arange(20.0).reshape(4, 5).clone()


@pytest.mark.parametrize("key", [ROWS, MASK], ids=["rows", "mask"])
def test_chosen_elements_are_numpys(key):
    x = numbers()
    for source in (x, x.T[:4], x[:, 1:3], x.to(cf.bfloat16)):
        chosen = source[cf.tensor(key)]
        expected = source.to(cf.float32).numpy()[np.array(key)]
        assert chosen.is_contiguous()
        assert chosen.dtype is source.dtype
        assert np.array_equal(chosen.to(cf.float32).numpy(), expected)


@pytest.mark.parametrize("key", [ROWS, MASK], ids=["rows", "mask"])
def test_chosen_elements_stay_in_the_graph(key):
    x = numbers().requires_grad_()
    for source in (x, x[:, 1:]):
        x.grad = None
        source[cf.tensor(key)].sum().backward()
        assert x.grad is not None
        assert x.grad[1].sum() == 0
        assert x.grad[0, 1] == 1
    later = numbers()
    view = later[:]  # it needs gradients once its base was written
    later.mul_(x)
    assert view[cf.tensor(key)].requires_grad
    with cf.no_grad():
        assert not x[cf.tensor(key)].requires_grad
    with cf.inference_mode():
        assert x[cf.tensor(key)].is_inference()


def test_elements_are_written_where_nothing_refuses_it():
    x = numbers()
    version = x.storage.version
    x[1, 2] = 7.0
    x[-1] = cf.arange(5.0)
    x[0] = x[1]
    assert x[1, 2] == x[0, 2] == 7
    assert x[3].tolist() == [0, 1, 2, 3, 4]
    assert x.storage.version == version + 3
    leaf = numbers().requires_grad_()
    with pytest.raises(cf.GradientError, match="is a view of a leaf that requires grad"):
        leaf[0] = 1.0
    with pytest.raises(cf.GradientError, match="elements that share memory"):
        cf.zeros(1, 1).expand(3, 3)[0] = 1.0
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        cf.from_numpy(array)[0] = 1.0
    with cf.inference_mode():
        inner = cf.zeros(3)
        inner[0] = 1.0
    with pytest.raises(cf.GradientError, match="was made in inference_mode"):
        inner[0] = 2.0
    with pytest.raises(IndexError, match="index 4 is out of range for dim 0"):
        x[4] = 1.0
    with pytest.raises(ValueError, match="does not broadcast to the part"):
        x[0] = cf.zeros(2)


def test_a_written_element_is_seen_by_the_backward_that_kept_it():
    w = numbers().requires_grad_()
    x = numbers()
    product = x * w
    x[0, 0] = 1.0
    with pytest.raises(cf.OverwrittenError):
        product.sum().backward()


def test_a_value_with_a_graph_is_written_into_the_graph():
    x, w = numbers(), cf.ones(5, requires_grad=True)
    x[2] = w * 3
    x.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [3] * 5


@pytest.mark.parametrize("join", [cf.cat, cf.stack], ids=["cat", "stack"])
def test_joined_tensors_are_numpys_or_a_node(join):
    x, name = numbers(), join.__name__
    numpys = {"cat": np.concatenate, "stack": np.stack}[name]
    for parts in ([x, x + 1], [x.T, x.T], [x[:2], x[2:]]):
        assert np.array_equal(join(parts).numpy(), numpys([p.numpy() for p in parts]))
        assert join(parts).is_contiguous()
    w = numbers().requires_grad_()
    assert join([x, w]).requires_grad
    assert not join([x, w.detach()]).requires_grad
    assert join([x, x.to(cf.float64)]).dtype is cf.float64
    with cf.inference_mode():
        assert join([x, x]).is_inference()
    with pytest.raises(ValueError, match=f"{name}: float32\\[3\\] does not fit float32\\[4, 5\\]"):
        join([x, cf.zeros(3)])
    with pytest.raises(TypeError, match="dim must be an int, not None"):
        join([x, x], None)


def test_ops_are_names_of_the_package_itself():
    assert vars(cf)["topk"] is cf.topk
    assert vars(cf)["concat"] is cf.cat
    assert "take_at" not in vars(cf)  # a part of other ops


def test_a_dim_is_counted_from_the_front_or_refused():
    x = numbers()
    assert cf.equal(cf.softmax(x, -1), cf.softmax(x, 1))
    assert cf.equal(cf.cumsum(x, np.int64(1)), cf.cumsum(x, 1))
    for wrong in (2, -3):
        for _ in range(60):  # the function that is written for the op refuses it as well
            with pytest.raises(IndexError, match=f"softmax: dim {wrong} is out of range"):
                cf.softmax(x, wrong)
    assert cf.softmax(cf.tensor(2.0), -1) == 1


def test_small_results_are_those_of_the_ops():
    """They have the bits of the ops, which a tensor that needs gradients goes through."""
    x, at = cf.randn(4, 5), cf.tensor([[0, 4], [1, 0], [3, 3]])
    for source in (x, x.to(cf.float64), x.T, x[:, ::2], cf.zeros(2, 0), cf.tensor(1.5)):
        graph = source.detach().requires_grad_()
        for dim in range(-source.ndim, source.ndim):
            for op in (cf.softmax, cf.log_softmax):
                assert cf.equal(op(source, dim), op(graph, dim).detach())
            for k, largest in ((0, True), (2, True), (2, False)):
                if k <= source.shape[dim]:
                    for found, own in zip(
                        cf.topk(source, k, dim, largest), cf.topk(graph, k, dim, largest)
                    ):
                        assert cf.equal(found, own.detach())
                        assert found.is_contiguous()
    assert cf.equal(cf.gather(x, 1, at), cf.gather(x.requires_grad_(), 1, at).detach())
    ties = cf.tensor([1.0, 3.0, float("nan"), 3.0])
    assert cf.topk(ties, 3).indices.tolist() == [2, 1, 3]
    assert type(cf.topk(ties, 1)).__name__ == "topk"


def test_small_calls_refuse_what_the_ops_refuse():
    x = numbers()
    with pytest.raises(IndexError, match="gather: index -1 is out of range for size 5"):
        cf.gather(x, 1, cf.tensor([[-1]]))
    with pytest.raises(IndexError, match="gather: index 5 is out of range for size 5"):
        cf.gather(x, 1, cf.tensor([[5]]))
    for index in (cf.tensor([0]), cf.zeros(5, 1, dtype=cf.int64)):
        with pytest.raises(ValueError, match=r"gather: index .* does not fit"):
            cf.gather(x, 1, index)
    with pytest.raises(ValueError, match="topk: k is 6, but dim -1"):
        cf.topk(x, 6)
    with pytest.raises(IndexError, match="topk: dim 2 is out of range"):
        cf.topk(x, 1, 2)
    with pytest.raises(IndexError, match="softmax: dim 5 is out of range"):
        cf.softmax(cf.zeros(2, 0), 5)
    with pytest.raises(TypeError, match="topk: missing k"):
        cf.topk(x)
    with pytest.raises(TypeError, match="topk: takes 5 arguments, got 6"):
        cf.topk(x, 1, 0, True, True, 3)
