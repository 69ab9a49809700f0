"""Applying an op, eagerly or recorded: views, composites, and the node in the graph.

Computing a result is left to `execute`: `eager.py` runs it, `record.py` writes it down, so that
a recording has eager's meaning by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from contraflow import devices, thresholds
from contraflow.dtypes import DType, float32
from contraflow.errors import (
    DIM_LIMIT,
    PYTORCHS_TENSOR,
    TOO_MANY_DIMS,
    DeviceError,
    is_pytorchs,
)
from contraflow.graph.op_node import OpNode, kept_by
from contraflow.graph.recompute import recomputation
from contraflow.operation import core
from contraflow.operation.context import (
    Context,
    ThreadState,
    changed,
    device_of,
    mixed,
    other_devices,
    state,
)
from contraflow.operation.op import Op
from contraflow.shapes import View
from contraflow.spec import Given, Params, Spec
from contraflow.tensors.node import Form
from contraflow.tensors.source_line import arguments_of, user_call, user_line
from contraflow.tensors.tensor import Tensor


class OpContext(Context):
    """Apply an op: views and composites here, everything else by `execute`, then the graph."""

    def apply(self, op: Op, inputs: tuple[Any, ...], params: Params) -> Any:
        there = None  # the device, if it is another than that of new tensors
        if not op.direct or other_devices:
            if op.is_view:
                return self._view(op, inputs, params)
            if not op.by_parts:
                result = self.at_once(op, inputs, params)
                if result is not None:
                    return result
            if other_devices:
                device, inputs = on_one_device(op, inputs)
                if device != devices.current():
                    there = device
            if op.is_composite or (op.own_kernel and not has_kernel(op, there)):
                return self._composite(op, inputs, params, there)
        if there is None:
            outs = self.execute(op, inputs, params)
        else:
            outs = self.execute_there(op, inputs, params, there)
        current = state()
        if current.grad:
            if op.rules:
                for x in inputs:  # a view may need gradients since its base was written
                    if isinstance(x, Tensor) and (x._needs or x._base is not None):
                        self._attach(current, op, inputs, params, outs)
                        break
        elif current.inference:
            for out in outs:
                out.storage.inference = True
        return outs[0] if op.results is None else op.pack(outs)

    def execute(self, op: Op, inputs: tuple[Any, ...], params: Params) -> tuple[Tensor, ...]:
        """Compute the results of an op that is neither a view nor a composite."""
        raise NotImplementedError

    def execute_there(
        self, op: Op, inputs: tuple[Any, ...], params: Params, device: str
    ) -> tuple[Tensor, ...]:
        """The same on another device than that of new tensors."""
        with changed(device=device):
            return self.execute(op, inputs, params)

    def at_once(self, op: Op, inputs: tuple[Any, ...], params: Params) -> Any:
        """The result of an op that was applied to inputs like these before, with its node; None
        where it has to be applied as ever."""
        return None

    def fused(
        self, op: Op, inputs: tuple[Any, ...], params: Params, as_node: bool
    ) -> tuple[Tensor, ...] | None:
        """The results of a composite as one program, None where that is not worth it.

        `as_node` if they will be those of one node, though it has no gradient rules.
        """
        return None

    def for_parts(self, device: str | None) -> changed:
        """The state in which the parts of a composite run that is one node, on a device."""
        return changed(grad=False, device=device)

    def snapshot(self, tensor: Tensor) -> Tensor:
        """A copy."""
        return core.clone(tensor)  # type: ignore[no-any-return]

    def recomputed_form(
        self, op: Op, params: Params, made: tuple[Spec, ...] | None, described: Sequence[Any],
        device: str,
    ) -> Form:  # fmt: skip
        """The form of a node of a composite without rules, which here keeps all inputs."""
        return form_of(op, tuple(range(len(described) // 3)), made, *described)

    def placed(self, base: Tensor, value: Tensor, region: View) -> Tensor:
        """The elements are written already: only the node of the assignment is made."""
        t = base.alias()
        self._attach(state(), core.assign, (base, value), region._asdict(), (t,))
        return t

    def _view(self, op: Op, inputs: tuple[Any, ...], params: Params) -> Tensor:
        x = inputs[0]
        if not isinstance(x, Tensor):
            raise TypeError(f"{op.name}: expected a tensor, not {type(x).__name__}.")
        seen = op.body(x.layout, **params)
        if len(seen.shape) > DIM_LIMIT:
            raise ValueError(f"{op.name}: {TOO_MANY_DIMS}")
        t = Tensor.of_storage(x.storage, seen, x.dtype)
        current = state()
        grad = current.grad
        base = x._base
        if base is None:
            base, t._view_ops = x, ((op, params),)
        else:
            t._view_ops = (*x.view_ops, (op, params))
            if base._edits != x._edits and grad:
                x._rebuild(base)
        t._base, t._edits = base, base._edits
        # A view of a view that may not be written to may not either.
        t._writable = (grad or not base._needs) and x._writable and not op.several
        if grad and x._needs:
            self._attach(current, op, inputs, params, (t,))
        return t

    def _composite(self, op: Op, inputs: tuple[Any, ...], params: Params, there: str | None) -> Any:
        current = state()
        if not op.by_parts and not current.anomaly:  # there its parts are watched
            needs = current.grad and _some_need(inputs)
            outs = self.fused(op, inputs, params, needs and not op.rules)
            if outs is None and needs and op.rules:
                with self.for_parts(there or current.device):
                    made = op.body(*inputs, **params)
                outs = made if isinstance(made, tuple) else (made,)
            if outs is not None:
                if needs:
                    outs = owned(outs, inputs)
                    self._attach(current, op, inputs, params, outs)
                elif current.inference:
                    for out in outs:
                        if not any(out is x for x in inputs):
                            out.storage.inference = True
                return outs[0] if op.results is None else op.pack(outs)
        if there is None:
            found = op.body(*inputs, **params)
        else:
            with changed(device=there):
                found = op.body(*inputs, **params)
        return op.pack(found) if op.residuals or op.results else found

    def _attach(
        self,
        current: ThreadState,
        op: Op,
        inputs: tuple[Any, ...],
        params: Params,
        outs: tuple[Tensor, ...],
    ) -> Form | None:
        """Make `outs` the outputs of a node, if some input needs gradients; the form of it."""
        targets: list[Any] = []
        described: list[Any] = []
        needed = far = False
        for x in inputs:
            if not isinstance(x, Tensor):
                targets.append(None)
                described += _NO_TENSOR
                continue
            base = x._base
            if base is not None and base._edits != x._edits:
                x._rebuild(base)
            if x._needs:
                needed = True
                index = x._index
                if index > thresholds.formed_outputs:
                    far = True
                targets.append(x._node or x)
                described += (x.layout.shape, x.dtype, index)
            else:
                targets.append(None)
                described += (x.layout.shape, x.dtype, None)
        if not needed:
            return None
        made = None if op.infers else tuple([out.spec for out in outs[: op.output_count]])
        if op.rules:
            indices = described[2::3] if far else []
            if far:  # outputs far behind share the form of output 0: only the index differs
                described[2::3] = [None if index is None else 0 for index in indices]
            form = form_of(op, None, made, *described)
            if far:
                form = form.of_outputs(tuple([index or 0 for index in indices]))
        else:
            device = outs[0].storage.device
            form = self.recomputed_form(op, params, made, described, device)
        connect(current, form, params, tuple(targets), inputs, outs)
        return form


def connect(
    current: ThreadState, form: Form, params: Params, targets: tuple[Any, ...],
    inputs: tuple[Any, ...], outs: tuple[Tensor, ...],
) -> None:  # fmt: skip
    """Make `outs` the outputs of a new node of a form."""
    call = current.line or user_call(_LIBRARY_FRAMES)
    kept = kept_by(form, targets, inputs + outs, current.saved_hooks) if form.saved else ()
    node = OpNode.of(form, params, targets, call, kept)
    assert form.op is not None
    if not form.op.rules:
        for i in form.saved:
            if isinstance(inputs[i], Tensor):
                inputs[i].storage.lend(node)
    if len(outs) == 1:
        (out,) = outs
        if out.dtype.is_floating_point:
            out._node, out._index, out._needs = node, 0, True
        return
    for i, out in enumerate(outs[: form.output_count]):
        if out.dtype.is_floating_point:
            out._node, out._index, out._needs = node, i, True


def outside_graph(given: Sequence[Tensor], dtype: DType | None = None) -> list[Any] | None:
    """The arrays of tensors whose results NumPy may make at once, since nothing listens and no
    graph, mode or other device has to know of them; None where there is more to do, and where one
    has another dtype than the one that is given, if one is."""
    current = state()
    if not current.context.immediate or current.inference or current.anomaly or other_devices:
        return None
    if current.autocast is not None:
        return None
    grad, arrays = current.grad, []
    for x in given:
        if grad and (x._needs or x._base is not None):  # a view may need gradients by now
            return None
        array = x._array
        if array is None:
            if x.storage._data is None:  # it is recorded, or was freed
                return None
            array = x.array
        if dtype is not None and x.dtype is not dtype:
            return None
        arrays.append(array)
    return arrays


def owned(outs: tuple[Tensor, ...], inputs: Sequence[Any]) -> tuple[Tensor, ...]:
    """The same tensors, with others in place of those that are inputs or views of inputs, as a
    composite may return them: the node must have its own outputs."""
    for i, out in enumerate(outs):
        shared = out._base is not None
        for x in inputs:
            if x is out:
                shared = True
        if shared:
            outs = (*outs[:i], out.alias(), *outs[i + 1 :])
    return outs


def _some_need(inputs: Sequence[Any]) -> bool:
    """Whether gradients flow to some input. Views whose bases were written are updated first."""
    found = False
    for x in inputs:
        if isinstance(x, Tensor):
            base = x._base
            if base is not None and base._edits != x._edits:
                x._rebuild(base)
            if x._needs:
                found = True
    return found


def has_kernel(op: Op, there: str | None) -> bool:
    """Whether a device has a kernel for an op that has parts as well."""
    return op.own_kernel in devices.lookup(there or devices.current()).limits.kernels


def on_one_device(op: Op, inputs: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The device that the tensors among inputs lie on, and the inputs there.

    Tensors without dims that lie on the cpu pass, as in PyTorch, and their gradients return there.
    An op without tensors makes some on the device of new ones, and so does one that creates a
    tensor out of numbers of the host.
    """
    first, mixed = None, False
    for x in inputs:
        if isinstance(x, Tensor):
            found = x.storage.device
            if first is None:
                first = found
            elif found != first:
                mixed = True
    if op.is_create and first == "cpu" and not mixed:
        device = devices.current()
    elif not mixed:
        return first or devices.current(), inputs
    else:
        shaped = (x for x in inputs if isinstance(x, Tensor) and x.layout.shape)
        device = device_of(shaped) or device_of(inputs) or "cpu"
    moved = []
    for x in inputs:
        if isinstance(x, Tensor) and x.storage.device != device:
            if x.layout.shape or x.storage.device != "cpu":
                raise _mixed_inputs(op, inputs)
            if x._needs or not x.storage.is_recorded:  # numbers of a recording pass as they are
                lacks = other_devices[device].limits.lacks if device != "cpu" else ()
                # Beside tensors with dims its own size of float does not count.
                x = x.to(device=device, dtype=float32 if x.dtype.name in lacks else None)
        moved.append(x)
    return device, tuple(moved)


