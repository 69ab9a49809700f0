"""Cotangents of eager mode: arrays travel on the CPU where nobody looks, and tensors elsewhere.

A buffer that a gradient rule has just made, and nobody else was given, is an array of the pass's
own: sums are formed in it, and a run of small arithmetic nodes makes no tensors at all. Parts of a
tensor's cotangent wait for each other, and are put side by side into one buffer.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from heapq import heappop
from typing import Any, NamedTuple

import numpy as np

from contraflow import config, thresholds
from contraflow.devices.cpu import memory
from contraflow.dtypes import DType, float32, float64, from_numpy
from contraflow.graph.cotangent import Cotangent, Cotangents, Sent
from contraflow.graph.engine import Pass, add_line
from contraflow.graph.op_node import OpNode
from contraflow.operation import core
from contraflow.operation.context import apply, changed, other_devices
from contraflow.operation.op import Op
from contraflow.operation.reference import quiet, strided
from contraflow.runtime import eager_programs
from contraflow.runtime.recorded import is_worth_a_program
from contraflow.shapes import Shape, View, contiguous, numel, rearranged
from contraflow.spec import Spec
from contraflow.tensors.node import Form
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import exact

_MOVES = "moves"
_own = tuple.__new__  # of a named tuple, as its class does it, which takes twice as long
_ARRAY = np.ndarray
_SCALARS = frozenset((np.float32, np.float64))  # nobody owns one, and `+` adds them
BARE = _SCALARS | {_ARRAY}  # these are the pass's own


class OwnTensor(NamedTuple):
    """A cotangent on another device than the cpu that is the pass's own."""

    tensor: Tensor


class Parts:
    """The cotangent of a tensor by its parts: what views of it show, none an element twice.

    Parts lie side by side in one buffer in the end, where each by itself would be as large as that.
    """

    __slots__ = ("shape", "pieces")

    def __init__(self, shape: Shape, g: Cotangent, region: View) -> None:
        """Of a tensor of a shape, the cotangent of what lies in a region of it."""
        self.shape = shape
        self.pieces = [(g, region)]

    def joined(self) -> Cotangent:
        """All of the tensor, as an array of its own, or a tensor on another device."""
        pieces = [
            x if isinstance(x, Tensor) else Tensor.of_array(np.asarray(x)) for x, _ in self.pieces
        ]
        if is_worth_a_program(pieces, thresholds.eager_join):
            regions = tuple([region for _, region in self.pieces])
            function = functools.partial(_sum_of_pieces, self.shape, regions)
            results = eager_programs.call("joined", (self.shape, regions), function, pieces)
            if results is not None:
                (whole,) = results
                return whole.array if whole.storage.device == "cpu" else OwnTensor(whole)
        if other_devices and _is_elsewhere(pieces[0]):
            regions = tuple([region for _, region in self.pieces])
            with changed(device=pieces[0].storage.device):
                return OwnTensor(_sum_of_pieces(self.shape, regions, *pieces))
        return self._copied()

    def _copied(self) -> np.ndarray:
        (first, region), *others = self.pieces
        array = _array(first)
        whole = memory.empty(self.shape, array.dtype)
        if _lie_apart(self.pieces):
            whole.fill(0)
            return _with_pieces(whole, self.pieces)
        if array.size < whole.size:
            whole.fill(0)
        strided(whole, region)[...] = array
        return _with_pieces(whole, others)


