"""Fusion: the lines of a tape gathered into kernels. Knows a device only by its `Limits`.

Lines are taken in order. A line joins the group that makes its inputs where both visit the same
points, so that the value stays in a register; groups whose results nobody else has read yet move
along and merge. Strides alone decide: a value made in a group may be read in it exactly
if the reading strides over the group's axes are those it would be stored with.

`lower.py` makes kernels of groups. Contractions, attention, scatters, scans and sorts are kernels
of their own; ops without a kernel are host steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

from contraflow import thresholds
from contraflow.compiler.attention_layout import (
    AttentionParts,
    lower_attention,
    parted_attention,
    reordered_attention,
)
from contraflow.compiler.comparisons import kept_values
from contraflow.compiler.contraction_layout import ContractionLayout, Target
from contraflow.compiler.kernel import Limits
from contraflow.compiler.lower import (
    Access,
    Fused,
    Group,
    HostUse,
    OperandPlace,
    TapeScope,
    Use,
    Visit,
    is_access,
    lower_group,
    lower_store,
)
from contraflow.compiler.narrow_layouts import narrow_layouts
from contraflow.compiler.ordered_uses import (
    lower_order,
    lower_scanning,
    lower_scattering,
    lower_sorting,
)
from contraflow.compiler.pieces import first_parts_of_wholes
from contraflow.compiler.tape import Tape, TapeLine, Uses, Value, count_uses
from contraflow.dtypes import DType
from contraflow.errors import host_only
from contraflow.operation.kinds import Scattering
from contraflow.operation.op import Op
from contraflow.shapes import View, contiguous, numel, rearranged
from contraflow.spec import Spec


def fuse(tape: Tape, host: set[Value], limits: Limits) -> Fused:
    """Gather the lines of a tape, those known on the host aside, into kernels and host steps."""
    return _Fuser(tape, host, limits).run()


def runs_on_host(op: Op, limits: Limits) -> bool:
    """Whether lines of an op run on the host, since the device has no kernel for them."""
    lowering = op.kind.lowering
    return lowering == "opaque" or (
        lowering in ("scatter", "scan", "sort") and lowering not in limits.kernels
    )


class Stored(NamedTuple):
    """A product that another line stores, both by number, and where its elements lie there."""

    product: int
    store: int
    layout: View


def stored_products(tape: Tape, uses: Uses) -> Iterator[Stored]:
    """Products that one line alone reads, to store them in another order or as part of a value."""
    makers = {v: i for i, line in enumerate(tape.lines) for v in line.outs}

    def made_for_one(x: Any, lowering: str) -> int | None:
        """The line that makes what only one line reads, if it is lowered so."""
        number = makers.get(x) if uses[x] == 1 else None
        fits = number is not None and tape.lines[number].op.kind.lowering == lowering
        return number if fits else None

    for number, line in enumerate(tape.lines):
        assigns = line.op.is_assign
        x: Any = line.inputs[-1] if assigns or line.op.is_copy else None
        if not isinstance(x, Value):
            continue
        view = contiguous(tape.specs[x].shape)
        region = View(**line.params) if assigns else view
        shown = made_for_one(x, "view")
        if shown is not None:
            (x,), view = tape.lines[shown].inputs, View(**tape.lines[shown].params)
        product = made_for_one(x, "contract")
        if product is not None and tape.specs[x].dtype is tape.specs[line.outs[0]].dtype:
            layout = rearranged(tape.specs[x].shape, view, region)
            if layout is not None:
                yield Stored(product, number, layout)


def _reading_lines(tape: Tape) -> dict[Value, set[int]]:
    """The lines that read each value, or a view of it, by number; -1 stands for the caller."""
    found: dict[Value, set[int]] = defaultdict(set)
    shown: dict[Value, Value] = {}  # views of whole values
    for number, line in enumerate(tape.lines):
        for x in line.inputs:
            if not isinstance(x, Value):
                continue
            if line.op.kind.lowering == "view" and x not in shown:
                shown[line.outs[0]] = x
            else:
                found[shown.get(x, x)].add(number)
    for v in tape.roots:
        found[shown.get(v, v)].add(-1)
    return found


class _Fuser:
    def __init__(self, tape: Tape, host: set[Value], limits: Limits) -> None:
        self.tape, self.host, self.limits = tape, host, limits
        self.scope = TapeScope(tape, host)
        self.scope.narrow, self.scope.costs = limits.int64_bits < 64, limits.costs
        self.scope.layouts = narrow_layouts(tape, host, limits.narrow)
        self.groups: list[Group | Use | None] = []
        self.maker: dict[Value, int] = {}  # the position in `groups` of what makes a value
        # Heaps of the positions of what else reads a value; some groups there have moved since.
        self.readers: dict[Value, list[int]] = defaultdict(list)
        self.roots = tape.roots
        uses = count_uses(tape)
        self.begins = first_parts_of_wholes(tape, uses)
        self.stored: dict[int, Stored] = {}  # by the line whose turn it is to make the product
        self.skipped: set[int] = set()  # the lines whose work others do
        self._find_stored_products(uses)
        # Parts of one value are several operands, all of which are written.
        parted = parted_attention(tape) if limits.aliasing else ()
        self.parted = {parts.stores[-1]: parts for parts in parted}
        for parts in self.parted.values():
            self.skipped.update((parts.line, *parts.stores[:-1]))
        # Copies that are not made: the value whose memory holds the same in the same order.
        self.same: dict[Value, Value] = {}
        for number, x, layout in reordered_attention(tape, self.scope.layouts):
            self.scope.layouts[x] = layout
            self.same[tape.lines[number].outs[0]] = x
        self.final_values = set(tape.writes.values())  # what inputs will hold
        self.last_risk = -1  # the position of the last that may fail
        self.kept = kept_values(tape, limits)  # what is read from memory only
        # The lines that read each value, for a device whose kernels may have few operands.
        self.reading = _reading_lines(tape) if limits.bindings < Limits().bindings else None

    def run(self) -> Fused:
        for number, line in enumerate(self.tape.lines):
            if not self.host.issuperset(line.outs):
                self._lower(number, line)
        for v in self.roots:
            if v in self.scope.fills:
                self._stored(v, len(self.tape.lines) - 1)
        return list(self._finished())

    def _lower(self, number: int, line: TapeLine) -> None:
        lowering = line.op.kind.lowering
        if number in self.skipped:
            return
        if number in self.stored:
            self._store_product(*self.stored[number])
        elif number in self.parted:
            parts = self.parted[number]
            self._attend(parts.line, self.tape.lines[parts.line], parts)
        elif line.outs[0] in self.same:
            (out,) = line.outs
            self.scope.views[out] = (self.same[out], contiguous(self.tape.specs[out].shape))
        elif lowering == "view":
            self._show(number, line)
        elif line.op.is_fill:
            self.scope.fills[line.outs[0]] = line.inputs[0]
        elif line.op.variadic and len(line.inputs) + 2 > self.limits.bindings:
            self._store_parts(number, line)
        elif lowering in ("map", "reduce"):
            self._place(number)
        elif lowering == "contract":
            self._append(self._layout(number).lower(number))
        elif lowering == "attention":
            self._attend(number, line)
        elif lowering == "assign":
            (out,), source = line.outs, self.scope.access(line.inputs[1])
            rest = self._rest(number)
            self._append(lower_store(self.scope, source, out, View(**line.params), number, rest))
        elif runs_on_host(line.op, self.limits):
            if self.limits.has_call(line.op.name):
                inputs: tuple[Any, ...] = self._for_library(line, number)
            elif self.limits.host:
                inputs = self._in_memory(line, number)
            else:
                raise host_only(line.op.name, line.line)
            self._append(HostUse(number, line, inputs))
        elif lowering == "scatter":
            self._scatter(number, line)
        elif lowering == "scan":
            carried = self._carried(line)
            self._extend(lower_scanning(self.scope, number, line, carried, self.limits))
        else:
            assert lowering == "sort", f"{line.op.name} has another kind of lowering: {lowering}"
            self._extend(lower_sorting(self.scope, number, line, self.limits))

    def _store_parts(self, number: int, line: TapeLine) -> None:
        """Store inputs side by side one by one: more than one kernel could read.

        They are parts of the dim that `dim` names, or its single coordinates where they lack it.
        """
        (out,), dim = line.outs, line.params["dim"]
        spec, start = self.tape.specs[out], 0
        whole, rest = contiguous(spec.shape), None
        for i, x in enumerate(line.inputs):
            assert isinstance(x, Value)
            shape = self.tape.specs[x].shape
            lacks = len(shape) < len(spec.shape)
            stop = start + (1 if lacks else shape[dim])
            target = out if i == len(line.inputs) - 1 else self.tape.new(spec)
            region = whole.select(dim, start) if lacks else whole.slice(dim, start, stop, 1)
            source = self.scope.access(x)
            self._append(lower_store(self.scope, source, target, region, number, rest))
            rest, start = target, stop

    def _rest(self, number: int) -> Value | None:
        """The base that a line assigns a part to; a fill that is overwritten whole has none."""
        base = self.tape.lines[number].inputs[0]
        begins = number in self.begins and base in self.scope.fills
        return None if begins else self._whole(base, number)

    def _show(self, number: int, line: TapeLine) -> None:
        """Note what a view shows."""
        (x,), view = line.inputs, View(**line.params)
        assert isinstance(x, Value)
        if x in self.same:
            self.scope.views[line.outs[0]] = (self.same[x], view)
        else:
            base = self._whole(x, number)
            self.scope.views[line.outs[0]] = (base, self.scope.view(base, view))

    def _attend(self, number: int, line: TapeLine, parts: AttentionParts | None = None) -> None:
        """The kernels of an attention line, behind the copies that they read."""

        def copied(x: Value) -> Value:
            return self._copied(x, self.tape.specs[x].dtype, None, number)

        scope, rest = self.scope, self._rest(parts.stores[0]) if parts else None
        self._extend(list(lower_attention(scope, number, line, copied, self.limits, parts, rest)))

    def _layout(self, number: int) -> ContractionLayout:
        """How a contraction may be laid out."""
        line = self.tape.lines[number]

        def copy(x: Value, dtype: DType, dims: Sequence[tuple[int, int]]) -> Value:
            return self._copied(x, dtype, dims, number)

        return ContractionLayout(self.scope, line, copy, self.limits.windows)

    def _find_stored_products(self, uses: Uses) -> None:
        """Find the products that are written where a line stores them: at once, but as a part of a
        value when that is there."""
        for found in stored_products(self.tape, uses):
            if not self.scope.layouts.keys().isdisjoint(self.tape.lines[found.store].outs):
                continue
            if self._layout(found.product).suits(found.layout.strides):
                pair = (found.product, found.store)
                turn, other = reversed(pair) if self._assigns(found.store) else pair
                self.stored[turn] = found
                self.skipped.add(other)

    def _assigns(self, number: int) -> bool:
        return self.tape.lines[number].op.is_assign

    def _store_product(self, product: int, store: int, layout: View) -> None:
        """Make a product where a line stores it."""
        (out,) = self.tape.lines[store].outs
        rest = self._rest(store) if self._assigns(store) else None
        target = Target(OperandPlace(out, layout.offset), layout.strides, rest)
        use = self._layout(product).lower(product, target)
        use.does = (product, store)
        self._append(use)

    def _scatter(self, number: int, line: TapeLine) -> None:
        """Sweeps over a copy of the base, or over zeros, in the type that is carried."""
        op, (out,) = line.op, line.outs
        assert isinstance(op.kind, Scattering)
        shape, dtype = self.tape.specs[out]
        carried = self._carried(line) or dtype.compute
        rest = self._base(line, Spec(shape, carried), number)
        sweeps = len(op.kind.sweeps(op, carried, line.params))
        uses, order = lower_order(self.scope, number, line, self.limits)
        self._extend(uses)
        for sweep in range(sweeps):
            last = sweep == sweeps - 1 and carried is dtype
            target = out if last else self.tape.new(Spec(shape, carried))
            self._append(lower_scattering(self.scope, number, line, target, rest, sweep, order))
            rest = target
        if rest is not out:
            whole = contiguous(shape)
            self._append(lower_store(self.scope, (rest, whole), out, whole, number))

    def _carried(self, line: TapeLine) -> DType | None:
        """The dtype in which a line's sums are carried, None for that of arithmetic."""
        if not self.limits.doubles:
            return None
        return line.op.kind.carried(line.op, self.tape.given(line.inputs), line.params)

    def _base(self, line: TapeLine, spec: Spec, number: int) -> Value:
        """The base of a scattering line, as a value of this spec that lies in memory."""
        name = line.op.extra.get("base")
        if name is None:
            zeros = self.tape.new(spec)
            self._append(lower_store(self.scope, 0, zeros, contiguous(spec.shape), number))
            return zeros
        x = line.inputs[line.op.inputs.index(name)]
        assert isinstance(x, Value)
        if self.tape.specs[x].dtype is spec.dtype:
            return self._whole(x, number)
        return self._copied(x, spec.dtype, None, number)

    def _finished(self) -> Iterator[Use]:
        wanted = set(self.roots)
        for g in self.groups:
            if g is not None:
                wanted |= g.reads.difference(g.made) if isinstance(g, Group) else g.reads
        for g in self.groups:
            if isinstance(g, Group):
                yield from lower_group(self.scope, g, wanted)
            elif g is not None:
                yield g

    def _extend(self, uses: Iterable[Use]) -> None:
        for use in uses:
            self._append(use)

    def _append(self, use: Use) -> None:
        at = len(self.groups)
        self.groups.append(use)
        self.maker.update(dict.fromkeys(use.writes, at))
        self._note_reads(use.reads, at)
        if use.may_fail:
            self.last_risk = at

    def _note_reads(self, values: Iterable[Value], at: int, own: Container[Value] = ()) -> None:
        """Something reads values that others make."""
        for v in values:
            if v not in own and v in self.maker:
                heappush(self.readers[v], at)

    def _is_read_between(self, v: Value, maker: int, end: int) -> bool:
        """Whether something behind what makes a value, and before another position, reads it."""
        readers = self.readers[v]
        while readers and (readers[0] <= maker or self.groups[readers[0]] is None):
            heappop(readers)
        return bool(readers) and readers[0] < end

    # --- values that must lie in memory -----------------------------------------------------

    def _whole(self, x: Any, number: int) -> Value:
        """A value that lies whole in memory: a view is copied, a fill is stored."""
        assert isinstance(x, Value)
        if x in self.scope.views:
            return self._copied(x, self.tape.specs[x].dtype, None, number)
        self._stored(x, number)
        return x  # a host value is read as a scalar wherever it is used

    def _stored(self, x: Value, number: int) -> None:
        """Store a fill, because somebody needs it in memory."""
        value = self.scope.views[x][0] if x in self.scope.views else x
        # Earlier readers run before this store, and still read it as a scalar.
        if value in self.scope.fills and value not in self.maker:
            region = contiguous(self.tape.specs[value].shape)
            self._append(lower_store(self.scope, self.scope.fills[value], value, region, number))

    def _in_memory(self, line: TapeLine, number: int) -> tuple[Any, ...]:
        """The operands of a host step: scalars that stand for tensors are stored first."""
        inputs: list[Any] = []
        for x in line.inputs:
            if isinstance(x, Value):
                self._stored(x, number)
                if self.scope.located(x)[0] in self.host:
                    x = self._copied(x, self.tape.specs[x].dtype, None, number)
                inputs.append(self.scope.located(x))
            else:
                inputs.append(x)
        return tuple(inputs)

    def _for_library(self, line: TapeLine, number: int) -> tuple[Access, ...]:
        """The operands of a step that a library does: whole values, of the dtypes that the op
        computes in."""
        inputs: list[Access] = []
        computed = line.op.types(self.tape.given(line.inputs), line.params)[0]
        for x, dtype in zip(line.inputs, computed):
            assert isinstance(x, Value) and dtype is not None
            self._stored(x, number)
            value, view = self.scope.located(x)
            whole = contiguous(self.tape.specs[x].shape)
            is_whole = view == whole and self.tape.specs[value] == (whole.shape, dtype)
            if value in self.host or not is_whole:
                value = self._copied(x, dtype, None, number)
            inputs.append((value, whole))
        return tuple(inputs)

    def _copied(
        self, x: Value, dtype: DType, dims: Sequence[tuple[int, int]] | None, number: int
    ) -> Value:
        """A new value with the elements of `x`, cast, in other dims (number, size), contiguous."""
        found = self.scope.access(x)
        shape = self.tape.specs[x].shape
        if dims is not None:
            shape = tuple(size for _, size in dims)
            if is_access(found):
                value, (_, strides, offset) = found
                strides = tuple(0 if d < 0 else strides[d] for d, _ in dims)
                found = (value, View(shape, strides, offset))
        copy = self.tape.new(Spec(shape, dtype))
        self._append(lower_store(self.scope, found, copy, contiguous(shape), number))
        return copy

    # --- maps and reductions ----------------------------------------------------------------

    def _place(self, number: int) -> None:
        """Put a line into the newest group that makes one of its inputs, or into a new one."""
        visit = self.scope.visit(number)
        found = {self.maker[v] for v, _ in visit.reads if v in self.maker}
        producers = sorted(found, reverse=True)
        at = producers[0] if producers else -1
        # State that is made before all risks are over cannot be made where it will lie.
        early = at < self.last_risk and not self.final_values.isdisjoint(visit.line.outs)
        if at < 0 or early or not self._fits(self.groups[at], visit):
            at = len(self.groups)
            self.groups.append(Group(visit.shape, visit.line.region))
        for p in producers:
            if p != at:
                self._merge(p, at, visit)
        group = self.groups[at]
        assert isinstance(group, Group)
        self._join(group, visit)
        if visit.line.op.kind.indexes:
            self.last_risk = max(self.last_risk, at)
        self._note_reads([v for v, _ in visit.reads], at, group.made)
        self.maker.update(dict.fromkeys(visit.line.outs, at))

    def _join(self, group: Group, visit: Visit) -> None:
        """Make a line the last of a group."""
        if visit.reduced is not None:
            group.inner |= visit.reduced
            group.reductions += 1
        group.visits.append(visit)
        group.indexes = group.indexes or visit.line.op.kind.indexes
        group.may_fail = group.may_fail or visit.may_fail
        group.reads.update([v for v, _ in visit.reads])
        if self.kept:
            group.kept.update(self.kept.intersection(visit.line.outs))
        for v in visit.line.outs:
            group.made[v] = group.storing(visit, self.scope.layout(v))

    def _fits(self, group: Any, visit: Visit) -> bool:
        """Whether a line may become part of what makes one of its inputs."""
        if not isinstance(group, Group):
            return False
        for allows in RULES:
            if not allows(self.limits, group, visit):
                return False
        if self.reading is None:
            return True
        return self._count_operands(group, visit, self.reading) <= self.limits.bindings

    def _count_operands(self, group: Group, visit: Visit, reading: dict[Value, set[int]]) -> int:
        """How many operands in memory a group would have with one more line, if none followed."""
        visits = [*group.visits, visit]
        lines = {each.number for each in visits}
        made = {*group.made, *visit.line.outs}
        loads = {(v, view, each.shape, _places(each)) for each in visits for v, view in each.reads}
        count = sum(v not in made for v, *_ in loads)
        count += sum(not reading.get(v, lines) <= lines for v in made)
        count += group.may_fail or visit.may_fail  # memory for the record of a failure
        inner = group.inner | (visit.reduced or frozenset())
        if numel(group.domain[d] for d in inner) > thresholds.long_fold:
            # The fold is cut, and another kernel reads up to two components of each reduction.
            count += 2 * (group.reductions + (visit.reduced is not None))
        return count

    def _merge(self, old: int, new: int, visit: Visit) -> None:
        """Move an older group into a newer one, if nothing in between needs it where it is."""
        source, target = self.groups[old], self.groups[new]
        if not (isinstance(source, Group) and isinstance(target, Group)):
            return
        if source.domain != target.domain:  # one visits the results of the other's reduction
            return
        if any(self._is_read_between(v, old, new) for v in source.made):
            return
        merged = self._merged(source, target)
        if merged is not None and self._fits(merged, visit):
            self.groups[new], self.groups[old] = merged, None
            self.maker.update(dict.fromkeys(source.made, new))
            self._note_reads(source.reads, new, merged.made)

    def _merged(self, source: Group, target: Group) -> Group | None:
        """The lines of two groups as one, None if a rule keeps one of them from joining the rest.

        They join one by one in the order of the tape, as if all had been placed there.
        """
        merged = Group(target.domain, target.region)
        for visit in sorted(source.visits + target.visits):
            if not self._fits(merged, visit):
                return None
            self._join(merged, visit)
        return merged


