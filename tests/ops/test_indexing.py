"""x[...] read and written: what the matrix cannot see. The rules are NumPy's and PyTorch's."""

from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow.testing import assert_close, check_gradients

X = np.arange(24.0).reshape(2, 3, 4)
MASK = np.arange(12).reshape(3, 4) % 3 == 0


@pytest.mark.parametrize(
    "key",
    [
        1, -1, slice(None), (slice(None, None, 2), Ellipsis), (None, 0, None), (Ellipsis, 2),
        [1, 0, 1], ([0, 1], [2, -1]), (slice(None), [0, 2]), (Ellipsis, [3, 0]),
        ([0, 1], slice(None), [3, 0]), ([[0], [1]], [0, 2, 1]), (slice(None), MASK),
        (0, MASK), (slice(None), MASK[:, 0]), np.ones((2, 3), bool), ([1], None, Ellipsis), (),
        [], True, False, (Ellipsis, slice(1, 1)), range(2), np.int64(1), np.array([1, 0]),
    ],
    ids=str,
)  # fmt: skip
def test_reads_and_writes_as_numpy_does(key: Any) -> None:
    x = cf.tensor(X)
    numpy_key = list(key) if isinstance(key, range) else key
    assert_close(x[key], X[numpy_key], 0.0, 0.0)
    changed = X.copy()
    changed[numpy_key] = -1.0
    x[key] = -1.0
    assert_close(x, changed, 0.0, 0.0)


@pytest.mark.parametrize("key", [0, slice(1, None), (Ellipsis, None), (slice(None), 1, 2), ...])
def test_basic_indices_give_views(key: Any) -> None:
    x = cf.tensor(X)
    part = x[key]
    part.fill_(7.0)
    assert part.storage is x.storage
    assert_close(x[key], np.full(part.shape, 7.0))


def test_integers_beside_tensors_are_selected_first() -> None:
    """NumPy counts an integer as one of the tensors, and moves their dims to the front."""
    x = cf.tensor(X)
    assert x[0, :, [0, 1]].shape == (3, 2)
    assert X[0, :, [0, 1]].shape == (2, 3)
    assert x[[0, 1], :, 0].shape == (2, 3)


def test_a_number_in_a_tensor_selects_a_view() -> None:
    x = cf.tensor(X)
    assert x[cf.tensor(1)].storage is x.storage
    assert_close(x[cf.tensor(-1), cf.tensor(0)], X[-1, 0])
    assert x[cf.tensor(True)].shape == (1, 2, 3, 4)


def test_the_last_of_several_writes_stays() -> None:
    x = cf.zeros(3)
    x[[1, 1, 0, 1]] = cf.tensor([1.0, 2.0, 3.0, 4.0])
    assert_close(x, [3.0, 4.0, 0.0])
    x.index_put_((cf.tensor([1, 1]),), cf.tensor([1.0, 2.0]), accumulate=True)
    assert_close(x, [3.0, 7.0, 0.0])


def test_an_ellipsis_for_no_dims_does_not_part_arrays() -> None:
    x = cf.tensor(X)
    rows = cf.tensor([0, 1])
    assert_close(x[:, rows, ..., rows], X[:, [0, 1], [0, 1]])


def test_a_value_must_fit_what_an_index_of_nothing_chooses() -> None:
    x = cf.zeros(2, 3)
    for nothing in (False, cf.tensor([False, False]), slice(0, 0)):
        with pytest.raises(ValueError, match="does not broadcast to the part"):
            x[nothing] = cf.ones(5)  # PyTorch takes the first
        x[nothing] = cf.ones(3)
    assert x.sum().item() == 0.0


def test_an_empty_mask_fits_empty_dims_only() -> None:
    mask = cf.zeros(0, 3, dtype=cf.bool)
    assert cf.zeros(0, 3, 2)[mask].shape == (0, 2)
    with pytest.raises(IndexError, match=r"the mask bool\[0, 3\] does not fit"):
        cf.zeros(0, 3, 3)[..., mask]


