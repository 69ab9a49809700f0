"""Eager execution: run an op over NumPy where it is small, as generated code where it is not.

This context stands at the bottom of every thread's stack.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from contraflow import config, devices, dtypes, thresholds
from contraflow.contexts.applying import connect, form_of, has_kernel, owned, specs_of
from contraflow.contexts.bottom import BottomContext
from contraflow.devices.cpu import memory
from contraflow.dtypes import DType, float32, float64, get_default_dtype
from contraflow.errors import DIM_LIMIT, TOO_MANY_DIMS
from contraflow.graph.op_node import OpNode
from contraflow.operation.context import (
    device_of,
    other_devices,
    set_base_context,
    state,
)
from contraflow.operation.op import Op
from contraflow.operation.reference import Prepared, calm, prepare, quiet
from contraflow.runtime import eager_programs, recorded
from contraflow.runtime.array_cotangents import ArrayCotangents
from contraflow.runtime.eager_programs import EXACT
from contraflow.runtime.routine import Routine
from contraflow.shapes import numel
from contraflow.spec import Params, Spec
from contraflow.tensors.node import Form, fit
from contraflow.tensors.source_line import user_call
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import exact

if TYPE_CHECKING:
    from contraflow.runtime.array_routines import ArrayRoutine


# Gives the results of an op from its inputs, the arrays and numbers among them, and its parameters;
# None where the op has to be applied as ever.
Run = Callable[[tuple[Any, ...], list[Any], Params], tuple[Tensor, ...] | None]


class Application:
    """How an op is applied to inputs of certain specs: what runs it, and the form of its node."""

    __slots__ = ("run", "is_node", "form")

    def __init__(self, run: Run, is_node: bool) -> None:
        self.run = run
        self.is_node = is_node  # what `run` gives becomes the outputs of a node, if any is needed
        self.form: Form | None = None  # of that node, once there was one


class Eager(BottomContext):
    """Run ops at once: over NumPy, as programs, or on the device where their tensors lie."""

    replays = hits = immediate = True
    cotangents = ArrayCotangents()

    def __init__(self) -> None:
        self._calls: dict[Any, tuple[tuple[Spec, ...], Prepared]] = {}  # by op, specs, params
        self._forms: dict[Any, Form] = {}  # of composites without rules
        thresholds.on_change(self._calls.clear)
        thresholds.on_change(self._forms.clear)
        thresholds.on_change(eager_programs.applied.clear)

    def at_once(self, op: Op, inputs: tuple[Any, ...], params: Params) -> Any:
        """See `OpContext.at_once`. All that decides how an op is applied is in one key, so that
        little is left to do between the arguments and the call of NumPy or of a program.

        This is where small ops spend their time, hence few calls and no helper functions.
        """
        current = state()
        if current.context is not self or current.anomaly or current.inference:
            return None
        grad, needs, device = current.grad, False, None
        # Numbers are a part of what the routine of a composite is; others take them as they come.
        by_value = op.is_composite or op.own_kernel is not None
        threads = config.num_threads if config.eager_kernels else 0
        key: list[Any] = [op, grad, threads, dtypes._default]
        if params:
            values = params.values()
            types = [*map(type, values)]
            key += values
            key += types
            if float in types:
                key += map(exact, values)  # 0.0 and -0.0 differ
        arrays: list[Any] = []
        layout = dtype = None
        for x in inputs:
            if isinstance(x, Tensor):
                base = x._base
                if base is None:
                    if x.layout is layout and x.dtype is dtype:
                        key.append(None)  # as the one before: of many tensors few are hashed
                    else:
                        layout, dtype = x.layout, x.dtype
                        key += (layout, dtype)
                else:
                    if base._edits != x._edits:
                        return None
                    shape, strides, _ = x.layout  # wherever it lies in the base
                    key += (shape, strides, x.dtype)
                if grad and x._needs:
                    needs = True
                    key.append(x._index)
                    if x._index > thresholds.formed_outputs:
                        return None
                array = x._array
                if array is None:
                    storage = x.storage
                    if storage._data is None:  # it is recorded, or was freed
                        return None
                    if storage.device == "cpu":
                        array = x.array
                arrays.append(array)
                if other_devices:
                    there = x.storage.device
                    if device is None:
                        device = there
                        key.append(device)
                    elif there != device:
                        return None
            elif by_value:
                key += (type(x), exact(x))
            elif op.by_type and (
                type(x) is float or (type(x) in _NUMBERS and -_INT64 <= x < _INT64)
            ):
                arrays.append(x)
                key.append(type(x))
            else:
                return None
        if other_devices and (device is None or op.is_create or op.is_transfer):
            return None
        try:
            found = eager_programs.applied.get(tuple(key))
        except TypeError:  # a parameter that is not hashable
            return None
        if type(found) is not Application:
            found = self._learned(found, tuple(key), op, inputs, params, needs, device or "cpu")
            if found is None:
                return None
        outs = found.run(inputs, arrays, params)
        if outs is None:
            return None
        if needs and found.is_node:
            form = found.form
            if form is None:
                found.form = self._attach(current, op, inputs, params, outs)
            else:
                targets = tuple([
                    (x._node or x) if isinstance(x, Tensor) and x._needs else None for x in inputs
                ])  # fmt: skip
                connect(current, form, params, targets, inputs, outs)
        return outs[0] if op.results is None else op.pack(outs)

    def _learned(
        self, found: Any, key: Any, op: Op, inputs: tuple[Any, ...], params: Params, needs: bool,
        device: str,
    ) -> Application | None:  # fmt: skip
        """How an op is applied to inputs like these; None where that is not known yet, or is left
        to `apply` always."""
        table = eager_programs.applied
        if found is False:
            return None
        if len(table) >= thresholds.kept_programs:
            table.clear()
        parts = op.is_composite or (device == "cpu" and op.own_kernel and not has_kernel(op, None))
        least = thresholds.eager_composite if parts else thresholds.eager_kernel
        routine: Any = None
        is_large = recorded.is_worth_a_program(inputs, least)
        if is_large and (parts or op.has_kernel or device != "cpu"):
            routine = eager_programs.of_op(op, params, inputs)
            if routine is None:
                return None  # `apply` makes it
        made: Application | bool = False  # it is left to `apply`
        if isinstance(routine, Routine):
            # Elsewhere the parts of a composite without rules are nodes.
            by_itself = bool(op.rules) or device == "cpu" or not op.is_composite or not needs
            # A body may give more results than are declared, indices that are asked for say.
            as_declared = routine.count == len(op.outs) + len(op.residuals)
            if routine.makes_all and by_itself and as_declared:
                made = Application(_by_program(routine), bool(op.rules) or op.is_composite)
        elif parts and routine is None:
            wanted = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x._needs]
            wanted = wanted if needs and not op.rules else []
            function = functools.partial(op.body, **params)
            count = len(op.outs) + len(op.residuals)
            eager_programs.learn(table, key, op.name, function, inputs, count, wanted)
            routine = table.get(key, 0)
            if type(routine) is not int and op.same_bits and routine.graph is None:
                prepared = prepare(op, specs_of(op, inputs), params)
                made = Application(_by_reference(op, prepared), bool(op.rules))
            elif type(routine) is not int:
                made = Application(_by_parts(op, routine, needs), bool(op.rules))
            elif routine >= 0:
                return None
        elif not parts and device == "cpu" and not op.from_user and not (op.dynamic and op.rules):
            _, prepared = self._prepared(op, None, inputs, params)
            made = Application(_by_reference(op, prepared), bool(op.rules))
        table[key] = made
        return made if isinstance(made, Application) else None

    def execute(self, op: Op, inputs: tuple[Any, ...], params: Params) -> tuple[Tensor, ...]:
        """Run an op; elementwise ones of one dtype, most of all, take a short way.

        float32 with float32 or a Python number stays float32, so no rule need be asked and no array
        be cast. This is where small ops spend their time, hence few calls and no helper functions.
        """
        if other_devices:
            outs = self._elsewhere(op, inputs, params)
            if outs is not None:
                return outs
        if not op.direct:
            return self._run(op, inputs, params)
        dtype: DType | None = None
        arrays: list[Any] = []
        size = 0
        for x in inputs:
            if isinstance(x, Tensor):
                if x.dtype is not dtype:
                    if dtype is not None:
                        return self._run(op, inputs, params)
                    dtype = x.dtype
                array = x._array
                if array is None:
                    array = x.array
                size += array.size
                arrays.append(array)
            elif type(x) is float:
                arrays.append(x)
            elif type(x) is int and -EXACT <= x <= EXACT:
                arrays.append(float(x))
            else:
                return self._run(op, inputs, params)
        if dtype is not float32 and dtype is not float64:
            return self._run(op, inputs, params)
        ref: Any = op.ref
        try:
            if size >= thresholds.eager_kernel and config.eager_kernels:
                array = self._large(op, inputs, params, arrays, dtype)
            elif params or type(ref) is not np.ufunc:
                array = np.asarray(quiet.run(ref, *_typed(arrays, dtype), **params))
            elif len(arrays) == 2:
                array = quiet.call(ref, arrays[0], arrays[1], out=...)
            else:
                array = quiet.call(ref, *arrays, out=...)
        except (ValueError, TypeError):
            op.infer(specs_of(op, inputs), params)  # raises the message a user can read
            raise
        if array.ndim > 1 and not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        return (Tensor.of_array(array),)

    def execute_there(
        self, op: Op, inputs: tuple[Any, ...], params: Params, device: str
    ) -> tuple[Tensor, ...]:
        if device != "cpu":  # a program for inputs like these needs no checks
            routine = eager_programs.known(op.name, params, inputs, device)
            if routine is not None:
                return tuple(routine.run(inputs))
        return super().execute_there(op, inputs, params, device)

    def _elsewhere(
        self, op: Op, inputs: tuple[Any, ...], params: Params
    ) -> tuple[Tensor, ...] | None:
        """The results of a transfer, or of an op on another device; None on the cpu."""
        if op.is_transfer:
            return (_transferred(inputs[0], params["device"], params["non_blocking"]),)
        device = devices.current()
        if device == "cpu":
            return None
        routine = eager_programs.known(op.name, params, inputs, device)
        if routine is not None:
            return tuple(routine.run(inputs))
        made = op.infer(specs_of(op, inputs), params)  # or raises the message a user can read
        if any(len(spec.shape) > DIM_LIMIT for spec in made):
            raise ValueError(f"{op.name}: {TOO_MANY_DIMS}")
        if op.is_opaque and device_of(inputs) is None:  # made by the host, out of numbers
            return tuple(_transferred(x, device) for x in self._run(op, inputs, params))
        return tuple(eager_programs.call_there(op, inputs, params))

    def _large(
        self, op: Op, inputs: tuple[Any, ...], params: Params, arrays: list[Any], dtype: DType
    ) -> np.ndarray:
        """The result of an elementwise op by a kernel, which takes numbers as it takes tensors.

        NumPy's own loops for some ops are as fast as one thread can be, if memory has been used
        before.
        """
        ref: Any = op.ref
        if ref in _QUICK and not params:
            shape = np.broadcast(*arrays).shape
            if numel(shape) < thresholds.eager_arithmetic:
                made = np.dtype(np.bool_) if ref in _COMPARING else dtype.numpy
                out, _ = memory.room(shape, made)
                return quiet.call(ref, *arrays, out=out)  # type: ignore[no-any-return]
        given = [
            x if isinstance(x, Tensor) else Tensor.of_array(np.array(x, dtype.numpy))
            for x in inputs
        ]
        results = eager_programs.call_op(op, given, params)
        if results is not None:
            return results[0].array  # type: ignore[no-any-return]
        return np.asarray(quiet.run(ref, *_typed(arrays, dtype), **params))

    def _run(self, op: Op, inputs: tuple[Any, ...], params: Params) -> tuple[Tensor, ...]:
        """Run any op. How it runs on inputs of certain specs is found out once."""
        key: list[Any] = [op, get_default_dtype()]
        if params:
            key += params.values()
            key += map(type, params.values())
        arrays: list[Any] = []
        size, known = 0, True
        for x in inputs:
            if isinstance(x, Tensor):
                array = x._array
                if array is None:
                    array = x.array
                arrays.append(array)
                shape = x.layout.shape
                key += (shape, x.dtype)
                if shape:
                    size += array.size
            else:
                # Numbers may be others at every call.
                known = known and op.by_type and type(x) in _NUMBERS and -_INT64 <= x < _INT64
                arrays.append(x)
                key.append(type(x))
        if size >= thresholds.eager_kernel and config.eager_kernels and op.has_kernel:
            results = eager_programs.call_op(op, inputs, params)
            if results is not None:
                return tuple(results)
        expected, prepared = self._prepared(op, tuple(key) if known else None, inputs, params)
        outs = prepared.run(op, arrays, params)
        if not op.dynamic:
            for out, spec in zip(outs, expected):
                assert out.shape == spec[0], f"{op.name}: {out.shape} is not {spec.shape}"
        if len(outs) == 1:
            return (Tensor.of_array(outs[0]),)
        return tuple([Tensor.of_array(out) for out in outs])

    def _prepared(
        self, op: Op, key: Any, inputs: tuple[Any, ...], params: Params
    ) -> tuple[tuple[Spec, ...], Prepared]:
        """The specs of an op's results, and how its `ref` runs; or the error for a wrong input."""
        try:
            found = self._calls.get(key)
        except TypeError:  # a parameter that is not hashable
            found = key = None
        if found is not None:
            return found
        given = tuple(specs_of(op, inputs))
        made = op.infer(given, params), prepare(op, given, params)
        if key is not None:
            if len(self._calls) >= thresholds.kept_programs:
                self._calls.clear()
            self._calls[key] = made
        return made

    def fused(
        self, op: Op, inputs: tuple[Any, ...], params: Params, as_node: bool
    ) -> tuple[Tensor, ...] | None:
        device = recorded.place(inputs) if other_devices else "cpu"
        if device == "cpu" and not recorded.is_worth_a_program(inputs, thresholds.eager_composite):
            return None
        if not state().context.replays:
            return None  # a context observes its parts
        function = functools.partial(op.body, **params)
        # Without rules its backward runs it again.
        repeats = not op.rules
        routine = eager_programs.routine_of(
            op.name, eager_programs.exactly(params), function, inputs, repeats, device
        )
        if routine is None:
            return None
        results = eager_programs.run(routine, inputs)
        several = len(op.outs) + len(op.residuals)
        return None if results is None or len(results) != several else tuple(results)

    def recomputed_form(
        self, op: Op, params: Params, made: tuple[Spec, ...] | None, described: Sequence[Any],
        device: str,
    ) -> Form:  # fmt: skip
        key = op, get_default_dtype(), eager_programs.exactly(params), device, *described
        form = self._forms.get(key)
        if form is None:
            given = list(zip(described[::3], described[1::3]))
            specs = tuple(None if dtype is None else Spec(shape, dtype) for shape, dtype in given)
            needs = tuple(index is not None for index in described[2::3])
            saved = recorded.inputs_read_by_backward(op, params, specs, needs, device)
            form = form_of(op, saved, made, *described)
            if len(self._forms) >= thresholds.kept_programs:
                self._forms.clear()
            self._forms[key] = form
        return form

    def derive(self, node: OpNode, named: list[Any]) -> list[Any]:
        """Rules on large tensors are a program, which sums gradients to the shapes of inputs."""
        if state().grad:
            return super().derive(node, named)
        # The rules of a product are several ops, as those of a composite are.
        op = node.op
        several = op.is_composite or op.is_contraction
        least = thresholds.eager_composite if several else thresholds.eager_kernel
        # Those of what joins many tensors are views of the cotangent, as are most of views.
        by_itself = (op.variadic and not several) or op.is_transfer or op.is_view or op.from_user
        is_large = recorded.is_worth_a_program(named, least)
        if is_large and not by_itself:
            bound = node.bound
            key = (
                "backward",
                bound.needs,
                bound.saved_inputs,
                tuple(node.input_specs),
                eager_programs.exactly(node.params),
            )
            rules = functools.partial(_fitted, node)
            results = eager_programs.derive(node, key, rules, named)
            if results is None and other_devices and recorded.place(named) != "cpu":
                results = super().derive(node, named)
                eager_programs.learn_passing(node, named, results)
            if results is not None:
                return results
        elif not is_large and type(node.form.shortcut) is dict:  # for the next node of this form
            _learn_rules(node, named)
        return super().derive(node, named)

    def write(self, target: Tensor, value: Tensor | float, op: str, line: Any) -> None:
        if target.storage.borrowers is not None:
            target.storage.recall()
        if isinstance(value, float):
            quiet.call(target.array.fill, value)
            target.storage.wrote(op, line)
            return
        if target.storage.device != "cpu":
            if target.storage is not value.storage or target.layout != value.layout:
                eager_programs.write_there(target, value)
            target.storage.wrote(op, line)
            return
        if target.storage is value.storage:
            if target.layout == value.layout:
                target.storage.wrote(op, line)
                return
            source = value.array.copy()
        else:
            source = value.array
        np.copyto(target.array, source)
        target.storage.wrote(op, line)


