"""Adding an op touches exactly one place: the declaration below is found everywhere."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from tests.ops import test_compiled_ops, test_ops

import contraflow as cf
from contraflow import config, stubs
from contraflow.compiler.fuse import fuse
from contraflow.compiler.kernel import Limits
from contraflow.compiler.passes import optimize
from contraflow.compiler.tape import Tape
from contraflow.expressions import expression as s
from contraflow.operation.kinds import elementwise, index, reduction
from contraflow.operation.op import REGISTRY
from contraflow.operation.samples import Array, Sample
from contraflow.ops.reduction import reduce
from contraflow.render.clike import cuda, wgsl
from contraflow.render.llvm import kernels
from contraflow.tensors.elements import Methods

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def squareplus():
    """Declare the worked example of docs/architecture.md, and take it back afterwards."""

    @elementwise(
        ref=lambda x: (x + np.sqrt(x * x + 4)) / 2,
        dtype="float",
        vjp={"x": lambda g, x: g * (0.5 + 0.5 * x * cf.rsqrt(x * x + 4.0))},
    )
    def squareplus(x):
        """(x + sqrt(x**2 + 4)) / 2, a smooth relu."""
        return (x + s.sqrt(x * x + 4.0)) * 0.5

    yield squareplus
    del REGISTRY["squareplus"]
    delattr(Methods, "squareplus")


@pytest.fixture
def x():
    return cf.tensor(np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4), requires_grad=True)


def reference(x):
    x = x.detach().numpy().astype(np.float64)
    return (x + np.sqrt(x * x + 4)) / 2


def slope(x):
    x = x.detach().numpy().astype(np.float64)
    return 0.5 + 0.5 * x / np.sqrt(x * x + 4)


def test_it_runs_eagerly_as_function_and_method(squareplus, x):
    for out in (cf.squareplus(x), x.squareplus()):
        np.testing.assert_allclose(out.detach().numpy(), reference(x), rtol=1e-6)


def test_it_has_gradients_of_both_orders(squareplus, x):
    (first,) = cf.autograd.grad(x.squareplus().sum(), x, create_graph=True)
    np.testing.assert_allclose(first.detach().numpy(), slope(x), rtol=1e-5)
    (second,) = cf.autograd.grad(first.sum(), x)
    curvature = 2 / (x.detach().numpy() ** 2 + 4) ** 1.5
    np.testing.assert_allclose(second.numpy(), curvature, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("mode", ["interpret", "native"])
def test_it_is_captured_and_compiled_with_its_gradient(squareplus, x, mode, monkeypatch):
    monkeypatch.setattr(config, "compile_mode", mode)

    @cf.compile
    def step(x):
        loss = x.squareplus().sum()
        (g,) = cf.autograd.grad(loss, x)
        return loss, g

    loss, g = step(x)
    assert "= squareplus(" in step.tape.text()
    np.testing.assert_allclose(loss.item(), reference(x).sum(), rtol=1e-6)
    np.testing.assert_allclose(g.numpy(), slope(x), rtol=1e-5)


def test_every_renderer_writes_it(squareplus):
    tape = Tape.parse(
        """
        tape t
          input %0 : float32[3, 4]  arg
          %1 = squareplus(%0) : float32[3, 4]
          return %1
        """
    ).verify()
    (use,) = fuse(optimize(tape), set(), Limits())
    kernel = use.call.kernel
    for text in (
        kernels.render(kernel, vector_bytes=32),
        cuda.render(kernel),
        wgsl.render(kernel),
    ):
        assert kernel.name.split("_")[0] in text
        assert len(text.splitlines()) > 5


def test_the_stub_and_the_matrix_list_it(squareplus):
    assert "def squareplus(self) -> Tensor: ..." in stubs.text()
    assert len(list(squareplus.samples())) >= 3
    assert squareplus in {case.values[1] for case in test_ops.cases()}
    test_ops.run_checks(squareplus)


def test_the_documentation_shows_this_very_declaration(squareplus):
    page = " ".join((ROOT / "docs" / "architecture.md").read_text().split())
    declared = " ".join(inspect.getsource(squareplus.body).replace("cf.rsqrt", "rsqrt").split())
    assert declared in page


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"vpj": {"x": lambda g: g}},
            "draft: an op of kind elementwise has no field 'vpj'. Known: ",
        ),
        ({"vjp": {"y": lambda g: g}}, "draft: there is a gradient rule for 'y', which is not an"),
        ({"dtype": "floatt"}, "draft: dtype rule 'floatt' is unknown. Known: promote, float,"),
        ({"ref": None}, "draft: an op of kind elementwise needs ref=."),
    ],
)
def test_a_declaration_with_a_typing_error_is_refused(fields, text):
    def draft(x):
        """For this test."""
        return x

    with pytest.raises(TypeError) as caught:
        elementwise(**{"ref": np.copy, **fields})(draft)
    assert str(caught.value).startswith(text)
    assert "draft" not in REGISTRY


def test_the_other_examples_of_the_documentation_run():
    """The reduction and the index op of docs/architecture.md, through the whole matrix."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    (source,) = (b for b in re.findall(r"```python\n(.*?)```", page, re.S) if "sum_of_squares" in b)
    scope = {
        "np": np, "reduction": reduction, "index": index, "Sample": Sample, "Array": Array,
        "spread": reduce.spread, "dims_of": reduce.dims_of,
    }  # fmt: skip
    try:
        exec(source, scope)
        for name in ("sum_of_squares", "reverse"):
            test_ops.run_checks(REGISTRY[name])
            for sample in REGISTRY[name].samples():
                with pytest.MonkeyPatch.context() as patch:
                    compare = test_compiled_ops.test_compiled_equals_eager
                    compare(REGISTRY[name], sample, cf.float64, patch)
    finally:
        for name in ("sum_of_squares", "reverse"):
            REGISTRY.pop(name, None)
            if name in Methods.__dict__:
                delattr(Methods, name)


@pytest.mark.parametrize("name", ["numel", "equal"])  # of TensorElements, and of Tensor itself
def test_a_method_that_a_tensor_has_is_not_made_of_an_op(name):
    def body(x):
        """For this test."""
        return x

    body.__name__ = name
    try:
        elementwise(ref=lambda x: x, internal=True)(body)
        assert not hasattr(Methods, name)
        assert f"def {name}(" not in stubs.text()
    finally:
        del REGISTRY[name]
