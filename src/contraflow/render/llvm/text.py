"""The spelling of LLVM IR: types, literals, conversions, operations, and a function being written.

Registers hold bool as i1 and bfloat16 as its bits in an i16; every other dtype has an LLVM type of
its own. `width` is the number of lanes: 1 is a scalar, more is a vector of that many.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from contraflow.dtypes import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint32,
)
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr
from contraflow.expressions.intrinsics import INTRINSICS
from contraflow.render.llvm.lowering import lower, template_of

# The parameters of the function of every kernel: memory, and which parts of the work it is to do.
ARGUMENTS = "(ptr %bases, ptr %arguments, i64 %first, i64 %last, i64 %parts)"

_REGISTER = {
    bool_: "i1", uint8: "i8", int8: "i8", int16: "i16", int32: "i32", uint32: "i32", int64: "i64",
    float16: "half", bfloat16: "i16", float32: "float", float64: "double",
}  # fmt: skip
APART = "apart_"  # how the names of functions apart begin
_MANGLED = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}


def wide(element: str, width: int) -> str:
    """The type of `width` lanes of an LLVM type."""
    return element if width == 1 else f"<{width} x {element}>"


def register(dtype: DType, width: int = 1) -> str:
    """The type of a value in a register."""
    return wide(_REGISTER[dtype], width)


def memory(dtype: DType, width: int = 1) -> str:
    """The type of a value in memory: a bool takes a byte."""
    return wide("i8" if dtype is bool_ else _REGISTER[dtype], width)


def mangled(element: str, width: int) -> str:
    """How a type is written inside the name of an LLVM intrinsic."""
    name = _MANGLED.get(element, element)
    return name if width == 1 else f"v{width}{name}"


def _mangled_register(dtype: DType, width: int) -> str:
    return mangled(_REGISTER[dtype], width)


def literal(value: Any, dtype: DType, width: int = 1) -> str:
    """A constant, in every lane."""
    if dtype is bool_:
        text = "true" if value else "false"
    elif dtype is float16:
        text = f"0xH{int(np.float16(value).view(np.uint16)):04X}"
    elif dtype is bfloat16:
        text = str(int(np.asarray(value, bfloat16.numpy).view(np.int16)))
    elif dtype.is_floating_point:
        # LLVM writes a float as the bits of the double that equals it.
        with np.errstate(over="ignore"):
            double = float(dtype.numpy.type(value))
        text = f"0x{struct.unpack('<Q', struct.pack('<d', double))[0]:016X}"
    else:
        text = str(int(value))
    return text if width == 1 else f"splat ({register(dtype)} {text})"


@dataclass(eq=False, repr=False)
class CodeStretch:
    """A stretch of straight-line code; it stays open until its function is printed."""

    function: FunctionText
    lines: list[str] = field(default_factory=list)

    def let(self, text: str, name: str = "v") -> str:
        """Append an instruction that gives a value, and return the value's name."""
        result = self.function.fresh(name)
        self.lines.append(f"  {result} = {text}")
        return result

    def do(self, text: str) -> None:
        """Append an instruction that gives no value."""
        self.lines.append(f"  {text}")

    def at(self, pointer: str, element: str, index: str) -> str:
        """The address of `pointer[index]`."""
        return self.let(f"getelementptr {element}, ptr {pointer}, i64 {index}", "p")

    def fetch(self, pointer: str, *, write: bool = False) -> None:
        """Have the cache line of an address fetched; the address may be any."""
        self.do(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 {int(write)}, i32 3, i32 1)")

    def word(self, pointer: str, index: int, name: str = "v") -> str:
        """The i64 at `pointer[index]`."""
        return self.let(f"load i64, ptr {self.at(pointer, 'i64', str(index))}", name)

    def splat(self, value: str, element: str, width: int) -> str:
        """A scalar in every lane."""
        if width == 1:
            return value
        kind = wide(element, width)
        first = self.let(f"insertelement {kind} poison, {element} {value}, i64 0")
        zeros = f"<{width} x i32> zeroinitializer"
        return self.let(f"shufflevector {kind} {first}, {kind} poison, {zeros}")

    def unless(self, condition: str, width: int, kind: str, value: str, call: str) -> str:
        """`value`, but what `call` gives if the condition holds in one of the lanes."""
        test, rare, known = (self.function.fresh(part) for part in ("test", "rare", "known"))
        self.lines += [f"  br label {test}", f"{test[1:]}:"]
        lanes = wide("i1", width)
        if width > 1:
            reduce = f"@llvm.vector.reduce.or.{mangled('i1', width)}"
            condition = self.let(f"call i1 {reduce}({lanes} {condition})")
        self.lines += [f"  br i1 {condition}, label {rare}, label {known}", f"{rare[1:]}:"]
        other = self.let(call)
        self.lines += [f"  br label {known}", f"{known[1:]}:"]
        return self.let(f"phi {kind} [ {value}, {test} ], [ {other}, {rare} ]")

    def integer(self, operation: str, a: str, b: str) -> str:
        """Arithmetic on two i64, without the additions and products that change nothing."""
        if (operation, "0") in (("add", a), ("add", b)):
            return b if a == "0" else a
        if operation == "mul" and "1" in (a, b):
            return b if a == "1" else a
        return self.let(f"{operation} i64 {a}, {b}")


