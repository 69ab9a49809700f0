"""Fusion: the lines of a tape gathered into kernels. Knows a device only by its `Limits`.

Lines are taken in order. A line joins the kernel that makes its inputs where both visit the same
points, so that the value stays in a register; kernels whose results nobody else has read yet move
along and merge. What decides is strides alone: a value made in a kernel may be read in it exactly
if the reading strides over the kernel's axes are those it would be stored with.

A `Group` is a kernel being gathered; `_Builder` makes a `Loops` kernel of it. Contractions are
kernels of their own, ops without a kernel are host steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from contraflow import scalar as s
from contraflow.dtypes import DType, bool_, float64, int64
from contraflow.kernel import (
    STRIDED,
    Call,
    Contraction,
    Limits,
    Loops,
    Operand,
    Reduction,
    Store,
)
from contraflow.op import Contracting, Spec
from contraflow.op import Reduction as ReductionKind
from contraflow.scalar import Expr
from contraflow.shapes import (
    Shape,
    View,
    broadcast_strides,
    contiguous,
    contiguous_strides,
    normalize_dims,
    numel,
)
from contraflow.tape import Tape, TapeLine, Value

# A reduction to a single number runs on one thread; larger inputs are computed in parallel first.
WHOLE_REDUCTION = 1 << 16


class Place(NamedTuple):
    """What a kernel operand is bound to: elements of a value from an offset on, or a scalar."""

    value: Value | bool | int | float | None
    offset: int = 0


@dataclass
class KernelUse:
    """A kernel with what its operands are bound to, and the tape line that errors are blamed on."""

    call: Call
    places: tuple[Place, ...]
    line: int
    # For a store into part of a value: the value whose elements fill the rest.
    rest: Value | None = None

    @property
    def reads(self) -> set[Value]:
        """The values it reads."""
        return self._values(("in", "inout")) | ({self.rest} if self.rest is not None else set())

    @property
    def writes(self) -> set[Value]:
        """The values it makes."""
        return self._values(("out", "inout"))

    def _values(self, modes: tuple[str, ...]) -> set[Value]:
        return {
            p.value
            for o, p in zip(self.call.kernel.operands, self.places)
            if o.mode in modes and isinstance(p.value, Value)
        }


@dataclass
class HostUse:
    """A line that runs on the host, with the views of the values it reads."""

    line: int
    tape_line: TapeLine
    inputs: tuple[Any, ...]  # (value, View) pairs and literals

    @property
    def reads(self) -> set[Value]:
        """The values it reads."""
        return {x[0] for x in self.inputs if isinstance(x, tuple)}

    @property
    def writes(self) -> set[Value]:
        """The values it makes."""
        return set(self.tape_line.outs)


Use = KernelUse | HostUse
Fused = list[Use]


def fuse(tape: Tape, host: set[Value], limits: Limits) -> Fused:
    """Gather the lines of a tape, those known on the host aside, into kernels and host steps."""
    return _Fuser(tape, host, limits).run()


@dataclass
class Group:
    """A kernel being gathered: lines that visit the same points."""

    domain: Shape
    region: int
    inner: frozenset[int] = frozenset()  # dims of the domain that are reduced over
    lines: list[int] = field(default_factory=list)
    # For each value made here: the strides, over the domain's axes, it would be stored with.
    made: dict[Value, Shape] = field(default_factory=dict)
    reads: set[Value] = field(default_factory=set)


class _Fuser:
    def __init__(self, tape: Tape, host: set[Value], limits: Limits) -> None:
        self.tape, self.host, self.limits = tape, host, limits
        self.groups: list[Group | Use | None] = []
        self.maker: dict[Value, int] = {}  # the position in `groups` of what makes a value
        self.views: dict[Value, tuple[Value, View]] = {}  # strided lines, folded into their reads

    def run(self) -> Fused:
        for number, line in enumerate(self.tape.lines):
            if any(v in self.host for v in line.outs):
                continue
            lowering = line.op.kind.lowering
            if lowering == "view":
                (x,) = line.inputs
                assert isinstance(x, Value)
                self.views[line.outs[0]] = (self._owned(x, number), View(**line.params))
            elif lowering in ("map", "reduce"):
                self._place(number, line)
            elif lowering == "contract":
                self._contract(number, line)
            elif lowering == "assign":
                self._assign(number, line)
            else:
                inputs = tuple(self._access(x, number) for x in line.inputs)
                self._append(HostUse(number, line, inputs), line.outs)
        return list(self._finished())

    def _finished(self) -> Iterable[Use]:
        outside = set(self.tape.roots)
        for g in self.groups:
            if g is not None:
                outside |= g.reads - (set(g.made) if isinstance(g, Group) else set())
        for g in self.groups:
            if isinstance(g, Group):
                use = _Builder(self, g, outside).build()
                if use is not None:
                    yield use
            elif g is not None:
                yield g

    def _append(self, g: Group | Use, outs: Iterable[Value]) -> None:
        self.groups.append(g)
        self.maker.update(dict.fromkeys(outs, len(self.groups) - 1))

    # --- reading --------------------------------------------------------------------------

    def _owned(self, x: Value, number: int) -> Value:
        """A value that lies whole in memory; a view is copied (tapes made by hand have these)."""
        if x in self.views:
            return self._copied(x, self.tape.specs[x], number)
        return x

    def _access(self, x: Any, number: int) -> Any:
        """(value, View) of a tensor operand; literals and host values stay as they are."""
        if not isinstance(x, Value) or x in self.host:
            return x
        if x in self.views:
            return self.views[x]
        return x, contiguous(self.tape.specs[x].shape)

    def _copied(self, x: Value, spec: Spec, number: int, order: Sequence[int] | None = None) -> Value:
        """A new value with the elements of `x`, dims reordered and cast, contiguous."""
        value, view = self._access(x, number)
        if order is not None:
            view = view.permute(order)
        copy = self.tape.new(Spec(view.shape, spec.dtype))
        strides = contiguous_strides(view.shape)
        group = Group(view.shape, -1, made={copy: strides}, reads={value})
        builder = _Builder(self, group, {copy})
        loaded = builder.load(value, view.strides, view.offset)
        builder.results[copy] = s.cast(loaded, spec.dtype.compute)
        builder.line = number
        self._append(builder.build_from_results(), (copy,))
        return copy

    # --- maps and reductions --------------------------------------------------------------

    def _place(self, number: int, line: TapeLine) -> None:
        """Put a line into the newest group that makes one of its inputs, or into a new one."""
        reduces = line.op.kind.lowering == "reduce"
        first = line.inputs[0] if line.inputs else None
        spec = self.tape.specs[first if reduces and isinstance(first, Value) else line.outs[0]]
        producers = sorted(
            {self.maker[a[0]] for a in self._accesses(line, number) if a[0] in self.maker},
            reverse=True,
        )
        at = len(self.groups)
        if producers:
            newest = self.groups[producers[0]]
            if isinstance(newest, Group) and self._fits(newest, number, line):
                at = producers[0]
        if at == len(self.groups):
            self.groups.append(Group(spec.shape, line.region))
            assert self._fits(self.groups[at], number, line)
        for p in producers:
            if p != at:
                self._merge(p, at, number, line)
        group = self.groups[at]
        assert isinstance(group, Group)
        if reduces and not group.inner:
            group.inner = self._reduced_dims(line)
        group.lines.append(number)
        for v in line.outs:
            layout = self._layout(group, line, v)
            assert layout is not None
            group.made[v] = layout
            self.maker[v] = at
        group.reads |= {a[0] for a in self._accesses(line, number)}

    def _accesses(self, line: TapeLine, number: int) -> list[tuple[Value, View]]:
        found = (self._access(x, number) for x in line.inputs)
        return [a for a in found if isinstance(a, tuple)]

    def _reduced_dims(self, line: TapeLine) -> frozenset[int]:
        (x,) = line.inputs
        assert isinstance(x, Value)
        rank = len(self.tape.specs[x].shape)
        return frozenset(normalize_dims(line.op.name, line.params["dim"], rank))

    def _axes(self, group: Group, shape: Shape) -> tuple[int, ...] | None:
        """The domain axis of each dim of a value of this shape, None if it does not fit."""
        if shape == group.domain:
            return tuple(range(len(shape)))
        if not group.inner:
            return None
        kept = tuple(1 if d in group.inner else n for d, n in enumerate(group.domain))
        if shape == kept:
            return tuple(range(len(shape)))
        outer = [d for d in range(len(group.domain)) if d not in group.inner]
        if shape == tuple(group.domain[d] for d in outer):
            return tuple(outer)
        return None

    def _layout(self, group: Group, line: TapeLine, v: Value) -> Shape | None:
        """The strides over the domain with which `v`, made by `line`, would be stored."""
        shape = self.tape.specs[v].shape
        if line.op.kind.lowering == "reduce":
            dims = self._reduced_dims(line)
            if line.params["keepdim"]:
                axes: tuple[int, ...] | None = tuple(range(len(group.domain)))
            else:
                axes = tuple(d for d in range(len(group.domain)) if d not in dims)
        else:
            axes = self._axes(group, shape)
        if axes is None:
            return None
        strides = [0] * len(group.domain)
        for axis, stride, n in zip(axes, contiguous_strides(shape), shape):
            strides[axis] = stride if n != 1 else 0
        return tuple(strides)

    def reading(self, group: Group, line: TapeLine, view: View) -> Shape:
        """The strides over the domain with which `line` reads an operand under `view`."""
        if line.op.kind.lowering == "reduce":
            own, axes = group.domain, tuple(range(len(group.domain)))
        else:
            own = self.tape.specs[line.outs[0]].shape
            found = self._axes(group, own)
            assert found is not None
            axes = found
        strides = [0] * len(group.domain)
        spread = broadcast_strides(view.shape, view.strides, own)
        for axis, stride, n in zip(axes, spread, own):
            strides[axis] = stride if n != 1 else 0
        return tuple(strides)

    def _fits(self, group: Any, number: int, line: TapeLine) -> bool:
        """Whether a line may become part of a group."""
        if not isinstance(group, Group) or group.region != line.region:
            return False
        if line.op.kind.lowering == "reduce":
            (x,) = line.inputs
            assert isinstance(x, Value)
            dims = self._reduced_dims(line)
            if self.tape.specs[x].shape != group.domain or group.inner not in (frozenset(), dims):
                return False
            whole = len(dims) == len(group.domain)
            if group.lines and whole and not group.inner and numel(group.domain) > WHOLE_REDUCTION:
                return False
        elif self._axes(group, self.tape.specs[line.outs[0]].shape) is None:
            return False
        if len(group.reads) + len(group.made) + len(line.inputs) + 1 > self.limits.bindings:
            return not group.lines
        return self._aligned(group, number, line)

    def _aligned(self, group: Group, number: int, line: TapeLine) -> bool:
        """Whether every value of the group that the line reads is at hand at the same point."""
        for value, view in self._accesses(line, number):
            if value in group.made:
                if line.op.kind.name in ("index", "window"):
                    return False
                layout = self.reading(group, line, view)
                if view.offset or layout != group.made[value]:
                    return False
        return True

    def _merge(self, old: int, new: int, number: int, line: TapeLine) -> None:
        """Move an older group into a newer one, if nothing in between needs it where it is."""
        source, target = self.groups[old], self.groups[new]
        if not (isinstance(source, Group) and isinstance(target, Group)):
            return
        compatible = (
            source.domain == target.domain
            and source.region == target.region
            and (source.inner == target.inner or not source.inner or not target.inner)
        )
        if not compatible or old > new:
            return
        for between in self.groups[old + 1 : new]:
            if between is not None and between.reads & set(source.made):
                return
        merged = Group(source.domain, source.region, source.inner | target.inner)
        merged.lines = sorted(source.lines + target.lines)
        merged.made = source.made | target.made
        merged.reads = source.reads | target.reads
        if len(merged.reads) + len(merged.made) + 2 > self.limits.bindings:
            return
        # What the target reads of the source must be at the same point, and so must the line.
        for reader in (*target.lines, number):
            if not self._aligned(merged, reader, self.tape.lines[reader]):
                return
        if line.op.kind.lowering == "reduce":
            if merged.inner not in (frozenset(), self._reduced_dims(line)):
                return
        elif self._axes(merged, self.tape.specs[line.outs[0]].shape) is None:
            return
        self.groups[new], self.groups[old] = merged, None
        self.maker.update(dict.fromkeys(source.made, new))

    # --- assignments ----------------------------------------------------------------------

    def _assign(self, number: int, line: TapeLine) -> None:
        base, value = line.inputs
        assert isinstance(base, Value)
        base = self._owned(base, number)
        (out,) = line.outs
        region = View(**line.params)
        group = Group(region.shape, line.region, made={out: region.strides})
        builder = _Builder(self, group, {out}, offset=region.offset)
        dtype = self.tape.specs[out].dtype
        builder.line = number
        place = self._access(value, number)
        if isinstance(place, tuple):
            given = builder.load(place[0], place[1].strides, place[1].offset)
        else:
            given = builder.scalar(value, dtype.compute)
        builder.results[out] = s.cast(given, dtype.compute)
        use = builder.build_from_results()
        use.rest = base
        self._append(use, (out,))

    # --- contractions ---------------------------------------------------------------------

    def _contract(self, number: int, line: TapeLine) -> None:
        kind = line.op.kind
        assert isinstance(kind, Contracting)
        given = self.tape.given(line.inputs)
        left, right, out = kind.labels(line.op, given, line.params)
        dtype = self.tape.specs[line.outs[0]].dtype
        a, b = line.inputs
        if self._swaps(left, right, out):
            a, b, left, right = b, a, right, left
        use = _ContractionBuilder(self, number, line, dtype).build(a, b, left, right, out)
        self._append(use, line.outs)

    @staticmethod
    def _swaps(left: str, right: str, out: str) -> bool:
        """Whether the result's last dim comes from the first operand, so they change places."""
        return bool(out) and out[-1] in left and out[-1] not in right


