"""Checkpointing: values saved in a block are dropped, and recomputed when backward needs them.

The block runs once as usual, but each value it saves is replaced by its number. When backward
asks for the first of them the block runs again, with the same random state, and its saved values
are kept in the order of their numbers. Nodes are those of the first run, so hooks, keyword
arguments, nesting and any structure of outputs work as without a checkpoint.

The tensors among the arguments are themselves saved values: one that was overwritten before the
second run is an error, and those of a checkpoint inside another are dropped and computed again
like everything else in there. Tensors that the block takes from outside in any other way (weights,
buffers, closures, globals) are noted with their versions by a context that listens to both runs,
`_Listener`, and the same error follows. It also notes every generator that is drawn from, and every
write to tensors from outside: the second run starts from what the first found, and is undone.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

from contraflow import threads
from contraflow.errors import GradientError, describe
from contraflow.graph.saved import Saved, keep, overwritten
from contraflow.operation.context import Context, changed, state
from contraflow.operation.op import Op
from contraflow.operation.public import public
from contraflow.ops.elementwise.basic import clone
from contraflow.spec import Params, Spec
from contraflow.tensors.generator import Generator
from contraflow.tensors.source_line import UserLine, at, user_line
from contraflow.tensors.storage import Storage, serials
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import leaves_of, map_leaves

_regions = itertools.count(1)
_recomputing: ContextVar[bool] = ContextVar("contraflow_recomputing", default=False)
# A recomputation sets the random state, so workers of a parallel backward take turns.
_turn = threads.recursive_lock()


def is_recomputing() -> bool:
    """Whether a checkpointed function is running for the second time.

    Its effects on tensors are undone then. Its effects on Python objects are not: ask here before a
    list is appended to, a counter raised or a line printed.

    >>> import contraflow as cf
    >>> calls = []
    >>> def block(v):
    ...     if not cf.is_recomputing():
    ...         calls.append("block")
    ...     return v.sin()
    >>> x = cf.ones(2, requires_grad=True)
    >>> cf.checkpoint(block, x).sum().backward()
    >>> calls
    ['block']
    """
    return _recomputing.get()


class _OutsideTensor(NamedTuple):
    """A tensor from outside that was read: its memory, which it does not keep alive."""

    storage: weakref.ref[Storage]
    version: int
    spec: Spec


class _Before(NamedTuple):
    """A region from outside that was written to, its elements before, and the write before that."""

    region: Tensor
    elements: Tensor
    version: int
    writer: tuple[str, UserLine | None] | None


class _Listener(Context):
    """Notes the tensors and generators from before a run that it reads, writes or draws from."""

    def __init__(self, below: Context, arguments: Iterable[Any]) -> None:
        super().__init__(below)
        self.replays = below.replays  # but no hits: `replay` must tell what a program reads
        self.arguments = {x.storage.serial for x in arguments if isinstance(x, Tensor)}
        self.start = next(serials)
        self.end: int | None = None  # from when on it listens no more
        # Storages by their serials, since they need not live on.
        self.reads: dict[int, _OutsideTensor] = {}
        self.writes: dict[Any, _Before] = {}
        self.written: set[int] = set()
        self.places: list[tuple[weakref.ref[Tensor], tuple[Any, ...]]] = []
        self.grads: dict[int, tuple[weakref.ref[Tensor], Tensor | None]] = {}  # by ids of tensors
        self.random: dict[Generator, tuple[int, int]] = {}  # states before the first draw

    def close(self) -> None:
        """Stop listening: a checkpoint within this one may keep the context."""
        self.end = next(serials)

    def _is_outside(self, storage: Storage) -> bool:
        return storage.serial < self.start and self.end is None

    def _reads(self, tensors: Iterable[Any]) -> None:
        if self.end is not None:
            return
        start, reads, arguments = self.start, self.reads, self.arguments
        for t in tensors:
            if isinstance(t, Tensor):
                storage = t.storage
                serial = storage.serial
                if serial < start and serial not in reads and serial not in arguments:
                    reads[serial] = _OutsideTensor(weakref.ref(storage), storage.version, t.spec)

    def _writes(self, t: Tensor) -> None:
        """Keep what a tensor from outside holds, where it is about to be written to."""
        storage = t.storage
        key = storage.serial, t.layout, t.dtype
        if self._is_outside(storage) and key not in self.writes:
            region = t.alias()
            with changed(context=self.below, grad=False):
                elements = self.below.snapshot(region)
            self.writes[key] = _Before(region, elements, storage.version, storage.writer)
            self.written.add(storage.serial)

    def _draws(self, generator: Generator) -> None:
        if self.end is None and generator not in self.random:
            self.below.read_generator(generator)
            self.random[generator] = generator.seed, generator.offset

    # --- before and after a second run ----------------------------------------------------

    def rewind(self, first: _Listener, random: bool) -> None:
        """Restore tensors and generators to their states before the first run."""
        for generator, seed_and_offset in first.random.items():
            if random:
                generator.set_state(seed_and_offset)
        for before in reversed(first.writes.values()):
            self.write(before.region, before.elements, *(before.writer or ("checkpoint", None)))
        for ref, fields in first.places:
            t = ref()
            if t is not None:
                self._note_place(t)
                t._node, t._index, t._needs, t._edits = fields
        _set_grads(first.grads.values())

    def undo(self, random: bool) -> None:
        """Stop listening, and undo all writes and draws since the start."""
        self.close()
        for generator, seed_and_offset in self.random.items():
            if random:
                generator.set_state(seed_and_offset)
        with changed(grad=False):
            for region, elements, version, writer in reversed(self.writes.values()):
                self.below.write(region, elements, *(writer or ("checkpoint", None)))
                region.storage.version, region.storage.writer = version, writer
        for ref, fields in reversed(self.places):
            t = ref()
            if t is not None:
                t._node, t._index, t._needs, t._edits = fields
        _set_grads(self.grads.values())

    def _note_place(self, t: Tensor) -> None:
        """Note the place in the graph of a tensor that is about to be given another one."""
        if self._is_outside(t.storage):
            self.places.append((weakref.ref(t), (t._node, t._index, t._needs, t._edits)))

    # --- what a context hears of ----------------------------------------------------------

    def apply(self, op: Op, inputs: tuple[Any, ...], params: Params) -> Any:
        self._reads(inputs)
        return self.below.apply(op, inputs, params)

    def leave(self, tensor: Tensor, what: str) -> None:
        self._reads((tensor,))
        self.below.leave(tensor, what)

    def copied(self, tensor: Tensor) -> Storage:
        self._reads((tensor,))
        storage: Storage = super().copied(tensor)
        return storage

    def write(self, target: Tensor, value: Tensor, op: str, line: Any) -> None:
        self._writes(target)
        self._note_place(target)
        if target._base is not None:
            self._note_place(target._base)
        self.below.write(target, value, op, line)

    def touch_grad(self, tensor: Tensor, reading: bool) -> None:
        if self._is_outside(tensor.storage) and id(tensor) not in self.grads:
            self.grads[id(tensor)] = weakref.ref(tensor), None
            self.grads[id(tensor)] = weakref.ref(tensor), tensor.grad  # which comes here again
        self.below.touch_grad(tensor, reading)

    def draw(self, generator: Generator, blocks: int) -> tuple[Any, Any]:
        self._draws(generator)
        return self.below.draw(generator, blocks)

    def read_generator(self, generator: Generator) -> None:
        self._draws(generator)
        self.below.read_generator(generator)

    def write_generator(self, generator: Generator, saved: tuple[int, int]) -> None:
        self._draws(generator)
        self.below.write_generator(generator, saved)

    def replay(
        self, read: Iterable[Tensor], written: Iterable[Tensor], random: Iterable[Generator]
    ) -> None:
        self._reads(read)
        for t in written:
            self._writes(t)
        for generator in random:
            self._draws(generator)
        self.below.replay(read, written, random)


def _set_grads(grads: Iterable[tuple[weakref.ref[Tensor], Tensor | None]]) -> None:
    for ref, g in grads:
        t = ref()
        if t is not None and t.grad is not g:
            t.grad = g


class _CheckpointedCall:
    """One checkpointed call: what it needs to run again, and what it saved."""

    name = "checkpoint"

    def __init__(
        self, function: Callable[..., Any], args: Any, kwargs: Any, preserve: bool, check: bool
    ) -> None:
        current = state()
        self.function, self.line = function, current.line or user_line()
        # Forward mode, anomaly mode and autocast save other values, so they are on again then.
        self.context = current.context
        self.modes = {"grad": True, "anomaly": current.anomaly, "autocast": current.autocast}
        self.arguments = map_leaves(_saved, (args, kwargs))
        self.preserve, self.check = preserve, check
        self.first = _Listener(self.context, leaves_of((args, kwargs)))
        self.seen: list[Any] = []  # spec of each value, in the order of saving
        # Values of the recomputation not yet asked for, and the versions they had.
        self.held: dict[int, tuple[Tensor, int]] = {}

    def run(self, args: Any, kwargs: Any) -> Any:
        """The result, by the first run."""
        hooks = (*state().saved_hooks, (self.pack, self.unpack))
        try:
            with changed(context=self.first, saved_hooks=hooks):
                return self.function(*args, **kwargs)
        finally:
            self.first.close()

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
            tensor, version = self.held.pop(number)
        if tensor.storage.version != version:
            raise overwritten(self, tensor.spec, version, tensor.storage)
        return tensor

    def _recompute(self) -> None:
        first = self.first
        for serial, read in first.reads.items():
            storage = read.storage()
            known = storage is None or storage.version == read.version or serial in first.written
            if storage is not None and not known:
                raise overwritten(self, read.spec, read.version, storage)
        with changed(context=self.context, **self.modes):
            args, kwargs = map_leaves(self._restored, self.arguments)
        second = _Listener(self.context, leaves_of((args, kwargs)))
        saved: list[tuple[Tensor, int]] = []

        def keep(tensor: Tensor) -> Tensor:
            if tensor.storage.serial in first.written:  # which is undone
                tensor = clone(tensor)
            saved.append((tensor, tensor.storage.version))
            return tensor

        hooks = (*state().saved_hooks, (keep, lambda t: t))
        recomputing = _recomputing.get()
        try:
            _recomputing.set(True)
            with changed(context=second, saved_hooks=hooks, region=next(_regions), **self.modes):
                second.rewind(first, self.preserve)
                self.function(*args, **kwargs)
        finally:
            try:
                second.undo(self.preserve)
            except KeyboardInterrupt:  # it must be done all the same
                second.undo(self.preserve)
                raise
            finally:
                _recomputing.set(recomputing)
        if self.check:
            self._compare(saved)
            self._compare_reads(second)
        self.held = dict(enumerate(saved))

    def _restored(self, x: Any) -> Any:
        if not isinstance(x, Saved):
            return x
        storage = getattr(x, "storage", None)  # of one that a hook has packed there is none
        if storage is not None and storage.serial in self.first.written:
            # The function writes to it itself, and will find it rewound.
            x.version = storage.version
        return x.get(self)

    def _compare(self, saved: Sequence[tuple[Tensor, int]]) -> None:
        # The function may run backward inside, while its first run is not over.
        running = self.first.end is None
        if len(saved) < len(self.seen) or (len(saved) > len(self.seen) and not running):
            raise GradientError(
                f"checkpoint: the recomputation saved {len(saved)} values, the first run "
                f"{len(self.seen)}. The function must do the same each time."
            )
        for i, (spec, (tensor, _)) in enumerate(zip(self.seen, saved)):
            if tensor.spec != spec:
                raise GradientError(
                    f"checkpoint: saved value {i} was {spec} in the first run and is "
                    f"{describe(tensor)} in the recomputation. The function must do the same "
                    f"each time."
                )

    def _compare_reads(self, second: _Listener) -> None:
        """Refuse another tensor in place of one that the function captured."""
        first = self.first
        if first.end is None:
            return
        for serial, read in second.reads.items():
            # A tensor that the first run made may have been kept by the function.
            known = serial in first.reads or serial in first.arguments
            if not known and not first.start < serial < first.end:
                raise GradientError(
                    f"checkpoint: the recomputation reads {read.spec}, which the first run"
                    f"{at(self.line)} did not. A tensor that the function takes from outside must "
                    f"stay the same until backward; pass it as an argument. Where another one has "
                    f"the same elements, determinism_check='none' accepts it."
                )


def _saved(x: Any) -> Any:
    return keep(x, x.edge) if isinstance(x, Tensor) else x


@public
def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    determinism_check: str = "default",
    debug: bool = False,
    **kwargs: Any,
) -> Any:
    """Run `function(*args, **kwargs)` without keeping what its backward needs.

    `use_reentrant` and `debug` have no effect: there is one way, the one that is not reentrant.

    Backward runs the function again, with the random numbers of the first run. Tensors that it
    takes from outside, as arguments or in any other way, must not be overwritten or replaced until
    then; that is an error. Its own writes to such tensors (batch statistics) happen once: the
    second run starts from what the first found, and is undone. `is_recomputing` tells a function
    that it runs again, for its effects on Python objects. `determinism_check="none"` accepts a
    second run that saves other values or reads other tensors than the first.

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
    block = _CheckpointedCall(
        function, args, kwargs, preserve_rng_state, determinism_check == "default"
    )
    return block.run(args, kwargs)


