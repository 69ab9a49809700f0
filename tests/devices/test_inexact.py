"""Devices that may contract a product and a sum: what is compared has one outcome.

The interpreter rounds as the compiler of such a device may: differently in each kernel, and in each
sweep of one over its points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tests.devices.test_walled_ops import CASES, applied, check
from tests.helpers.op_checks import differentiable
from tests.helpers.walled import INEXACT, WEBGPU, WalledDevice, no_values, opened

import contraflow as cf
import contraflow.nn.functional as F
from contraflow.autograd import grad
from contraflow.autograd.checkpoint import checkpoint
from contraflow.capture import backward_tape
from contraflow.compiler import fuse
from contraflow.compiler.kernel import Limits
from contraflow.operation.op import Op
from contraflow.operation.samples import Sample
from contraflow.testing import assert_close, make_inputs

CHOICES = range(4)  # ways in which the device rounds
INF = float("inf")


def inexact(choice: int, limits: Limits = INEXACT) -> Callable[[], WalledDevice]:
    return lambda: WalledDevice(limits=limits, choice=choice)


# --- gradients that look for a value -------------------------------------------------------------

ScalarFunction = Callable[[cf.Tensor], cf.Tensor]

FUNCTIONS: dict[str, ScalarFunction] = {
    "amax": lambda y: y.amax(1),
    "amin": lambda y: y.amin(1),
    "amax of all": lambda y: y.amax(),
    "amax of two dims": lambda y: y.reshape(4, 4, 33).amax((0, 2)),
    "amax down": lambda y: y.amax(0),
    "max": lambda y: y.max(1).values,
    "min of all": lambda y: y.min(),
    "maximum": lambda y: cf.maximum(y, y.amax(1, keepdim=True)),
    "minimum": lambda y: cf.minimum(y, y.amin(1, keepdim=True)),
    "median": lambda y: y.median(),
    "median of rows": lambda y: y.median(1).values,
    "sort": lambda y: y.sort(1).values[:, :3],
    "largest magnitude": lambda y: cf.linalg.vector_norm(y, INF, dim=1),
    "smallest magnitude": lambda y: cf.linalg.vector_norm(y, -INF, dim=1),
    "mask": lambda y: y * (y == y.amax(1, keepdim=True)).to(y.dtype),
    "share": lambda y: y * F.normalize((y == y.amax(1, keepdim=True)).to(y.dtype), 1.0, 1),
    "isclose": lambda y: y * cf.isclose(y, y.amin(1, keepdim=True), 0.0, 0.0).to(y.dtype),
    "cross entropy": lambda y: F.cross_entropy(y, y.argmax(1)),
    "normed": lambda y: F.layer_norm(y, (33,)).amax(1),
    "max_pool": lambda y: F.max_pool1d(y.unsqueeze(1), 3, 2),
    "cummax": lambda y: y.cummax(1).values,
    "logsumexp": lambda y: y.logsumexp(1),
    "scatter": lambda y: cf.zeros_like(y).scatter_reduce(1, _places(y), y, "amax"),
}


def _places(y: cf.Tensor) -> cf.Tensor:
    return cf.zeros_like(y, dtype=cf.int64)


def loss(function: ScalarFunction, x: cf.Tensor, w: cf.Tensor, v: cf.Tensor) -> cf.Tensor:
    """Of products and a sum of them, which backward may compute again from the arguments."""
    return (function(x * w + v * x) * 0.5).sum()


def eager(function: ScalarFunction, points: list[cf.Tensor]) -> Sequence[Any]:
    return grad(loss(function, *points), points)


def compiled(function: ScalarFunction, points: list[cf.Tensor]) -> Sequence[Any]:
    return cf.compile(lambda *points: grad(loss(function, *points), points))(*points)


def compiled_forward(function: ScalarFunction, points: list[cf.Tensor]) -> Sequence[Any]:
    return grad(cf.compile(lambda *points: loss(function, *points))(*points), points)


def checkpointed(function: ScalarFunction, points: list[cf.Tensor]) -> Sequence[Any]:
    def block(*points: cf.Tensor) -> cf.Tensor:
        return loss(function, *points)

    return cf.compile(lambda *points: grad(checkpoint(block, *points), points))(*points)


WAYS = (eager, compiled, compiled_forward, checkpointed)


def gradients(way: Any, function: ScalarFunction, device: str) -> list[cf.Tensor]:
    random = np.random.default_rng(5)
    shapes = (16, 33), (33,), (16, 33)
    points = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    found = way(function, [cf.tensor(p, device=device, requires_grad=True) for p in points])
    return [g.cpu() for g in found]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_find_what_they_look_for(name: str, way: Any) -> None:
    expected = gradients(way, FUNCTIONS[name], "cpu")
    for choice in CHOICES:
        with opened(inexact(choice)):
            for g, other in zip(gradients(way, FUNCTIONS[name], "walled"), expected, strict=True):
                assert_close(g, other, rtol=1e-5, atol=1e-5)


SEARCHES = ("amax", "amin", "minimum", "largest magnitude", "share")


@pytest.mark.parametrize("name", SEARCHES)
def test_without_care_they_would_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rounding of the interpreter is enough to lose what is looked for."""
    monkeypatch.setattr(fuse, "kept_values", no_values)
    monkeypatch.setattr(backward_tape, "compared_values", no_values)
    for way in (compiled, compiled_forward):
        expected, found = gradients(way, FUNCTIONS[name], "cpu"), []
        for choice in CHOICES:
            with opened(inexact(choice)):
                found.append(gradients(way, FUNCTIONS[name], "walled"))
        assert any(
            not np.allclose(g.numpy(), other.numpy(), 1e-3, 1e-3)
            for run in found
            for g, other in zip(run, expected)
        )