def _places(visit: Visit) -> Any:
    """A mark of where a line reads: lines that index read a value by operands of their own."""
    line = visit.line
    return (line.op.name, tuple(line.params.items())) if line.op.kind.indexes else None


# --- rules: what may become part of a group ------------------------------------------------------


def is_of_the_region(limits: Limits, group: Group, visit: Visit) -> bool:
    """Whether line and group belong to the same checkpoint, or to none."""
    return group.region == visit.line.region


def is_within_limits(limits: Limits, group: Group, visit: Visit) -> bool:
    """Whether a kernel of the device may have so many lines and reductions."""
    if visit.reduced is not None and group.reductions >= limits.folds:
        return False
    return len(group.visits) < limits.lines


def is_on_the_points(limits: Limits, group: Group, visit: Visit) -> bool:
    """Whether a line's points are those of the group, or of its reduced results."""
    shape, dims = visit.shape, visit.reduced
    if dims is None:
        return group.axes(shape) is not None
    return shape == group.domain and group.inner in (frozenset(), dims)


def is_at_hand(limits: Limits, group: Group, visit: Visit) -> bool:
    """Whether every value of the group that the line reads is at hand at the same point."""
    for value, view in visit.reads:
        if value in group.made:
            if visit.line.op.kind.indexes or view.offset:
                return False
            if group.reading(visit.shape, view) != group.made[value]:
                return False
            returns = group.inner and visit.shape == group.domain and group.folds(value)
            if returns and not group.may_return():
                return False
    return True


def is_not_kept(limits: Limits, group: Group, visit: Visit) -> bool:
    """Whether the line reads no value of the group that must be read from memory."""
    return not group.kept or group.kept.isdisjoint([v for v, _ in visit.reads])


# A line joins the group that makes one of its inputs if all of these allow it; two groups merge if
# they allow it of each line of both.
RULES: tuple[Callable[[Limits, Group, Visit], bool], ...] = (
    is_of_the_region,
    is_within_limits,
    is_on_the_points,
    is_at_hand,
    is_not_kept,
)
