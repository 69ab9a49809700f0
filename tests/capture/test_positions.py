"""Numbers and 0-d tensors that only select a place: one recording serves them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import contraflow as cf
from contraflow.testing import assert_close

pytestmark = pytest.mark.usefixtures("mode")


def written(x: Any, key: Any, value: Any) -> Any:
    x = x.clone()
    x[key] = value
    return x


def added(x: Any, key: Any, value: Any) -> Any:
    x = x.clone()
    x[key] += value
    return x


# Of x[2, 5, 5] and an index of it.
READ: dict[str, Callable[..., Any]] = {
    "first": lambda x, n: x[0][n] * 2,
    "inner": lambda x, n: x[:, n] * 2,
    "last": lambda x, n: x[..., n] * 2,
    "several": lambda x, n: x[0, n, n] * 2 + x[1, n, :, None],
    "apart": lambda x, n: x[1, n, 1:, None] * 2 + x[:, 2, n].sum(),
    "with a step of Python": lambda x, n: x[:, n // 2] * x[:, -abs(n)],
    "of a view": lambda x, n: x.transpose(1, 2)[:, n] * 2,
    "a view of it": lambda x, n: x[:, n].t()[1:].reshape(-1) * 2,
    "integers": lambda x, n: x.long()[:, n] * 2,
    "a result of the function": lambda x, n: (x * 2)[:, n],
    "beside the number": lambda x, n: x[:, n] * n,
    "a mask": lambda x, n: cf.where(cf.arange(5) <= n, x, 0.0)[:, n] * 2,
    "written": lambda x, n: written(x, (slice(None), n), 3.0),
    "written with a tensor": lambda x, n: written(x, (slice(None), n), x[:, 0] * 2),
    "written at a point": lambda x, n: written(x, (1, n, n), n * 1.0),
    "added to a part": lambda x, n: added(x, (slice(None), n), 3.0),
    "a copy that is written": lambda x, n: (x * 2)[:, n].add_(1),
}  # fmt: skip
OF_NUMBERS: dict[str, Callable[..., Any]] = {
    "select": lambda x, n: x.select(1, n) * 2,
    "select of the last": lambda x, n: cf.select(x, -1, n) * 2,
    "narrow": lambda x, n: x.narrow(1, abs(n), 1) * 2,
    "a slice of one": lambda x, n: x[:, abs(n) : abs(n) + 1] * 2,
    "a slice of two": lambda x, n: x[..., n % 4 : n % 4 + 2] * 2,
    "a slice up to": lambda x, n: x[..., n % 4 - 0 : 2 + n % 4] * 2,
    "a written slice": lambda x, n: written(x, (0, slice(n % 4, n % 4 + 2)), x[1, :2]),
}  # fmt: skip
PLACES = (1, 3, 0, -1, -4, 4)


def of_number(n: int) -> Any:
    return n


@pytest.mark.parametrize("kind", [of_number, cf.tensor], ids=["number", "tensor"])
@pytest.mark.parametrize("name", READ)
def test_a_place_is_an_input(name: str, kind: Callable[[int], Any]) -> None:
    function = READ[name]
    f = cf.compile(function)
    x = cf.randn(2, 5, 5)
    for n in PLACES:
        n = kind(n)
        got, want = f(x, n), function(x, n)
        assert got.shape == want.shape
        assert got.dtype is want.dtype
        assert_close(got, want)
    assert f.captures == 1


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_a_number_of_a_method_is_an_input(name: str) -> None:
    function = OF_NUMBERS[name]
    f = cf.compile(function)
    x = cf.randn(2, 5, 5)
    for n in PLACES:
        assert_close(f(x, n), function(x, n))
    assert f.captures == 1


@pytest.mark.parametrize("name", [*READ, *OF_NUMBERS])
def test_gradients_are_those_of_the_place(name: str) -> None:
    function = (READ | OF_NUMBERS)[name]
    x = cf.randn(2, 5, 5, dtype=cf.float64, requires_grad=True)

    def gradient(x: Any, n: int) -> Any:
        out = function(x, n)
        if not out.requires_grad:
            return out
        return cf.autograd.grad((out * cf.arange(out.numel()).reshape(out.shape)).sum(), x)[0]

    inside, outside = cf.compile(gradient), cf.compile(function)
    for n in PLACES:
        want = gradient(x, n)
        assert_close(inside(x, n), want)
        if want.dtype is cf.float64:
            out = outside(x, n)
            weights = cf.arange(out.numel()).reshape(out.shape)
            assert_close(cf.autograd.grad((out * weights).sum(), x)[0], want)
    assert inside.captures == 1


def test_a_cache_of_keys_and_values() -> None:
    """A token at a time, in place; the position a number, a counter or a tensor."""
    heads, length, size = 2, 6, 4

    class Layer(cf.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project = cf.nn.Linear(size, 3 * heads * size)
            self.register_buffer("keys", cf.zeros(1, heads, length, size))
            self.register_buffer("values", cf.zeros(1, heads, length, size))
            self.position = 0

        def forward(self, x: Any, t: Any) -> Any:
            q, k, v = self.project(x).reshape(1, 3, heads, size).unbind(1)
            with cf.no_grad():
                self.keys[:, :, t] = k
                self.values[:, :, t] = v
            scores = (q[:, :, None] * self.keys).sum(-1) / size**0.5
            scores = scores.masked_fill(cf.arange(length) > t, float("-inf"))
            return (scores.softmax(-1)[..., None] * self.values).sum(2).flatten(1)

        def count(self, x: Any) -> Any:
            out = self(x, self.position)
            self.position += 1
            return out

    layer, twin = Layer(), Layer()
    twin.load_state_dict(layer.state_dict())
    xs = cf.randn(length, 1, size)
    by_place, counted = cf.compile(layer.forward), cf.compile(layer.count)
    for kind in (of_number, cf.tensor, None):
        layer.keys.zero_(), layer.values.zero_(), twin.keys.zero_(), twin.values.zero_()
        captures = by_place.captures
        for t in range(length):
            want = twin(xs[t], t)
            got = counted(xs[t]) if kind is None else by_place(xs[t], kind(t))
            assert_close(got.detach(), want.detach())
            layer.zero_grad(), twin.zero_grad()
            got.square().sum().backward(), want.square().sum().backward()
            assert_close(layer.project.weight.grad, twin.project.weight.grad)
        assert_close(layer.keys, twin.keys)
        if kind is not None:
            assert by_place.captures == captures + 1
    assert counted.captures <= 2  # the first call does not know that the position is counted
    with pytest.raises(IndexError, match=f"index {length} is out of range for dim 2"):
        counted(xs[0])


@pytest.mark.parametrize("write", [True, False])
def test_a_wrong_place_is_an_error_before_anything_is_changed(write: bool) -> None:
    w = cf.ones(2)

    def step(x: Any, n: int) -> Any:
        w.add_(1)
        if write:
            x[n] = w
            return x * 1
        return x[n] * w

    f = cf.compile(step)
    x = cf.ones(3, 2)
    f(x, 1)
    for n in (3, -4, 10**30):
        before, version, now = w.tolist(), w._version, x.tolist()
        with pytest.raises(IndexError) as wanted:
            cf.ones(3, 2)[n]
        with pytest.raises(IndexError) as got:
            f(x, n)
        assert str(got.value) == str(wanted.value)
        assert (w.tolist(), w._version, x.tolist()) == (before, version, now)
        f(x, 2)
    assert f.captures == 1
    for function, error in (
        (lambda x, n: x.select(0, n), "select: index 3 is out of range"),
        (lambda x, n: x.narrow(0, n, 2), "narrow: 2 elements from 3 on"),
        (lambda x, n: x[0.5 * n], "cannot index with float"),
    ):
        f = cf.compile(function)
        with pytest.raises((IndexError, TypeError), match=error):
            f(x, 3)


def test_a_caught_error_has_a_recording_of_its_own() -> None:
    @cf.compile
    def f(x: Any, n: int) -> Any:
        try:
            return x[n] * 2
        except IndexError:
            return x.sum()

    x = cf.arange(4.0)
    for n in (1, 4, 2, -5, 3, 9):
        assert f(x, n).item() == (n * 2 if n < 4 and n >= -4 else 6)
    assert f.captures == 2


def test_slices_beyond_the_ends_are_those_of_eager() -> None:
    def function(x: Any, n: int) -> Any:
        return x[n : n + 2] * 2

    f = cf.compile(function)
    x = cf.arange(5.0)
    for n in (1, 3, 4, 7, -1, -4):
        assert_close(f(x, n), function(x, n))


# --- where eager mode has a view ---------------------------------------------------------------


def returned(x: Any, n: Any) -> Any:
    return x[n]


def written_part(x: Any, n: Any) -> Any:
    x[n].mul_(2)
    return x.sum()


def written_whole(x: Any, n: Any) -> Any:
    part = x[n]
    x.mul_(2)
    return part * 1


def both(x: Any, n: Any) -> Any:
    y = x * 2
    return y, y[n]


def kept_part(x: Any, n: Any) -> Any:
    y = x * 2
    part = y[n]
    part.add_(1)
    return y.sum() + part


VIEWS = [returned, written_part, written_whole, both, kept_part]


@pytest.mark.parametrize("function", VIEWS)
def test_a_part_is_a_view_where_that_can_be_told(function: Callable[..., Any]) -> None:
    """Such a number is needed: each value has its own recording."""
    f = cf.compile(function)
    for n in (1, 3, 1, -1):
        x, twin = cf.arange(4.0), cf.arange(4.0)
        got, want = f(x, n), function(twin, n)
        got, want = (t if isinstance(t, tuple) else (t,) for t in (got, want))
        for a, b in zip(got, want):
            assert_close(a, b)
        assert_close(x, twin)
        got[-1].add_(1), want[-1].add_(1)
        assert_close(x, twin)
        for a, b in zip(got, want):
            assert_close(a, b)
    assert f.captures == 3


@pytest.mark.parametrize("function", [written_part, written_whole, kept_part])
def test_a_part_at_a_tensor_s_place_is_refused_where_it_is_no_view(
    function: Callable[..., Any],
) -> None:
    with pytest.raises(cf.CaptureError, match="a part of a tensor at a place that only a call"):
        cf.compile(function)(cf.arange(4.0), cf.tensor(1))


def test_a_view_of_a_leaf_is_not_written_under_grad() -> None:
    def function(x: Any, n: int) -> Any:
        x[n].mul_(2)

    x = cf.ones(3, requires_grad=True)
    for f in (function, cf.compile(function)):
        with pytest.raises(cf.GradientError, match="is a view of a leaf that requires grad"):
            f(x, 1)


def test_places_under_transforms_need_their_values() -> None:
    def function(x: Any, n: int) -> Any:
        return cf.vmap(lambda row: row[n] * 2)(x)

    f = cf.compile(function)
    x = cf.randn(3, 4)
    for n in (1, 2, -1):
        assert_close(f(x, n), function(x, n))