# --- values beside what was selected of them -----------------------------------------------------


def peak(y: cf.Tensor) -> cf.Tensor:
    return y.amax(1, keepdim=True)


SELECTIONS: dict[str, ScalarFunction] = {
    "not below": lambda y: y >= peak(y),
    "below": lambda y: y < peak(y),
    "above": lambda y: y > peak(y),
    "not above": lambda y: peak(y) <= y,
    "range": lambda y: y.amin(1, keepdim=True) >= y,
    "no difference": lambda y: (y - peak(y)) == 0,
    "difference not below": lambda y: (y - peak(y)) >= 0,
    "truth of a difference": lambda y: (y - peak(y)).bool(),
    "sign of a difference": lambda y: (y - peak(y)).sign(),
    "no part of a difference": lambda y: (peak(y) - y).clamp(min=0).amin(1) == 0,
    "root": lambda y: (peak(y) - y).sqrt(),
    "root of a sum": lambda y: (peak(y[:, :1]) - y[:, :1]).sum(1).sqrt(),
    "logarithm": lambda y: (1 + (peak(y) - y)).log() > 0,
    "quotient": lambda y: (y / peak(y)).floor(),
    "as an integer": lambda y: (y / peak(y)).to(cf.int64),
    "ratio": lambda y: (y - peak(y)).exp() >= 1,
    "complement of a ratio": lambda y: (1 - (y - peak(y)).exp()).sqrt(),
    "softmax": lambda y: y.softmax(1) >= peak(y.softmax(1)),
    "softmax of one": lambda y: y[:, :1].softmax(1) == 1,
    "where": lambda y: cf.where(y >= peak(y), y, 0),
    "max": lambda y: y >= y.max(1, keepdim=True).values,
    "gather": lambda y: y >= y.gather(1, y.argmax(1, keepdim=True)),
    "sort": lambda y: y >= y.sort(1).values[:, -1:],
    "topk": lambda y: y >= y.topk(3, 1).values[:, -1:],
    "median": lambda y: y <= y.median(1, keepdim=True).values,
    "cummax": lambda y: y >= y.cummax(1).values,
    "maximum": lambda y: (cf.maximum(y, y.flip(1)) - y).sqrt(),
    "scatter": lambda y: y >= cf.zeros_like(y).scatter_reduce(1, _places(y), y, "amax")[:, :1],
    "max_pool": lambda y: F.max_pool1d(y, 33) <= y,
}

SHIFTS: dict[str, Callable[..., cf.Tensor]] = {
    "sum": lambda x, w: x * w + 0.1,
    "product": lambda x, w: x * w,
}
SETTINGS = {"inexact": INEXACT, "webgpu": WEBGPU}


def uniform(device: str) -> list[cf.Tensor]:
    random = np.random.default_rng(3)
    return [cf.tensor(random.random((64, 33), np.float32), device=device) for _ in range(2)]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("name", SELECTIONS)