def test_gradients_of_what_is_read_twice_add_up() -> None:
    x = cf.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x[[0, 2, 2, 2]] * cf.tensor([1.0, 10.0, 100.0, 1000.0])).sum().backward()
    assert x.grad is not None
    assert_close(x.grad, [1.0, 0.0, 1110.0])


def test_gradients_of_writes() -> None:
    def by_rows(x: Any, v: Any) -> Any:
        y = x * x
        y[1, [0, 2]] = v
        return y * y

    def by_mask(x: Any, v: Any) -> Any:
        y = x * x
        y[:, cf.tensor(MASK)] = v.sum()
        return y * y

    def in_a_view(x: Any, v: Any) -> Any:
        y = x * x
        z = y.transpose(0, 2)
        z[[3, 0], 1:] = v[0]
        return y * z.sum()

    values = np.random.default_rng(0).standard_normal((2, 4))
    for function in (by_rows, by_mask):
        check_gradients(function, [X / 10, values])
    check_gradients(in_a_view, [X / 10, values[:, :2].copy()])


def test_a_write_touches_only_its_points() -> None:
    x = cf.zeros(4)
    before = x.data_ptr()
    x[[0, 1]] = cf.tensor([1.0, 2.0])
    assert (x.data_ptr(), x._version) == (before, 1)
    x[[1, 2]] = x[:2]
    assert_close(x, [1.0, 1.0, 2.0, 0.0])


def test_values_broadcast_and_are_cast() -> None:
    x = cf.zeros(2, 3, dtype=cf.int64)
    x[[1]] = cf.tensor([[[1.9, 2.0, 3.0]]])
    assert x.tolist() == [[0, 0, 0], [1, 2, 3]]
    x[0] = np.array([4, 5, 6])
    x[x > 4] = cf.tensor([7, 8])
    assert x.tolist() == [[4, 7, 8], [1, 2, 3]]


def test_iteration_length_and_membership() -> None:
    x = cf.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert [row.tolist() for row in x] == [[1.0, 2.0], [3.0, 4.0]]
    assert len(x) == 2
    assert 3.0 in x
    assert 5 not in x
    with pytest.raises(TypeError, match="in: cannot look for str"):
        assert "a" in x


def test_wrong_writes() -> None:
    x = cf.zeros(3, 2)
    for key, value, text in (
        (slice(0, 2), cf.ones(3, 2), r"setitem: float32\[3, 2\] does not broadcast to the part"),
        ([0, 1], cf.ones(3), "does not broadcast to the part"),
        (cf.tensor([True, False, True]), cf.ones(3, 2), "does not broadcast to the part"),
    ):
        with pytest.raises(ValueError, match=text):
            x[key] = value
    with pytest.raises(IndexError, match="index 3 is out of range for dim 0 with size 3"):
        x[[0, 3]] = 1.0
    assert x._version == 0
    leaf = cf.zeros(2, requires_grad=True)
    with pytest.raises(cf.GradientError, match="is a leaf that requires grad"):
        leaf[[0]] = 1.0


# --- compiled ----------------------------------------------------------------------------------


def test_compiled_reads_and_writes() -> None:
    def step(x: Any, i: Any, mask: Any, v: Any) -> Any:
        y = x * 2.0
        y[mask] = -1.0
        y[i, 1:] = v
        return y, x[:, i], x[i[0]]

    given = [
        cf.tensor(X[0]), cf.tensor([2, 0, 2]), cf.tensor(MASK), cf.tensor([[1.0], [2.0], [3.0]])
    ]  # fmt: skip
    for found, expected in zip(cf.compile(step)(*given), step(*given), strict=True):
        assert_close(found, expected)


def test_compiled_reading_by_a_mask_is_refused() -> None:
    def select(x: Any) -> Any:
        return x[x > 1.0]

    with pytest.raises(cf.CaptureError, match=r"x\[x > 1.0\].*shape depends on values"):
        cf.compile(select)(cf.tensor([1.0, 2.0]))