@dataclass(eq=False, repr=False)
class Loop:
    """A counted loop being written: its counter, and what it carries from turn to turn."""

    index: str
    carried: list[str]
    following: list[str]  # the carried values of the next turn, set by the body


class FunctionText:
    """A function being written: a flow of straight-line codes, labels and loops.

    Codes that lie earlier in the flow can still be appended to while later ones are written:
    that is how values are moved out of loops.
    """

    def __init__(self, head: str) -> None:
        self._head = head
        self._flow: list[list[str]] = []
        self._count = 0

    def fresh(self, name: str) -> str:
        """A new name for a value."""
        self._count += 1
        return f"%{name}{self._count}"

    def code(self) -> CodeStretch:
        """A new stretch of code at the end of the flow."""
        code = CodeStretch(self)
        self._flow.append(code.lines)
        return code

    def _begin(self, label: str) -> None:
        self._flow.append([f"{label}:"])

    def _continue(self, label: str) -> None:
        self._flow.append([f"  br label %{label}", f"{label}:"])

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Write a block that runs if the i1 `condition` holds."""
        self._count += 1
        then, done = f"then{self._count}", f"after{self._count}"
        self._flow.append([f"  br i1 {condition}, label %{then}, label %{done}"])
        self._begin(then)
        yield
        self._continue(done)

    @contextmanager
    def loop(
        self, start: str, stop: str, step: int | str, carried: Sequence[tuple[str, str]] = ()
    ) -> Iterator[Loop]:
        """Write `for index in range(start, stop, step)`; `carried` holds (type, first value)s.

        After the loop, `carried` of the Loop are the final values.
        """
        self._count += 1
        # Blocks of its own around the head: code before and inside the loop may have branches.
        parts = ("before", "head", "body", "again", "done")
        before, head, body, again, done = (f"{part}{self._count}" for part in parts)
        index = self.fresh("i")
        names = [self.fresh("carried") for _ in carried]
        loop = Loop(index, names, list(names))
        self._continue(before)
        self._continue(head)
        phis: list[str] = []
        self._flow.append(phis)
        test = self.code()
        more = test.let(f"icmp slt i64 {index}, {stop}")
        test.do(f"br i1 {more}, label %{body}, label %{done}")
        self._begin(body)
        yield loop
        self._continue(again)
        end = self.code()
        following = end.let(f"add nsw i64 {index}, {step}")
        end.do(f"br label %{head}")
        rows = [("i64", index, start, following)]
        for (kind, first), name, value in zip(carried, names, loop.following):
            rows.append((kind, name, first, value))
        for kind, name, first, value in rows:
            phis.append(f"  {name} = phi {kind} [ {first}, %{before} ], [ {value}, %{again} ]")
        self._begin(done)

    def text(self, result: str = "void") -> str:
        """The finished function, which returns `result` (a type, and a value if it has one)."""
        lines = [self._head + " {", "entry:"]
        lines += (line for part in self._flow for line in part)
        return "\n".join([*lines, f"  ret {result}", "}", ""])


def convert(code: CodeStretch, value: str, source: DType, target: DType, width: int) -> str:
    """Convert a value: integers wrap, floats to integers saturate, NaN becomes zero."""
    if source is target:
        return value
    if bfloat16 in (source, target) or (float16 in (source, target)):
        return _convert_half(code, value, source, target, width)
    old, new = register(source, width), register(target, width)
    if target is bool_:
        test = "fcmp une" if source.is_floating_point else "icmp ne"
        return code.let(f"{test} {old} {value}, zeroinitializer")
    if source.is_floating_point and target.is_floating_point:
        how = "fpext" if source.itemsize < target.itemsize else "fptrunc"
    elif source.is_floating_point:
        how = "fptosi" if target.is_signed else "fptoui"
        names = f"{_mangled_register(target, width)}.{_mangled_register(source, width)}"
        return code.let(f"call {new} @llvm.{how}.sat.{names}({old} {value})")
    elif target.is_floating_point:
        how = "sitofp" if source.is_signed else "uitofp"
    elif source is bool_:
        how = "zext"
    elif source.itemsize == target.itemsize:
        return value
    elif source.itemsize > target.itemsize:
        how = "trunc"
    else:
        how = "sext" if source.is_signed else "zext"
    return code.let(f"{how} {old} {value} to {new}")


def _convert_half(code: CodeStretch, value: str, source: DType, target: DType, width: int) -> str:
    if float32 not in (source, target):
        middle = convert(code, value, source, float32, width)
        return convert(code, middle, float32, target, width)
    old, new = register(source, width), register(target, width)
    if float16 in (source, target):
        how = "fpext" if target is float32 else "fptrunc"
        return code.let(f"{how} {old} {value} to {new}")
    bits = register(int32, width)

    def number(n: int) -> str:
        return literal(n, int32, width)

    if target is float32:
        extended = code.let(f"zext {old} {value} to {bits}")
        shifted = code.let(f"shl {bits} {extended}, {number(16)}")
        return code.let(f"bitcast {bits} {shifted} to {new}")
    # Round to nearest even: add half an ulp, less one where the last kept bit is 0. A NaN would
    # overflow into the sign, so it keeps its upper bits and is made quiet instead.
    whole = code.let(f"bitcast {old} {value} to {bits}")
    kept = code.let(f"lshr {bits} {whole}, {number(16)}")
    odd = code.let(f"and {bits} {kept}, {number(1)}")
    bias = code.let(f"add {bits} {odd}, {number(0x7FFF)}")
    biased = code.let(f"add {bits} {whole}, {bias}")
    rounded = code.let(f"lshr {bits} {biased}, {number(16)}")
    quiet = code.let(f"or {bits} {kept}, {number(0x40)}")
    is_nan = code.let(f"fcmp uno {old} {value}, {value}")
    chosen = code.let(f"select {wide('i1', width)} {is_nan}, {bits} {quiet}, {bits} {rounded}")
    return code.let(f"trunc {bits} {chosen} to {new}")


def operation(code: CodeStretch, e: Expr, args: Sequence[str], width: int) -> str:
    """Apply the function of `e`, a row of INTRINSICS with an LLVM column, to named values."""
    last = e.args[-1].dtype
    if INTRINSICS[e.fn].apart:
        kinds = [register(a.dtype, width) for a in e.args]
        given = ", ".join(f"{kind} {arg}" for kind, arg in zip(kinds, args))
        name = f"@{APART}{e.fn}.{_mangled_register(last, width)}"
        call = f"call {kinds[-1]} {name}({given})"
        return code.unless(args[0], width, kinds[-1], args[-1], call)
    if e.fn == "cast":
        return convert(code, args[0], last, e.dtype, width)
    if e.fn == "bitcast":
        old, new = register(last, width), register(e.dtype, width)
        return args[0] if old == new else code.let(f"bitcast {old} {args[0]} to {new}")
    template = template_of(e)
    assert template is not None, f"{e.fn} of {last} has no LLVM column"
    types = {"t": register(last, width), "c": register(e.args[0].dtype, width)}
    return code.let(template.format(*args, m=_mangled_register(last, width), **types))


def write_apart(text: str) -> str:
    """The functions apart that a text calls."""
    called = re.findall(rf"@{APART}(\w+)\.(?:v(\d+))?(f32|f64)\(", text)
    return "".join(_function_apart(*names) for names in sorted(set(called)))


def _function_apart(fn: str, lanes: str, float_name: str) -> str:
    """The decomposition of a row as a function of its arguments, in so many lanes."""
    width, dtype = int(lanes or 1), float32 if float_name == "f32" else float64
    row = INTRINSICS[fn]
    assert row.decomposition is not None
    given = [s.leaf("input", bool_ if i == 0 else dtype, i) for i in range(row.arity)]
    kinds = [register(leaf.dtype, width) for leaf in given]
    taken = ", ".join(f"{kind} %x{i}" for i, kind in enumerate(kinds))
    name = f"@{APART}{fn}.{_mangled_register(dtype, width)}"
    function = FunctionText(f"define internal {kinds[-1]} {name}({taken}) cold #0")
    inputs = {leaf: f"%x{i}" for i, leaf in enumerate(given)}
    (value,) = expressions(function.code(), lower([row.decomposition(*given)]), inputs, width)
    return function.text(f"{kinds[-1]} {value}")


def expressions(
    code: CodeStretch, roots: Sequence[Expr], leaves: dict[Expr, str], width: int
) -> list[str]:
    """Write expressions over leaves that have names, in `width` lanes."""
    names = dict(leaves)
    for e in s.walk(roots):
        if e.fn == "const":
            names[e] = literal(e.data, e.dtype, width)
        elif e not in names:
            names[e] = operation(code, e, [names[a] for a in e.args], width)
    return [names[e] for e in roots]
