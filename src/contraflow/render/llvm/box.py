"""The base of renderers to LLVM IR for kernels over a box of points.

Arguments, parts, loops, expressions and memory are here; the kernels themselves are in `loops.py`,
`scatter.py`, `scan.py` and `sort.py`.

The lane axis advances by a whole vector; the rest at its end is done under a mask, so every element
goes through the same instructions. Values are computed in the outermost loop that has all
they depend on; a load therefore runs wherever the axes it varies along have been entered.

The outer axis with the most vectors or points is the one that is cut into parts. Its points are
independent, so the bits of a result do not depend on the number of parts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from contraflow.compiler.kernel import STRIDED, Box, Store
from contraflow.dtypes import bool_, float64, int64
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.render.llvm.lowering import lower
from contraflow.render.llvm.text import (
    ARGUMENTS,
    CodeStretch,
    FunctionText,
    convert,
    expressions,
    literal,
    mangled,
    memory,
    operation,
    register,
    wide,
)

NO_LANE = -1
UNROLL = 4  # vectors folded at once by a kernel with a small body
SMALL_BODY = 24  # expressions; beyond that the body itself hides the latency


@dataclass(eq=False, repr=False)
class Scope:
    """A place in the loop nest: where values that need no more than its axes are computed."""

    code: CodeStretch
    parent: Scope | None
    axes: frozenset[int]
    level: int  # reductions below this level are finished
    axis: int | None = None  # the axis whose loop this is, unless that is the lane
    coordinate: str = ""
    points: tuple[str, ...] = ()  # the first coordinates of the vectors along the lane
    mask: str | None = None  # the lanes that exist
    values: dict[tuple[Any, ...], str] = field(default_factory=dict)


Visitor = Callable[[Scope, list[str]], list[str]]
Turn = Callable[[str, list[str]], list[str]]  # of a loop: its index and what it carries


def lowered(kernel: Box, exprs: Sequence[Expr]) -> tuple[Expr, ...]:
    """Expressions of a kernel in which every function has an LLVM column."""

    def read_scalar(e: Expr) -> Expr | None:
        if e.fn != "load" or kernel.operands[e.data].mode != "scalar":
            return None
        stored = float64 if e.dtype.is_floating_point else int64
        return s.cast(s.leaf("load", stored, e.data), e.dtype)

    return tuple(lower(s.rewrite(exprs, read_scalar)))


class BoxRenderer:
    """Writes one function; subclasses say what happens at the points, and in which order."""

    grain = 1  # vectors along the lane that stay together when work is cut into parts
    parts = "%parts"  # those that get work

    def __init__(self, kernel: Box, roots: Sequence[Expr], name: str, vector_bytes: int) -> None:
        """`roots` are all expressions of the kernel that are computed, lowered."""
        self.kernel = kernel
        self.lane = NO_LANE if kernel.lane is None else kernel.lane
        self.axis_count = kernel.outer + kernel.inner
        everything = list(s.walk(roots))
        self._find_repeats(everything)
        starts = [*(start for start, _ in self.repeats.values()), *self.reversals.values()]
        self._analyse(list(s.walk([*roots, *starts])))
        self.size = len(everything)
        self.width, self.unroll = 1, 1
        self.gathers = vector_bytes == 64  # processors with such vectors are fast at that
        if self.lane != NO_LANE:
            self.width = vector_bytes // _lane_bytes(everything)
        self.function = FunctionText(f"define void @{name}{ARGUMENTS} #0")
        self.top = Scope(self.function.code(), None, frozenset(), 0)

    # --- what is computed ----------------------------------------------------------------------

    def _carried(self, e: Expr) -> tuple[frozenset[int], int]:
        """Along which axes a leaf that loops carry varies, and from which level on it is known."""
        raise NotImplementedError(e)

    def _analyse(self, everything: Sequence[Expr]) -> None:
        """Find along which axes every expression varies, and after which pass it is known."""
        self.axes_of: dict[Expr, frozenset[int]] = {}
        self.level_of: dict[Expr, int] = {}
        self.parts_of: dict[Expr, list[Expr]] = {}  # of those whose values were asked for
        self.lane_coordinate = s.axis(self.lane)  # addresses need it even where no value does
        for e in (*everything, self.lane_coordinate):
            axes = frozenset().union(*(self.axes_of[a] for a in e.args))
            level = max([0, *(self.level_of[a] for a in e.args)])
            if e.fn == "axis":
                axes = frozenset((e.data,))
            elif e.fn == "load":
                classes = self.kernel.operands[e.data].strides
                axes |= {axis for axis, kind in enumerate(classes) if kind}
            elif e.fn in ("reduced", "left"):
                axes, level = self._carried(e)
            self.axes_of[e], self.level_of[e] = axes, level

    def _find_repeats(self, everything: Sequence[Expr]) -> None:
        """Find loads in which neighbouring lanes share an element: at `start + (lane >> bits)`;
        and those that go backwards: at `start - lane`."""
        self.repeats: dict[Expr, tuple[Expr, int]] = {}
        self.reversals: dict[Expr, Expr] = {}
        coordinate = s.axis(self.lane)
        loads = (e for e in everything if e.fn == "load" and e.args)
        for e in loads if self.lane != NO_LANE else ():
            start, along = s.const(0, int64), []
            for term in _terms(e.args[0]):
                if coordinate in s.walk([term]):
                    along.append(term)
                else:
                    start = start + term
            if self.kernel.operands[e.data].strides[self.lane] or len(along) != 1:
                continue
            shifted, bits = along[0].args if along[0].fn == "shr" else (None, None)
            if shifted is coordinate and bits is not None and bits.fn == "const":
                self.repeats[e] = (start, bits.data)
            if along[0].fn == "neg" and along[0].args[0] is coordinate:
                self.reversals[e] = start

    def _varies(self, e: Expr) -> bool:
        return self.lane in self.axes_of[e]

    # --- entry ---------------------------------------------------------------------------------

    def text(self) -> str:
        """The function's text."""
        self._enter_function()
        self._body()
        return self.function.text()

    def _body(self) -> None:
        """Write the loops."""
        raise NotImplementedError

    def _enter_function(self) -> None:
        """Read the arguments, and find the range of each axis."""
        kernel, code = self.kernel, self.top.code
        words = itertools.count()

        def word(name: str) -> str:
            return code.word("%arguments", next(words), name)

        self.nowhere = code.let("alloca [2 x i64]", "nowhere")
        self.bases: list[str] = []
        for operand in kernel.operands:
            index, offset = word("index"), word("offset")
            if operand.mode == "position":
                self.bases.append(offset)
                continue
            base = code.let(f"load ptr, ptr {code.at('%bases', 'ptr', index)}", "base")
            element = "i64" if operand.mode == "scalar" else memory(operand.dtype)
            self.bases.append(code.at(base, element, offset))
        if kernel.checks_indices:
            index, self.line = word("index"), word("line")
            next(words)
            record = code.let(f"load ptr, ptr {code.at('%bases', 'ptr', index)}", "record")
            self.record = code.at(record, "[2 x i64]", "%first")
        sizes = self.sizes = [word("size") for _ in range(self.axis_count)]
        self.strides = {
            (k, axis): word("stride")
            for k, operand in enumerate(kernel.operands)
            for axis, kind in enumerate(operand.strides)
            if kind == STRIDED
        }
        self.bounds = [*self._cut(code, sizes[: kernel.outer])]
        self.bounds += [("0", size) for size in sizes[kernel.outer :]]

    def _cut(self, code: CodeStretch, sizes: list[str]) -> list[tuple[str, str]]:
        """The range of every outer axis in these parts."""
        if not sizes:
            return []
        vectors = self.width * self.grain
        steps = [vectors if axis == self.lane else 1 for axis in range(len(sizes))]
        units = []
        for size, step in zip(sizes, steps):
            padded = code.integer("add", size, str(step - 1))
            units.append(padded if step == 1 else code.let(f"sdiv i64 {padded}, {step}"))
        # The first axis that has enough: its parts lie apart in memory, each in one piece.
        enough = code.let("shl i64 %parts, 1")
        chosen, most = "0", units[0]
        for axis, count in enumerate(units[1:], 1):
            more = code.let(f"icmp sgt i64 {count}, {most}")
            few = code.let(f"icmp slt i64 {most}, {enough}")
            more = code.let(f"and i1 {more}, {few}")
            chosen = code.let(f"select i1 {more}, i64 {axis}, i64 {chosen}")
            most = code.let(f"select i1 {more}, i64 {count}, i64 {most}")
        edges = [
            code.let(f"sdiv i64 {code.integer('mul', most, edge)}, {self.parts}")
            for edge in ("%first", "%last")
        ]
        ranges = []
        for axis, (size, step) in enumerate(zip(sizes, steps)):
            here = code.let(f"icmp eq i64 {chosen}, {axis}")
            first, last = (code.integer("mul", edge, str(step)) for edge in edges)
            stop = code.let(f"call i64 @llvm.smin.i64(i64 {last}, i64 {size})")
            ranges.append(
                (
                    code.let(f"select i1 {here}, i64 {first}, i64 0", "start"),
                    code.let(f"select i1 {here}, i64 {stop}, i64 {size}", "stop"),
                )
            )
        return ranges

    # --- loops ---------------------------------------------------------------------------------

    def _sweep(
        self, axes: Sequence[int], scope: Scope, carried: Sequence[tuple[str, str]], visit: Visitor
    ) -> list[str]:
        """Loop over `axes`, the lane innermost, around `visit`; give the final carried values."""
        first = next((axis for axis in axes if axis != self.lane), None)
        if first is not None:
            rest = [axis for axis in axes if axis != first]
            types = [kind for kind, _ in carried]

            def enter(index: str, now: list[str]) -> list[str]:
                inside = self._enter(scope, first)
                inside.axis, inside.coordinate = first, index
                return self._sweep_rest(rest, inside, list(zip(types, now)), visit)

            return self._long_loop(*self.bounds[first], 1, carried, enter)
        if axes:
            return self._sweep_lane(scope, carried, visit)
        return visit(scope, [value for _, value in carried])

    def _sweep_rest(
        self, axes: Sequence[int], scope: Scope, carried: Sequence[tuple[str, str]], visit: Visitor
    ) -> list[str]:
        """The loops inside of one over an axis."""
        return self._sweep(axes, scope, carried, visit)

    def _loop(
        self, start: str, stop: str, step: int, carried: Sequence[tuple[str, str]], turn: Turn
    ) -> list[str]:
        """A loop; give the final carried values."""
        with self.function.loop(start, stop, step, carried) as loop:
            loop.following = turn(loop.index, loop.carried)
        return loop.carried

    def _long_loop(
        self, start: str, stop: str, step: int, carried: Sequence[tuple[str, str]], turn: Turn
    ) -> list[str]:
        """A loop that may have many turns."""
        return self._loop(start, stop, step, carried, turn)

    def _sweep_lane(
        self, scope: Scope, carried: Sequence[tuple[str, str]], visit: Visitor
    ) -> list[str]:
        """Loop along the lane: by several vectors, by one, and over the rest under a mask."""
        types = [kind for kind, _ in carried]
        values = [value for _, value in carried]
        start, stop = self.bounds[self.lane]
        for vectors in (self.unroll, 1) if self.unroll > 1 else (1,):
            step = vectors * self.width
            code = self.function.code()
            length = code.integer("sub", stop, start)
            whole = code.let(f"and i64 {length}, {-step}")
            end = code.integer("add", start, whole)

            def turn(index: str, now: list[str], vectors: int = vectors) -> list[str]:
                inside = self._enter(scope, self.lane)
                more = (
                    inside.code.integer("add", index, str(n * self.width))
                    for n in range(1, vectors)
                )
                inside.points = (index, *more)
                return visit(inside, now)

            # The rest of the unrolled loop is shorter than one turn of it.
            loop = self._long_loop if vectors == self.unroll else self._loop
            values = loop(start, end, step, list(zip(types, values)), turn)
            start = end
        if self.width == 1:
            return values

        def last(index: str, now: list[str]) -> list[str]:
            inside = self._enter(scope, self.lane)
            inside.points = (index,)
            left = inside.code.integer("sub", stop, index)
            remaining = inside.code.let(f"trunc i64 {left} to i32")
            lanes = wide("i32", self.width)
            limit = inside.code.splat(remaining, "i32", self.width)
            inside.mask = inside.code.let(f"icmp slt {lanes} {self._iota('i32')}, {limit}", "mask")
            return visit(inside, now)

        return self._loop(start, stop, self.width, list(zip(types, values)), last)

    def _enter(self, scope: Scope, axis: int) -> Scope:
        return Scope(
            self.function.code(), scope, scope.axes | {axis}, scope.level,
            points=scope.points, mask=scope.mask,
        )  # fmt: skip

    # --- expressions ---------------------------------------------------------------------------

    def _home(self, e: Expr, scope: Scope) -> Scope:
        """The outermost place where everything `e` depends on is known."""
        axes, level = self.axes_of[e], self.level_of[e]
        while scope.parent and axes <= scope.parent.axes and level <= scope.parent.level:
            scope = scope.parent
        return scope

    def _value(self, root: Expr, scope: Scope, point: int, width: int) -> str:
        """The name of an expression's value, in `width` lanes."""
        if root not in self.parts_of:
            self.parts_of[root] = [e for e in s.walk([root]) if e.fn != "const"]
        for e in self.parts_of[root]:
            home, key = self._home(e, scope), (e, point if self._varies(e) else 0)
            if key not in home.values:
                home.values[key] = self._compute(e, home, point)
        return self._lookup(root, scope, point, width)

    def _lookup(self, e: Expr, scope: Scope, point: int, width: int) -> str:
        if e.fn == "const":
            return literal(e.data, e.dtype, width)
        home = self._home(e, scope)
        if self._varies(e) or width == 1:
            return home.values[e, point if self._varies(e) else 0]
        return self._remember(
            home, (e, "splat"),
            lambda code: code.splat(home.values[e, 0], register(e.dtype), width),
        )  # fmt: skip

    def _remember(
        self, scope: Scope, key: tuple[Any, ...], build: Callable[[CodeStretch], str]
    ) -> str:
        if key not in scope.values:
            scope.values[key] = build(scope.code)
        return scope.values[key]

    def _compute(self, e: Expr, scope: Scope, point: int) -> str:
        width = self.width if self._varies(e) else 1
        if e.fn == "axis":
            return self._coordinate(e.data, scope, point)
        if e.fn == "load":
            return self._load(e, scope, point, width)
        args = [self._lookup(a, scope, point, width) for a in e.args]
        if e.fn == "checked":
            return self._check(e, scope, point, width, *args)
        return operation(scope.code, e, args, width)

    def _combine(
        self,
        code: CodeStretch,
        roots: Sequence[Expr],
        left: Sequence[str],
        right: Sequence[str],
        width: int,
    ) -> list[str]:
        """Expressions over `left` and `right` leaves."""
        sides = {"left": left, "right": right}
        leaves = {e: sides[e.fn][e.data] for e in s.walk(roots) if e.fn in sides}
        return expressions(code, roots, leaves, width)

    def _coordinate(self, axis: int, scope: Scope, point: int) -> str:
        if axis == self.lane:
            lanes = wide("i64", self.width)
            first = scope.code.splat(scope.points[point], "i64", self.width)
            return scope.code.let(f"add {lanes} {first}, {self._iota('i64')}")
        assert scope.axis == axis, "the home of a coordinate is its loop"
        return scope.coordinate

    def _iota(self, element: str) -> str:
        return "<" + ", ".join(f"{element} {lane}" for lane in range(self.width)) + ">"

    def _check(self, e: Expr, scope: Scope, point: int, width: int, index: str, size: str) -> str:
        """An index made harmless: zero, and marked as invalid, where it is out of range."""
        code, dtype = scope.code, e.dtype
        kind, flags = register(dtype, width), wide("i1", width)
        # Compared without sign, a negative index is larger than every size.
        inside = code.let(f"icmp ult {kind} {index}, {size}")
        scope.values[e, "inside", point if self._varies(e) else 0] = inside
        outside = code.let(f"icmp uge {kind} {index}, {size}")
        if scope.mask and width > 1:
            outside = code.let(f"and {flags} {outside}, {scope.mask}")
        offender, found = convert(code, index, dtype, int64, width), outside
        if width > 1:
            lanes = wide("i64", width)
            lowest = literal(-(1 << 63), int64, width)
            candidates = code.let(f"select {flags} {outside}, {lanes} {offender}, {lanes} {lowest}")
            suffix = mangled("i64", width)
            offender = code.let(f"call i64 @llvm.vector.reduce.smax.{suffix}({lanes} {candidates})")
            found = code.let(f"call i1 @llvm.vector.reduce.or.v{width}i1({flags} {outside})")
        if scope.parent is None:  # the index of a loop that has no turns is nobody's
            for size in self.sizes:
                found = code.let(f"and i1 {found}, {code.let(f'icmp ne i64 {size}, 0')}")
        # The first error of a part stays. Writing elsewhere instead of branching keeps the code
        # straight, so that it can be moved out of loops.
        recorded = code.let(f"load i64, ptr {self.record}")
        vacant = code.let(f"icmp eq i64 {recorded}, 0")
        write = code.let(f"and i1 {found}, {vacant}")
        target = code.let(f"select i1 {write}, ptr {self.record}, ptr {self.nowhere}")
        code.do(f"store i64 {code.integer('add', self.line, '1')}, ptr {target}")
        code.do(f"store i64 {offender}, ptr {code.at(target, 'i64', '1')}")
        return code.let(f"select {flags} {inside}, {kind} {index}, {kind} zeroinitializer")

    # --- memory --------------------------------------------------------------------------------

    def _address(self, k: int, scope: Scope) -> str:
        """Operand k's element at the coordinates known in `scope`, the lane's left out.

        It is a pointer, or an i64 for a position.
        """
        operand, parent, axis = self.kernel.operands[k], scope.parent, scope.axis
        if parent is None:
            return self.bases[k]
        before = self._address(k, parent)
        if axis is None or not operand.strides[axis]:
            return before

        def step(code: CodeStretch) -> str:
            distance = scope.coordinate
            if operand.strides[axis] == STRIDED:
                distance = code.integer("mul", distance, self.strides[k, axis])
            if operand.mode == "position":
                return code.integer("add", before, distance)
            return code.at(before, memory(operand.dtype), distance)

        return self._remember(scope, ("address", k), step)

    def _along_lane(self, k: int, scope: Scope, point: int) -> str | None:
        """Each lane's distance along the lane axis, an i64 vector; None where all are zero."""
        kind = self.kernel.operands[k].strides[self.lane]
        if not kind:
            return None
        coordinates = self._value(self.lane_coordinate, scope, point, self.width)
        if kind == 1:
            return coordinates
        lanes = wide("i64", self.width)
        stride = self._remember(
            self.top, ("stride", k),
            lambda code: code.splat(self.strides[k, self.lane], "i64", self.width),
        )  # fmt: skip
        return self._remember(
            self._home(self.lane_coordinate, scope), ("along", k, point),
            lambda code: code.let(f"mul {lanes} {coordinates}, {stride}"),
        )  # fmt: skip

    def _load(self, e: Expr, scope: Scope, point: int, width: int) -> str:
        code, k = scope.code, e.data
        operand = self.kernel.operands[k]
        if operand.mode == "scalar":
            return code.let(f"load {register(e.dtype)}, ptr {self._address(k, scope)}")
        if operand.mode == "position":
            return self._position(k, scope, point, width)
        valid = self._validity(e, scope, point, width)
        if width > 1 and e in self.repeats and self.width >> self.repeats[e][1] > 1:
            value = self._load_repeated(e, scope, point, valid)
        elif width > 1 and e in self.reversals:
            value = self._load_reversed(e, scope, point, valid)
        else:
            value = self._fetch(k, e.args[:1], scope, point, width, valid)
        if operand.dtype is bool_:
            kind = memory(bool_, width)
            value = code.let(f"icmp ne {kind} {value}, zeroinitializer")
        return value

    def _fetch(
        self, k: int, at: Sequence[Expr], scope: Scope, point: int, width: int, valid: str | None
    ) -> str:
        """The elements of operand k, at an offset if there is one; zero where not valid."""
        code, operand = scope.code, self.kernel.operands[k]
        kind, align = memory(operand.dtype, width), operand.dtype.itemsize
        element = memory(operand.dtype)
        apart = self._apart(k, at, scope, point, width, valid)
        if apart:
            result = "poison"
            for lane, pointer in enumerate(apart):
                value = code.let(f"load {element}, ptr {pointer}, align {align}")
                result = code.let(f"insertelement {kind} {result}, {element} {value}, i64 {lane}")
            return result
        address, along = self._locate(k, at, scope, point, width)
        if width == 1:
            if valid:
                address = code.let(f"select i1 {valid}, ptr {address}, ptr {self.nowhere}")
            value = code.let(f"load {kind}, ptr {address}, align {align}")
            if valid:
                value = code.let(f"select i1 {valid}, {kind} {value}, {kind} zeroinitializer")
            return value
        if along is None:
            return self._load_contiguous(code, kind, address, valid, align)
        sources = self._pointers(code, address, element, along)
        flags = f"{wide('i1', width)} {valid or literal(True, bool_, width)}"
        return code.let(
            f"call {kind} @llvm.masked.gather.{mangled(element, width)}.v{width}p0"
            f"(<{width} x ptr> {sources}, i32 {align}, {flags}, {kind} zeroinitializer)"
        )

    def _apart(
        self, k: int, at: Sequence[Expr], scope: Scope, point: int, width: int, valid: str | None
    ) -> list[str]:
        """Pointers to the lanes' elements of operand k, if they are evenly apart and all valid.

        Where gathers are slow, single loads from addresses that are easily computed are faster.
        """
        code, operand = scope.code, self.kernel.operands[k]
        if self.gathers or valid or width == 1 or operand.strides[self.lane] != STRIDED:
            return []
        if at and self._varies(at[0]):
            return []
        element, stride = memory(operand.dtype), self.strides[k, self.lane]
        thrice = self._remember(
            self.top, ("thrice", k), lambda code: code.integer("mul", stride, "3")
        )
        first = self._address(k, scope)
        if at:
            first = code.at(first, element, self._lookup(at[0], scope, point, 1))
        distance = self._remember(
            self._home(self.lane_coordinate, scope), ("distance", k, point),
            lambda code: code.integer("mul", scope.points[point], stride),
        )  # fmt: skip
        first = code.at(first, element, distance)
        pointers: list[str] = []
        for _ in range(0, width, 4):
            pointers += (
                first,
                code.at(first, element, stride),
                code.at(first, f"[2 x {element}]", stride),
                code.at(first, element, thrice),
            )
            first = code.at(first, f"[4 x {element}]", stride)
        return pointers[:width]

    def _locate(
        self, k: int, at: Sequence[Expr], scope: Scope, point: int, width: int
    ) -> tuple[str, str | None]:
        """Where the first lane's element of operand k lies, and how far from there each lane's;
        None where they lie side by side."""
        code, operand = scope.code, self.kernel.operands[k]
        address, element = self._address(k, scope), memory(operand.dtype)
        scattered = bool(at) and self._varies(at[0])
        if at and not scattered:
            address = code.at(address, element, self._lookup(at[0], scope, point, 1))
        if width == 1:
            apart = operand.strides[self.lane] if self.lane in scope.axes else 0
            if apart:
                distance = scope.points[point]
                if apart == STRIDED:
                    distance = code.integer("mul", distance, self.strides[k, self.lane])
                address = code.at(address, element, distance)
            return address, None
        if operand.strides[self.lane] == 1 and not scattered:
            return code.at(address, element, scope.points[point]), None
        along = self._along_lane(k, scope, point)
        if scattered:
            distance = self._lookup(at[0], scope, point, width)
            lanes = wide("i64", width)
            along = code.let(f"add {lanes} {along}, {distance}") if along else distance
        return address, along or "zeroinitializer"

    def _position(self, k: int, scope: Scope, point: int, width: int) -> str:
        address = self._address(k, scope)
        along = self._along_lane(k, scope, point) if width > 1 else None
        if along is None:
            return address
        first = scope.code.splat(address, "i64", width)
        return scope.code.let(f"add {wide('i64', width)} {first}, {along}")

    def _load_contiguous(
        self, code: CodeStretch, kind: str, source: str, valid: str | None, align: int
    ) -> str:
        if not valid:
            return code.let(f"load {kind}, ptr {source}, align {align}")
        width, element = kind[1:-1].split(" x ")
        return code.let(
            f"call {kind} @llvm.masked.load.{mangled(element, int(width))}.p0(ptr {source}, "
            f"i32 {align}, <{width} x i1> {valid}, {kind} zeroinitializer)"
        )

    def _load_repeated(self, e: Expr, scope: Scope, point: int, valid: str | None) -> str:
        """A shorter vector, each of whose elements goes to several lanes side by side."""
        start, bits = self.repeats[e]
        code, operand = scope.code, self.kernel.operands[e.data]
        short, times = self.width >> bits, 1 << bits
        element, flags = memory(operand.dtype), wide("i1", self.width)
        narrow, kind = memory(operand.dtype, short), memory(operand.dtype, self.width)
        first = self._value(start, scope, point, 1)
        address = code.at(self._address(e.data, scope), element, first)
        # The lane loop advances by whole vectors, so its parts begin at a multiple of the width.
        address = code.at(address, element, code.let(f"ashr i64 {scope.points[point]}, {bits}"))
        wanted = None
        for lane in range(times if valid else 0):  # an element is read if any lane wants it
            picks = ", ".join(f"i32 {n}" for n in range(lane, self.width, times))
            part = code.let(
                f"shufflevector {flags} {valid}, {flags} poison, <{short} x i32> <{picks}>"
            )
            wanted = part if lane == 0 else code.let(f"or {wide('i1', short)} {wanted}, {part}")
        found = self._load_contiguous(code, narrow, address, wanted, operand.dtype.itemsize)
        picks = ", ".join(f"i32 {lane >> bits}" for lane in range(self.width))
        value = code.let(
            f"shufflevector {narrow} {found}, {narrow} poison, <{self.width} x i32> <{picks}>"
        )
        if valid:
            value = code.let(f"select {flags} {valid}, {kind} {value}, {kind} zeroinitializer")
        return value

    def _load_reversed(self, e: Expr, scope: Scope, point: int, valid: str | None) -> str:
        """The vector that ends with the first lane's element, from its last element on."""
        code, operand = scope.code, self.kernel.operands[e.data]
        kind, flags = memory(operand.dtype, self.width), wide("i1", self.width)
        picks = ", ".join(f"i32 {lane}" for lane in reversed(range(self.width)))
        order = f"<{self.width} x i32> <{picks}>"
        last = self._value(self.reversals[e], scope, point, 1)
        past = code.integer("add", scope.points[point], str(self.width - 1))
        address = self._address(e.data, scope)
        address = code.at(address, memory(operand.dtype), code.integer("sub", last, past))
        if valid:
            valid = code.let(f"shufflevector {flags} {valid}, {flags} poison, {order}")
        found = self._load_contiguous(code, kind, address, valid, operand.dtype.itemsize)
        return code.let(f"shufflevector {kind} {found}, {kind} poison, {order}")

    def _pointers(self, code: CodeStretch, address: str, element: str, along: str) -> str:
        return code.let(
            f"getelementptr {element}, ptr {address}, {wide('i64', self.width)} {along}"
        )

    def _validity(self, e: Expr, scope: Scope, point: int, width: int) -> str | None:
        """Where a load may read: in its own mask, in the tail's, and at indices in range."""
        flags = []
        if len(e.args) == 2:
            flags.append(self._lookup(e.args[1], scope, point, width))
        if scope.mask and width > 1:
            flags.append(scope.mask)
        for check in s.walk(e.args):
            if check.fn != "checked":
                continue
            home, varies = self._home(check, scope), self._varies(check)
            inside = home.values[check, "inside", point if varies else 0]
            flags.append(inside if varies else home.code.splat(inside, "i1", width))
        if not flags:
            return None
        result = flags[0]
        for flag in flags[1:]:
            result = scope.code.let(f"and {wide('i1', width)} {result}, {flag}")
        return result

    def _store(self, scope: Scope, stores: Sequence[Store]) -> None:
        """Write values, all computed before the first is written."""
        width = self.width if self.lane in scope.axes else 1
        pending = [
            (st.operand, point, self._value(st.value, scope, point, width))
            for point in range(max(1, len(scope.points)))
            for st in stores
        ]
        for k, point, value in pending:
            self._store_one(scope, k, point, value, width)

    def _store_one(self, scope: Scope, k: int, point: int, value: str, width: int) -> None:
        valid = scope.mask if width > 1 else None
        self._put(k, (), scope, point, value, width, valid)

    def _put(
        self,
        k: int,
        at: Sequence[Expr],
        scope: Scope,
        point: int,
        value: str,
        width: int,
        valid: str | None,
    ) -> None:
        """Write to the elements of operand k, at an offset if there is one, that are valid."""
        code, operand = scope.code, self.kernel.operands[k]
        element, kind = memory(operand.dtype), memory(operand.dtype, width)
        align = operand.dtype.itemsize
        if operand.dtype is bool_:
            value = code.let(f"zext {wide('i1', width)} {value} to {kind}")
        apart = self._apart(k, at, scope, point, width, valid)
        for lane, pointer in enumerate(apart):
            one = code.let(f"extractelement {kind} {value}, i64 {lane}")
            code.do(f"store {element} {one}, ptr {pointer}, align {align}")
        if apart:
            return
        address, along = self._locate(k, at, scope, point, width)
        if width == 1 and valid:
            address = code.let(f"select i1 {valid}, ptr {address}, ptr {self.nowhere}")
        if along is None and (width == 1 or not valid):
            code.do(f"store {kind} {value}, ptr {address}, align {align}")
            return
        flags = f"{wide('i1', width)} {valid or literal(True, bool_, width)}"
        if along is None:
            code.do(
                f"call void @llvm.masked.store.{mangled(element, width)}.p0"
                f"({kind} {value}, ptr {address}, i32 {align}, {flags})"
            )
            return
        targets = self._pointers(code, address, element, along)
        code.do(
            f"call void @llvm.masked.scatter.{mangled(element, width)}.v{width}p0"
            f"({kind} {value}, <{width} x ptr> {targets}, i32 {align}, {flags})"
        )


def _terms(e: Expr) -> Iterator[Expr]:
    """The expressions that `e` is the sum of."""
    if e.fn == "add":
        yield from _terms(e.args[0])
        yield from _terms(e.args[1])
    elif e.fn == "sub":
        yield from _terms(e.args[0])
        yield from (-term for term in _terms(e.args[1]))
    elif e.fn == "mul" and e.args[1].fn == "const" and e.args[1].data == 1:
        yield from _terms(e.args[0])
    else:
        yield e


def _lane_bytes(exprs: Sequence[Expr]) -> int:
    """Eight where a kernel computes with nothing but 8-byte numbers (and bools), else four."""
    sizes = {e.dtype.itemsize for e in exprs}
    return 8 if 8 in sizes and not sizes & {2, 4} else 4
