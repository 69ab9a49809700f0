"""PyTorch's `library.custom_op`: an op of a function, with a gradient that is registered for it."""

from __future__ import annotations

import pytest

import contraflow as cf
from contraflow.library import custom_op, register_autograd, register_fake, register_kernel


@pytest.fixture
def cube():
    @custom_op("mine::cube", mutates_args=())
    def cube(x: cf.Tensor, scale: float = 1.0) -> cf.Tensor:
        """x to the third."""
        return cf.from_numpy(x.numpy() ** 3) * scale

    return cube


def keep(ctx, inputs, output) -> None:
    x, ctx.scale = inputs
    ctx.save_for_backward(x)


def slope(ctx, g):
    (x,) = ctx.saved_tensors
    return 3 * x**2 * ctx.scale * g, None


def test_values_and_arguments(cube) -> None:
    assert cube.__name__ == "cube"
    assert cube.__doc__ == "x to the third."
    assert cube(cf.tensor([2.0])).tolist() == [8.0]
    assert cube(x=cf.tensor([2.0]), scale=0.5).tolist() == [4.0]
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        cube()


def test_the_gradient_is_the_registered_one(cube) -> None:
    cube.register_autograd(slope, setup_context=keep)
    x = cf.tensor([1.0, 2.0], dtype=cf.float64, requires_grad=True)
    cf.autograd.gradcheck(lambda x: cube(x, 0.5), (x,))
    out = cube(x, scale=0.5)
    (first,) = cf.autograd.grad(out.sum(), x, create_graph=True)
    (second,) = cf.autograd.grad(first.sum(), x)
    assert first.tolist() == [1.5, 6.0]
    assert second.tolist() == [3.0, 6.0]


def test_by_name(cube) -> None:
    register_autograd("mine::cube", slope, setup_context=keep)
    register_fake("mine::cube")(lambda x, scale=1.0: cf.empty_like(x))
    x = cf.tensor([2.0], requires_grad=True)
    cube(x).backward()
    assert x.grad.tolist() == [12.0]

    @register_kernel("mine::cube", "cpu")
    def on_cpu(x, scale):
        return x * 0

    assert cube(cf.tensor([2.0])).tolist() == [0.0]
    register_autograd("others::op", slope)  # which PyTorch's packages may have


def test_without_a_gradient_backward_says_so(cube) -> None:
    out = cube(cf.tensor([2.0], requires_grad=True))
    assert out.requires_grad
    with pytest.raises(cf.GradientError, match="mine::cube: it has no gradient"):
        out.backward()


def test_a_name_has_a_package() -> None:
    with pytest.raises(ValueError, match="custom_op: 'cube' must have the form"):
        custom_op("cube", lambda x: x, mutates_args=())
