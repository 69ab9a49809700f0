"""Checks of the values that random functions are given, as ops.

Eager mode looks at the values. While a compiled function is recorded they are not known, so these
ops become part of its program, which raises where an element is wrong, before it changes anything.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from contraflow.dtypes import FLOAT, bool_, int64
from contraflow.errors import describe
from contraflow.expressions import expression as s
from contraflow.operation.context import apply, state
from contraflow.operation.kinds import composite, elementwise
from contraflow.operation.op import Op
from contraflow.operation.samples import Array, Failure, Sample

Condition = Callable[[Any], Any]

PROBABILITY = "a probability lies between 0 and 1"
WEIGHT = "weights are finite, positive or 0"
# One kernel may check both, and tells of the first.
_WEIGHTS = f"{WEIGHT}, and not all 0 in a row"


def _check(name: str, holds: Condition, numpy: Condition, text: str, wrong: float) -> Op:
    """An op that gives its input, all elements of which must satisfy a condition."""

    def body(x: Any) -> Any:
        failed = s.select(holds(x), s.const(0, int64), s.const(1, int64))
        return x + s.cast(s.checked(failed, 1), x.dtype)

    def ref(x: Any) -> Any:
        if not numpy(x).all():
            raise ValueError(f"{name}: {text}.")
        return x.copy()

    body.__name__, body.__doc__ = name, f"The input; {text}."
    return elementwise(
        ref=ref,
        vjp={"x": lambda g: g},
        samples=lambda: (Sample((Array((3, 4), 0.1, 0.9),)), Sample((Array((), 0.1, 0.9),))),
        failures=lambda: (Failure((np.array([0.5, wrong], np.float32),), {}, ValueError, text),),
        takes=(FLOAT,),
        fails=(ValueError, text),
        method=False,
        internal=True,
    )(body)


bernoulli_probability = _check(
    "bernoulli_probability",
    lambda x: (x >= 0.0) & (x <= 1.0),
    lambda x: (x >= 0) & (x <= 1),
    PROBABILITY,
    2.0,
)
multinomial_weight = _check(
    "multinomial_weight",
    lambda x: (x >= 0.0) & s.eq(x - x, 0.0),  # infinity minus infinity is NaN
    lambda x: (x >= 0) & np.isfinite(x),
    _WEIGHTS,
    -1.0,
)


@composite(
    ref=lambda x: (x >= 0) & np.isfinite(x) & (x.sum(-1, keepdims=True) > 0),
    samples=lambda: (Sample((Array((3, 4), -0.1, 0.9),)), Sample((np.zeros((2, 2), np.float32),))),
    method=False,
    internal=True,
)
def possible_weights(x):
    """Whether elements are weights in rows in which not all are 0."""
    return (x >= 0) & x.isfinite() & (x.sum(-1, keepdim=True) > 0)


multinomial_total = _check("multinomial_total", lambda x: x > 0.0, lambda x: x > 0, _WEIGHTS, 0.0)


def constraint(subject: str, rule: str) -> dict[str, Any]:
    """The parameters of `constrained` for a message `subject: rule`.

    The code is that of the text: one kernel may check several, and reports the code.
    """
    code = zlib.crc32(f"{subject}: {rule}".encode()) >> 2 | 1 << 24
    return {"subject": subject, "rule": rule, "code": code}


def _constrained(x: Any, valid: Any, subject: str, rule: str, code: int) -> Any:
    if not np.all(valid):
        raise ValueError(f"{subject}: {rule}.")
    return np.array(np.broadcast_to(x, np.broadcast_shapes(x.shape, valid.shape)))


@elementwise(
    ref=_constrained,
    dtype=lambda inputs, params: ((None, bool_), (inputs[0].dtype,)),
    vjp={"x": lambda g: g},
    samples=lambda: [
        Sample((Array(shape), np.array(True)), constraint("Normal", "loc must be real"))
        for shape in ((3, 4), ())
    ],
    failures=lambda: (
        Failure(
            (np.ones(2), np.array([True, False])),
            constraint("Normal", "scale must be greater than 0"),
            ValueError,
            "Normal: scale must be greater than 0.",
        ),
    ),
    fails=(ValueError, "{rule}"),
    method=False,
    internal=True,
)
def constrained(x, valid, *, subject, rule, code):
    """The input; `valid` must be true everywhere, or the error is `subject: rule`."""
    failed = s.select(valid, s.const(0, int64), s.const(code, int64))
    return x + s.cast(s.checked(failed, 1), x.dtype)


def hold(subject: str, x: Any, valid: Any, rule: str) -> Any:
    """A tensor all of which must be `valid`: looked at now, or by the program that is recorded."""
    if valid.storage.is_recorded:
        return apply(constrained, (x, valid), constraint(subject, rule))
    at_once = state().context.immediate and valid.storage.device == "cpu"
    if not (np.logical_and.reduce(valid.array, None) if at_once else valid.all()):
        raise ValueError(f"{subject}: {describe(x)} has invalid elements; {rule}.")
    return x