class ArrayCotangents(Cotangents):
    """Cotangents that are tensors, arrays, scalars or `OwnTensor` of the pass's own, or `Parts`."""

    has_shortcuts = True

    def tensor(self, g: Cotangent) -> Tensor:
        if type(g) is Parts:
            g = g.joined()
        if type(g) is OwnTensor:
            return g.tensor
        if type(g) in BARE:
            return Tensor.of_array(np.asarray(g))
        found: Tensor = g
        return found

    def add(self, held: Cotangent, g: Cotangent) -> Cotangent:
        """The sum of two cotangents, in place where one of them is the pass's own."""
        if type(held) is Parts:
            if type(g) is Parts and len(held.pieces) < thresholds.waiting_pieces:
                held.pieces += g.pieces
                return held
            held = held.joined()
        if other_devices and _is_elsewhere(held):
            return OwnTensor(super().add(self.tensor(held), self.tensor(g)))
        if type(g) is Parts:
            whole = held if type(held) is np.ndarray else np.array(_array(held), order="C")
            return _with_padded(whole, g.pieces)
        a, b = _array(held), _array(g)
        if b.size >= thresholds.eager_arithmetic and config.eager_kernels:
            terms = [x if isinstance(x, Tensor) else Tensor.of_array(x) for x in (held, g)]
            results = eager_programs.call_op(core.add, terms, {})
            if results is not None:
                return results[0].array
        into = held if type(held) is np.ndarray else g if type(g) is np.ndarray else ...
        return quiet.call(np.add, a, b, out=into, order="C")

    def adopt(self, sent: list[Sent], mark: int) -> list[Sent]:
        storages = [g.storage for _, g in sent]
        for k, storage in enumerate(storages):
            # A buffer newer than `mark` was made by the rule; it may be handed out twice.
            if storage.serial > mark and storages.count(storage) == 1:
                edge, g = sent[k]
                if g.layout.is_contiguous:
                    sent[k] = edge, g.array if storage.device == "cpu" else OwnTensor(g)
        return sent

    def join(
        self, whole: Spec, dim: int, ends: Sequence[int], drops: bool, parts: Sequence[Any]
    ) -> Tensor | None:
        if other_devices and any(_is_elsewhere(g) for g in parts):
            return None
        buffer, _ = memory.room(whole.shape, whole.dtype.numpy)
        before = (slice(None),) * dim
        for a, b, g in zip(ends, ends[1:], parts):
            buffer[(*before, a if drops else slice(a, b))] = 0 if g is None else g.array
        return Tensor.of_array(buffer)

    def advance(self, task: Pass, elsewhere: bool) -> None:
        if elsewhere:
            _advance(task, elsewhere)
        else:
            quiet.run(_advance, task, elsewhere)

    def move(self, node: OpNode, g: Cotangent) -> list[Sent] | None:
        """The same elements, where they lie in the input of a view or in those of an assignment.

        None where the rule has to find out how they lie, or an assignment was made elsewhere.
        """
        if len(node.targets) > 1:
            return None if other_devices and _is_elsewhere(g) else _assigned(node, g)
        form = node.form
        (target,), (index,), (spec,) = node.targets, form.indices, form.input_specs
        assert target is not None and spec is not None
        edge, shape = (target, index), spec.shape
        region, is_whole = _shown(node.op, shape, tuple(node.params.items()))
        if type(g) is Parts:
            g = g.joined()
        if type(g) is OwnTensor:
            g = g.tensor
        if not is_whole:
            return [(edge, Parts(shape, g, region))]
        if type(g) is np.ndarray and region.is_contiguous:
            return [(edge, g.reshape(shape))]
        t = self.tensor(g)
        layout = rearranged(shape, region, t.layout)
        return None if layout is None else [(edge, Tensor.of_storage(t.storage, layout, t.dtype))]


@functools.lru_cache(maxsize=8192)
def _shown(op: Op, shape: Shape, params: tuple[tuple[str, Any], ...]) -> tuple[View, bool]:
    """The region of a contiguous tensor of a shape that a view of it shows; whether it is all."""
    region: View = op.body(contiguous(shape), **dict(params))
    return region, numel(region.shape) >= numel(shape)


def _is_elsewhere(g: Cotangent) -> bool:
    """Whether a cotangent lies on another device than the cpu, where it has no arrays."""
    if type(g) is Parts:
        g = g.pieces[0][0]
    return type(g) is OwnTensor or (isinstance(g, Tensor) and g.storage.device != "cpu")


def _array(g: Cotangent) -> Any:
    """The elements of a cotangent that has no parts."""
    return g if type(g) in BARE else g.array


def _whole(g: Cotangent) -> Cotangent:
    """A cotangent whose parts, if it has any, were put into one array of the pass's own."""
    return g.joined() if type(g) is Parts else g


def _shortcut(form: Form) -> Any:
    """How backward handles the nodes of a form without tensors, False where it cannot.

    A tuple of steps where the rules are arithmetic on little data of one floating dtype: the input,
    the index in the entry of its target, the function, and how its arguments are picked. Else a
    table for routines over arrays (`eager._learn_rules`), or `_MOVES` for a node that only moves
    elements.
    """
    op, bound = form.op, form.backward
    if op is None or bound is None or op.is_transfer:  # whose result is not an array of the cpu
        return False
    specs = {spec for spec in form.input_specs if spec is not None}
    if len(specs) == 1 and bound.arithmetic and op.direct:
        (spec,) = specs
        if spec.dtype not in (float32, float64) or numel(spec.shape) > thresholds.bare_arrays:
            return False
        return tuple([(i, form.indices[i] + 1, rule, pick) for (i,), rule, pick in bound.rules])
    if form.moves:
        return _MOVES
    learns = bool(op.rules) and form.output_count == 1 and not op.from_user
    return {} if learns else False


