"""Routines over arrays: what eager mode does again and again to few elements, as Python text.

Few elements are done with before a program has started, and most of the time goes into finding out
what to do with them. So a composite, or the gradient rules of a node, is recorded, as it is for a
program, and its tape becomes one Python function that calls the `ref` of each line over NumPy: the
same calls that eager mode makes line by line, hence the same bits.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from contraflow import thresholds
from contraflow.compiler.tape import Tape, TapeLine, TapeOperand, Value
from contraflow.dtypes import DType, float32, float64
from contraflow.errors import CaptureError
from contraflow.expressions.evaluate import saturating_cast
from contraflow.graph.op_node import OpNode
from contraflow.graph.saved import Saved
from contraflow.operation.op import Op
from contraflow.operation.reference import prepare
from contraflow.runtime.eager_programs import EXACT
from contraflow.runtime.recorded import Recorded, ResultView, recorded
from contraflow.shapes import Shape, View, contiguous, contiguous_strides, numel
from contraflow.spec import Given, Params, Spec
from contraflow.tensors.node import Form, nodes_below
from contraflow.tensors.source_line import OWNERS, UserCall, user_call
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor


class ArrayRoutine:
    """A function of arrays that gives the results of a pure function of tensors."""

    def __init__(
        self, name: str, function: Callable[..., Any], inputs: Sequence[Any], count: int,
        needs: Sequence[int] = (), views: bool = False,
    ) -> None:  # fmt: skip
        """Record a function with `count` results; CaptureError where it cannot be one.

        With its graph, if the inputs at `needs` need gradients. With `views` results may be views.
        """
        found = recorded(name, function, inputs, needs=needs, views=views, small=True)
        recording, standins, results, _made, _ = found
        if len(results) != count:
            raise CaptureError(f"{name} has {len(results)} results")
        self.arguments = [i for i, x in enumerate(standins) if isinstance(x, Tensor)]
        tape, text = recording.tape, _Text(recording.tape)
        for v, source in recording.sources.items():
            if source.constant is not None:
                text.name(v, text.constant(source.constant.data.reshape(tape.specs[v].shape)))
            elif source.is_argument:
                text.take(v, source.argument, standins[self.arguments[source.argument]].layout)
            else:
                raise CaptureError(f"{name} reads more than its arguments")
        self.graph = _PartGraph(found, self.arguments) if needs else None
        kept = [] if self.graph is None else self.graph.values
        # The layouts of results that are views: the routine gives the memory that they lie in.
        self.views = {i: x.layout for i, x in enumerate(results) if isinstance(x, ResultView)}
        shown = [x.source for x in results if isinstance(x, ResultView)]
        for line in _used(tape, {*tape.outputs, *kept, *(v for v in shown if type(v) is Value)}):
            text.add(line)
        self.hands_on = any(isinstance(result, int) for result in results)  # some input
        outputs = iter(tape.outputs)
        returned = []
        for result in results:
            if isinstance(result, Spec):
                returned.append(text.shaped(next(outputs), result.shape))
            elif isinstance(result, ResultView):
                returned.append(self._base(text, result.source, standins))
            else:
                at = None if result is None else self.arguments.index(result)
                returned.append("None" if at is None else f"x{at}")
        returned += [text.names[v] for v in kept]
        # Called with the arrays of those inputs that are tensors, and NumPy's warnings off. A
        # result that is an input is that array itself.
        self.call = text.function(len(self.arguments), returned)

    def _base(self, text: _Text, source: Any, standins: Sequence[Any]) -> str:
        """The row-major memory of an argument or of a value."""
        if isinstance(source, Value):
            return text.names[source]
        if not standins[source].layout.is_contiguous:
            raise CaptureError("a view of a view that is not row-major")
        return f"x{self.arguments.index(source)}"


def _used(tape: Tape, wanted: set[Value]) -> list[TapeLine]:
    """The lines that some values depend on."""
    lines = []
    for line in reversed(tape.lines):
        if line.op.effects or not wanted.isdisjoint(line.outs):
            lines.append(line)
            wanted.update(x for x in line.inputs if isinstance(x, Value))
    return lines[::-1]


class PartNode(NamedTuple):
    """A node of the graph of a composite, as it is made at every call.

    Targets are numbers of earlier nodes, or ~i for argument i. `kept` has three entries for each
    value. For an array they are its index among the results and values, or ~i for argument i; the
    number of its storage; and its layout. For others they are None, the value itself and None.
    """

    form: Form
    params: Params
    owner: str | None  # the function of the composite that applied it, a key of `OWNERS`
    targets: tuple[int | None, ...]
    kept: tuple[Any, ...]


class _PartGraph:
    """The graph of a recorded composite, whose leaves are the arguments."""

    def __init__(self, of: Recorded, arguments: Sequence[int]) -> None:
        _, standins, results, made, value_of = of
        if not all(isinstance(result, Spec) for result in results):
            raise CaptureError("an input is a result")
        self.values: list[Value] = []  # that are kept, beside the results
        self._numbers: dict[int, int] = {}  # of storages, by id
        given = {id(standins[i]): ~k for k, i in enumerate(arguments)}
        lent = {id(standins[i].storage): ~k for k, i in enumerate(arguments)}
        nodes = nodes_below([x.edge for x in made if x.edge is not None])
        given |= {id(node): k for k, node in enumerate(nodes)}
        self.storages = [self._number(x.storage) for x in made]
        self.outputs = [None if x.node is None else (given[id(x.node)], x._index) for x in made]
        self.parts = []
        # Where more than the composite was called, nodes bear the name of that.
        is_outermost = user_call()[2] is None
        for node in nodes:
            if type(node) is not OpNode or node.watchers is not None:
                raise CaptureError(f"{node.name} is not an op")
            kept: list[Any] = []
            for value in node._values():
                if not isinstance(value, Saved):
                    kept += (None, value, None)
                elif id(value.storage) in lent:
                    i = lent[id(value.storage)]
                    if value.layout != standins[arguments[~i]].layout:
                        raise CaptureError("a part of an input is kept")
                    kept += (i, None, None)
                else:
                    kept += self._kept(value, value_of, len(made))
            targets = tuple([None if t is None else given[id(t)] for t in node.targets])
            owner = node.owner if is_outermost else None
            self.parts.append(PartNode(node.form, node.params, owner, targets, tuple(kept)))

    def _number(self, storage: Storage) -> int:
        return self._numbers.setdefault(id(storage), len(self._numbers))

    def _kept(self, value: Saved, value_of: Callable[[Tensor], Value], first: int) -> Any:
        """An intermediate value that a node keeps."""
        if value.version or not value.layout.is_contiguous or value.layout.offset:
            raise CaptureError("a value that is kept is a part of another, or was overwritten")
        t = Tensor.of_storage(value.storage, value.layout, value.dtype)
        self.values.append(value_of(t))
        return first + len(self.values) - 1, self._number(value.storage), value.layout

    def attach(
        self, op: Op, inputs: Sequence[Tensor], arrays: Sequence[Any], call: UserCall
    ) -> list[Any]:
        """The results of an op as tensors, which are outputs of new nodes."""
        code, instruction, called = call
        name = OWNERS.get(op.name)
        count = len(self.outputs)
        outs = [Tensor.of_array(array) for array in arrays[:count]]
        storages: list[Any] = [None] * len(self._numbers)
        for number, out in zip(self.storages, outs):
            storages[number] = out.storage
        nodes: list[OpNode] = []
        for form, params, owner, targets, entries in self.parts:
            kept: list[Any] = []
            for i, number, layout in zip(entries[::3], entries[1::3], entries[2::3]):
                if i is None:
                    kept += (number, None, None, None)
                elif i < 0:
                    x = inputs[~i]
                    kept += (x.storage, x.storage.version, x.array, x.layout)
                else:
                    array, storage = arrays[i], storages[number]
                    if storage is None:
                        storage = storages[number] = Storage(array)
                    kept += (storage, 0, array.reshape(layout.shape), layout)
            ends = [
                None if t is None else nodes[t] if t >= 0 else inputs[~t]._node or inputs[~t]
                for t in targets
            ]
            line = code, instruction, called or owner or name
            nodes.append(OpNode.of(form, params, tuple(ends), line, tuple(kept)))
        for out, place in zip(outs, self.outputs):
            if place is not None:
                out._node, out._index, out._needs = nodes[place[0]], place[1], True
        return outs


class _Text:
    """The text of a function, line by line, and the objects that it names."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._rows: list[str] = []
        self._scope: dict[str, Any] = {
            "array": np.ndarray, "asarray": np.asarray, "cast": saturating_cast, "empty": np.empty,
        }  # fmt: skip
        self._views: dict[Value, View] = {}  # of arguments that are not row-major, as they come
        self._uneven: set[Value] = set()  # views that are not row-major
        self.names: dict[Value, str] = {}

    def constant(self, value: Any) -> str:
        """The name of an object."""
        name = f"c{len(self._scope)}"
        self._scope[name] = value
        return name

    def name(self, value: Value, name: str) -> None:
        """Call a value of the tape by a name."""
        self.names[value] = name

    def shaped(self, value: Value, shape: Shape) -> str:
        """A value under a shape that has as many elements."""
        name = self.names[value]
        same = self._tape.specs[value].shape == shape
        return name if same else f"{name}.reshape({tuple(shape)})"

    def take(self, value: Value, argument: int, layout: View) -> None:
        """Call an input of the tape, which may have another shape, as an argument of a layout."""
        self.names[value] = f"x{argument}"
        shape = self._tape.specs[value].shape
        if layout.strides != contiguous_strides(layout.shape):
            self._views[value] = layout
        elif shape != layout.shape:
            self._name(value, f"x{argument}.reshape({tuple(shape)})")

    def function(self, count: int, returned: Sequence[str]) -> Callable[..., tuple[Any, ...]]:
        """The function of this many arguments that returns these names."""
        rows = [f"def routine({', '.join(f'x{i}' for i in range(count))}):", *self._rows]
        rows.append(f" return ({''.join(f'{name}, ' for name in returned)})")
        exec(_code("\n".join(rows)), self._scope)
        found: Callable[..., tuple[Any, ...]] = self._scope["routine"]
        return found

    def add(self, line: TapeLine) -> None:
        """Compute the results of a line."""
        op, given = line.op, self._tape.given(line.inputs)
        if op.is_view:
            self._add_view(line)
            return
        for x in line.inputs:
            if x in self._views:
                raise CaptureError(f"{op.name} reads the memory behind a view")
        size = sum(numel(x.shape) for x in given if isinstance(x, Spec) and x.shape)
        if size >= thresholds.eager_kernel and not op.is_opaque:
            raise CaptureError(f"{op.name} is a program of its own")
        dtype = one_dtype(op, given)
        if dtype is not None:
            self._add_direct(line, dtype)
        else:
            self._add_reference(line, given)

    def _add_view(self, line: TapeLine) -> None:
        """Views are strides over the memory of a value, which is row-major."""
        (x,), (out,) = line.inputs, line.outs
        assert isinstance(x, Value)
        view, spec, name = View(**line.params), self._tape.specs[x], self.names[x]
        if x in self._views:
            if self._views[x] != view:
                raise CaptureError("a view of a view that is not row-major")
            self.names[out] = name
            self._uneven.add(out)
            return
        if view == contiguous(view.shape) and numel(view.shape) == numel(spec.shape):
            self._name(out, f"{name}.reshape({tuple(view.shape)})")
            return
        shape, dtype = tuple(view.shape), spec.dtype.numpy
        kind, size = self.constant(dtype), dtype.itemsize
        if 0 in shape:  # it may start beyond the end
            self._name(out, f"empty({shape}, {kind})")
            return
        strides = tuple(stride * size for stride in view.strides)
        self._name(out, f"array({shape}, {kind}, {name}, {view.offset * size}, {strides})")
        if not view.is_contiguous:
            self._uneven.add(out)

    def _add_direct(self, line: TapeLine, dtype: DType) -> None:
        """An elementwise op on one floating dtype: see `Eager.execute`."""
        ref: Any = line.op.ref
        (out,) = line.outs
        shape = self._tape.specs[out].shape
        if type(ref) is not np.ufunc or line.params:
            typed = [x if isinstance(x, Value) else dtype.numpy.type(x) for x in line.inputs]
            made = f"asarray({self._call(line, [self._operand(x) for x in typed])})"
        else:
            operands = [self._operand(x if isinstance(x, Value) else float(x)) for x in line.inputs]
            if not shape:
                operands.append("out=...")
            made = self._call(line, operands)
        self._name(out, made)
        if len(shape) > 1 and any(
            x in self._uneven or self._tape.specs[x].shape != shape
            for x in line.inputs
            if isinstance(x, Value)
        ):
            name = self.names[out]
            self._rows.append(f" if not {name}.flags.c_contiguous: {name} = {name}.copy('C')")

    def _add_reference(self, line: TapeLine, given: Sequence[Given]) -> None:
        """Any other op: what its `ref` is given is cast, and what it gives: see `Prepared`."""
        prepared = prepare(line.op, given, line.params)
        operands = []
        for x, wanted in zip(line.inputs, prepared.casts):
            if wanted is None:
                operands.append(self._operand(x))
            elif isinstance(x, Value):
                operands.append(f"cast({self.names[x]}, {self.constant(wanted)})")
            else:
                operands.append(self.constant(saturating_cast(x, wanted)))
        names = [f"v{out.number}" for out in line.outs]
        made = self._call(line, operands)
        if prepared.call is not None:
            operands += map(repr, prepared.rest)
            made = f"{self.constant(prepared.call)}({', '.join(operands)})"
        self._rows.append(f" {', '.join(names)} = {made}")
        for out, name, dtype in zip(line.outs, names, prepared.results):
            kind = self.constant(dtype.numpy)
            self.names[out] = name
            self._rows.append(
                f" if {name}.__class__ is not array or {name}.dtype is not {kind} "
                f"or not {name}.flags.c_contiguous: "
                f"{name} = asarray({name}).astype({kind}, order='C', copy=False)"
            )

    def _call(self, line: TapeLine, operands: Sequence[str]) -> str:
        """A call of the `ref` of a line."""
        named = [f"{name}={self.constant(value)}" for name, value in line.params.items()]
        return f"{self.constant(line.op.ref)}({', '.join((*operands, *named))})"

    def _operand(self, x: TapeOperand) -> str:
        return self.names[x] if isinstance(x, Value) else self.constant(x)

    def _name(self, value: Value, text: str) -> None:
        """Compute a value."""
        name = self.names[value] = f"v{value.number}"
        self._rows.append(f" {name} = {text}")


def one_dtype(op: Op, given: Sequence[Given]) -> DType | None:
    """The floating dtype of an elementwise op on tensors of one and numbers, None for others."""
    found: DType | None = None
    for x in given:
        if isinstance(x, Spec):
            if found is not None and x.dtype is not found:
                return None
            found = x.dtype
        elif type(x) is not float and not (type(x) is int and -EXACT <= x <= EXACT):
            return None
    return found if op.direct and (found is float32 or found is float64) else None


@lru_cache(maxsize=1024)
def _code(text: str) -> Any:
    return builtins.compile(text, "<array routine>", "exec")