@public
def checkpoint_sequential(
    functions: Sequence[Callable[..., Any]],
    segments: int,
    x: Any,
    use_reentrant: bool | None = None,
    *,
    preserve_rng_state: bool = True,
) -> Any:
    """Apply functions one after the other, in `segments` checkpointed groups.

    More segments than functions are one for each function; without functions `x` is the result.

    >>> import contraflow as cf
    >>> x = cf.ones(2, requires_grad=True)
    >>> cf.checkpoint_sequential([cf.sin, cf.exp, cf.tanh], 2, x).sum().backward()
    >>> cf.checkpoint_sequential([], 2, x) is x
    True
    """
    functions = list(functions)
    if isinstance(segments, bool) or not isinstance(segments, int) or segments < 1:
        raise ValueError(
            f"checkpoint_sequential: segments is {segments!r}; it must be a positive whole number."
        )
    segments = min(segments, len(functions))
    for i in range(segments):
        first, last = len(functions) * i // segments, len(functions) * (i + 1) // segments
        x = checkpoint(_Chain(functions[first:last]), x, preserve_rng_state=preserve_rng_state)
    return x


class _Chain:
    """Functions applied one after the other."""

    def __init__(self, functions: Sequence[Callable[..., Any]]) -> None:
        self.functions = functions

    def __call__(self, x: Any) -> Any:
        for function in self.functions:
            x = function(x)
        return x