def _advance(task: Pass, elsewhere: bool) -> None:
    """Go through nodes whose rules are known as functions of arrays, or as programs, as long as
    these come next.

    On the cpu the thread's state is not the caller's here, so nothing of a user's may run: a node
    with hooks and all else that is rare are left to the pass.
    """
    needed, wanted, retain = task.needed, task.wanted, task.retain
    heap, nodes, entry_of = task.frontier.heap, task.frontier.nodes, task.frontier.entry
    while heap:
        number = -heap[0]
        entry = nodes[number]
        node, g = entry[0], entry[1]
        form = node.form
        shortcut = form.shortcut
        if shortcut is None:
            shortcut = form.shortcut = _shortcut(form)
        if node.watchers is not None or (shortcut is False and not elsewhere) or form.op is None:
            return
        if needed is not None and id(node) not in needed:
            return
        if wanted:
            if (id(node), 0) in wanted:
                return
            count = form.output_count
            if count > 1 and any((id(node), i) in wanted for i in range(1, count)):
                return
        named: list[Any] | None = None
        sent: Iterable[Sent] | None = None
        if elsewhere:
            entry[1:] = map(_whole, entry[1:])
            if form.moves:
                sent = task.cotangents.move(node, entry[1])
            else:
                sent = _by_program(node, entry[1:], elsewhere)
        elif other_devices and _is_elsewhere(g):
            return
        elif type(shortcut) is tuple:
            named = _named(node, g)
        elif shortcut is _MOVES:
            sent = task.cotangents.move(node, g)
        else:
            if type(g) is Parts:
                g = entry[1] = g.joined()
            sent = _by_routine(node, g, shortcut)
            if sent is None:
                sent = _by_program(node, (g,), elsewhere)
        if sent is None and named is None:
            return
        heappop(heap)
        del nodes[number]
        if not retain:
            node.done = True
            if node.kept:
                node.kept = None
        if named is None:
            assert sent is not None
            _deliver(task, sent)
            continue
        targets = node.targets
        for i, at, function, pick in shortcut:
            target = targets[i]
            if needed is not None and not task.goes_to((target, at - 1)):
                continue
            made = function(*pick(named))
            # The cotangent itself may belong to something else, or go elsewhere too.
            if type(made) is _ARRAY and (made is named[0] or not made.flags.c_contiguous):
                made = made.copy()
            entry = entry_of(target)
            held = entry[at]
            if held is None:
                entry[at] = made
            elif type(made) in _SCALARS and type(held) in _SCALARS:
                entry[at] = held + made
            else:
                entry[at] = task.cotangents.add(held, made)


def _by_program(
    node: OpNode, cotangents: Sequence[Cotangent], elsewhere: bool
) -> list[Sent] | None:
    """The gradients of a node by a program that has run before; None where there is none."""
    kept = node.kept
    known = eager_programs.programs_of(node.form)
    if kept is None or known is None:
        return None
    named: list[Any] = []
    for g in cotangents:
        if type(g) is OwnTensor:
            g = g.tensor
        elif type(g) in BARE:
            if elsewhere:
                return None
            g = Tensor.of_array(np.asarray(g))
        named.append(g)
    for k in range(0, len(kept), 4):
        storage, version, array, layout = kept[k : k + 4]
        dtype = array if elsewhere else getattr(array, "dtype", None)
        dtype = from_numpy(dtype) if isinstance(dtype, np.dtype) else dtype
        if type(dtype) is not DType or storage.version != version:
            return None  # it is not a tensor there, or `backward` says what is wrong
        named.append(Tensor.of_storage(storage, layout, dtype))
    try:
        routine = known.get(eager_programs.rules_key_of(node.params, named))
    except TypeError:  # a parameter that is not hashable
        return None
    if routine is None:
        return None
    try:
        made = routine.run(named)
    except Exception as error:
        if not elsewhere:
            return None  # `backward` says what is wrong
        add_line(node, error)
        raise
    given = set(map(id, named))  # which others have
    return [
        (
            (target, index),
            x if id(x) in given else _own(OwnTensor, (x,)) if elsewhere else x.array,
        )
        for target, index, x in zip(node.targets, node.form.indices, made)
        if target is not None and x is not None
    ]


def _deliver(task: Pass, sent: Iterable[Sent]) -> None:
    """Add cotangents to those at the ends of their edges, as `Pass.deliver` does."""
    needed, wanted, frontier = task.needed, task.wanted, task.frontier
    for (target, index), g in sent:
        if needed is None or id(target) in needed or (id(target), index) in wanted:
            entry = frontier.entry(target)
            held = entry[index + 1]
            entry[index + 1] = g if held is None else task.cotangents.add(held, g)