def _by_reference(op: Op, prepared: Prepared) -> Run:
    """How the `ref` of an op is run on arrays."""
    ref: Any = op.ref

    def run(inputs: Any, arrays: list[Any], params: Params) -> tuple[Tensor, ...]:
        outs = ref(*arrays, **params) if silent else calm.copy().run(ref, *arrays, **params)
        if isinstance(outs, _ARRAYS):
            if outs.dtype is dtype:
                return (Tensor.of_array(np.asarray(outs, order="C")),)
        elif [*map(_DTYPE, outs)] == wanted:
            return tuple([Tensor.of_array(np.asarray(out, order="C")) for out in outs])
        return tuple(map(Tensor.of_array, prepared.rounded(outs)))

    def run_cast(inputs: Any, arrays: list[Any], params: Params) -> tuple[Tensor, ...]:
        return tuple(map(Tensor.of_array, prepared.run(op, arrays, params)))

    def run_call(inputs: Any, arrays: list[Any], params: Params) -> tuple[Tensor, ...]:
        outs = quiet.call(call, *arrays, *rest)
        if outs.dtype is dtype:
            return (Tensor.of_array(np.asarray(outs, order="C")),)
        return tuple(map(Tensor.of_array, prepared.rounded(outs)))

    if not prepared.plain or op.from_user:
        return run_cast
    call, rest = prepared.call, prepared.rest
    wanted, silent = [result.numpy for result in prepared.results], op.silent
    dtype = wanted[0] if len(wanted) == 1 else None
    return run if call is None else run_call


