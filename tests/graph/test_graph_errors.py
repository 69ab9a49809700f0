"""Errors of backward as data: which one it is, and what its message says as fields."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from tests.helpers.engine_common import leaf, place

import contraflow as cf
from contraflow import Tensor
from contraflow.errors import Location


def raised(run: Any) -> Any:
    """The error of backward that a function raises; a copy of it and one by pickle say the same."""
    with pytest.raises(cf.GradientError) as caught:
        run()
    error = caught.value
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert vars(other) == vars(error)
    return error


def fields(error: Any) -> dict[str, Any]:
    """The fields, with lines as text."""
    found = {k: v for k, v in vars(error).items() if k != "__notes__"}
    return {k: str(v) if isinstance(v, Location) else v for k, v in found.items()}


def test_an_overwritten_value() -> None:
    y = leaf(1.0, 2.0) * 2
    z = y.sin()  # saved here
    y.mul_(2)
    y.add_(1)  # added here
    error = raised(lambda: z.sum().backward())
    assert type(error) is cf.OverwrittenError
    assert fields(error) == {
        "op": "sin", "line": place("saved here"), "shape": (2,), "dtype": "float64",
        "saved_version": 0, "version": 2, "writer": "add_", "written": place("added here"),
    }  # fmt: skip
    assert error.line.file == __file__
    assert error.written.number == error.line.number + 2


def test_an_overwritten_value_of_a_checkpoint_and_of_a_compiled_call() -> None:
    w = cf.tensor([2.0])
    x = cf.ones(1, requires_grad=True)
    y = cf.checkpoint(lambda v: (v + w).sin(), x)
    compiled = cf.compile(lambda v: (v * w).sin())
    z = compiled(x)
    (g,) = cf.autograd.grad(z, x, create_graph=True)
    u = compiled(x)
    w.zero_()
    for error, op in (
        (raised(lambda: y.backward()), "checkpoint"),
        (raised(lambda: u.backward()), "<lambda>"),
        (raised(lambda: compiled_again(compiled, w, x)), "<lambda>"),
    ):
        assert type(error) is cf.OverwrittenError
        assert error.op == op
        assert error.writer in ("zero_", "fill_")
        assert error.shape == (1,)
        assert error.version == error.saved_version + 1
    assert g.requires_grad


def compiled_again(compiled: Any, w: Tensor, x: Tensor) -> None:
    out = compiled(x)
    w.zero_()
    cf.autograd.grad(out, x, create_graph=True)


def test_a_root_that_is_no_scalar() -> None:
    x = leaf(1.0, 2.0)
    error = raised(lambda: x.exp().backward())
    assert type(error) is cf.NotScalarError
    assert fields(error) == {"op": "backward", "shape": (2,)}
    assert fields(raised(lambda: cf.func.grad(cf.exp)(x))) == {"op": "grad", "shape": (2,)}
    error = raised(lambda: cf.func.grad(lambda v: (v, v))(x))
    assert fields(error) == {"op": "grad", "shape": None}
    error = raised(lambda: cf.autograd.functional.vjp(cf.exp, x))
    assert fields(error) == {"op": "vjp", "shape": (2,)}


class Wrong(cf.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0][:1].expand(3)


def test_gradients_of_the_wrong_shape() -> None:
    x = leaf(1.0, 2.0)
    error = raised(lambda: x.exp().backward(cf.ones(3)))
    assert type(error) is cf.GradientShapeError
    assert fields(error) == {"op": "backward", "line": None, "shape": (3,), "expected": (2,)}
    y = x.exp()
    y.register_hook(lambda g: g[:1])
    error = raised(lambda: y.sum().backward())
    assert type(error) is cf.GradientShapeError
    assert fields(error) == {"op": "hook", "line": None, "shape": (1,), "expected": (2,)}
    z = Wrong.apply(x)  # applied here
    error = raised(lambda: z.sum().backward())
    assert type(error) is cf.GradientShapeError
    assert fields(error) == {
        "op": "Wrong", "line": place("applied here"), "shape": (3,), "expected": (2,)
    }  # fmt: skip
    y = x.exp()
    y.register_hook(lambda g: g.float())
    assert type(raised(lambda: y.sum().backward())) is cf.GradientError


def test_a_compiled_function_raises_the_same() -> None:
    x = cf.ones(2, requires_grad=True)

    @cf.compile
    def f(v: Tensor) -> Tensor:
        y = v * 2
        z = y.sin()
        y.add_(1)
        return z

    for _ in range(2):
        out = f(x)
        error = raised(lambda out=out: out.sum().backward())
        assert type(error) is cf.OverwrittenError
        assert (error.op, error.writer) == ("sin", "add_")
