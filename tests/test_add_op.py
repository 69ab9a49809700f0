"""Adding an op touches exactly one place: the declaration below is found everywhere."""

import inspect

import numpy as np
import pytest

import contraflow as cf
from contraflow import config, stubs
from contraflow import scalar as s
from contraflow.fuse import fuse
from contraflow.kernel import Limits
from contraflow.op import REGISTRY, elementwise
from contraflow.passes import optimize
from contraflow.render import cuda, llvm, wgsl
from contraflow.tape import Tape
from contraflow.tensor import Methods
from tests import test_ops


@pytest.fixture
def softplus():
    """Declare the worked example of docs/architecture.md, and take it back afterwards."""

    @elementwise(
        ref=lambda x: np.maximum(x, 0) + np.log(1 + np.exp(-np.abs(x))),
        dtype="float",
        vjp={"x": lambda g, x: g * cf.sigmoid(x)},
    )
    def softplus(x):
        """log(1 + exp(x)), without overflow."""
        return s.maximum(x, 0) + s.log(1.0 + s.exp(-s.abs_(x)))

    yield softplus
    del REGISTRY["softplus"]
    delattr(Methods, "softplus")


@pytest.fixture
def x():
    return cf.tensor(np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4), requires_grad=True)


def reference(x):
    return np.log1p(np.exp(x.detach().numpy().astype(np.float64)))


def test_it_runs_eagerly_as_function_and_method(softplus, x):
    for out in (cf.softplus(x), x.softplus()):
        np.testing.assert_allclose(out.detach().numpy(), reference(x), rtol=1e-6)


def test_it_has_gradients_of_both_orders(softplus, x):
    (first,) = cf.autograd.grad(x.softplus().sum(), x, create_graph=True)
    sigmoid = 1 / (1 + np.exp(-x.detach().numpy()))
    np.testing.assert_allclose(first.detach().numpy(), sigmoid, rtol=1e-5)
    (second,) = cf.autograd.grad(first.sum(), x)
    np.testing.assert_allclose(second.numpy(), sigmoid * (1 - sigmoid), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("mode", ["interpret", "native"])
def test_it_is_captured_and_compiled_with_its_gradient(softplus, x, mode, monkeypatch):
    monkeypatch.setattr(config, "compile_mode", mode)

    @cf.compile
    def step(x):
        loss = x.softplus().sum()
        (g,) = cf.autograd.grad(loss, x)
        return loss, g

    loss, g = step(x)
    assert "= softplus(" in step.tape.text()
    np.testing.assert_allclose(loss.item(), reference(x).sum(), rtol=1e-6)
    np.testing.assert_allclose(g.numpy(), 1 / (1 + np.exp(-x.detach().numpy())), rtol=1e-5)


def test_every_renderer_writes_it(softplus):
    tape = Tape.parse(
        """
        tape t
          input %0 : float32[3, 4]  arg
          %1 = softplus(%0) : float32[3, 4]
          return %1
        """
    ).verify()
    (use,) = fuse(optimize(tape), set(), Limits())
    kernel = use.call.kernel
    for text in (
        llvm.render(kernel, vector_bytes=32),
        cuda.render(kernel),
        wgsl.render(kernel),
    ):
        assert kernel.name.split("_")[0] in text
        assert len(text.splitlines()) > 5


def test_the_stub_and_the_matrix_list_it(softplus):
    assert "def softplus(self) -> Tensor: ..." in stubs.text()
    assert len(list(softplus.samples())) >= 3
    assert softplus in {case.values[1] for case in test_ops.cases()}
    test_ops.run_checks(softplus)


def test_the_documentation_shows_this_very_declaration(softplus):
    with open("docs/architecture.md") as file:
        page = " ".join(file.read().split())
    declared = " ".join(inspect.getsource(softplus.body).replace("cf.sigmoid", "sigmoid").split())
    assert declared in page
