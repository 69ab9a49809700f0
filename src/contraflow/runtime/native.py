"""Large eager ops as generated kernels.

A pure function of tensors (an op, the body of a composite, the gradient rules of a node) is
recorded once for each set of shapes, strides and dtypes, and from then on runs as one program: a
composite is one fused kernel, and so is its gradient. Small tensors are not worth the start of a
program; for them NumPy is faster.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from contraflow import config, threads
from contraflow.dtypes import get_default_dtype
from contraflow.errors import CaptureError
from contraflow.graph import engine
from contraflow.operation.op import Op
from contraflow.shapes import numel
from contraflow.spec import Params, Spec
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import exact

if TYPE_CHECKING:
    from contraflow.runtime.routine import Routine

SMALL = engine.SMALL  # elements; an op on fewer of them is done before a program has started
COMPOSITE = 1 << 8  # the same for composites, which are several ops
SHARED = 1 << 16  # the same for arithmetic, which NumPy does as fast as one thread can
JOINED = 1 << 16  # the same for parts of a gradient, which NumPy copies side by side
CAPACITY = 2048  # routines that are kept


def is_large(inputs: Sequence[Any], least: int) -> bool:
    """Whether a call on these inputs may be worth a program: on this many elements, at least."""
    total = 0
    for x in inputs:
        if isinstance(x, Tensor) and x.layout.shape:
            total += numel(x.layout.shape)
            if total >= least:
                break
    return total >= least and config.eager_kernels


_routines: OrderedDict[Any, Routine | str] = OrderedDict()  # or why there is none
_lock = threads.lock()


def call(
    name: str, key: Any, function: Callable[..., Any], inputs: Sequence[Any]
) -> list[Any] | None:
    """The results of a pure function of tensors and numbers, or None where NumPy does as well.

    `key` says which function it is, with everything static that it depends on.
    """
    routine = find(name, key, function, inputs)
    return None if routine is None else run(routine, inputs)


def find(
    name: str, key: Any, function: Callable[..., Any], inputs: Sequence[Any], repeats: bool = False
) -> Routine | None:
    """The routine of a function, made when it is first asked for; None where there is none."""
    described: list[Any] = []
    for x in inputs:
        if isinstance(x, Tensor):
            described.append((x.layout.shape, x.layout.strides, x.dtype))
        elif x is None:
            described.append(None)
        else:  # numbers may be others at every call, and NumPy takes them as they come
            return None
    full = (name, key, config.num_threads, get_default_dtype(), *described)
    try:
        routine = _routines.get(full)
    except TypeError:  # a parameter that is not hashable
        return None
    if routine is None:
        routine = _prepare(full, name, function, inputs, repeats)
    return None if isinstance(routine, str) else routine


def run(routine: Routine, inputs: Sequence[Any]) -> list[Any] | None:
    """The results of a routine; None where the op, done in another way, says what is wrong."""
    try:
        return routine.run(inputs)
    except (IndexError, ZeroDivisionError):
        return None


def _prepare(
    full: Any, name: str, function: Callable[..., Any], inputs: Sequence[Any], repeats: bool
) -> Routine | str:
    try:
        # The compiler is loaded when the first large op needs it.
        made = threads.imported("contraflow.runtime.routine").Routine
        routine: Routine | str = made(name, function, inputs, repeats)
    except CaptureError as error:
        routine = str(error)
    with _lock:
        _routines[full] = routine
        if len(_routines) > CAPACITY:
            _routines.popitem(last=False)
    return routine


def read_back(
    op: Op, params: Params, specs: tuple[Spec | None, ...], needs: tuple[bool, ...]
) -> tuple[int, ...]:
    """The inputs of a composite without rules whose elements its gradients depend on."""
    try:
        found: tuple[int, ...] = threads.imported("contraflow.runtime.routine").read_back(
            op, params, specs, needs
        )
    except CaptureError:
        found = tuple(range(len(specs)))
    return found


def exactly(params: Mapping[str, Any]) -> Any:
    """Static parameters as a key: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    return tuple([(k, type(v), exact(v)) for k, v in params.items()])