def test_values_are_found_beside_what_was_selected(name: str, shift: str, setting: str) -> None:
    def function(x: cf.Tensor, w: cf.Tensor) -> cf.Tensor:
        return SELECTIONS[name](SHIFTS[shift](x, w))

    expected = function(*uniform("cpu"))
    for choice in CHOICES:
        with opened(inexact(choice, SETTINGS[setting])):
            found = cf.compile(function)(*uniform("walled")).cpu()
            assert_close(found, expected, rtol=1e-5, atol=2e-3 if "ratio" in name else 1e-6)


WEIGHTS: dict[str, ScalarFunction] = {
    "where": lambda y: cf.where(y >= peak(y), y, 0),
    "mask": lambda y: y * ((y - peak(y)) >= 0).to(y.dtype),
    "softmax": lambda y: cf.where(y.softmax(1) >= peak(y.softmax(1)), y.softmax(1), 0),
    "sign": lambda y: y * (1 + (y - peak(y)).sign()),
    "clamp": lambda y: y * (1 - (peak(y) - y).clamp(min=0).bool().to(y.dtype)),
    "floor": lambda y: y * (y / peak(y)).floor(),
    "root": lambda y: (1e-3 + (peak(y) - y).sqrt().detach()) * y,
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", WEIGHTS)
def test_gradients_go_where_values_were_found(name: str, way: Any, setting: str) -> None:
    expected = gradients(way, WEIGHTS[name], "cpu")
    for choice in CHOICES:
        with opened(inexact(choice, SETTINGS[setting])):
            for g, other in zip(gradients(way, WEIGHTS[name], "walled"), expected, strict=True):
                assert_close(g, other, rtol=1e-5, atol=2e-5)


# --- all ops -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def device():
    with opened(inexact(0)) as found:
        yield found


def first_samples(cases: Sequence[Any]) -> list[Any]:
    """Cases of which all but the first of each op are slow."""
    return [
        case
        if case.id.endswith("-0")
        else pytest.param(*case.values, id=case.id, marks=pytest.mark.slow)
        for case in cases
    ]


def skipping(run: Callable[[], Any]) -> Any:
    """The result of what a device computes, unless it does not have the op."""
    try:
        return run()
    except cf.DeviceError as error:
        if "it runs on the host only" not in str(error):
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize(("op", "sample"), first_samples(CASES))
def test_op(op: Op, sample: Sample, device: WalledDevice) -> None:
    skipping(lambda: check(op, sample, device))


def is_gradient_captured(op: Op, sample: Sample) -> bool:
    """Whether a compiled function may have the op in it; the shape of a selection is not known."""
    return op.name != "masked_select" and bool(differentiable(op, make_inputs(sample)))


CAPTURED = [case for case in CASES if is_gradient_captured(*case.values)]


def of_computed_inputs(op: Op, inputs: Sequence[Any], params: Any, where: str) -> list[Any]:
    """Gradients by a compiled function, of the op with inputs that are a product and a sum."""
    wrt, random = differentiable(op, inputs), np.random.default_rng(7)
    given = [cf.tensor(x, device=where) if isinstance(x, np.ndarray) else x for x in inputs]
    points, scales, shifts = [], [], []
    for i in wrt:
        x = inputs[i]
        scale = (1.25 + 0.1 * random.random(x.shape)).astype(x.dtype)
        finite = np.where(np.isfinite(x), x, 0)
        points.append(cf.tensor(x, device=where, requires_grad=True))
        scales.append(cf.tensor(scale, device=where))
        shifts.append(cf.tensor((finite - finite * scale).astype(x.dtype), device=where))

    def step(*points: cf.Tensor) -> Any:
        made = list(given)
        for i, p, scale, shift in zip(wrt, points, scales, shifts):
            made[i] = p * scale + shift
        outs = [o for o in applied(op, made, params) if o.dtype.is_floating_point]
        total = sum(((o * o).sum() for o in outs if o.requires_grad), cf.zeros((), device=where))
        if not total.requires_grad:
            return ()
        return [g for g in grad(total, points, allow_unused=True) if g is not None]

    return [g.cpu() for g in cf.compile(step)(*points)]


@pytest.mark.parametrize(("op", "sample"), first_samples(CAPTURED))
def test_gradients_of_computed_inputs(op: Op, sample: Sample, device: WalledDevice) -> None:
    inputs, params = make_inputs(sample), sample.params
    found = skipping(lambda: of_computed_inputs(op, inputs, params, "walled"))
    for g, other in zip(found, of_computed_inputs(op, inputs, params, "cpu"), strict=True):
        assert_close(g, other)
