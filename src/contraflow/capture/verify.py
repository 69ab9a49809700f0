"""`verify=`: a call is run eagerly too, on the same state, and the results are compared.

Whatever a recording has frozen that it should not have (a counter in Python, the contents of a
list) shows as a difference.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from contraflow import devices
from contraflow.capture.call import FunctionCall, ReplayInputs
from contraflow.capture.observing.observe import undone
from contraflow.capture.replay import CapturedProgram
from contraflow.capture.state.made import MadeAnew
from contraflow.contexts.graph_changes import GraphPlace
from contraflow.devices import dtype_of
from contraflow.dtypes import HALVES, DType, from_numpy, tolerance
from contraflow.errors import CaptureError, describe_spec
from contraflow.tensors.generator import default_generator
from contraflow.tensors.node import Node
from contraflow.tensors.tensor import Tensor

# Rounding may do to a value this many times what a change of the inputs' last bits does. An
# optimizer that divides a gradient of rounding errors by its size makes anything of them.
NOISE = 10.0


class _TensorState(NamedTuple):
    """The state of a tensor that a call may change, beside its elements."""

    grad: Tensor | None
    place: GraphPlace


class _Snapshot:
    """The state that a program knows: elements, gradients, host scalars and random state."""

    def __init__(self, program: CapturedProgram, call: FunctionCall, inputs: ReplayInputs) -> None:
        watched = (w.tensor() for w in program.guards.watched)
        tensors = [*call.arguments, *(t for t in watched if t is not None)]
        self.tensors = list({id(t): t for t in tensors}.values())
        self.states = [_TensorState(t._grad, GraphPlace.of(t)) for t in self.tensors]
        storages = [*inputs[0], *(t.storage for t in self.tensors)]
        storages += [t._grad.storage for t in self.tensors if t._grad is not None]
        unique = {id(s): s for s in storages}.values()
        self.memory = [(s, s.copied(), s.version, s.writer) for s in unique if not s.frozen]
        cells = [s.cell() for s in program.recording.sources.values() if s.cell is not None]
        cells += [ref() for ref, _ in program.cell_outputs]
        self.cells = [(cell, cell.value) for cell in cells if cell is not None]
        generators = {default_generator, *program.recording.advances, *program.recording.reseeds}
        self.random = [(g, (g.seed, g.offset)) for g in generators]

    def restore(self) -> None:
        """Put everything back."""
        for storage, data, version, writer in self.memory:
            storage.restore(data)
            storage.version, storage.writer = version, writer
        for grad, place in self.states:
            place.tensor._grad = grad
            place.restore()
        for cell, value in self.cells:
            cell.value = value
        for generator, saved in self.random:
            generator.seed, generator.offset = saved

    def disturb(self, seed: int) -> None:
        """Change the last bits of all floating-point elements."""
        rng = np.random.default_rng(seed)
        for storage, data, *_ in self.memory:
            dtype = dtype_of(data)
            if dtype.is_floating_point:
                device = devices.lookup(storage.device)
                array = device.download(data)
                steps = tolerance(dtype)[0] * rng.uniform(-1, 1, array.shape)
                storage.restore(device.upload((array * (1 + steps)).astype(array.dtype)))

    def now(self) -> Iterator[tuple[str, Any]]:
        """The present values, by name."""
        for number, t in enumerate(self.tensors):
            yield f"tensor {number} of its arguments and state", t.detach().fetched().copy()
            grad = t._grad
            yield (
                f"the gradient of tensor {number}",
                None if grad is None else grad.fetched().copy(),
            )
        for number, (cell, _) in enumerate(self.cells):
            yield f"host scalar {number}", np.asarray(cell.value)
        for generator, _ in self.random:
            yield "the random state", (generator.seed, generator.offset)


def _results(result: Any) -> Iterator[tuple[str, Any]]:
    leaves: list[Any] = []
    yield "the structure of the result", MadeAnew().flatten(result, leaves)
    for number, x in enumerate(leaves):
        if isinstance(x, (Node, tuple)):
            continue  # a key of a store, which is another node in every call
        array = x.detach().fetched().copy() if isinstance(x, Tensor) else np.asarray(x)
        yield f"result {number}", array


def replay_verified(program: CapturedProgram, call: FunctionCall, inputs: ReplayInputs) -> Any:
    """Run a call eagerly, put everything back, replay it, and compare."""
    snapshot = _Snapshot(program, call, inputs)

    def replayed() -> tuple[Any, dict[str, Any]]:
        result = program.replay(call, inputs)
        return result, dict(_results(result)) | dict(snapshot.now())

    args, kwargs = call.given
    try:
        with undone(program.owner, call.given):
            result = program.owner.eager(*args, **kwargs)
        expected = dict(_results(result)) | dict(snapshot.now())
    finally:
        try:
            snapshot.restore()
        except KeyboardInterrupt:  # it must be done all the same
            snapshot.restore()
            raise
    result, actual = replayed()
    halves = {spec.dtype for spec in program.tape.specs.values()} & HALVES
    differing = [k for k, want in expected.items() if _difference(actual.get(k), want, halves)]
    if not differing:
        return result
    nearby = []
    for seed in range(4):
        snapshot.restore()
        snapshot.disturb(seed)
        nearby.append(replayed()[1])
    snapshot.restore()
    result, actual = replayed()
    for k in differing:
        others = [found.get(k) for found in nearby]
        problem = _difference(actual.get(k), expected[k], halves, others)
        if problem:
            raise CaptureError(
                f"compile({program.owner.name}): verify: {k} {problem}. Something that "
                f"the function reads was recorded as it was and has changed since, a number or a "
                f"list in Python for instance. Pass it as an argument, or make it a tensor."
            )
    return result


def _difference(got: Any, want: Any, halves: Collection[DType], nearby: Sequence[Any] = ()) -> str:
    """The difference of a value, as the end of a sentence; empty if there is none.

    `halves` are dtypes of half precision that the program computes in, which kernels round less
    often than eager mode. `nearby` is what the value becomes where the inputs of the program are
    disturbed by their last bits.
    """
    if not isinstance(got, np.ndarray) or not isinstance(want, np.ndarray):
        same = got is want or (type(got) is type(want) and got == want)
        return "" if same else "is not what eager gives"
    if got.shape != want.shape or got.dtype != want.dtype:
        got_spec, want_spec = (describe_spec(x.dtype, x.shape) for x in (got, want))
        return f"is {got_spec}, in eager {want_spec}"
    dtype = from_numpy(want.dtype)
    relative, absolute = tolerance(dtype, *(halves if dtype.is_floating_point else ()))
    a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        off = np.abs(a - b)
        # Errors of sums grow with the largest of their terms, which are not at hand.
        allowed = absolute + relative * np.max(np.abs(b), initial=0.0, where=np.isfinite(b))
        for other in nearby:
            moved = np.abs(other.astype(np.float64) - a)
            allowed += NOISE * np.max(moved, initial=0.0, where=np.isfinite(moved))
        bad = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (off <= allowed))
    if not bad.any():
        return ""
    worst = float(np.nan_to_num(off[bad], nan=np.inf).max())
    return f"({describe_spec(dtype, want.shape)}) differs from eager by up to {worst:.3g}"
