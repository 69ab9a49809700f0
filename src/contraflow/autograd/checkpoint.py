"""Checkpointing: drop what a block saves, and compute it again when backward needs it.

The block runs once as usual, but each value it saves is replaced by its number. When backward
asks for the first of them the block runs again, with the same random state, and its saved values
are kept in the order of their numbers. Nodes are those of the first run, so hooks, keyword
arguments, nesting and any structure of outputs work as without a checkpoint.

The tensors among the arguments are themselves saved values: one that was overwritten before the
second run is an error, and those of a checkpoint inside another are dropped and computed again
like everything else in there.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from contraflow.applied import Saved, keep
from contraflow.dispatch import changed, state
from contraflow.errors import GradientError, describe, public
from contraflow.random import default_generator
from contraflow.storage import user_line
from contraflow.structure import map_leaves
from contraflow.tensor import Tensor

_regions = itertools.count(1)
_recomputing: ContextVar[bool] = ContextVar("contraflow_recomputing", default=False)
# A recomputation sets the random state, so workers of a parallel backward take turns.
_turn = threading.RLock()


def is_recomputing() -> bool:
    """Whether a checkpointed function is running for the second time."""
    return _recomputing.get()


class _Block:
    """One checkpointed call: what it needs to run again, and what it saved."""

    name = "checkpoint"

    def __init__(
        self, function: Callable[..., Any], args: Any, kwargs: Any, preserve: bool, check: bool
    ) -> None:
        self.function, self.line = function, state().line or user_line()
        current = state()
        # Forward mode, anomaly mode and autocast save other values, so they are on again then.
        self.modes = {
            "grad": True, "context": current.context, "anomaly": current.anomaly,
            "autocast": current.autocast,
        }  # fmt: skip
        self.arguments = map_leaves(_saved, (args, kwargs))
        self.random = default_generator.get_state() if preserve else None
        self.check = check
        self.seen: list[Any] = []  # spec and storage of each value, in the order of saving
        self.held: dict[int, Tensor] = {}  # values of the recomputation not yet asked for
        self.uses: dict[int, int] = {}

    def pack(self, tensor: Tensor) -> int:
        """The number of a value that is being saved."""
        self.seen.append(tensor.spec)
        return len(self.seen) - 1

    def unpack(self, number: int) -> Tensor:
        """The value with that number, from a recomputation."""
        with _turn:
            if number not in self.held:
                self._recompute()
            # Under retain_graph a value may be asked for again; it is computed again then.
            return self.held.pop(number)

    def _recompute(self) -> None:
        saved: list[Tensor] = []

        def keep(tensor: Tensor) -> Tensor:
            saved.append(tensor)
            return tensor

        before = default_generator.get_state()
        token = _recomputing.set(True)
        try:
            if self.random is not None:
                default_generator.set_state(self.random)
            hooks = (*state().saved_hooks, (keep, lambda t: t))
            with changed(**self.modes):
                args, kwargs = map_leaves(self._restored, self.arguments)
            with changed(**self.modes, saved_hooks=hooks, region=next(_regions)):
                self.function(*args, **kwargs)
        finally:
            _recomputing.reset(token)
            if self.random is not None:
                default_generator.set_state(before)
        if self.check:
            self._compare(saved)
        self.held = dict(enumerate(saved))

    def _restored(self, x: Any) -> Any:
        return x.get(self) if isinstance(x, Saved) else x

    def _compare(self, saved: Sequence[Tensor]) -> None:
        if len(saved) != len(self.seen):
            raise GradientError(
                f"checkpoint: the recomputation saved {len(saved)} values, the first run "
                f"{len(self.seen)}. The function must do the same each time."
            )
        for i, (spec, tensor) in enumerate(zip(self.seen, saved)):
            if tensor.spec != spec:
                raise GradientError(
                    f"checkpoint: saved value {i} was {spec} in the first run and is "
                    f"{describe(tensor)} in the recomputation. The function must do the same "
                    f"each time."
                )


def _saved(x: Any) -> Any:
    return keep(x, x.edge) if isinstance(x, Tensor) else x


@public
def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    preserve_rng_state: bool = True,
    determinism_check: str = "default",
    **kwargs: Any,
) -> Any:
    """Run `function(*args, **kwargs)` without keeping what its backward needs.

    >>> import contraflow as cf
    >>> x = cf.ones(3, requires_grad=True)
    >>> cf.checkpoint(lambda v: (v * 2.0).exp().sum(), x).backward()
    >>> x.grad
    tensor([14.7781, 14.7781, 14.7781])
    """
    if not callable(function):
        raise TypeError(f"checkpoint: expected a function, not {describe(function)}.")
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"checkpoint: determinism_check is {determinism_check!r}; it must be 'default' or "
            f"'none'."
        )
    if not state().grad:
        return function(*args, **kwargs)
    block = _Block(function, args, kwargs, preserve_rng_state, determinism_check == "default")
    with changed(saved_hooks=(*state().saved_hooks, (block.pack, block.unpack))):
        return function(*args, **kwargs)


@public
def checkpoint_sequential(functions: Sequence[Callable[..., Any]], segments: int, x: Any) -> Any:
    """Apply functions one after the other, in `segments` checkpointed groups."""
    functions = list(functions)
    if not 1 <= segments <= len(functions):
        raise ValueError(
            f"checkpoint_sequential: segments is {segments}; it must be 1 to {len(functions)}."
        )
    bounds = [len(functions) * i // segments for i in range(segments + 1)]
    for start, stop in itertools.pairwise(bounds):

        def run(
            value: Any, part: Sequence[Callable[..., Any]] = tuple(functions[start:stop])
        ) -> Any:
            for function in part:
                value = function(value)
            return value

        x = checkpoint(run, x)
    return x
