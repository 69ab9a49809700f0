"""Arguments that are parts of larger tensors: batches cut from one, a row, a stretch of a buffer.

A program that only reads such a part does not depend on where it lies. So a call is tried with
each part as memory of its own, of which all parts of a shape have one program. If the program
writes to the part, gives it out, or finds the larger tensor elsewhere, the call is as it was given.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from contraflow.capture.observing.objects import TENSOR_FIELDS, is_passed
from contraflow.capture.replay import CapturedProgram
from contraflow.capture.results import ArgumentResult, Found, Graded, SharedResult
from contraflow.capture.state.places import GivenArguments
from contraflow.capture.state.reads import PLAIN, PlacesCompared
from contraflow.capture.state.trees import finds_twice
from contraflow.names import AbsentMethod
from contraflow.shapes import contiguous, numel
from contraflow.tensors.storage import PartStorage, Storage
from contraflow.tensors.tensor import Tensor

# The attributes that tensors have by themselves. Users may set those that are absent by choice.
_OF_TENSORS = TENSOR_FIELDS.union(
    name
    for kind in Tensor.__mro__
    for name, value in vars(kind).items()
    if not isinstance(value, AbsentMethod)
)


class CutCall(NamedTuple):
    """The arguments of a call with its parts cut out, and the storages these are parts of."""

    given: GivenArguments
    parts: list[PartStorage]
    wholes: frozenset[int]  # their ids

    def serves(self, program: CapturedProgram) -> bool:
        """Whether a program may be used: it does not know the memory around the parts."""
        return not any(map(program.guards.is_state, self.wholes))

    def is_seen(self, program: CapturedProgram) -> bool:
        """Whether a program that was recorded depends on more than the elements of the parts."""
        if not self.serves(program) or any(part.looked_around for part in self.parts):
            return True
        sources = program.recording.sources
        if any(sources[value].is_argument for value in program.tape.writes):
            return True
        if any(is_passed(write.target) for write in program.writes):
            return True
        # The containers around the parts were made anew: no place of state has them.
        compared = (
            read.compared for read in program.guards.reads if isinstance(read, PlacesCompared)
        )
        if any(map(is_passed, itertools.chain(*compared))):
            return True
        given = (*program.results, *(gradient for _, gradient in program.slot_outputs))
        for result in given:
            shown = result.result if isinstance(result, Graded) else result
            if isinstance(shown, SharedResult) and sources[shown.origin].is_argument:
                return True
            if isinstance(shown, ArgumentResult) or (
                isinstance(shown, Found) and is_passed(shown.place)
            ):
                return True
        return False


def cut_out(given: GivenArguments) -> CutCall | None:
    """The call with parts of larger tensors cut out; None if there are none, or other objects."""
    args, kwargs = given
    for x in args:
        if type(x) is not Tensor or _is_part(x):
            break
    else:
        if not kwargs:
            return None
    tensors: list[Any] = []
    try:
        known = _gather((*args, *kwargs.values()), tensors)
    except RecursionError:  # a container that contains itself, which is refused
        return None
    known = known and not finds_twice([*args, *kwargs.values()])
    found = [t for t in tensors if _is_part(t)] if known else []
    if not found:
        return None
    shared = Counter([id(t.storage) for t in tensors])
    cut = {id(t): _cut(t) for t in found if shared[id(t.storage)] == 1}
    if not cut:
        return None
    made = tuple([_made(x, cut) for x in args]), {k: _made(x, cut) for k, x in kwargs.items()}
    parts: Any = [t.storage for t in cut.values()]
    return CutCall(made, parts, frozenset(id(part.whole) for part in parts))


def _is_part(t: Tensor) -> bool:
    """Whether a tensor is a stretch of its storage, and nothing else is known of it."""
    layout, data = t.layout, t.storage._data
    if data is None or numel(layout.shape) in (0, data.size):
        return False
    if not layout.is_contiguous or t.requires_grad or not t.__dict__.keys() <= _OF_TENSORS:
        return False
    return type(t.storage) is Storage


def _cut(t: Tensor) -> Tensor:
    start, shape = t.layout.offset, t.layout.shape
    part = PartStorage(t.storage, start, start + numel(shape))
    return Tensor.of_storage(part, contiguous(shape), t.dtype)


def _gather(values: Iterable[Any], tensors: list[Any]) -> bool:
    """Whether all are tensors, plain values, or containers of them; tensors are noted."""
    for x in values:
        kind = type(x)
        if kind is Tensor:
            tensors.append(x)
        elif kind is tuple or kind is list or kind is dict:
            if not _gather(x.values() if kind is dict else x, tensors):
                return False
        elif kind not in PLAIN:
            return False
    return True


def _made(x: Any, cut: dict[int, Tensor]) -> Any:
    """The same with the parts cut out."""
    kind = type(x)
    if kind is dict:
        return {key: _made(item, cut) for key, item in x.items()}
    if kind in (tuple, list):
        return kind([_made(item, cut) for item in x])
    return cut.get(id(x), x)
