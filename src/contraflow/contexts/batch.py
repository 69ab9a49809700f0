"""Batching, for `vmap`: a context in which one tensor stands for all examples of a batch.

A tensor made here has the shape of one example and a storage without data; the context maps the
storage to a *full* tensor, whose leading dim is the batch, in the context below. Views, composites
and the graph are `OpContext`'s, so a function under `vmap` may itself differentiate. How an op acts
on full tensors follows from its kind; where it does not, the examples are taken one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contraflow.contexts.applying import OpContext
from contraflow.errors import GradientError, describe
from contraflow.operation import core
from contraflow.operation.context import apply, changed, state
from contraflow.operation.kinds import Contracting
from contraflow.operation.op import Op
from contraflow.shapes import LETTERS, contiguous, numel
from contraflow.spec import Params, Spec
from contraflow.tensors.node import sequence_numbers
from contraflow.tensors.storage import Storage, serials
from contraflow.tensors.tensor import Tensor

RANDOMNESS = ("error", "same", "different")

Operands = Sequence[tuple[Any, bool]]  # an input in the context below, and whether it is full


class Batch(OpContext):
    """Runs ops on a whole batch at once."""

    def __init__(self, size: int, randomness: str) -> None:
        current = state()
        super().__init__(current.context)
        self.size, self.randomness = size, randomness
        # Gradients from outside do not depend on what a function inside does to its own graph.
        self._outside = current.grad
        self._start, self._first = next(serials), next(sequence_numbers)
        self._values: dict[int, tuple[Tensor, bool]] = {}  # by id of the storage
        self._held: dict[int, Storage] = {}  # keeps those ids meaningful
        # Storages of tensors whose full ones are taken out of the graph outside, and whose memory
        # they share.
        self._detached: dict[int, Storage] = {}
        # Tensors over memory from outside that may become leaves here, and are none outside.
        self._shared_leaves: dict[int, Tensor] = {}

    # --- in and out -----------------------------------------------------------------------

    def wrap(self, value: Tensor, is_full: bool = True) -> Tensor:
        """A tensor of this context: one example of a full tensor, or what all examples share."""
        shape = value.shape[1:] if is_full else value.shape
        if not is_full and not value.requires_grad and not value._tangents:
            return value.alias()
        storage = Storage(None, value.storage.device)
        self._keep(storage, value, is_full)
        return Tensor.of_storage(storage, contiguous(shape), value.dtype)

    def _keep(self, storage: Storage, value: Tensor, is_full: bool) -> None:
        with self.down():
            value = core.contiguous(value)
        self._values[id(storage)], self._held[id(storage)] = (value, is_full), storage

    def read(self, x: Any) -> tuple[Any, bool]:
        """The full tensor that `x` stands for, or `x` itself if all examples share it."""
        if not isinstance(x, Tensor):
            return x, False
        found = self._found(x.storage)
        if found is None:
            return self._shared(x), False
        value, is_full = found
        if x.layout == contiguous(value.shape[is_full:]):
            return found
        with self.down():
            params = self._region(x, value, is_full)
            if not x.layout.overlaps_itself():
                return apply(core.strided, (value,), params), is_full
            size, stride, offset = params.values()
            several = {"size": size, "stride": stride, "offset": offset}
            return apply(core.as_strided, (value,), several), is_full

    def _found(self, storage: Storage) -> tuple[Tensor, bool] | None:
        """The tensor that a storage of this context stands for, and whether it is full."""
        origin = self._detached.get(id(storage))
        if origin is None:
            return self._values.get(id(storage))
        value, is_full = self._values[id(origin)]
        with self.down():
            return value.detach(), is_full

    def full(self, x: Tensor) -> Tensor:
        """The values of all examples, the batch in front."""
        value, is_full = self.read(x)
        repeated: Tensor = value if is_full else core.expand(value, (self.size, *value.shape))
        return repeated

    def _shared(self, x: Tensor) -> Tensor:
        """A tensor with data of its own, without the place it may have in this context's graph."""
        node = x._node
        if node is not None and node.sequence_nr < self._first:  # made by those outside
            return x.attached(node, x._index)
        if x.storage.serial > self._start:
            return x.alias()
        whole, view_ops = (x, ()) if x._base is None else (x._base, x.view_ops)
        with self.down():
            view = whole.detach() if id(whole) in self._shared_leaves else whole
            for op, params in view_ops:
                view = apply(op, (view,), params)
        return view

    def _region(self, x: Tensor, value: Tensor, is_full: bool) -> dict[str, Any]:
        """Where the elements of a view lie in the tensor that its storage stands for."""
        shape, strides, offset = x.layout
        if is_full:
            shape, strides = (self.size, *shape), (numel(value.shape[1:]), *strides)
        return {"shape": shape, "strides": strides, "offset": offset}

    def down(self) -> changed:
        """The context below, in the grad mode outside of `vmap` unless the user turns grad off."""
        return changed(context=self.below, grad=self._outside and not state().stopped)

    def _recorded(self) -> changed:
        """The context below, where the place of a tensor in its graph is to be kept."""
        return changed(context=self.below, grad=self._outside, stopped=False)

    # --- ops ------------------------------------------------------------------------------

    def execute(self, op: Op, inputs: tuple[Any, ...], params: Params) -> tuple[Tensor, ...]:
        given = [self.read(x) for x in inputs]
        with self.down():
            if not any(full for _, full in given):
                shared = _listed(op, apply(op, tuple(x for x, _ in given), params))
                return tuple(self.wrap(out, False) for out in shared)
            if op.dynamic:
                raise GradientError(
                    f"vmap: {op.name} has a result whose shape depends on values, which may differ "
                    f"from example to example."
                )
            specs = [x.spec if isinstance(x, Tensor) else x for x in inputs]
            expected = op.infer(specs, params)
            outs = self._apply(op, given, specs, params)
            # A number of each example is a tensor of the batch, and outranks more in promotion.
            outs = [
                out if out.dtype is spec.dtype else core.to_dtype(out, dtype=spec.dtype)
                for out, spec in zip(outs, expected)
            ]
        return tuple(map(self.wrap, outs))

    def _apply(
        self, op: Op, given: Operands, specs: Sequence[Any], params: Params
    ) -> Sequence[Tensor]:
        ranks = [len(spec.shape) if isinstance(spec, Spec) else 0 for spec in specs]
        if op.is_elementwise:
            aligned = tuple(_aligned(x, full, max(ranks)) for x, full in given)
            return _listed(op, apply(op, aligned, params))
        if op.is_reduction and ranks[0]:
            ((x, _),) = given
            dims = tuple(d + 1 for d in params["dim"]) or tuple(range(1, ranks[0] + 1))
            return _listed(op, apply(op, (x,), {**params, "dim": dims}))
        if op.is_contraction:
            assert isinstance(op.kind, Contracting)
            return [_contracted(op.kind.labels(op, specs, params), given)]
        if op.is_assign:
            return [self._assigned(given, params)]
        if op.takes_points:
            return [self._taken(op, given, params)]
        # These go along one dim of all their inputs, whatever the others are.
        if op.along_dim and min(ranks) > 0:
            several = tuple(x if full else self._repeated(x) for x, full in given)
            return _listed(op, apply(op, several, {**params, "dim": params["dim"] + 1}))
        if op.leading:
            several = tuple(x if full else self._repeated(x) for x, full in given)
            return _listed(op, apply(op, several, params))
        return self._one_by_one(op, given, params)

    def _taken(self, op: Op, given: Operands, params: Params) -> Tensor:
        """Elements at coordinates [dims, points...]: those of the batch are one dim more."""
        (x, x_full), (at, at_full) = given
        dims = params["dims"]
        rest = x.ndim - x_full - len(dims)
        first_dim = dims[0] if dims == tuple(range(dims[0], dims[-1] + 1)) else 0
        if not x_full:  # the batch is the first dim of the points
            points = core.movedim(at, 0, 1)
            taken = apply(op, (x, points), params)
            shared: Tensor = core.movedim(taken, first_dim, 0)
            return shared
        if not at_full:
            at = core.expand(at, (self.size, *at.shape))
        points = core.movedim(at, 0, 1).long()
        number = core.arange(self.size).reshape(-1, *(1,) * (points.ndim - 2))
        first = core.expand(number, points.shape[1:])[None]
        spots = {**params, "dims": (0, *(d + 1 for d in dims))}
        taken = apply(op, (x, core.cat([first, points], 0)), spots)
        # Those of the batch and the points stand in front: [batch, points..., rest...].
        count = points.ndim - 2
        order = (0, *range(count + 1, count + 1 + first_dim), *range(1, count + 1),
                 *range(count + 1 + first_dim, count + 1 + rest))  # fmt: skip
        moved: Tensor = core.permute(taken, order)
        return moved

    def _assigned(self, given: Operands, params: Params) -> Tensor:
        base, value = (x if full else self._repeated(x) for x, full in given)
        step = numel(base.shape[1:])
        region = {
            "shape": (self.size, *params["shape"]),
            "strides": (step, *params["strides"]),
            "offset": params["offset"],
        }
        made: Tensor = apply(core.assign, (base, value), region)
        return made

    def _repeated(self, x: Tensor) -> Tensor:
        expanded = core.expand(x, (self.size, *x.shape))
        full: Tensor = core.contiguous(expanded)
        return full

    def _one_by_one(self, op: Op, given: Operands, params: Params) -> Sequence[Tensor]:
        each = []
        for i in range(self.size):
            inputs = tuple(core.select(x, 0, i) if full else x for x, full in given)
            each.append(_listed(op, apply(op, inputs, params)))
        return [core.stack(list(outs), 0) for outs in zip(*each)]

    # --- effects --------------------------------------------------------------------------

    def write(self, target: Tensor, value: Tensor, op: str, line: Any) -> None:
        storage = self._detached.get(id(target.storage), target.storage)
        new, is_full = self.read(value)
        found = self._values.get(id(storage))
        if found is None:
            if not is_full:
                with self.down():
                    self.below.write(target, new, op, line)
                return
            if storage.serial < self._start:
                raise GradientError(
                    f"vmap: {op} would write one value for each example into {describe(target)}, "
                    f"which all examples share. Make it in the function, or use the out-of-place "
                    f"form."
                )
            # Made in the function, it is from now on another one for each example.
            whole = target if target._base is None else target._base
            found = whole.alias(), False
        old, was_full = found
        with self._recorded():
            if is_full and not was_full:
                old = self._repeated(old)
        with self.down():
            if was_full and not is_full:
                new = self._repeated(new)
            full = is_full or was_full
            if target.layout != contiguous(old.shape[full:]):
                new = apply(core.assign, (old, new), self._region(target, old, full))
        is_detached = storage is not target.storage
        if is_detached or state().stopped:
            new = self._beneath(old, new, is_detached)
        self._keep(storage, new, full)
        storage.wrote(op, line)

    def _beneath(self, old: Tensor, new: Tensor, is_detached: bool) -> Tensor:
        """A tensor with new elements at the place of an old one in the graph outside, where their
        write is not recorded. `old` itself may be the user's. Tangents follow writes in no_grad."""
        with self._recorded():
            kept: Tensor = core.clone(old)
        with changed(context=self.below, grad=False):
            (kept.detach() if is_detached else kept).copy_(new)
        return kept

    def detached(self, tensor: Tensor, origin: Tensor) -> Tensor:
        if id(tensor.storage) not in self._values:
            shared: Tensor = self.below.detached(tensor, origin)
            self._shared_leaves[id(shared)] = shared
            return shared
        storage = Storage(None, tensor.storage.device)
        self._detached[id(storage)], self._held[id(storage)] = tensor.storage, storage
        return Tensor.of_storage(storage, tensor.layout, tensor.dtype)

    def enter_function(self, name: str, inputs: Sequence[Any]) -> None:
        values = [self.read(x)[0] for x in inputs]
        with self.down():
            outside, below = state().grad, self.below
            for x in values:
                if isinstance(x, Tensor) and ((outside and x.requires_grad) or below.watches(x)):
                    raise GradientError(
                        f"vmap: {name} has a backward of its own, which gradients from outside "
                        f"would miss. Differentiate inside, vmap(grad(f)), or call it on the whole "
                        f"batch."
                    )
            below.enter_function(name, values)

    def leave(self, tensor: Tensor, what: str) -> None:
        if id(tensor.storage) not in self._held:
            self.below.leave(tensor, what)
            return
        raise GradientError(
            f"vmap: {what} needs the value of {describe(tensor)}, which differs between "
            f"examples. Use contraflow.where, or move this out of the function."
        )

    def copied(self, tensor: Tensor) -> Storage:
        if id(tensor.storage) in self._held:
            self.leave(tensor, "deepcopy()")
        storage: Storage = super().copied(tensor)
        return storage

    def draw(self, generator: Any, blocks: int) -> tuple[Any, Any]:
        if self.randomness == "error":
            raise GradientError(
                "vmap: the function draws random numbers. Say randomness='same' for the same ones "
                "for all examples, or 'different'."
            )
        if self.randomness == "same":
            return self.below.draw(generator, blocks)
        with self.down():
            seed, offset = self.below.draw(generator, blocks * self.size)
            offsets = core.arange(0, self.size * blocks, blocks) + offset
        return seed, self.wrap(offsets)


def _listed(op: Op, outs: Any) -> list[Tensor]:
    return list(outs) if op.results is not None else [outs]


def _aligned(x: Any, full: bool, rank: int) -> Any:
    """A full operand whose examples have `rank` dims, so that batches stand over each other."""
    missing = rank - (x.ndim - 1) if full else 0
    return x if not missing else core.reshape(x, (x.shape[0], *(1,) * missing, *x.shape[1:]))


def _contracted(labels: tuple[str, str, str], given: Operands) -> Tensor:
    """A contraction with one more label, the batch's. Dims that only broadcast are dropped."""
    left, right, out = labels
    batch = next(c for c in LETTERS if c not in left + right + out)
    operands, named = [], []
    for (x, full), letters in zip(given, (left, right)):
        first = (batch,) if full else ()
        kept = [n for n, c in zip(x.shape, (*first, *letters)) if c != "_"]
        operands.append(core.reshape(x, tuple(kept)) if "_" in letters else x)
        named.append("".join(first) + letters.replace("_", ""))
    spec = f"{named[0]},{named[1]}->{batch}{out}"
    product: Tensor = apply(core.contract, tuple(operands), {"spec": spec})
    return product
