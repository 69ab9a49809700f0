"""The tapes of the registry's samples: of each op forward, and of its gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from tests.helpers.op_checks import as_tuple

import contraflow as cf
from contraflow.autograd import grad
from contraflow.compiler.passes import optimize
from contraflow.compiler.tape import Tape, Value
from contraflow.contexts.record import Recorder
from contraflow.dtypes import DType, float32
from contraflow.errors import CaptureError
from contraflow.operation.context import apply, changed
from contraflow.operation.op import REGISTRY, Op
from contraflow.operation.samples import Sample
from contraflow.tensors.tensor import Tensor
from contraflow.testing import make_inputs


def first_sample(op: Op) -> Sample | None:
    """The sample of an op that has elements, or its first."""
    samples = list(op.samples() if op.samples else op.kind.samples(op))
    return samples[0] if samples else None


class Recorded(NamedTuple):
    """A tape, and what its inputs hold."""

    tape: Tape
    given: dict[Value, Any]


def record(op: Op, sample: Sample, *, backward: bool, dtype: DType = float32) -> Recorded | None:
    """The optimized tape of an op on a sample, or of its gradients; None where there is none."""
    arrays = make_inputs(sample, dtype=dtype)

    def function(*inputs: Any) -> Any:
        return apply(op, inputs, sample.params)

    return record_function(function, arrays, backward=backward)


def record_function(
    function: Callable[..., Any], given: Sequence[Any], *, backward: bool
) -> Recorded | None:
    """The optimized tape of a function of arrays, or of its gradients; None where there is none."""
    inputs = [
        cf.tensor(x, requires_grad=backward and np.issubdtype(x.dtype, np.floating))
        if isinstance(x, np.ndarray)
        else x
        for x in given
    ]
    tensors = [x for x in inputs if isinstance(x, Tensor)]
    recorder = Recorder("function", tensors)
    try:
        with changed(context=recorder, grad=backward, saved_hooks=(), region=0, line=None):
            outs = [x for x in as_tuple(function(*inputs)) if isinstance(x, Tensor)]
            if backward:
                outs = _gradients(outs, [x for x in tensors if x.requires_grad])
            # A view of an input is not computed: a copy of it is.
            outs = [REGISTRY["clone"](x) for x in outs]
            recorder.tape.outputs += map(recorder.value_at_end, outs)
    except CaptureError:
        return None
    finally:
        recorder.restore()
    if not outs:
        return None
    tape = optimize(recorder.tape)
    held = {v: storage.data for v, storage in recorder._inputs.items()}
    return Recorded(tape, {v: held.get(v, 3) for v in tape.inputs})


def _gradients(outs: list[Tensor], wanted: list[Tensor]) -> list[Tensor]:
    outs = [x for x in outs if x.requires_grad]
    if not outs or not wanted:
        return []
    found = grad([x.sum() for x in outs], wanted, allow_unused=True)
    return [x for x in found if x is not None]


def recorded(*, backward: bool) -> Iterator[tuple[str, Recorded]]:
    """Each op of the registry that can be recorded, with its tape."""
    for name, op in sorted(REGISTRY.items()):
        sample = first_sample(op)
        found = None if sample is None else record(op, sample, backward=backward)
        if found is not None:
            yield name, found
