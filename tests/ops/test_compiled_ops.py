"""Every op and sample once more: eager, interpreted and native agree, with both orders of gradient.

The interpreter runs the same references in the same order, so it must agree bit for bit; native
code to the tolerance of the dtype. A difference in the interpreter is a fault of capture, one in
native code alone a fault of fusion or code generation.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.helpers.op_checks import as_tuple, differentiable, samples_of, to_tensor

import contraflow as cf
from contraflow import config
from contraflow.autograd import grad
from contraflow.operation.context import apply
from contraflow.operation.op import REGISTRY, Op
from contraflow.operation.samples import Sample
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close, make_inputs


def cases() -> Iterator[Any]:
    for op in list(REGISTRY.values()):
        if op.dynamic:
            continue
        for i, sample in enumerate(samples_of(op)):
            yield pytest.param(op, sample, id=f"{op.name}-{i}")


def program(op: Op, params: Any, wrt: list[int], rng: np.random.Generator) -> Any:
    """A function that gives an op's results, their weighed gradients, and gradients of those."""

    def run(*given: Any) -> Any:
        outs = as_tuple(apply(op, given, params))
        results = [o.detach() for o in outs]
        floats = [o for o in outs if o.dtype.is_floating_point and o.requires_grad]
        if not wrt or not floats:
            return results
        weights = [cf.ones_like(o) * 0.7 for o in floats]
        points = [given[i] for i in wrt]
        first = grad(floats, points, weights, create_graph=True, allow_unused=True)
        results += [g.detach() for g in first if g is not None]
        again = [(g * g).sum() for g in first if g is not None and g.requires_grad]
        if again:
            second = grad(again, points, allow_unused=True)
            results += [g for g in second if g is not None]
        return results

    return run


def run_mode(mode: str, function: Any, given: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(config, "compile_mode", mode)
    cf.manual_seed(5)
    return cf.compile(function)(*given)


@pytest.mark.parametrize(
    "op", [op for op in REGISTRY.values() if op.dynamic], ids=lambda op: op.name
)
def test_a_dynamic_op_is_refused(op: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    for sample in samples_of(op):
        given = [to_tensor(x) for x in make_inputs(sample)]
        with pytest.raises(cf.CaptureError, match="has a result whose shape depends on values"):
            run_mode("native", lambda *x, p=sample.params: apply(op, x, p), given, monkeypatch)


@pytest.mark.parametrize("dtype", [cf.float64, cf.float32], ids=str)
@pytest.mark.parametrize(("op", "sample"), list(cases()))
def test_compiled_equals_eager(
    op: Op, sample: Sample, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    inputs = make_inputs(sample)
    wrt = differentiable(op, inputs)
    given = [to_tensor(x) for x in inputs]
    given = [x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x for x in given]
    for i in wrt:
        given[i].requires_grad_()
    function = program(op, sample.params, wrt, rng)
    monkeypatch.setattr(config, "eager_kernels", False)  # their bits are those of other sums
    expected = run_mode("off", function, given, monkeypatch)
    interpreted = run_mode("interpret", function, given, monkeypatch)
    native = run_mode("native", function, given, monkeypatch)
    assert len(expected) == len(interpreted) == len(native)
    for e, i, n in zip(expected, interpreted, native):
        assert i.spec == e.spec
        assert np.array_equal(i.numpy(), e.numpy(), equal_nan=True), "capture differs from eager"
        assert_close(n, e)
