"""Bad input: the whole message, and nothing changed by what was refused.

What is asserted elsewhere word for word (the failures beside each op, refused writes, checkpoints)
is not repeated; here is one of each sort, with a look at everything that could have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_common import leaf, place, refused, temporary

import contraflow as cf
from contraflow.operation.context import state
from contraflow.operation.kinds import elementwise
from contraflow.tensors.tensor import Tensor

F = cf.nn.functional


@contextmanager
def unchanged(*tensors: Tensor) -> Iterator[None]:
    """The block leaves these tensors, this thread's modes and the random numbers as they were."""

    def look() -> list[Any]:
        seen: list[Any] = [state(), cf.get_rng_state(), cf.get_default_dtype()]
        for t in tensors:
            slot = None if t.grad is None else (t.grad, t.grad._version, t.grad.array.tobytes())
            seen += [t._version, t.array.tobytes(), slot, t.requires_grad, t.grad_fn, t.layout]
        return seen

    before = look()
    yield
    after = look()
    assert all(a is b or a == b for a, b in zip(before, after, strict=True))


def x() -> Tensor:
    return cf.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


# --- shapes, dtypes, dims, indices, devices ----------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda x: x @ x,
            ValueError,
            "matmul: cannot multiply float32[2, 3] by float32[2, 3]: inner sizes 3 and 2 differ.",
        ),
        (
            lambda x: x @ cf.ones(5),
            ValueError,
            "matmul: cannot multiply float32[2, 3] by float32[5]: inner sizes 3 and 5 differ.",
        ),
        (
            lambda x: cf.ones(5) @ x,
            ValueError,
            "matmul: cannot multiply float32[5] by float32[2, 3]: inner sizes 5 and 2 differ.",
        ),
        (
            lambda x: x + cf.ones(4),
            ValueError,
            "add: shapes [2, 3] and [4] do not broadcast: sizes 3 and 4 differ at dim -1.",
        ),
        (
            lambda x: cf.cat([x, cf.ones(2, 4)], 0),
            ValueError,
            "cat: float32[2, 4] does not fit float32[2, 3]; all sizes but that of "
            "dim 0 must be the same.",
        ),
        (
            lambda x: x.reshape(4, 2),
            ValueError,
            "reshape: cannot make [4, 2] of float32[2, 3], which has 6 elements.",
        ),
        (
            lambda x: x.mvlgamma(2**62),
            ValueError,
            "mvlgamma: cannot take (float32[2, 3], 4611686018427387904). It takes (x, p).",
        ),
        (
            lambda x: F.one_hot(x.long(), cf.tensor(7.5)),
            TypeError,
            "index: float32[] is not an integer.",
        ),
        (
            lambda x: F.alpha_dropout(np.array("a"), 1.0, training=True),
            TypeError,
            "alpha_dropout: expected a tensor, not ndarray.",
        ),
        (
            lambda x: F.dropout(np.ones(3)),
            TypeError,
            "dropout: expected a tensor, not ndarray.",
        ),
        (lambda x: x.narrow(0, 0, 1.5), TypeError, "narrow: length must be an int, not 1.5."),
        (lambda x: x.repeat(1.5, 2), TypeError, "repeat: repeats must be an int, not 1.5."),
        (lambda x: x.tile((1.5,)), TypeError, "tile: dims must be an int, not 1.5."),
        (
            lambda x: x.as_strided((2, 2), (1.5, 1)),
            TypeError,
            "as_strided: stride must be an int, not 1.5.",
        ),
        (lambda x: cf.polygamma(1.5, x), TypeError, "polygamma: n must be an int, not 1.5."),
        (lambda x: cf.mvlgamma(x, 1.5), TypeError, "mvlgamma: p must be an int, not 1.5."),
        (
            lambda x: x.int().nan_to_num(neginf=cf.ones(1, 4, 2)),
            TypeError,
            "nan_to_num: neginf is float32[1, 4, 2]; it must be a number.",
        ),
        (
            lambda x: F.linear(x, cf.ones(4, 5)),
            ValueError,
            "linear: float32[2, 3] does not fit the weight float32[4, 5]: it must be [..., 5].",
        ),
        (
            lambda x: F.cross_entropy(x, cf.tensor([0, 1, 2])),
            ValueError,
            "cross_entropy: target int64[3] does not fit the logits float32[2, 3]; "
            "it needs shape [2].",
        ),
        (
            lambda x: x & x,
            TypeError,
            "bitwise_and: float32[2, 3] is float32; it takes bool and integer tensors.",
        ),
        (
            lambda x: x.int().mean(),
            TypeError,
            "mean: int32[2, 3] is not floating-point. Use x.float().",
        ),
        (
            lambda x: x.int().add_(1.5),
            TypeError,
            "add_: the result is float32 and cannot be written into int32[2, 3].",
        ),
        (
            lambda x: x.sum(2),
            IndexError,
            "sum: dim 2 is out of range for a tensor with 2 dims; it must be in [-2, 1].",
        ),
        (lambda x: x.sum((0, -2)), ValueError, "sum: dim (0, -2) names a dim twice."),
        (
            lambda x: x.sum(1.5),
            TypeError,
            "sum: dim must be an int, not 1.5.",
        ),
        (
            lambda x: x.sum(dim="a"),
            TypeError,
            "sum: dim must be an int, not 'a'.",
        ),
        (
            lambda x: cf.cholesky(7),
            TypeError,
            "cholesky: cannot take (7). It takes (x, upper=False).",
        ),
        (
            lambda x: cf.dist(None, x),
            TypeError,
            "dist: cannot take (None, float32[2, 3]). It takes (a, b, p=2).",
        ),
        (
            lambda x: x.diff(n=[1]),
            TypeError,
            "diff: cannot take (float32[2, 3], n=[1]). It takes (x, n=1, dim=-1, "
            "prepend=None, append=None).",
        ),
        (
            lambda x: x[2],
            IndexError,
            "getitem: index 2 is out of range for dim 0 of float32[2, 3] with size 2.",
        ),
        (lambda x: x[0, 0, 0], IndexError, "getitem: 3 indices are too many for float32[2, 3]."),
        (
            lambda x: x[cf.tensor([2])],
            IndexError,
            "getitem: index 2 is out of range for dim 0 with size 2.",
        ),
        (
            lambda x: x[cf.tensor([True])],
            IndexError,
            "getitem: the mask bool[1] does not fit float32[2, 3] from dim 0 on.",
        ),
        (lambda x: x[::-1], ValueError, "getitem: a slice's step must be positive; use flip."),
        (
            lambda x: x.index_select(0, cf.tensor([2])),
            IndexError,
            "index_select: index 2 is out of range for dim 0 with size 2.",
        ),
        (
            lambda x: F.embedding(cf.tensor([9]), x),
            IndexError,
            "embedding: index 9 is out of range for size 2.",
        ),
        (
            lambda x: x.__setitem__(0, cf.ones(2)),
            ValueError,
            "setitem: float32[2] does not broadcast to the part [3].",
        ),
        (
            lambda x: x.__setitem__([0, 5], 1.0),
            IndexError,
            "setitem: index 5 is out of range for dim 0 with size 2.",
        ),
        (
            lambda x: x.to(cf.uint8).__setitem__(0, np.int64(300)),
            ValueError,
            "full: 300 does not fit uint8.",
        ),
        (
            lambda x: x.add_(cf.ones(5, 2, 3)),
            ValueError,
            "add_: the result float32[5, 2, 3] does not fit into float32[2, 3].",
        ),
        (
            lambda x: x.to("tpu"),
            ValueError,
            "device: 'tpu' is not a device. Use 'cpu', 'cuda', 'webgpu', or one of several: "
            "'cuda:1'.",
        ),
        (lambda x: cf.tensor([["a"]]), TypeError, "tensor: cannot make a tensor of str 'a'."),
        (lambda x: F.rrelu(x, 0.5, 0.2, True), ValueError, "rrelu: lower 0.5 exceeds upper 0.2."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_argument(call: Callable[[Tensor], Any], error: type[Exception], text: str) -> None:
    given = x()
    with unchanged(given), refused(error, text):
        call(given)


def test_too_much_memory_is_a_device_error() -> None:
    with refused(
        cf.DeviceError,
        "full: there is no memory for ((1099511627776, 1024), 1.0). It takes ",
        "(size, fill_value, dtype=None, device=None, requires_grad=False).",
    ):
        cf.full((2**40, 2**10), 1.0)


def test_of_nested_ops_the_one_the_user_called_is_named() -> None:
    """reshape_as is made of reshape, which is handed something the user never wrote."""
    given = x()
    with (
        unchanged(given),
        refused(TypeError, "reshape_as: cannot take (float32[2, 3], None). It takes (x, other)."),
    ):
        given.reshape_as(None)


def test_an_error_of_the_users_own_passes_unchanged() -> None:
    """What a hook raises is not retold, though it is raised inside an op."""

    def pack(t: Tensor) -> Any:
        return [][0]

    y = leaf(1.0, 2.0)
    with (
        unchanged(y),
        cf.autograd.saved_tensors_hooks(pack, lambda t: t),
        refused(IndexError, "list index out of range"),
    ):
        y.square()


def test_internal_ops_are_no_attributes() -> None:
    for name in ("assign", "sum_at", "to_device"):
        with pytest.raises(AttributeError, match=f"^module 'contraflow' has no attribute '{name}'"):
            getattr(cf, name)


# --- backward ----------------------------------------------------------------------------------


def graph() -> tuple[Tensor, Tensor, list[int]]:
    """A leaf with a gradient from before, an output of it, and how often its hooks ran."""
    w, runs = leaf(1.0, 2.0), []
    w.grad = cf.tensor([5.0, 6.0], dtype=cf.float64)
    out = w * w
    out.register_hook(lambda g: runs.append(1))
    w.register_hook(lambda g: runs.append(2))
    w.register_post_accumulate_grad_hook(lambda t: runs.append(3))
    return w, out, runs


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda w, out: out.backward(),
            cf.GradientError,
            "backward: float64[2] is not a scalar, so it needs a gradient. Call "
            "out.sum().backward(), or out.backward(g) with g of shape (2,).",
        ),
        (
            lambda w, out: out.backward(cf.ones(3)),
            cf.GradientError,
            "backward: the gradient has shape (3,), but the tensor float64[2] has shape (2,).",
        ),
        (
            lambda w, out: out.sum().backward("a"),
            TypeError,
            "backward: the gradient must be a Tensor, not str.",
        ),
        (
            lambda w, out: cf.autograd.backward(3.0),
            TypeError,
            "backward: expected a tensor or a sequence of them, not 3.0.",
        ),
        (
            lambda w, out: cf.autograd.backward([out, None]),
            TypeError,
            "backward: expected a tensor or a sequence of them, not None.",
        ),
        (
            lambda w, out: out.sum().backward(inputs=[1]),
            TypeError,
            "backward: inputs must be a tensor or a sequence of tensors.",
        ),
        (
            lambda w, out: cf.checkpoint(None, w),
            TypeError,
            "checkpoint: expected a function, not NoneType.",
        ),
        (
            lambda w, out: cf.autograd.grad("loss", w),
            TypeError,
            "grad: expected a tensor or a sequence of them, not 'l'.",
        ),
        (
            lambda w, out: cf.autograd.grad(out.sum(), 1),
            TypeError,
            "grad: expected a tensor or a sequence of them, not 1.",
        ),
        (
            lambda w, out: cf.autograd.gradients({}.get("loss")),
            TypeError,
            "gradients: expected a tensor or a sequence of them, not None.",
        ),
        (
            lambda w, out: cf.autograd.grad(out.sum(), leaf(1.0)),
            cf.GradientError,
            "grad: float64[1] was not used to compute the output. Pass "
            "allow_unused=True to get None for it.",
        ),
        (
            lambda w, out: out.detach().sum().backward(),
            cf.GradientError,
            "backward: float64[] does not require grad and was not computed from a "
            "tensor that does. Call x.requires_grad_() on an input first.",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_backward_that_cannot_begin(call: Any, error: type[Exception], text: str) -> None:
    w, out, runs = graph()
    with unchanged(w, out), refused(error, text):
        call(w, out)
    assert runs == []
    out.sum().backward()  # and the graph is whole
    assert runs == [1, 2, 3]
    assert w.grad.tolist() == [7.0, 10.0]


def test_a_second_backward_after_freeing() -> None:
    w, out, runs = graph()
    loss = out.sum()
    loss.backward()
    with (
        unchanged(w, out, loss),
        refused(
            cf.GradientError,
            "backward: mul at test_bad_input.py:",
            f"{graph.__code__.co_firstlineno + 4} has run already and its saved "
            "values were freed. ",
            "Pass retain_graph=True to the first backward.",
        ),
    ):
        loss.backward()
    assert runs.count(2) == runs.count(3) == 1  # the leaf was not reached again


@pytest.mark.parametrize(
    ("make", "op", "text"),
    [
        (
            lambda w: w,
            "add_",
            "float64[2] is a leaf that requires grad and cannot be written in "
            "place. Write under contraflow.no_grad(), or to a copy.",
        ),
        (
            lambda w: w[:1],
            "add_",
            "float64[1] is a view of a leaf that requires grad and cannot be "
            "written in place. Write under contraflow.no_grad(), or to a copy.",
        ),
        (
            lambda w: (w * 1.0).split(1)[0],
            "add_",
            "float64[1] is a view made under no_grad, or one of several made "
            "together by split, chunk or unbind; writing to it under grad is "
            "refused. Clone it before.",
        ),
        (
            lambda w: (w[:1] * 1.0).expand(3),
            "add_",
            "float64[3] has elements that share memory (it was expanded or cut "
            "into windows). Use .clone() before writing to it.",
        ),
    ],
    ids=["leaf", "view", "split", "expanded"],
)
def test_a_refused_write(make: Callable[[Tensor], Tensor], op: str, text: str) -> None:
    w = leaf(1.0, 2.0)
    target = make(w)
    for write in (lambda: target.add_(1.0), lambda: target.mul_(cf.ones(1)), target.zero_):
        with unchanged(w, target), pytest.raises(cf.GradientError) as caught:
            write()
        assert str(caught.value).split(": ", 1)[1] == text
    with unchanged(w, target), refused(cf.GradientError, f"{op}: {text}"):
        target.add_(1.0)


# --- what users hand to the engine -------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        (
            lambda g: (g, g),
            "returned 2 gradients for the 1 arguments of Odd.apply at {line}. "
            "Return one for each, None where there is none.",
        ),
        (
            lambda g: cf.ones(3),
            "returned float32[3] for argument 0 of Odd.apply at {line}, which is float64[2].",
        ),
        (
            lambda g: "a",
            "returned str as the gradient of argument 0 of Odd.apply at {line}. "
            "Return a tensor or None.",
        ),
        (
            lambda g: g.array,
            "returned NumPy float64[2] as the gradient of argument 0 of Odd.apply "
            "at {line}. Return a tensor or None.",
        ),
    ],
    ids=["two", "shape", "text", "array"],
)
def test_a_function_that_returns_nonsense(returned: Callable[[Any], Any], text: str) -> None:
    class Odd(cf.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return returned(g)

    w, _, runs = graph()
    out = Odd.apply(w)  # odd
    with (
        unchanged(w, out),
        refused(cf.GradientError, "Odd.backward: ", text.format(line=place("odd"))),
    ):
        out.sum().backward()
    assert runs == []


def test_a_rule_that_returns_nonsense() -> None:
    def odd(x: Any) -> Any:
        """Its gradient has no meaning."""
        return x

    results: list[Any] = [None]
    for wrong, described in (("a", "str"), (3.0, "3.0"), (np.ones(2), "NumPy float64[2]")):
        results[0] = wrong

        def rule(g: Any, x: Any) -> Any:
            return results[0]

        with temporary(elementwise, odd, ref=lambda x: x + 0.0, vjp={"x": rule}) as op:
            w, _, runs = graph()
            out = op(w).sum()
            with unchanged(w, out), pytest.raises(cf.GradientError) as caught:
                out.backward()
            assert str(caught.value) == (
                f"backward: the gradient rule of odd returned {described}, not a tensor."
            )
            assert runs == []


class Wrong(Exception):
    pass


def raising(*_: Any) -> Any:
    raise Wrong("mine")


@pytest.mark.parametrize("where", ["tensor", "leaf", "node before", "node after", "accumulated"])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_hook_that_raises(where: str, workers: int) -> None:
    """Its error comes out as it is; modes are restored, and no later hook "
    "and no slot is touched."""
    w, out, runs = graph()
    first = leaf(1.0, 2.0)
    middle = first * 3.0
    loss = (out * middle).sum()
    if where == "tensor":
        middle.register_hook(raising)
    elif where == "leaf":
        first.register_hook(raising)
    elif where == "node before":
        middle.grad_fn.register_prehook(raising)
    elif where == "node after":
        middle.grad_fn.register_hook(raising)
    else:
        first.register_post_accumulate_grad_hook(raising)
    before = state()
    with refused(Wrong, "mine"):
        loss.backward(workers=workers)
    assert state() == before
    assert (first.grad is None) == (where != "accumulated")
    assert middle._version == out._version == w._version == 0
    assert runs in ([], [1], [1, 2], [1, 2, 3])
    assert (w.grad.tolist() == [5.0, 6.0]) == (3 not in runs)


def test_a_nan_under_anomaly_mode() -> None:
    w, runs = leaf(0.0, 4.0), []
    w.grad = cf.tensor([1.0, 1.0], dtype=cf.float64)
    w.register_hook(lambda g: runs.append(1))
    with cf.autograd.detect_anomaly():
        out = (w.sqrt() * 0.0).sum()  # root
        with (
            unchanged(w, out),
            refused(
                cf.GradientError,
                f"backward: sqrt at {place('root')} made a NaN in the gradient of its input 0.",
            ),
        ):
            out.backward()
        with unchanged(w), pytest.raises(cf.GradientError):
            (w - 5.0).log()
    assert runs == []
    assert not cf.autograd.is_anomaly_enabled()


def test_requires_grad_is_a_bool() -> None:
    x = cf.ones(2)
    for wrong in (7, 1.0, "yes", None):
        with pytest.raises(TypeError, match=rf"requires_grad_: {wrong!r} is not a bool\."):
            x.requires_grad = wrong
    assert x.requires_grad is False