def _by_program(routine: Routine) -> Run:
    """How a program is run on tensors."""

    def run(inputs: tuple[Any, ...], arrays: Any, params: Any) -> tuple[Tensor, ...] | None:
        outs = eager_programs.run(routine, inputs)
        return None if outs is None else tuple(outs)

    return run


def _by_parts(op: Op, routine: ArrayRoutine, needs: bool) -> Run:
    """How the routine of a composite is run on arrays of few elements."""
    call, graph = routine.call, routine.graph

    def run(inputs: tuple[Any, ...], arrays: list[Any], params: Any) -> tuple[Tensor, ...] | None:
        if graph is not None:
            current = state()
            if current.saved_hooks or current.line is not None:
                return None
            for x in inputs:
                if isinstance(x, Tensor) and (x._index or x.storage.inference or x._tangents):
                    return None
        try:
            made = calm.copy().run(call, *arrays)
        except Exception:  # the parts say what is wrong
            return None
        if graph is not None:
            given = [x for x in inputs if isinstance(x, Tensor)]
            return tuple(graph.attach(op, given, made, user_call(_PARTS_FRAMES)))
        if not routine.hands_on:
            return tuple(map(Tensor.of_array, made))
        outs = tuple([_tensor(array, arrays, inputs) for array in made])
        return owned(outs, inputs) if needs else outs

    return run


