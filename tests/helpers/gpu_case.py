"""What a case of a renderer for GPUs is, and how it is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from contraflow.compiler.interpret import BoundOperand, run_call
from contraflow.compiler.kernel import (
    KernelCall,
    KernelFold,
)
from contraflow.dtypes import (
    DType,
)
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr

GUARD = 7  # elements before the first one: an offset that is forgotten shows


@dataclass
class Case:
    """A call with what its operands are bound to, and what may differ from NumPy."""

    call: KernelCall
    arrays: list[BoundOperand]
    scalars: tuple[float | int, ...] = ()
    relative: float = 2e-6  # of float32 results
    webgpu: bool = True
    golden: bool = False
    expected: np.ndarray | None = None  # what the last operand becomes, if not by the interpreter


CASES: dict[str, Callable[[], Case]] = {}


def case(build: Callable[[], Case]) -> Callable[[], Case]:
    CASES[build.__name__] = build
    return build


def load(number: int, dtype: DType, *args: Expr) -> Expr:
    return s.leaf("load", dtype, number, *args)


def fold(fn: str, value: Expr, identity: float | int) -> KernelFold:
    left, right = (s.leaf(side, value.dtype, 0) for side in ("left", "right"))
    return KernelFold((value,), (s.call(fn, left, right),), (s.const(identity, value.dtype),))


def reduced(number: int, dtype: DType, component: int = 0) -> Expr:
    return s.leaf("reduced", dtype, (number, component))


def bind(values: np.ndarray) -> BoundOperand:
    """A flat array with the values after a few elements that must not be touched."""
    flat = np.zeros(values.size + GUARD, values.dtype)
    flat[GUARD:] = values.reshape(-1)
    return flat, GUARD


def empty(size: int, dtype: type | np.dtype = np.float32) -> BoundOperand:
    return bind(np.full(size, 99, dtype))


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5, 3e38, 1e-30], np.float32)


def check(name: str, run: Callable[..., object]) -> None:
    """Run a case, and the interpreter on a copy of it; all elements of all operands must agree."""
    expected, found = CASES[name](), CASES[name]()
    if expected.expected is None:
        run_call(expected.call, expected.arrays, expected.scalars)
    else:
        expected.arrays[-1] = bind(expected.expected)
    run(found.call, found.arrays, found.scalars)
    for i, operand in enumerate(found.call.kernel.operands):
        given, wanted = found.arrays[i][0], expected.arrays[i][0]
        if given is None or wanted is None:
            continue
        message = f"{name}, operand {i}"
        if operand.dtype.is_floating_point:
            np.testing.assert_allclose(
                given.astype(np.float64), wanted.astype(np.float64),
                rtol=found.relative, atol=found.relative, err_msg=message,
            )  # fmt: skip
        else:
            np.testing.assert_array_equal(given, wanted, err_msg=message)