def test_compiled_index_out_of_range() -> None:
    read = cf.compile(lambda x, i: x[i] * 2.0)
    assert_close(read(cf.tensor([1.0, 2.0]), cf.tensor([-1])), [4.0])
    with pytest.raises(IndexError, match="index 2 is out of range"):
        read(cf.tensor([1.0, 2.0]), cf.tensor([2]))


# --- other ways to choose ------------------------------------------------------------------------


def test_where_with_one_argument_gives_coordinates() -> None:
    rows, columns = cf.where(cf.tensor(MASK))
    assert (rows.tolist(), columns.tolist()) == tuple(i.tolist() for i in np.nonzero(MASK))
    (flat,) = cf.nonzero(cf.tensor(3), as_tuple=True)
    assert flat.tolist() == [0]


def test_unique_returns_what_is_asked_for() -> None:
    x = cf.tensor([3, 1, 3])
    assert cf.unique(x).tolist() == [1, 3]
    values, counts = x.unique(return_counts=True)
    assert (values.tolist(), counts.tolist()) == ([1, 3], [1, 2])
    assert x.unique_consecutive().tolist() == [3, 1, 3]
    assert len(x.unique(return_counts=7, return_inverse=10**15)) == 3  # truth, not a number


def test_scatter_takes_a_value_and_a_larger_source() -> None:
    index = cf.tensor([[0, 2]])
    assert cf.zeros(1, 3).scatter(1, index, 5.0).tolist() == [[5.0, 0.0, 5.0]]
    assert cf.zeros(1, 3).scatter(1, index, cf.ones(2, 4)).tolist() == [[1.0, 0.0, 1.0]]
    x = cf.ones(1, 3).scatter_(1, index, 2.0, reduce="add")
    assert x.tolist() == [[3.0, 1.0, 3.0]]
    assert cf.ones(1, 3).scatter_add_(1, index, cf.ones(1, 2)).tolist() == [[2.0, 1.0, 2.0]]


def test_repeat_interleave_takes_a_tensor() -> None:
    x = cf.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    out = x.repeat_interleave(cf.tensor([1, 2]), dim=0)
    out.sum().backward()
    assert out.tolist() == [[1.0, 2.0], [3.0, 4.0], [3.0, 4.0]]
    assert x.grad is not None
    assert_close(x.grad, [[1.0, 1.0], [2.0, 2.0]])
    assert cf.repeat_interleave(cf.tensor([2, 0, 1])).tolist() == [0, 0, 2]
    with pytest.raises(ValueError, match="one number per element of dim 0"):
        x.repeat_interleave(cf.tensor([1, 2, 3]), dim=0)


def test_the_padding_row_of_an_embedding_gets_no_gradient() -> None:
    weight = cf.ones(3, 2, requires_grad=True)
    cf.nn.functional.embedding(cf.tensor([0, 2, 2]), weight, padding_idx=-1).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]


def test_one_hot_finds_the_number_of_classes() -> None:
    one_hot = cf.nn.functional.one_hot
    assert one_hot(cf.tensor([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert one_hot(cf.tensor(1), 4).tolist() == [0, 1, 0, 0]


def test_searchsorted_treats_nan_and_infinity_as_pytorch_does() -> None:
    edges = cf.tensor([-np.inf, 0.0, np.inf])
    values = cf.tensor([-np.inf, 0.0, np.inf, np.nan])
    for right in (False, True):
        expected = np.searchsorted(edges.numpy(), values.numpy(), "right" if right else "left")
        assert cf.searchsorted(edges, values, right=right).tolist() == expected.tolist()
        assert cf.compile(cf.searchsorted)(edges, values, right=right).tolist() == expected.tolist()
    assert cf.bucketize(0.5, edges, out_int32=True).dtype is cf.int32


def test_isin_takes_numbers() -> None:
    assert cf.isin(cf.tensor([1, 2, 3]), 2).tolist() == [False, True, False]
    assert cf.isin(2, cf.tensor([1, 2])).item() is True