def _fitted(node: OpNode, *named: Any) -> list[Any]:
    """The gradients of the inputs of a node, summed to their shapes."""
    specs = node.input_specs
    grads = node.bound.run(node.op, list(named), node.params, specs)
    return [
        g if g is None or spec is None else fit(node, g, *spec) for g, spec in zip(grads, specs)
    ]


def _learn_rules(node: OpNode, named: Sequence[Any]) -> None:
    """Have a routine over arrays for the rules of a node, which are run on few elements, later."""
    arrays = [x.array for x in named if isinstance(x, Tensor)]
    numbers: list[Any] = []
    for x in named:
        if not isinstance(x, Tensor) and x is not None:
            numbers += (type(x), exact(x))
    key = eager_programs.rules_key(node.params, arrays, numbers)
    function, count = functools.partial(_fitted, node), len(node.targets)
    eager_programs.learn(node.form.shortcut, key, node.op.name, function, named, count, (), True)


def _tensor(array: np.ndarray, arrays: Sequence[np.ndarray], inputs: Sequence[Any]) -> Tensor:
    """The input that an array is the array of, or else a tensor over it."""
    for given in arrays:
        if given is array:
            return next(x for x in inputs if isinstance(x, Tensor) and x._array is array)
    return Tensor.of_array(array)