class _ContractionBuilder:
    """Lays a labelled contraction out as C[b, m, n] = sum of A[b, m, k] B[b, k, n]."""

    def __init__(self, fuser: _Fuser, number: int, line: TapeLine, dtype: DType) -> None:
        self.fuser, self.number, self.line, self.dtype = fuser, number, line, dtype
        self.sizes: dict[str, int] = {}

    def build(self, a: Any, b: Any, left: str, right: str, out: str) -> KernelUse:
        tape = self.fuser.tape
        for labels, x in ((left, a), (right, b)):
            self.sizes.update(zip(labels, tape.specs[x].shape))
        (result,) = self.line.outs
        batch = [c for c in out if c in left and c in right]
        rows = [c for c in out if c in left and c not in right]
        columns = [c for c in out if c in right and c not in left]
        depth = [c for c in left if c in right and c not in out and c != "_"]
        # Leading dims of one operand before the other's begin act as a batch with stride 0.
        order = [c for c in out if c not in batch]
        extra: list[str] = []
        while order and order != rows + columns:
            extra.append(order.pop(0))
            rows = [c for c in rows if c not in extra]
            columns = [c for c in columns if c not in extra]
        groups = ([*batch, *extra], rows, columns, depth)
        result_strides = self._strides(out, contiguous(tape.specs[result].shape))
        packed_a = self._laid_out(a, left, (groups[0], rows, depth))
        packed_b = self._laid_out(b, right, (groups[0], depth, columns))
        c = [self._collapsed(g, result_strides) for g in (groups[0], rows, columns)]
        if any(stride is None for stride in c):
            raise NotImplementedError(f"contract: {left},{right}->{out} interleaves its results")
        sizes = tuple(numel(self.sizes[x] for x in g) for g in groups)
        kernel = Contraction(self.dtype, self.dtype.compute)
        strides = (packed_a[1], packed_b[1], tuple(x or 0 for x in c))
        places = (Place(*packed_a[0]), Place(*packed_b[0]), Place(result, 0))
        return KernelUse(Call(kernel, sizes, strides), places, self.number)

    def _strides(self, labels: str, view: View) -> dict[str, int]:
        return {c: st for c, st in zip(labels, view.strides) if c != "_"}

    def _collapsed(self, labels: Sequence[str], strides: dict[str, int]) -> int | None:
        """The one stride that walks over several dims in order, None if there is none."""
        merged: int | None = None
        extent = 1
        for c in reversed(labels):
            if self.sizes[c] == 1:
                continue
            stride = strides.get(c, 0)
            if merged is None:
                merged = stride
            elif stride != merged * extent:
                return None
            extent *= self.sizes[c]
        return merged or 0

    def _laid_out(
        self, x: Value, labels: str, groups: Sequence[Sequence[str]]
    ) -> tuple[tuple[Value, int], tuple[int, ...]]:
        """Place and strides of an operand; a copy is made where its dims do not collapse."""
        fuser = self.fuser
        spec = fuser.tape.specs[x]
        value, view = fuser._access(x, self.number)
        if spec.dtype is self.dtype:
            strides = self._strides(labels, view)
            found = [self._collapsed(g, strides) for g in groups]
            if all(st is not None for st in found):
                return (value, view.offset), tuple(st or 0 for st in found)
        wanted = [c for g in groups for c in g if c in labels]
        order = [labels.index(c) for c in wanted]
        order += [i for i, c in enumerate(labels) if c == "_"]
        copy = fuser._copied(x, Spec(spec.shape, self.dtype), self.number, order)
        shape = fuser.tape.specs[copy].shape
        strides = dict(zip(wanted, contiguous_strides(shape)))
        found = [self._collapsed(g, strides) for g in groups]
        assert all(st is not None for st in found)
        return (copy, 0), tuple(st or 0 for st in found)


