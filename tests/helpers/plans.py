"""Plans of a few kernels."""

from __future__ import annotations

import numpy as np

from contraflow.compiler.kernel import (
    STRIDED,
    KernelCall,
    Loops,
    Operand,
    Store,
)
from contraflow.compiler.plan import Binding, HostStep, KernelStep, Plan, Slot
from contraflow.dtypes import DType, float32
from contraflow.expressions import expression as s

LARGE = 100_003  # beyond what runs on one thread


def load(k: int, dtype: DType = float32) -> s.Expr:
    return s.leaf("load", dtype, k)


def map_kernel(body, inputs: int = 1) -> Loops:
    value = body(*(load(k) for k in range(inputs)))
    operands = (*(Operand(float32, "in", (1,)),) * inputs, Operand(float32, "out", (1,)))
    return Loops(1, 0, 0, operands, (), (Store(inputs, value, False),))


def map_step(body, n: int, *slots: int) -> KernelStep:
    kernel = map_kernel(body, len(slots) - 1)
    return KernelStep(KernelCall(kernel, (n,), ((1,),) * len(slots)), tuple(map(Binding, slots)))


def array(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


def chain(n: int) -> Plan:
    """out = (reversed copy of 2x) + 1 through two temporaries: data crosses threads."""
    reverse = Loops(
        1, 0, 0, (Operand(float32, "in", (STRIDED,)), Operand(float32, "out", (1,))), (),
        (Store(1, load(0), False),),
    )  # fmt: skip
    slots = [
        Slot("input", float32, n), Slot("temp", float32, n, 0),
        Slot("temp", float32, n, 4 * n + 64), Slot("output", float32, n),
    ]  # fmt: skip
    steps: list[KernelStep | HostStep] = [
        map_step(lambda x: x * 2.0, n, 0, 1),
        KernelStep(KernelCall(reverse, (n,), ((-1,), (1,))), (Binding(1, n - 1), Binding(2))),
        map_step(lambda x: x + 1.0, n, 2, 3),
    ]
    return Plan(slots, steps, [8 * n + 64], [])