def _mixed_inputs(op: Op, inputs: tuple[Any, ...]) -> DeviceError:
    """The error for tensors of several devices."""
    numbered = [f"input {i}" for i in range(len(inputs))]
    names = op.inputs if len(op.inputs) == len(inputs) else numbered
    line = state().line or user_line()
    pair = _apart(list(zip(names, inputs)))
    assert pair is not None
    if line is not None and line.op not in (None, op.name):
        # A part of what the user called, whose inputs have other names.
        given = _apart(list(arguments_of(str(line.called)).items()))
        pair = given or dict(zip(("one tensor", "another tensor"), pair.values()))
    return mixed(op.name, pair)


def _apart(named: Sequence[tuple[str, Any]]) -> dict[str, Tensor] | None:
    """The first two tensors of different devices that do not pass, by name; None without any."""
    tensors = [
        (name, x)
        for name, x in named
        if isinstance(x, Tensor) and (x.shape or x.storage.device != "cpu")
    ]
    for name, x in tensors[1:]:
        if x.storage.device != tensors[0][1].storage.device:
            return dict((tensors[0], (name, x)))
    return None


# Frames from `user_call` to the user's on the shortest way: `user_call`, `connect`, `_attach` or
# `at_once`, `apply`, and an operator of the tensor or `context.apply`.
_LIBRARY_FRAMES = 5
_NO_TENSOR = (None, None, None)