class _Builder:
    """Makes a `Loops` kernel of a group: operands, expressions, reductions, stores."""

    def __init__(self, fuser: _Fuser, group: Group, outside: set[Value], offset: int = 0) -> None:
        self.fuser, self.group, self.outside, self.offset = fuser, group, outside, offset
        self.tape = fuser.tape
        self.operands: list[tuple[DType, str, Shape]] = []  # strides over the domain, in order
        self.places: list[Place] = []
        self.results: dict[Value, Expr] = {}
        self.reductions: list[Reduction] = []
        self.loads: dict[Any, Expr] = {}
        self.line = 0

    # --- operands -------------------------------------------------------------------------

    def _operand(self, dtype: DType, mode: str, strides: Shape, place: Place) -> int:
        self.operands.append((dtype, mode, strides))
        self.places.append(place)
        return len(self.operands) - 1

    def load(self, value: Value, strides: Shape, offset: int, *args: Expr) -> Expr:
        """The element of a value in memory, at affine strides plus an offset expression."""
        key = (value, strides, offset, args)
        if key not in self.loads:
            dtype = self.tape.specs[value].dtype
            slot = (value, strides, offset, "slot")
            if slot not in self.loads:
                number = self._operand(dtype, "in", strides, Place(value, offset))
                self.loads[slot] = s.const(number, int64)
            number = self.loads[slot].data
            self.loads[key] = s.leaf("load", dtype, number, *args)
        return self.loads[key]

    def scalar(self, x: Any, dtype: DType) -> Expr:
        """A literal or host value as an argument of the kernel."""
        number = self._operand(dtype, "scalar", (), Place(x))
        return s.leaf("load", dtype, number)

    def position(self, strides: Shape) -> Expr:
        """The address arithmetic of a contiguous array without the array: a counter."""
        key = ("position", strides)
        if key not in self.loads:
            number = self._operand(int64, "position", strides, Place(None))
            self.loads[key] = s.leaf("load", int64, number)
        return self.loads[key]

    def operand(self, line: TapeLine, x: Any, cast: DType | None) -> Expr:
        """An operand of a line at the current point."""
        if not isinstance(x, Value) or x in self.fuser.host:
            if cast is None:
                cast = self.tape.specs[x].dtype if isinstance(x, Value) else _number_dtype(x)
            return self.scalar(x, cast.compute)
        value, view = self.fuser._access(x, self.line)
        if value in self.results:
            found = self.results[value]
        else:
            strides = self.fuser.reading(self.group, line, view)
            found = self.load(value, strides, view.offset)
        return s.cast(found, (cast or found.dtype).compute)

    # --- lines ----------------------------------------------------------------------------

    def build(self) -> KernelUse | None:
        """The kernel of the whole group, None if nobody needs anything of it."""
        for number in self.group.lines:
            self.line = number
            line = self.tape.lines[number]
            casts, results = line.op.types(self.tape.given(line.inputs), line.params)
            if line.op.kind.lowering == "reduce":
                outs = self._reduce(line, self.operand(line, line.inputs[0], casts[0]))
            elif line.op.kind.name in ("index", "window"):
                outs = self._indexed(line, casts)
            else:
                inputs = [self.operand(line, x, c) for x, c in zip(line.inputs, casts)]
                given = self.tape.given(line.inputs)
                outs = line.op.kind.expression(line.op, given, line.params, inputs)
                outs = tuple(s.rewrite(outs, lambda e, line=line: self._counter(e, line)))
            for v, e, dtype in zip(line.outs, outs, results):
                self.results[v] = s.cast(e, dtype.compute)
        self.results = {v: e for v, e in self.results.items() if v in self.outside}
        return self.build_from_results() if self.results else None

    def _counter(self, e: Expr, line: TapeLine) -> Expr | None:
        if e.fn == "axis" and e.data == "linear":
            layout = self.group.made[line.outs[0]]
            return self.position(layout)
        return None

    def _reduce(self, line: TapeLine, x: Expr) -> tuple[Expr, ...]:
        kind = line.op.kind
        assert isinstance(kind, ReductionKind)
        values, combine, identity = kind.fold(line.op, x)
        if not self._reduced(line):  # over no dims: the element itself
            return tuple(s.rewrite(values, lambda e: s.const(0, int64) if e.fn == "axis" else None))
        within = tuple(n if d in self.group.inner else 1 for d, n in enumerate(self.group.domain))
        strides = tuple(
            st if d in self.group.inner and self.group.domain[d] != 1 else 0
            for d, st in enumerate(contiguous_strides(within))
        )

        def reduced_index(e: Expr) -> Expr | None:
            return self.position(strides) if e.fn == "axis" and e.data == "reduced" else None

        values = tuple(s.rewrite(values, reduced_index))
        number = len(self.reductions)
        self.reductions.append(Reduction(values, combine, identity))
        return tuple(s.leaf("reduced", v.dtype, (number, i)) for i, v in enumerate(values))

    def _reduced(self, line: TapeLine) -> bool:
        return bool(self.fuser._reduced_dims(line))

    def _indexed(self, line: TapeLine, casts: Sequence[DType | None]) -> tuple[Expr, ...]:
        """An index op's body, with each `read` turned into a load at a computed address."""
        given = self.tape.given(line.inputs)
        sources = [
            None if isinstance(g, Spec) else self.operand(line, x, c or self._value_dtype(given))
            for g, x, c in zip(given, line.inputs, casts)
        ]
        outs = line.op.kind.expression(line.op, given, line.params, sources)
        own = self.tape.specs[line.outs[0]].shape
        axes = self.fuser._axes(self.group, own)
        assert axes is not None

        def lower(e: Expr) -> Expr | None:
            if e.fn == "axis" and isinstance(e.data, int):
                return s.axis(axes[e.data])
            return self._read(line, e) if e.fn == "read" else None

        return tuple(s.rewrite(outs, lower))

    def _value_dtype(self, given: Sequence[Any]) -> DType:
        return next(g.dtype for g in given if isinstance(g, Spec))

    def _read(self, line: TapeLine, e: Expr) -> Expr:
        value, view = self.fuser._access(line.inputs[e.data], self.line)
        rank = len(view.shape)
        strides = [0] * len(self.group.domain)
        offset: Expr | None = None
        for coordinate, stride in zip(e.args[:rank], view.strides):
            if coordinate.fn == "axis":
                strides[coordinate.data] += stride
            elif not (coordinate.fn == "const" and coordinate.data == 0):
                term = coordinate * s.const(s.Size(stride), int64)
                offset = term if offset is None else offset + term
        valid = e.args[rank:]
        if offset is None and not valid:
            found = self.load(value, tuple(strides), view.offset)
        else:
            at = s.const(0, int64) if offset is None else offset
            found = self.load(value, tuple(strides), view.offset, at, *valid)
        return s.cast(found, found.dtype.compute)

    # --- the kernel -----------------------------------------------------------------------

    def build_from_results(self) -> KernelUse:
        """The kernel that stores `results`."""
        group = self.group
        stores = []
        for v, e in self.results.items():
            dtype = self.tape.specs[v].dtype
            strides = group.made[v]
            number = self._operand(dtype, "out", strides, Place(v, self.offset))
            inner = any(strides[d] for d in group.inner)  # else it is the same at every point
            stores.append(Store(number, s.cast(e, dtype), inner))
        axes = [d for d in range(len(group.domain)) if d not in group.inner]
        outer = len(axes)
        axes += sorted(group.inner)
        return self._finish(axes, outer, stores)

    def _finish(self, axes: list[int], outer: int, stores: list[Store]) -> KernelUse:
        stores = self._prune(stores)
        sizes = [self.group.domain[a] for a in axes]
        strides = [[st[a] for a in axes] if st else [] for _, _, st in self.operands]
        roots = [e for r in self.reductions for e in r.values] + [st.value for st in stores]
        used = {e.data for e in s.walk(roots) if e.fn == "axis"}
        names = list(axes)
        # Drop axes of one point, then merge neighbours that every operand walks over evenly.
        for i in reversed(range(len(sizes))):
            # A fold needs its sweep: the last inner axis stays, even if it is a single point.
            sweeps = i >= outer and len(sizes) - outer == 1
            if sizes[i] == 1 and names[i] not in used and not sweeps:
                outer -= _remove(i, sizes, strides, names, outer)
        i = len(sizes) - 2
        while i >= 0:
            together = (i + 1 < outer or i >= outer) and not {names[i], names[i + 1]} & used
            even = all(not st or st[i] == st[i + 1] * sizes[i + 1] for st in strides)
            if together and even:
                sizes[i + 1] *= sizes[i]
                outer -= _remove(i, sizes, strides, names, outer)
            i -= 1
        renamed = {name: i for i, name in enumerate(names)}

        def finish(e: Expr) -> Expr | None:
            if e.fn == "axis":
                return s.axis(renamed[e.data])
            if e.fn == "const" and isinstance(e.data, s.Size) and e.data not in (0, 1):
                return self._size(e.data)
            return None

        self._sizes: dict[int, Expr] = {}
        values = iter(s.rewrite(roots, finish))
        reductions = tuple(
            Reduction(tuple(next(values) for _ in r.values), r.combine, r.identity)
            for r in self.reductions
        )
        finished = tuple(Store(st.operand, next(values), st.inner) for st in stores)
        strides += [[] for _ in self.operands[len(strides) :]]
        operands = tuple(
            Operand(dtype, mode, tuple(x if x in (0, 1) else STRIDED for x in st))
            for (dtype, mode, _), st in zip(self.operands, strides)
        )
        kernel = Loops(
            outer, len(sizes) - outer, _lane(operands, sizes, outer), operands, reductions, finished
        )
        call = Call(kernel, tuple(sizes), tuple(map(tuple, strides)))
        return KernelUse(call, tuple(self.places), self.line)

    def _prune(self, stores: list[Store]) -> list[Store]:
        """Drop operands that only values nobody needs would have read."""
        roots = [e for r in self.reductions for e in r.values] + [st.value for st in stores]
        used = {e.data for e in s.walk(roots) if e.fn == "load"} | {st.operand for st in stores}
        renumbered = {old: new for new, old in enumerate(sorted(used))}
        self.operands = [self.operands[i] for i in renumbered]
        self.places = [self.places[i] for i in renumbered]

        def renumber(e: Expr) -> Expr | None:
            return s.leaf("load", e.dtype, renumbered[e.data], *e.args) if e.fn == "load" else None

        values = iter(s.rewrite(roots, renumber))
        self.reductions = [
            Reduction(tuple(next(values) for _ in r.values), r.combine, r.identity)
            for r in self.reductions
        ]
        return [Store(renumbered[st.operand], next(values), st.inner) for st in stores]

    def _size(self, n: int) -> Expr:
        if n not in self._sizes:
            self._sizes[n] = self.scalar(int(n), int64)
        return self._sizes[n]


def _remove(
    i: int, sizes: list[int], strides: list[list[int]], names: list[int], outer: int
) -> int:
    """Drop axis i; says whether it was an outer one."""
    del sizes[i], names[i]
    for st in strides:
        if st:
            del st[i]
    return int(i < outer)


def _lane(operands: Sequence[Operand], sizes: Sequence[int], outer: int) -> int | None:
    """The axis along which most operands lie side by side; later axes win ties."""
    best, best_score = None, 0
    for axis, n in enumerate(sizes):
        if n == 1:
            continue
        memory = [o for o in operands if o.mode in ("in", "out", "inout")]
        score = sum(2 * (o.strides[axis] == 1) - (o.strides[axis] == STRIDED) for o in memory)
        if score > 0 and score >= best_score:
            best, best_score = axis, score
    return best


def _number_dtype(x: bool | int | float) -> DType:
    if isinstance(x, bool):
        return bool_
    return int64 if isinstance(x, int) else float64
