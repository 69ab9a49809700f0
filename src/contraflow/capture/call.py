"""The call of a compiled function: the owner of its programs, and its arguments, taken apart."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from contraflow.capture.state.places import GivenArguments
from contraflow.capture.state.trees import flatten, flatten_arguments
from contraflow.dtypes import from_numpy
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor


class Owner(Protocol):
    """The compiled function that owns programs."""

    name: str
    escape_lines: set[str]
    warned: bool  # of a very long tape
    unobserved: list[str]

    @property
    def eager(self) -> Callable[..., Any]: ...

    @property
    def function(self) -> Callable[..., Any]: ...

    @property
    def instance(self) -> Any: ...


class FunctionCall(NamedTuple):
    """The arguments of one call of a compiled function."""

    structure: Any
    leaves: Sequence[Any]  # tensors and numbers, in order
    arguments: Sequence[Tensor]  # the tensors among them
    given: GivenArguments
    carried_values: Sequence[Any] = ()  # what the function reads and changes beside its arguments


# A whole call from its arguments, written out, or a miss: see hit.py.
Hit = Callable[[tuple[Any, ...]], Any]

# The storages and the host scalars that a program reads, in the order of its tape's inputs.
ReplayInputs = tuple[list[Storage], list[int | float]]


def call_of(given: GivenArguments, carried_values: list[Any]) -> FunctionCall:
    """A call with its arguments and carried values, taken apart."""
    args, kwargs = given
    # Tensors alone, as in most calls, take a tenth of the time.
    if not kwargs and not carried_values:
        for x in args:
            if type(x) is not Tensor:
                break
        else:
            # As the class does it, which takes three times as long.
            return tuple.__new__(
                FunctionCall, (_structure_of_tensors(len(args)), args, args, given, ())
            )
    leaves: list[Any] = []
    structure = flatten_arguments(args, kwargs, carried_values, leaves)
    leaves = [_as_tensor(x) if isinstance(x, np.ndarray) else x for x in leaves]
    return FunctionCall(
        structure, leaves, [x for x in leaves if isinstance(x, Tensor)], given, carried_values
    )


@functools.lru_cache
def _structure_of_tensors(count: int) -> Any:
    return flatten(((Tensor.of_array(np.zeros(0)),) * count, {}, []), [], weak=True)


def _as_tensor(array: np.ndarray) -> Tensor:
    from_numpy(array.dtype)  # the error for a dtype that is not ours
    return Tensor.of_array(np.asarray(array, order="C"))