@lru_cache(maxsize=8192)
def form_of(
    op: Op, saved: tuple[int, ...] | None, made: tuple[Spec, ...] | None, *described: Any
) -> Form:
    """The form that nodes of an op share, by three entries per input: its shape and dtype, None for
    a number, and which output of its target it is, None where no gradient is needed.

    `saved` are the inputs that a composite without rules keeps, `made` the outputs of an op that
    cannot infer them.
    """
    shapes, types, indices = described[::3], described[1::3], described[2::3]
    needs = tuple(index is not None for index in indices)
    given = tuple(
        None if dtype is None else Spec(shape, dtype) for shape, dtype in zip(shapes, types)
    )
    backward = op.backward(needs) if saved is None else recomputation(needs, saved)
    outputs = tuple(index or 0 for index in indices)
    moves = op.distinct or op.is_assign
    return Form(given, outputs, op.output_count, op, backward, moves, made)


thresholds.on_change(form_of.cache_clear)


def specs_of(op: Op, inputs: Sequence[Any]) -> list[Given]:
    """Shapes and dtypes of an op's inputs, or the error for an input that is not a tensor."""
    given: list[Given] = []
    for x in inputs:
        if isinstance(x, Tensor):
            given.append(Spec(x.layout.shape, x.dtype))
        elif isinstance(x, (bool, int, float)):
            if isinstance(x, int) and not -(1 << 63) <= x < 1 << 63:
                raise ValueError(f"{op.name}: {x} does not fit int64.")
            given.append(x)
        elif is_pytorchs(x):
            raise TypeError(f"{op.name}: {PYTORCHS_TENSOR}")
        else:
            raise TypeError(
                f"{op.name}: expected a tensor or a number, not {type(x).__name__}. "
                f"Make it one: contraflow.tensor(x)."
            )
    return given
