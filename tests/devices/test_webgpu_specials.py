"""Elementwise ops of NaN and infinities on the webgpu device: WGSL promises nothing about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.devices.test_walled_ops import applied

import contraflow as cf
from contraflow.operation.op import REGISTRY, Op
from contraflow.operation.samples import Sample
from contraflow.testing import make_inputs

SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 90.0, -90.0], np.float32
)


def special_inputs(sample: Sample) -> list[Any] | None:
    """The inputs of a sample with special values, all pairs of them where it has two tensors; None
    for other samples."""
    inputs = list(make_inputs(sample, dtype=cf.float32))
    places = [i for i, x in enumerate(inputs) if isinstance(x, np.ndarray)]
    if len(places) not in (1, 2) or any(inputs[i].dtype != np.float32 for i in places):
        return None
    if len({inputs[i].shape for i in places}) > 1:
        return None
    for i, drawn in zip(places, np.meshgrid(*[SPECIAL] * len(places))):
        inputs[i] = drawn.reshape(-1).copy()
    return inputs


CASES = [
    pytest.param(op, sample, id=op.name)
    for op in REGISTRY.values()
    if op.is_elementwise and not op.internal
    for sample in list(op.samples())[:1]
    if special_inputs(sample) is not None
]


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_nan_and_infinities_are_where_the_cpu_has_them(op: Op, sample: Sample, webgpu: Any) -> None:
    inputs = special_inputs(sample)
    assert inputs is not None
    here = [cf.tensor(x) if isinstance(x, np.ndarray) else x for x in inputs]
    there = [x.to("webgpu") if isinstance(x, cf.Tensor) else x for x in here]
    for x, y in zip(applied(op, there, sample.params), applied(op, here, sample.params)):
        found, wanted = x.numpy(force=True), y.numpy()
        if not y.dtype.is_floating_point:
            np.testing.assert_array_equal(found, wanted)
            continue
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        endless = np.isinf(wanted)
        np.testing.assert_array_equal(np.isinf(found), endless)
        np.testing.assert_array_equal(found[endless], wanted[endless])


@pytest.mark.parametrize("place", ["cpu", "webgpu"])
@pytest.mark.parametrize("name", ["i0", "i1"])
def test_bessel_functions_overflow_where_their_values_do(
    name: str, place: str, webgpu: Any
) -> None:
    """exp(|x|) does so earlier, and a compiler may multiply its factors first. Of webgpu the last
    digits of exp are lost where fma rounds twice."""
    x = np.array([0.0, 0.3, 7.9, 8.1, 60.0, 88.0, 90.0, 91.8, 92.0, 93.0, 1e30], np.float32)
    wide = getattr(cf.special, name)(cf.tensor(x.astype(np.float64))).numpy()
    with np.errstate(over="ignore"):
        wanted = wide.astype(np.float32)
    assert np.isfinite(wanted[:8]).all()
    assert np.isinf(wanted[8:]).all()
    for sign in (1, -1):
        found = getattr(cf.special, name)(cf.tensor(sign * x, device=place)).numpy(force=True)
        np.testing.assert_allclose(found, wanted * (sign if name == "i1" else 1), 1e-5)


CANCELLED = {
    "itself": lambda x, y: x - x,
    "computed": lambda x, y: (x * 2) - (x * 2),
    "within": lambda x, y: -(x.abs() - x.abs()).exp(),
    "its negative": lambda x, y: x + (-x),
    "negative first": lambda x, y: (-x) + x,
    "taken and given": lambda x, y: x - y + y,
    "given and taken": lambda x, y: y + (x - y),
    "taken of a sum": lambda x, y: (x + y) - (y + x),
    "twice": lambda x, y: x + x - x,
    "products": lambda x, y: x * y - y * x,
    "a negative product": lambda x, y: x * y + x * (-y),
    "constants": lambda x, y: x + 1e8 - 1e8,
    "a negative constant": lambda x, y: x + 1e8 + (-1e8),
    "roots": lambda x, y: x.sqrt() * x.sqrt(),
}


@pytest.mark.parametrize("name", CANCELLED)
def test_sums_whose_terms_cancel_are_those_of_the_cpu(name: str, webgpu: Any) -> None:
    """Compilers of WGSL take x - x for 0, which it is not of NaN and infinities; x - y + y for x,
    and sqrt(x) * sqrt(x) for |x|."""
    ends = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1, -3e37, 3e38, 1e-30, -2.5], np.float32)
    x, y = (cf.tensor(v.ravel()) for v in np.meshgrid(ends, ends))
    function = CANCELLED[name]
    found = cf.compile(function)(x.to("webgpu"), y.to("webgpu")).numpy(force=True)
    np.testing.assert_allclose(found, function(x, y).numpy(), rtol=2e-7)


def _words(generator: np.random.Generator, n: int) -> np.ndarray:
    """Floats of any bits, denormal ones excepted: those may become zero."""
    x = generator.integers(0, 1 << 32, n, dtype=np.uint32).view(np.float32)
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.float32(0), x)


def _dividends() -> tuple[np.ndarray, np.ndarray]:
    """Dividends and divisors: any bits, quotients that are nearly whole, and all pairs of ends."""
    generator = np.random.default_rng(0)
    n = 20_000
    divisors = generator.standard_normal(n).astype(np.float32)
    whole = (divisors * generator.integers(1, 1 << 23, n)).astype(np.float32)
    ends = np.array(
        [0, -0.0, 1, -1, 2, 3, -7, 0.1, 0.5, np.inf, -np.inf, np.nan, 33554432, 16777215, 8388607.5,
         1e20, -1e30, *(sign * np.finfo(np.float32).max for sign in (1, -1)), 2.0**-126, 2.0**-110],
        np.float32,
    )  # fmt: skip
    pairs = [
        (_words(generator, n), _words(generator, n)),
        (generator.uniform(-1e4, 1e4, n).astype(np.float32), divisors),
        *((np.nextafter(whole, np.float32(to)), divisors) for to in (-np.inf, np.inf)),
        (whole, divisors),
        tuple(x.ravel() for x in np.meshgrid(ends, ends)),
    ]
    a, b = (np.concatenate(x) for x in zip(*pairs))
    with np.errstate(all="ignore"):
        rest = np.fmod(a, b)  # which is denormal where the divisor is small
    kept = ~((np.abs(rest) < 2.0**-125) & (rest != 0))
    return a[kept], b[kept]


@pytest.mark.parametrize("way", ["eager", "compiled", "mapped"])
@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
def test_remainders_have_the_bits_that_numpy_has(name: str, way: str, webgpu: Any) -> None:
    """WGSL's % subtracts a rounded multiple of the divisor: 33555432 % 7 was 0."""
    a, b = _dividends()
    function = getattr(cf, name)
    if way != "eager":
        function = cf.compile(function if way == "compiled" else cf.vmap(function))
    found = function(cf.tensor(a, device="webgpu"), cf.tensor(b, device="webgpu")).cpu().numpy()
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(a, b)
    nan = np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(found), nan)
    # A quotient may be wrong by 2.5 ulp on some adapters; one below 2**21 is rounded to a whole.
    exact = ~nan & ((np.abs(wanted) < 1 << 21) | np.isinf(wanted) | (name != "floor_divide"))
    np.testing.assert_array_equal(found[exact].view(np.uint32), wanted[exact].view(np.uint32))
    np.testing.assert_allclose(found[~exact], wanted[~exact], rtol=2.5 * 2.0**-23)


def test_the_gradient_of_a_remainder_is_the_quotient_rounded_down(webgpu: Any) -> None:
    a, b = _dividends()
    with np.errstate(all="ignore"):
        quotients = np.floor_divide(a, b)
    a, b, quotients = (x[np.abs(quotients) < 1 << 21] for x in (a, b, quotients))
    x, y = (cf.tensor(v, device="webgpu", requires_grad=True) for v in (a, b))
    (x % y).sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    assert (x.grad == 1).all()
    np.testing.assert_array_equal(y.grad.numpy(force=True), -quotients)
