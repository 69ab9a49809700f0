"""Large calls on GPUs: no kernel is left to one group, and no value is larger than a binding.

Nothing runs here: what counts are the sizes of kernels and of values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tests.helpers.registry_tapes import record_function

from contraflow.compiler.fuse import fuse
from contraflow.compiler.host_numbers import host_values
from contraflow.compiler.kernel import Contraction, KernelCall, Loops, part_length
from contraflow.compiler.lower import KernelUse
from contraflow.compiler.plan import Plan, make_plan
from contraflow.nn import functional as F
from contraflow.render.clike import source, wgsl


def planned(
    function: Callable[..., Any], *shapes: Sequence[int], backward: bool = False
) -> tuple[list[KernelCall], Plan]:
    """The kernels and the plan of a function of float32 tensors."""
    arrays = [np.zeros(shape, np.float32) for shape in shapes]
    found = record_function(function, arrays, backward=backward)
    assert found is not None
    host = host_values(found.tape)
    uses = fuse(found.tape, host, wgsl.LIMITS)
    assert all(isinstance(use, KernelUse) for use in uses)
    calls = [use.call for use in uses if isinstance(use, KernelUse)]
    return calls, make_plan(found.tape, uses, host, wgsl.LIMITS)[0]


def folded_points(call: KernelCall) -> int:
    """The points that one outer point of a fold visits."""
    assert isinstance(call.kernel, Loops)
    sizes = list(call.sizes)
    if call.kernel.cut is not None:
        cut = call.kernel.cut
        sizes[cut] = part_length(sizes[cut], sizes[call.kernel.outer - 1])
    return int(np.prod(sizes[call.kernel.outer :]))


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: x.sum(), (1 << 26,)),
        (lambda x: x.sum(0), (1 << 16, 1 << 10)),
        (lambda x: x.amax(), (1 << 13, 1 << 13)),
        (lambda x: x.var((0, 2)), (1 << 8, 64, 1 << 12)),
        (lambda x: x.argmax(), (1 << 26,)),
    ],
    ids=("sum", "columns", "maximum", "variance", "pairs"),
)
def test_long_folds_are_cut(function: Any, shape: Sequence[int]) -> None:
    """No group and no thread folds more points than a part of the CPU's folds has: about 4096, but
    at least a block of the axis that is cut."""
    calls, _ = planned(function, shape)
    folds = [c for c in calls if isinstance(c.kernel, Loops) and c.kernel.reductions]
    assert len(folds) > 1
    assert max(map(folded_points, folds)) <= 1 << 14
    assert source.count_groups(folds[0]) >= 64


# Images and a weight of this size, and what is asked for.
CONVOLUTIONS = {
    "plain": ((64, 64, 3, 3), {"padding": 1}),
    "dilated": ((64, 64, 3, 3), {"padding": 2, "dilation": 2}),
    "grouped": ((64, 1, 3, 3), {"padding": 1, "groups": 64}),
    "strided": ((64, 64, 3, 3), {"padding": 1, "stride": 2}),
}


# The gradient of strided images is a product, whose windows are added up by another kernel.
@pytest.mark.parametrize(
    ("name", "backward"),
    [(name, backward) for name in CONVOLUTIONS for backward in (False, True)][:-1],
)
def test_no_convolution_writes_its_windows_out(name: str, backward: bool) -> None:
    """All windows of these images would take 231 MB, and a binding of WebGPU has 128 MiB."""
    weight, how = CONVOLUTIONS[name]
    images = (32, 64, 56, 56)
    calls, plan = planned(lambda x, w: F.conv2d(x, w, **how), images, weight, backward=backward)
    products = [call.kernel for call in calls if isinstance(call.kernel, Contraction)]
    assert any(kernel.digits for kernel in products)
    windows = 4 * np.prod(images) * 9
    largest = max(slot.nbytes for slot in plan.slots)
    assert largest < 128 << 20
    assert largest < windows / 7
