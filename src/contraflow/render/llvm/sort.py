"""Sorts as LLVM IR: the positions that put each row in the order of its keys.

A short row is ranked: every element goes where the number of those before it in order says, which
vectors count. A longer one is sorted by the bytes of its keys, from the last byte to the first,
each time keeping the order so far: key and position travel together as one integer, in scratch
memory of which every part has an area of its own. Keys are counted from the row's least, and a
byte that all of them share is passed over, so that integers of a small range are sorted at once.
Where few positions are wanted, a walk along the row keeps the best so far. All ways keep equal
elements in their order.
"""

from __future__ import annotations

from contraflow.compiler.kernel import STRIDED, Sort
from contraflow.render.llvm.box import BoxRenderer, Scope, lowered
from contraflow.render.llvm.text import CodeStretch, FunctionText, literal, mangled, register, wide

SHORT = 128  # elements up to which counting is faster
FEW = 32  # positions up to which those wanted are picked without sorting the others
DIGITS = 256


class SortRenderer(BoxRenderer):
    """Writes the loop over the rows, and the ways to sort one."""

    kernel: Sort

    def __init__(self, kernel: Sort, name: str, vector_bytes: int) -> None:
        self.key, self.areas, self.wanted = lowered(kernel, kernel.roots)
        super().__init__(kernel, (self.key, self.areas, self.wanted), name, vector_bytes)
        self.name, self.bytes = name, self.key.dtype.itemsize
        self.type = register(self.key.dtype)
        self.bits = 8 * self.bytes  # of the key, and of the position below it
        self.item = f"i{2 * self.bits}"
        self.lanes = vector_bytes // self.bytes
        self.highest = (1 << (self.bits - 1)) - 1

    def text(self) -> str:
        """The functions, the entry last."""
        entry = super().text()
        return "\n".join([self._rank(), self._distribute(), entry])

    def _cut(self, code: CodeStretch, sizes: list[str]) -> list[tuple[str, str]]:
        """The range of every outer axis: parts for which there is no scratch get nothing."""
        areas = self._value(self.areas, self.top, 0, 1)
        self.parts = code.let(f"call i64 @llvm.smin.i64(i64 %parts, i64 {areas})")
        return super()._cut(code, sizes)

    def _body(self) -> None:
        code, (scratch, count) = self.top.code, (self.kernel.scratch, self.bounds[-1][1])
        assert scratch is not None, "the limits of the device ask for it"
        items = code.integer("mul", code.integer("mul", count, "2"), "%first")
        self.area = code.at(self.bases[scratch], self.item, items)
        self.keys = code.let(f"alloca [{SHORT + self.lanes} x {self.type}], align 64")
        self.counts = code.let(f"alloca [{self.bytes} x [{DIGITS} x i64]], align 64")
        self.best = code.let(f"alloca [{FEW} x {self.item}], align 64")
        self.limit = self._value(self.wanted, self.top, 0, 1)
        # The three ways, each a loop of one turn or none.
        short = code.let(f"icmp sle i64 {count}, {SHORT}")
        long = code.let(f"xor i1 {short}, true")
        self.last = code.let(f"sub i64 {self.limit}, 1")
        few = code.let(f"icmp ult i64 {self.last}, {FEW}")  # of none there is no last one to beat
        many = code.let(f"xor i1 {few}, true")
        self.ranked = code.let(f"zext i1 {short} to i64")
        self.picked, self.spread = (
            code.let(f"zext i1 {code.let(f'and i1 {long}, {flag}')} to i64") for flag in (few, many)
        )
        outer = range(self.kernel.outer)
        if outer:
            self._sweep(outer, self.top, (), self._row)
        else:  # the thread of part 0 does it, the others find an empty range
            with self.function.loop("%first", "1", 1):
                self._row(Scope(self.function.code(), self.top, frozenset(), 0), [])

    def _row(self, scope: Scope, carried: list[str]) -> list[str]:
        """One row, in one of the three ways."""
        count, target = self.bounds[-1][1], self.kernel.target
        axis, out = self.kernel.outer, self._address(target, scope)
        kind = self.kernel.operands[target].strides[axis]
        stride = self.strides[target, axis] if kind == STRIDED else str(kind)
        with self.function.loop("0", self.ranked, 1):
            inside = Scope(self.function.code(), scope, scope.axes, 0)
            self._sweep((axis,), inside, (), self._keep_key)
            self.function.code().do(
                f"call void @{self.name}_rank(ptr {self.keys}, i64 {count}, i64 {self.limit}, "
                f"ptr {out}, i64 {stride})"
            )
        with self.function.loop("0", self.picked, 1):
            self._pick(Scope(self.function.code(), scope, scope.axes, 0), out, stride)
        with self.function.loop("0", self.spread, 1):
            inside = Scope(self.function.code(), scope, scope.axes, 0)
            inside.code.do(
                f"call void @llvm.memset.p0.i64(ptr align 64 {self.counts}, i8 0, "
                f"i64 {8 * DIGITS * self.bytes}, i1 false)"
            )
            first = [(self.type, str(self.highest))]
            (self.least,) = self._sweep((axis,), inside, first, self._compare)
            self._sweep((axis,), inside, (), self._keep_item)
            self.function.code().do(
                f"call void @{self.name}_distribute(ptr {self.area}, i64 {count}, "
                f"ptr {self.counts}, i64 {self.limit}, ptr {out}, i64 {stride})"
            )
        return carried

    def _keep_key(self, scope: Scope, carried: list[str]) -> list[str]:
        key = self._value(self.key, scope, 0, 1)
        place = scope.code.at(self.keys, self.type, scope.coordinate)
        scope.code.do(f"store {self.type} {key}, ptr {place}")
        return carried

    def _compare(self, scope: Scope, least: list[str]) -> list[str]:
        key = self._value(self.key, scope, 0, 1)
        both = f"{self.type} {key}, {self.type} {least[0]}"
        return [scope.code.let(f"call {self.type} @llvm.smin.{self.type}({both})")]

    def _keep_item(self, scope: Scope, carried: list[str]) -> list[str]:
        """Pack key and position, and count the bytes of the key."""
        code, key = scope.code, self._value(self.key, scope, 0, 1)
        # Counted from the least, keys need no sign, and those of a small range are short.
        plain = code.let(f"sub {self.type} {key}, {self.least}")
        item = self._packed(code, plain, scope.coordinate)
        place = code.at(self.area, self.item, scope.coordinate)
        code.do(f"store {self.item} {item}, ptr {place}, align 8")
        for n in range(self.bytes):
            digit = _digit(code, plain, self.type, str(8 * n))
            table = code.at(self.counts, f"[{DIGITS} x i64]", str(n))
            counter = code.at(table, "i64", digit)
            old = code.let(f"load i64, ptr {counter}")
            code.do(f"store i64 {code.integer('add', old, '1')}, ptr {counter}")
        return carried

    def _packed(self, code: CodeStretch, plain: str, position: str) -> str:
        """A key without sign, and below it a position."""
        wide_key = code.let(f"zext {self.type} {plain} to {self.item}")
        high = code.let(f"shl {self.item} {wide_key}, {self.bits}")
        if self.item != "i64":
            position = code.let(f"zext i64 {position} to {self.item}")
        return code.let(f"or {self.item} {high}, {position}")

    def _pick(self, scope: Scope, out: str, stride: str) -> None:
        """Walk along a row with the best items so far at hand, in order."""
        with self.function.loop("0", self.limit, 1) as loop:
            code = self.function.code()
            place = code.at(self.best, self.item, loop.index)
            code.do(f"store {self.item} -1, ptr {place}, align 8")  # is beaten by all
        inside = Scope(self.function.code(), scope, scope.axes, 0)
        worst = inside.code.at(self.best, self.item, self.last)

        def visit(at: Scope, carried: list[str]) -> list[str]:
            code, key = at.code, self._value(self.key, at, 0, 1)
            # As integers without sign negative keys come first.
            plain = code.let(f"xor {self.type} {key}, {~self.highest}")
            item = self._packed(code, plain, at.coordinate)
            last = code.let(f"load {self.item}, ptr {worst}, align 8")
            better = code.let(f"icmp ult {self.item} {item}, {last}")
            moves = code.let(f"select i1 {better}, i64 {self.limit}, i64 0")
            with self.function.loop("0", moves, 1, [(self.item, item)]) as loop:
                code = self.function.code()
                place, (new,) = code.at(self.best, self.item, loop.index), loop.carried
                old = code.let(f"load {self.item}, ptr {place}, align 8")
                both = f"{self.item} {old}, {self.item} {new}"
                less = code.let(f"call {self.item} @llvm.umin.{self.item}({both})")
                code.do(f"store {self.item} {less}, ptr {place}, align 8")
                loop.following = [code.let(f"call {self.item} @llvm.umax.{self.item}({both})")]
            return carried

        self._sweep((self.kernel.outer,), inside, (), visit)
        self._write(self.function, self.best, self.limit, out, stride)

    def _write(self, function: FunctionText, items: str, count: str, out: str, stride: str) -> None:
        """Store the positions of items."""
        with function.loop("0", count, 1) as loop:
            code = function.code()
            place = code.at(items, self.item, loop.index)
            position = code.let(f"load {self.item}, ptr {place}, align 8")
            if self.item != "i64":
                position = code.let(f"trunc {self.item} {position} to i64")
            else:
                position = code.let(f"and i64 {position}, {(1 << self.bits) - 1}")
            place = code.at(out, "i64", code.integer("mul", loop.index, stride))
            code.do(f"store i64 {position}, ptr {place}, align 8")

    # --- functions -----------------------------------------------------------------------------

    def _rank(self) -> str:
        """Count, for each key, the smaller ones, and the equal ones before it."""
        function = FunctionText(
            f"define internal void @{self.name}_rank"
            "(ptr %keys, i64 %count, i64 %wanted, ptr %out, i64 %stride) #0"
        )
        width = self.lanes
        vector, flags = wide(self.type, width), wide("i1", width)
        code = function.code()
        nowhere = code.let("alloca i64")
        end = code.at("%keys", self.type, "%count")
        filling = literal(self.highest, self.key.dtype, width)  # is before no key
        code.do(f"store {vector} {filling}, ptr {end}, align {self.bytes}")
        numbers = "<" + ", ".join(f"{self.type} {n}" for n in range(width)) + ">"
        with function.loop("0", "%count", 1) as rows:
            code = function.code()
            place = code.at("%keys", self.type, rows.index)
            own = code.splat(code.let(f"load {self.type}, ptr {place}"), self.type, width)
            number = rows.index
            if self.type != "i64":
                number = code.let(f"trunc i64 {number} to {self.type}")
            before = code.splat(number, self.type, width)
            first = [(vector, "zeroinitializer"), (vector, numbers)]
            with function.loop("0", "%count", width, first) as loop:
                code = function.code()
                ranks, positions = loop.carried
                place = code.at("%keys", self.type, loop.index)
                others = code.let(f"load {vector}, ptr {place}, align {self.bytes}")
                less = code.let(f"icmp slt {vector} {others}, {own}")
                equal = code.let(f"icmp eq {vector} {others}, {own}")
                earlier = code.let(f"icmp slt {vector} {positions}, {before}")
                tie = code.let(f"and {flags} {equal}, {earlier}")
                counts = code.let(f"or {flags} {less}, {tie}")
                one = code.let(f"sext {flags} {counts} to {vector}")
                step = literal(width, self.key.dtype, width)
                loop.following = [
                    code.let(f"sub {vector} {ranks}, {one}"),
                    code.let(f"add {vector} {positions}, {step}"),
                ]
            code = function.code()
            suffix = mangled(self.type, width)
            rank = code.let(
                f"call {self.type} @llvm.vector.reduce.add.{suffix}({vector} {loop.carried[0]})"
            )
            if self.type != "i64":
                rank = code.let(f"zext {self.type} {rank} to i64")
            place = code.at("%out", "i64", code.integer("mul", rank, "%stride"))
            kept = code.let(f"icmp slt i64 {rank}, %wanted")
            place = code.let(f"select i1 {kept}, ptr {place}, ptr {nowhere}")
            code.do(f"store i64 {rows.index}, ptr {place}, align 8")
        return function.text()

    def _distribute(self) -> str:
        """Move the items from one half of the area to the other, byte by byte of the key."""
        function = FunctionText(
            f"define internal void @{self.name}_distribute"
            "(ptr %area, i64 %count, ptr %counts, i64 %wanted, ptr %out, i64 %stride) #0"
        )
        item, code = self.item, function.code()
        half = code.at("%area", item, "%count")
        halves = [("ptr", "%area"), ("ptr", half)]
        with function.loop("0", str(self.bytes), 1, halves) as digits:
            source, target = digits.carried
            code = function.code()
            table = code.at("%counts", f"[{DIGITS} x i64]", digits.index)
            low = code.integer("add", code.integer("mul", digits.index, "8"), str(self.bits))
            shift = low
            if item != "i64":
                shift = code.let(f"zext i64 {low} to {item}")
            # With one value for all keys the order is right already.
            some = code.let(f"load {item}, ptr {source}, align 8")
            counter = code.at(table, "i64", _digit(code, some, item, shift))
            alike = code.let(f"load i64, ptr {counter}")
            done = code.let(f"icmp eq i64 {alike}, %count")
            values = code.let(f"select i1 {done}, i64 0, i64 {DIGITS}")
            moved = code.let(f"select i1 {done}, i64 0, i64 %count")
            with function.loop("0", values, 1, [("i64", "0")]) as starts:
                code = function.code()
                place = code.at(table, "i64", starts.index)
                many = code.let(f"load i64, ptr {place}")
                code.do(f"store i64 {starts.carried[0]}, ptr {place}")
                starts.following = [code.integer("add", starts.carried[0], many)]
            with function.loop("0", moved, 1) as items:
                code = function.code()
                place = code.at(source, item, items.index)
                value = code.let(f"load {item}, ptr {place}, align 8")
                counter = code.at(table, "i64", _digit(code, value, item, shift))
                position = code.let(f"load i64, ptr {counter}")
                code.do(f"store i64 {code.integer('add', position, '1')}, ptr {counter}")
                place = code.at(target, item, position)
                code.do(f"store {item} {value}, ptr {place}, align 8")
            code = function.code()
            digits.following = [
                code.let(f"select i1 {done}, ptr {source}, ptr {target}"),
                code.let(f"select i1 {done}, ptr {target}, ptr {source}"),
            ]
        self._write(function, digits.carried[0], "%wanted", "%out", "%stride")
        return function.text()


def _digit(code: CodeStretch, value: str, kind: str, shift: str) -> str:
    """The byte of an integer that begins at a bit, as an i64."""
    low = code.let(f"and {kind} {code.let(f'lshr {kind} {value}, {shift}')}, {DIGITS - 1}")
    if kind == "i64":
        return low
    return code.let(f"{'zext' if kind == 'i32' else 'trunc'} {kind} {low} to i64")
