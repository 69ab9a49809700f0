"""Random tensors made of the draws in `random.py`: integers, permutations, distributions.

All are functions of the generator's state, so they repeat, and advance it alike in eager mode and
in a compiled function.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from contraflow import dtypes
from contraflow.devices.names import Device
from contraflow.dtypes import DType, float32, float64, int64
from contraflow.errors import describe
from contraflow.operation.context import apply, changed
from contraflow.operation.kinds import composite
from contraflow.operation.public import creation, public
from contraflow.operation.samples import Array, Sample
from contraflow.ops.creation import checks
from contraflow.ops.creation.create import (
    check_options,
    finish,
    lacks_doubles,
    narrow_place,
    on,
    shape_of,
)  # fmt: skip
from contraflow.ops.creation.random import check_floating, draw, integers, uniform
from contraflow.ops.creation.random import normal as standard_normal
from contraflow.ops.elementwise.basic import exp, log, where
from contraflow.ops.elementwise.integers import ceil
from contraflow.ops.elementwise.mathematics import log1p, tan
from contraflow.ops.index.search import searchsorted
from contraflow.ops.reduction.order import argsort, cumsum, topk
from contraflow.ops.reduction.reduce import require_floating
from contraflow.shapes import Shape, broadcast_shapes
from contraflow.tensors.generator import Generator, default_generator
from contraflow.tensors.methods import method
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.writing import check_write, write

# --- like another tensor -----------------------------------------------------------------------


@creation
def rand_like(
    input: Tensor, *, dtype: DType | None = None, device: Device | str | None = None,
    requires_grad: bool = False, generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Random numbers, uniform in [0, 1), with the shape and dtype of `input`.

    >>> import contraflow as cf
    >>> cf.rand_like(cf.ones(2, 3)).shape
    (2, 3)
    """
    dtype = check_floating("rand_like", dtype or input.dtype, device, requires_grad)
    return finish(draw(uniform, input.shape, dtype, generator, device=device), requires_grad)