def _transferred(x: Tensor, device: str, non_blocking: bool = False) -> Tensor:
    """The elements of a tensor in memory of a device."""
    array = x.fetched()
    if device == "cpu":
        return Tensor.of_array(memory.copy(array) if x.storage.device == "cpu" else array)
    upload = devices.lookup(device).upload
    if non_blocking and x.storage.pinned == device and array.flags.c_contiguous:
        return Tensor.of_buffer(upload(array, True), device)
    return Tensor.of_buffer(upload(np.asarray(array, order="C")), device)


_INT64 = 1 << 63
# Frames from `user_call` to the user's on the shortest way: `user_call`, `run`, `at_once`, `apply`,
# and an operator of the tensor or `context.apply`.
_PARTS_FRAMES = 5
_ARRAYS = (np.ndarray, np.generic)  # the sum of all elements is a scalar of NumPy's
_DTYPE = operator.attrgetter("dtype")
_NUMBERS = frozenset((bool, int, float))


_COMPARING = frozenset((
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
))  # fmt: skip
_QUICK = _COMPARING | {
    np.add, np.subtract, np.multiply, np.divide, np.negative, np.absolute, np.maximum, np.minimum,
}  # fmt: skip


def _typed(arrays: list[Any], dtype: DType) -> list[Any]:
    """Numbers as NumPy's: a ref may compute with one alone, and that would give a float64."""
    return [dtype.numpy.type(x) if type(x) is float else x for x in arrays]


set_base_context(Eager())