def _by_routine(node: OpNode, g: Cotangent, table: dict[Any, Any]) -> list[Sent] | None:
    """The gradients of the inputs of a node by a routine over arrays, as the pass's own.

    None where there is no routine yet, or a value is not what it was made for.
    """
    kept = node.kept
    if not table or kept is None:
        return None
    g = np.asarray(g if type(g) in BARE else g.array)
    arrays = [g]
    numbers: list[Any] = []
    for k in range(0, len(kept), 4):
        value, array = kept[k], kept[k + 2]
        if type(array) is np.ndarray:
            if value.version != kept[k + 1]:
                return None
            arrays.append(array)
        elif isinstance(value, (int, float)):
            numbers += (type(value), exact(value))
        elif value is not None:
            return None
    key = eager_programs.rules_key(node.params, arrays, numbers)
    routine = eager_programs.over_arrays(table, key)
    if routine is None:
        return None
    try:
        made = routine.call(*arrays)
    except Exception:
        return None
    sent: list[Sent] = []
    for i, (target, x) in enumerate(zip(node.targets, made)):
        if target is None or x is None:
            continue
        if i in routine.views:
            x = Tensor.of_storage(Storage(x), routine.views[i], from_numpy(x.dtype))
        elif any(x is array for array in arrays):  # which others may have
            x = x.copy()
        sent.append(((target, node.form.indices[i]), x))
    return sent


def _named(node: OpNode, g: Cotangent) -> list[Any] | None:
    """The values that the rules of a node name, as arrays and numbers.

    None if a value was overwritten or is not kept as an array: then `backward` runs, or says why it
    cannot.
    """
    kept = node.kept
    if kept is None:
        return None
    if type(g) not in BARE:
        g = g.joined() if type(g) is Parts else g.array
    # NumPy is much faster with scalars than with arrays that have no dims.
    is_scalar = not g.shape
    named = [g[()] if is_scalar and type(g) is _ARRAY else g]
    entries = iter(kept)
    for value, version, array, _ in zip(entries, entries, entries, entries):
        if type(array) is _ARRAY:
            if value.version != version:
                return None
            value = array[()] if is_scalar else array
        elif not isinstance(value, (int, float)):
            return None
        named.append(value)
    return named


def _assigned(node: OpNode, g: Cotangent) -> list[Sent] | None:
    """The cotangents of an assignment: what came, without the region, and what the region had.

    However large the whole is, only the region is touched, unless others have what came.
    """
    region = View(**node.params)
    of_base, of_value = node.edges
    spec = node.input_specs[1]
    if spec is None or spec.shape != region.shape:
        return None
    g = _whole(g)
    if type(g) is not np.ndarray or not g.flags.c_contiguous:
        g = memory.copy(_array(g))
    shown = strided(g, region)
    sent: list[Sent] = []
    if of_value is not None:
        sent.append((of_value, memory.copy(shown)))
    if of_base is not None:
        shown[...] = 0
        sent.append((of_base, g))
    return sent


def _lie_apart(pieces: Sequence[tuple[Cotangent, View]]) -> bool:
    """Whether pieces lie in several regions, so that each is zero where another is not.

    Zeros that are added make -0 into 0, as they do where every piece is as large as the whole.
    """
    return any(region != pieces[0][1] for _, region in pieces)


def _with_pieces(whole: np.ndarray, pieces: Iterable[tuple[Cotangent, View]]) -> np.ndarray:
    """An array to which pieces are added, each where it lies."""
    for g, region in pieces:
        shown = strided(whole, region)
        quiet.call(np.add, shown, _array(g), out=shown)
    return whole


def _with_padded(whole: np.ndarray, pieces: Sequence[tuple[Cotangent, View]]) -> np.ndarray:
    """The same, with pieces that are zero outside of where they lie."""
    zero, shown = whole.dtype.type(0), strided(whole, pieces[0][1])
    inside = None if _lie_apart(pieces) else shown.copy()
    np.add(whole, zero, out=whole)
    if inside is not None:
        shown[...] = inside
    return _with_pieces(whole, pieces)


def _sum_of_pieces(shape: Shape, regions: Sequence[View], *pieces: Tensor) -> Tensor:
    """The sum of pieces, each among zeros; the compiler puts those side by side that it can."""
    whole: Any = None
    for piece, region in zip(pieces, regions):
        zeros = core.full(shape, 0.0, dtype=piece.dtype)
        placed = apply(core.assign, (zeros, piece), region._asdict())
        whole = placed if whole is None else whole + placed
    found: Tensor = whole
    return found