@creation
def randn_like(
    input: Tensor, *, dtype: DType | None = None, device: Device | str | None = None,
    requires_grad: bool = False, generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Random numbers, standard normal, with the shape and dtype of `input`.

    >>> import contraflow as cf
    >>> cf.randn_like(cf.ones(2, 3)).shape
    (2, 3)
    """
    dtype = check_floating("randn_like", dtype or input.dtype, device, requires_grad)
    drawn = draw(standard_normal, input.shape, dtype, generator, device=device)
    return finish(drawn, requires_grad)


# --- integers ----------------------------------------------------------------------------------


def _integers(
    op: str, low: Any, high: Any, shape: Shape, dtype: DType, generator: Generator | None,
    device: Device | str | None = None,
) -> Tensor:  # fmt: skip
    if high is None:
        low, high = 0, low
    try:
        low, high = operator.index(low), operator.index(high)
    except TypeError:
        raise TypeError(f"{op}: the bounds {low!r} and {high!r} must be integers.") from None
    if not 0 < high - low <= 1 << 32:
        raise ValueError(
            f"{op}: [{low}, {high}) holds {max(high - low, 0)} integers; it must hold 1 to 2**32."
        )
    if not dtype.is_floating_point:
        least, most = _limits(dtype)
        if low < least or high - 1 > most:
            raise ValueError(f"{op}: [{low}, {high}) does not fit {dtype}.")
    if low < _INT32[0] or high - 1 > _INT32[1]:  # which every device holds
        narrow = narrow_place(op, device)
        if narrow is not None:
            raise OverflowError(
                f"{op}: [{low}, {high}) does not fit {narrow}. "
                f"Draw fewer bits, or on the cpu: device='cpu'."
            )
    return draw(integers, shape, dtype, generator, low, high - low, device=device)


def _limits(dtype: DType) -> tuple[int, int]:
    """The least and the greatest integer of a dtype."""
    if dtype is dtypes.bool_:
        return 0, 1
    bits = 8 * dtype.itemsize
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.is_signed else (0, (1 << bits) - 1)


_INT32 = _limits(dtypes.int32)


@creation
def randint(
    low: int, high: Any = None, size: Any = None, *, dtype: DType | None = None,
    device: Device | str | None = None, requires_grad: bool = False,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Random integers in [low, high), or in [0, low) if one number and a size are given.

    >>> randint(10, 20, (3,)).shape
    (3,)
    """
    if size is None:
        low, high, size = 0, low, high
    if size is None:
        raise TypeError("randint: missing size. It takes (high, size) or (low, high, size).")
    dtype = check_options("randint", dtype or int64, device, requires_grad)
    shape = shape_of("randint", (size,))
    drawn = _integers("randint", low, high, shape, dtype, generator, device)
    return finish(drawn, requires_grad)


@creation
def randint_like(
    input: Tensor, low: int, high: int | None = None, *, dtype: DType | None = None,
    device: Device | str | None = None, requires_grad: bool = False,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Random integers in [low, high), or in [0, low), with the shape and dtype of `input`.

    >>> import contraflow as cf
    >>> cf.randint_like(cf.ones(2), 1)
    tensor([0., 0.])
    """
    dtype = check_options("randint_like", dtype or input.dtype, device, requires_grad)
    drawn = _integers("randint_like", low, high, input.shape, dtype, generator, device)
    return finish(drawn, requires_grad)


@creation
def randperm(
    n: int, *, dtype: DType | None = None, device: Device | str | None = None,
    requires_grad: bool = False, generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """The numbers 0 to n - 1 in random order.

    >>> sorted(randperm(4).tolist())
    [0, 1, 2, 3]
    """
    dtype = check_options("randperm", dtype or int64, device, requires_grad)
    (n,) = shape_of("randperm", (n,))
    if not dtype.is_floating_point and n - 1 > _limits(dtype)[1]:
        raise ValueError(f"randperm: {n} numbers do not fit {dtype}.")
    # Of a million elements with 53 random bits, two are equal with probability 1/18000.
    if lacks_doubles("randperm", device):
        return finish(_order_of_words(n, generator, device).to(dtype), requires_grad)
    drawn = draw(uniform, (n,), float64, generator, device=device)
    return finish(argsort(drawn).to(dtype), requires_grad)


def _order_of_words(n: int, generator: Generator | None, device: Device | str | None) -> Tensor:
    """The order of n random numbers of float64, by the two words of which each is made: 27 bits of
    the first decide, then 26 of the second."""
    with on(device):
        at = (generator or default_generator).draw(2 * n)
        high, low = (
            apply(integers, (*at, 0, 1 << bits), {"shape": (n, 2), "dtype": int64})[:, i]
            for i, bits in enumerate((27, 26))
        )
        order = argsort(low, stable=True)
        found: Tensor = order[argsort(high[order], stable=True)]
    return found


# --- distributions -----------------------------------------------------------------------------


@creation
def normal(
    mean: Tensor | float, std: Tensor | float = 1.0, size: Any = None, *,
    dtype: DType | None = None, device: Device | str | None = None, requires_grad: bool = False,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Normally distributed numbers: one per element of `mean` and `std`, or of the given size.

    >>> normal(0.0, 1.0, (2, 3)).shape
    (2, 3)
    """
    given = [x for x in (mean, std) if isinstance(x, Tensor)]
    if size is None and not given:
        raise TypeError("normal: missing size, since neither mean nor std is a tensor.")
    if size is not None and given:
        raise TypeError(f"normal: size {size} and {describe(given[0])} cannot both be given.")
    if not isinstance(std, Tensor) and std < 0:
        raise ValueError(f"normal: std is {std}; it must not be negative.")
    if given:
        dtype = dtype or dtypes.promote(tuple(x.dtype for x in given), (), ())
        shape = broadcast_shapes("normal", [x.shape for x in given])
    else:
        shape = shape_of("normal", (size,))
    dtype = check_floating("normal", dtype, device, requires_grad)
    with changed(grad=False):
        drawn = draw(standard_normal, shape, dtype, generator, device=device) * std + mean
    return finish(drawn.to(dtype), requires_grad)


def _probability(op: str, p: Any) -> Any:
    """A probability, which is checked; while a function is recorded, by the program."""
    if isinstance(p, Tensor):
        with changed(grad=False):
            valid = (p >= 0) & (p <= 1)
            if valid.storage.is_recorded:
                return checks.bernoulli_probability(p)
        checks.hold(op, p, valid, checks.PROBABILITY)
    elif not 0 <= p <= 1:
        raise ValueError(f"{op}: p is {p}; {checks.PROBABILITY}.")
    return p


def _weights(x: Tensor) -> Tensor:
    """Weights, which are checked; while a function is recorded, by the program."""
    possible = checks.possible_weights(x)
    if possible.storage.is_recorded:
        known = checks.multinomial_weight(x)
        return where(checks.multinomial_total(known.sum(-1, keepdim=True)) > 0, known, 0.0)
    return checks.hold("multinomial", x, possible, checks.WEIGHT)


@method
@public
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None
) -> Tensor:
    """1 with the probability given by each element of `input` (or by `p`), else 0.

    >>> bernoulli(Tensor.of_data("tensor", [0.0, 1.0], None))
    tensor([0., 1.])
    """
    dtype = check_floating("bernoulli", input.dtype)
    p = _probability("bernoulli", input if p is None else p)
    with changed(grad=False):
        ones = draw(uniform, input.shape, dtype, generator) < p
    return ones.to(dtype)


def _fine_uniforms(op: str, beside: Tensor, shape: Shape, generator: Generator | None) -> Tensor:
    """Numbers in [0, 1) of float64, or where a device has none of float32, of the same words: the
    second word of each adds digits to numbers near 0."""
    if not lacks_doubles(op, beside.device):
        return draw(uniform, shape, float64, generator)
    halves = draw(uniform, (*shape, 2), float32, generator)
    return halves[..., 0] + halves[..., 1] * 2.0**-24


@composite(
    ref=lambda rates, uniforms, count: np.argsort(
        -np.where(rates > 0, rates / -np.log1p(-uniforms), -1.0), -1, kind="stable"
    )[..., :count],
    samples=lambda: (
        Sample((Array((3, 4), 0, 1), Array((3, 4), 0, 1, float64)), {"count": 2}),
        Sample((Array((5,), 0, 1), Array((5,), 0, 1, float64)), {"count": 1}),
    ),
    method=False,
    internal=True,
    floating=True,
)
def shortest_waits(rates, uniforms, *, count):
    """Along the last dim, which exponential waiting times of these rates are the shortest."""
    require_floating("shortest_waits", rates)
    return topk(where(rates > 0, rates / -log1p(-uniforms), -1.0), count, -1)[1]


@method
@public
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Column indices drawn at random, with the weights in each row of `input`.

    >>> multinomial(Tensor.of_data("tensor", [0.0, 3.0, 0.0], None), 2, replacement=True)
    tensor([1, 1])
    """
    check_floating("multinomial", input.dtype)
    if input.ndim not in (1, 2) or not input.shape[-1]:
        raise ValueError(f"multinomial: {describe(input)} must be a vector or a matrix of weights.")
    if num_samples < 1 or (num_samples > input.shape[-1] and not replacement):
        raise ValueError(
            f"multinomial: cannot draw {num_samples} of the {input.shape[-1]} columns of "
            f"{describe(input)}{'' if replacement else ' without replacement'}."
        )
    with changed(grad=False):
        input = _weights(input)
        if replacement:
            at = _fine_uniforms("multinomial", input, (*input.shape[:-1], num_samples), generator)
            ends = cumsum(input.to(at.dtype), -1)
            # Strictly beyond the end of what came before, so that a weight of 0 is never drawn.
            found = searchsorted(ends, at * ends[..., -1:], right=True)
            return found.clamp(max=input.shape[-1] - 1)  # the product may be rounded to the end
        # The first of exponential waiting times with these rates: Efraimidis and Spirakis, 2006.
        drawn = _fine_uniforms("multinomial", input, input.shape, generator)
        first: Tensor = apply(shortest_waits, (input, drawn), {"count": num_samples})
        return first


# --- in place ----------------------------------------------------------------------------------


def _overwrite(self: Tensor, op: str, make: Any) -> Tensor:
    check_write(self, op)
    with changed(grad=False, device=self.storage.device):
        value = make()
    return write(self, value, op)


@method
def uniform_(
    self: Tensor, low: float = 0.0, high: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Write numbers uniform in [low, high).

    >>> import contraflow as cf
    >>> _ = cf.manual_seed(0)
    >>> x = cf.empty(1000).uniform_(2.0, 3.0)
    >>> bool((x >= 2.0).all() and (x < 3.0).all())
    True
    """
    dtype = check_floating("uniform_", self.dtype)
    if not low <= high:
        raise ValueError(f"uniform_: [{low}, {high}) is not an interval.")
    return _overwrite(
        self, "uniform_", lambda: draw(uniform, self.shape, dtype, generator) * (high - low) + low
    )


@method
def normal_(
    self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Write normal numbers of a mean and a standard deviation.

    >>> import contraflow as cf
    >>> _ = cf.manual_seed(0)
    >>> x = cf.empty(1000).normal_(5.0, 0.1)
    >>> bool((x.mean() - 5.0).abs() < 0.02)
    True
    """
    dtype = check_floating("normal_", self.dtype)
    if std < 0:
        raise ValueError(f"normal_: std is {std}; it must not be negative.")
    return _overwrite(
        self, "normal_", lambda: draw(standard_normal, self.shape, dtype, generator) * std + mean
    )


@method
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Write waiting times of rate `lambd`.

    >>> import contraflow as cf
    >>> _ = cf.manual_seed(0)
    >>> x = cf.empty(1000).exponential_(2.0)
    >>> bool((x.mean() - 0.5).abs() < 0.1)
    True
    """
    dtype = check_floating("exponential_", self.dtype)
    if lambd <= 0:
        raise ValueError(f"exponential_: lambd is {lambd}; it must be positive.")

    def waits() -> Tensor:
        return log(1.0 - draw(uniform, self.shape, dtype, generator)) / -lambd

    return _overwrite(self, "exponential_", waits)


@method
def bernoulli_(
    self: Tensor, p: Tensor | float = 0.5, *, generator: Generator | None = None
) -> Tensor:
    """Write 1 with probability `p`, else 0.

    >>> import contraflow as cf
    >>> _ = cf.manual_seed(0)
    >>> x = cf.empty(1000).bernoulli_(0.5)
    >>> x.unique()
    tensor([0., 1.])
    """
    p = _probability("bernoulli_", p)
    return _overwrite(
        self, "bernoulli_", lambda: draw(uniform, self.shape, dtypes.float32, generator) < p
    )


@method
def random_(
    self: Tensor, low: int = 0, high: int | None = None, *, generator: Generator | None = None
) -> Tensor:
    """Write integers in [low, high); without bounds, from 0 to what the dtype holds exactly.

    >>> import contraflow as cf
    >>> _ = cf.manual_seed(0)
    >>> x = cf.empty(1000).random_(3)
    >>> x.unique()
    tensor([0., 1., 2.])
    """
    if high is None and low != 0:
        low, high = 0, low
    if high is None:
        exact = {dtypes.float16: 1 << 11, dtypes.bfloat16: 1 << 8, dtypes.float32: 1 << 24}
        most = exact.get(self.dtype, 1 << 32)
        high = most if self.dtype.is_floating_point else min(_limits(self.dtype)[1] + 1, 1 << 32)
    return _overwrite(
        self, "random_",
        lambda: _integers("random_", low, high, self.shape, self.dtype, generator),
    )  # fmt: skip


@method
def log_normal_(
    self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> Tensor:
    """Write exp of normal numbers of a mean and a standard deviation.

    >>> import contraflow as cf
    >>> _ = cf.manual_seed(0)
    >>> x = cf.empty(1000).log_normal_(0.0, 0.1)
    >>> bool((x > 0).all())
    True
    """
    dtype = check_floating("log_normal_", self.dtype)
    if std < 0:
        raise ValueError(f"log_normal_: std is {std}; it must not be negative.")

    def drawn() -> Tensor:
        return exp(draw(standard_normal, self.shape, dtype, generator) * std + mean)

    return _overwrite(self, "log_normal_", drawn)


@method
def cauchy_(
    self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Write numbers of Cauchy's distribution: median + sigma tan(pi (u - 1/2)).

    >>> import contraflow as cf
    >>> _ = cf.manual_seed(0)
    >>> x = cf.empty(1000).cauchy_(5.0, 0.1)
    >>> bool((x.median() - 5.0).abs() < 0.05)
    True
    """
    dtype = check_floating("cauchy_", self.dtype)
    if sigma <= 0:
        raise ValueError(f"cauchy_: sigma is {sigma}; it must be positive.")

    def drawn() -> Tensor:
        at = draw(uniform, self.shape, dtype, generator)
        return tan((at - 0.5) * math.pi) * sigma + median

    return _overwrite(self, "cauchy_", drawn)


@method
def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Write how many trials of probability `p` it took until one succeeded: 1, 2, ...

    >>> import contraflow as cf
    >>> _ = cf.manual_seed(0)
    >>> x = cf.empty(1000).geometric_(0.5)
    >>> x.min()
    tensor(1.)
    """
    if not 0 < p < 1:
        raise ValueError(f"geometric_: p is {p}; it must be in (0, 1).")

    def drawn() -> Tensor:
        uniforms = _fine_uniforms("geometric_", self, self.shape, generator)
        waits = log1p(-uniforms) / math.log1p(-p)
        return ceil(waits).clamp(min=1.0)

    return _overwrite(self, "geometric_", drawn)
