"""Scalar expressions, and the table of functions they are made of.

An op's body is written over `Expr`s and is its meaning on every backend. The language is closed:
every function is a row of `INTRINSICS`, with a column per backend. A column holds text for that
backend's language, or None where the backend uses the row's decomposition into simpler rows
(`elementary.py` has those of the transcendental functions). A new backend is a new column.

Expressions are interned: equal expressions are one object, so `is` compares them and a shared
subexpression is computed once.

Leaves, by `fn`:

    const   a literal; `data` is the Python value
    input   an elementwise op's argument at the current position; `data` is its number
    axis    the coordinate along one loop axis (int64); `data` is the axis
    read    an element of argument `data` at the coordinates in `args` (an op's body)
    load    an element of operand `data` (a kernel's body; see kernel.py)
    reduced a finished reduction of the same kernel; `data` is (reduction, component)
    left, right   the two sides inside a reduction's combiner; `data` is the component

`read` and `load` may carry a last argument of dtype bool: where it is False nothing is read and
the value is zero.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from contraflow import threads
from contraflow.dtypes import DType, bool_, int64
from contraflow.errors import OutOfRange

Number = bool | int | float
LEAVES = frozenset(("const", "input", "axis", "read", "load", "reduced", "left", "right"))


class Size(int):
    """A size or stride in an expression: an argument of the kernel, not part of its text."""

    def __repr__(self) -> str:
        return f"Size({int(self)})"


class Expr:
    """One scalar value: a function of other expressions, or a leaf."""

    __slots__ = ("fn", "args", "dtype", "data", "__weakref__")
    fn: str
    args: tuple[Expr, ...]
    dtype: DType
    data: Any

    # Comparisons other than == build expressions; == is identity, as interning makes it.
    def __add__(self, other: ExprLike) -> Expr:
        return call("add", self, other)

    def __radd__(self, other: ExprLike) -> Expr:
        return call("add", other, self)

    def __sub__(self, other: ExprLike) -> Expr:
        return call("sub", self, other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return call("sub", other, self)

    def __mul__(self, other: ExprLike) -> Expr:
        return call("mul", self, other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return call("mul", other, self)

    def __truediv__(self, other: ExprLike) -> Expr:
        return call("div", self, other)

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return call("div", other, self)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return call("floordiv", self, other)

    def __mod__(self, other: ExprLike) -> Expr:
        return call("mod", self, other)

    def __neg__(self) -> Expr:
        return call("neg", self)

    def __lt__(self, other: ExprLike) -> Expr:
        return call("lt", self, other)

    def __le__(self, other: ExprLike) -> Expr:
        return call("le", self, other)

    def __gt__(self, other: ExprLike) -> Expr:
        return call("gt", self, other)

    def __ge__(self, other: ExprLike) -> Expr:
        return call("ge", self, other)

    def __and__(self, other: ExprLike) -> Expr:
        return call("and", self, other)

    def __or__(self, other: ExprLike) -> Expr:
        return call("or", self, other)

    def __xor__(self, other: ExprLike) -> Expr:
        return call("xor", self, other)

    def __invert__(self) -> Expr:
        return call("not", self)

    def __lshift__(self, other: ExprLike) -> Expr:
        return call("shl", self, other)

    def __rshift__(self, other: ExprLike) -> Expr:
        return call("shr", self, other)

    def __bool__(self) -> bool:
        raise TypeError("a scalar expression has no truth value; use select().")

    def __repr__(self) -> str:
        if self.fn == "const":
            return repr(self.data)
        if self.fn in LEAVES:
            inner = ", ".join([str(self.data), *map(repr, self.args)])
            return f"{self.fn}[{inner}]"
        return f"{self.fn}({', '.join(map(repr, self.args))})"


ExprLike = Expr | Number


class _Interned(weakref.ref[Expr]):
    """An interned expression, as long as somebody holds it."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


_interned: dict[tuple[Any, ...], _Interned] = {}
# Entries whose expressions are gone: noted in C, so no interrupt is lost.
_gone: list[_Interned] = []
_lock = threads.recursive_lock()  # held while entries are added or removed


def make(fn: str, args: tuple[Expr, ...], dtype: DType, data: Any = None) -> Expr:
    """The one expression with these fields."""
    # 1, 1.0 and True are equal in Python, 0.0 and -0.0 too, and nan is not: spell constants out.
    key = (fn, args, dtype, type(data), repr(data) if fn == "const" else data)
    entry = _interned.get(key)
    found = None if entry is None else entry()
    return _intern(key, data) if found is None else found


def _intern(key: tuple[Any, ...], data: Any) -> Expr:
    """The expression of a key that nobody has made, unless another thread just has."""
    new = object.__new__(Expr)
    new.fn, new.args, new.dtype, new.data = *key[:3], data
    made = _Interned(new, _gone.append)
    made.key = key
    with _lock:
        while _gone:
            old = _gone.pop()
            if _interned.get(old.key) is old:
                del _interned[old.key]
            del old  # and with it what only its key held
        entry = _interned.setdefault(key, made)
        found = entry()
        if found is None:  # it went a moment ago
            _interned[key] = made
    return new if found is None else found


def const(value: Number, dtype: DType) -> Expr:
    """A literal of the given dtype."""
    if dtype is bool_:
        value = bool(value)
    elif dtype.is_floating_point:
        value = float(value)
    elif not isinstance(value, Size):
        value = int(value)
    return make("const", (), dtype, value)


def leaf(fn: str, dtype: DType, data: Any, *args: Expr) -> Expr:
    """A leaf of the kind `fn`."""
    assert fn in LEAVES, fn
    return make(fn, args, dtype, data)


def axis(k: int) -> Expr:
    """The coordinate along loop axis `k`."""
    return make("axis", (), int64, k)


def call(fn: str, *args: ExprLike) -> Expr:
    """Apply a row of the table; Python numbers take the dtype of the other arguments."""
    row = INTRINSICS[fn]
    dtype = next(a.dtype for a in reversed(args) if isinstance(a, Expr))
    exprs = tuple([a if isinstance(a, Expr) else const(a, dtype) for a in args])
    operands = exprs[1:] if fn == "select" or row.apart else exprs
    assert all(e.dtype is operands[0].dtype for e in operands), f"{fn}: mixed dtypes in {exprs}"
    return make(fn, exprs, bool_ if row.gives_bool else operands[0].dtype)


def select(condition: Expr, a: ExprLike, b: ExprLike) -> Expr:
    """`a` where the condition holds, else `b`."""
    return call("select", condition, a, b)


def cast(x: Expr, dtype: DType) -> Expr:
    """Convert the value: floats to integers truncate and saturate, NaN becomes zero."""
    if x.dtype is dtype:
        return x
    if x.fn == "const":
        return const(x.data, dtype) if np.isfinite(x.data) else make("cast", (x,), dtype)
    return make("cast", (x,), dtype)


def bitcast(x: Expr, dtype: DType) -> Expr:
    """The same bits read as another dtype of the same size."""
    assert x.dtype.itemsize == dtype.itemsize
    return x if x.dtype is dtype else make("bitcast", (x,), dtype)


def eq(a: ExprLike, b: ExprLike) -> Expr:
    """Whether two values are equal; NaN equals nothing."""
    return call("eq", a, b)


def ne(a: ExprLike, b: ExprLike) -> Expr:
    """Whether two values differ; NaN differs from everything."""
    return call("ne", a, b)


def isnan(x: Expr) -> Expr:
    """Whether the value is NaN."""
    return call("isnan", x)


def maximum(a: ExprLike, b: ExprLike) -> Expr:
    """The larger value; NaN if either is."""
    return call("max", a, b)


def minimum(a: ExprLike, b: ExprLike) -> Expr:
    """The smaller value; NaN if either is."""
    return call("min", a, b)


def abs_(x: Expr) -> Expr:
    """The absolute value."""
    return call("abs", x) if x.dtype.is_signed else x


def fma(a: ExprLike, b: ExprLike, c: ExprLike) -> Expr:
    """a * b + c, rounded once where the machine can."""
    return call("fma", a, b, c)


def muladd(a: ExprLike, b: ExprLike, c: ExprLike) -> Expr:
    """a * b + c by the fastest instructions, rounded once or twice, but always the same."""
    return call("muladd", a, b, c)


def mulhi(a: ExprLike, b: ExprLike) -> Expr:
    """The high word of the product of two uint32."""
    return call("mulhi", a, b)


def is_power_of_two(x: Expr) -> bool:
    """Whether an integer is a literal 1, 2, 4...: dividing by it, rounding down, is a shift."""
    return type(x.data) is int and x.fn == "const" and x.data > 0 and not x.data & (x.data - 1)


def checked(index: Expr, size: ExprLike) -> Expr:
    """`index`, which must be in [0, size): elsewhere an IndexError is raised after the program."""
    return call("checked", index, size)


def _unary(fn: str, doc: str) -> Callable[[Expr], Expr]:
    def build(x: Expr) -> Expr:
        return call(fn, x)

    build.__name__ = fn
    build.__doc__ = doc
    return build


exp = _unary("exp", "e to the power x.")
log = _unary("log", "Natural logarithm.")
tanh = _unary("tanh", "Hyperbolic tangent.")
sin = _unary("sin", "Sine.")
cos = _unary("cos", "Cosine.")
erf = _unary("erf", "The error function.")
sqrt = _unary("sqrt", "Square root.")
floor = _unary("floor", "Round down.")
ceil = _unary("ceil", "Round up.")
rint = _unary("rint", "Round to the nearest integer, ties to even.")
trunc = _unary("trunc", "Round towards zero.")


def pow_(a: ExprLike, b: ExprLike) -> Expr:
    """a to the power b."""
    return call("pow", a, b)


class Source:
    """An array argument of an index op's body: `x[i, j]` reads one element."""

    def __init__(self, number: int, shape: tuple[int, ...], dtype: DType) -> None:
        self.number, self.dtype = number, dtype
        self.shape = tuple(map(Size, shape))

    def __getitem__(self, at: tuple[Expr, ...]) -> Expr:
        return leaf("read", self.dtype, self.number, *at)

    def where(self, valid: Expr, at: tuple[Expr, ...]) -> Expr:
        """The element at `at` where `valid` holds, else zero; nothing is read there."""
        return leaf("read", self.dtype, self.number, *at, valid)


def walk(roots: Sequence[Expr]) -> list[Expr]:
    """Every expression below `roots` once, arguments before their users. Iterative."""
    entered: set[Expr] = set()
    found: dict[Expr, None] = {}
    stack = list(reversed(roots))
    while stack:
        e = stack[-1]
        if e in entered:  # and all its arguments have been found
            found[stack.pop()] = None
        else:
            entered.add(e)
            stack.extend(e.args[::-1])
    return list(found)


# Functions that give one of their arguments, if in another type.
_CHOICES = frozenset(("select", "max", "min", "cast", "bitcast"))


def rounds(roots: Sequence[Expr]) -> bool:
    """Whether there is arithmetic on floats in some expressions, each step of which rounds."""
    return any(e.args and e.dtype.is_floating_point and e.fn not in _CHOICES for e in walk(roots))


def rewrite(roots: Sequence[Expr], replace: Callable[[Expr], Expr | None]) -> list[Expr]:
    """Rebuild expressions bottom up; `replace` gives a node's substitute or None to keep it."""
    done: dict[Expr, Expr] = {}
    for e in walk(roots):
        args = tuple([done[a] for a in e.args])
        rebuilt = e if args == e.args else make(e.fn, args, e.dtype, e.data)
        substitute = replace(rebuilt)
        done[e] = rebuilt if substitute is None else substitute
    return [done[e] for e in roots]


# --- the table ---------------------------------------------------------------------------------


class Intrinsic(NamedTuple):
    """One scalar function: its arity, what it means to NumPy, and its text per backend.

    A backend column is a template: {0} {1} {2} are the arguments. In `llvm`, {t} is the type of
    the last argument and {m} its mangled name, and a dict gives one template per category
    ("float", "int", "uint", "bool"). None means: use `decomposition`.

    In `cuda` and `wgsl` the arguments are names or literals and the result gets a name, so no
    parentheses are needed; in `cuda`, {t} is the type of the last argument, {u} an unsigned type
    in which it may overflow, and {mask} its number of bits less one.

    `python` is for host scalars, which are few: a row without one goes through `numpy`. Where
    Python raises and IEEE arithmetic does not, it calls a function of `render/python.py`.

    A row is `wide` if its terms cancel so many digits that float32 has too few: a backend that has
    float64 decomposes it in that.

    The arguments of a row `apart` are a condition that seldom holds, others, and the value where
    it does not: its decomposition selects by the condition, and a backend may branch instead.
    """

    name: str
    arity: int
    numpy: Callable[..., Any]
    llvm: str | dict[str, str] | None = None
    cuda: str | dict[str, str] | None = None
    wgsl: str | dict[str, str] | None = None
    python: str | dict[str, str] | None = None
    decomposition: Callable[..., Expr] | None = None
    gives_bool: bool = False
    apart: bool = False
    wide: bool = False


INTRINSICS: dict[str, Intrinsic] = {}


def intrinsic(name: str, arity: int, numpy: Callable[..., Any], **columns: Any) -> None:
    """Add a row."""
    INTRINSICS[name] = Intrinsic(name, arity, numpy, **columns)


def decomposes(name: str) -> Callable[[Callable[..., Expr]], Callable[..., Expr]]:
    """Give the row `name` its decomposition into simpler rows."""

    def register(build: Callable[..., Expr]) -> Callable[..., Expr]:
        row = INTRINSICS[name]
        INTRINSICS[name] = row._replace(decomposition=build)
        return build

    return register


def category(dtype: DType) -> str:
    """Which template of a column a dtype uses."""
    if dtype is bool_:
        return "bool"
    if dtype.is_floating_point:
        return "float"
    return "int" if dtype.is_signed else "uint"


def _everywhere(text: str) -> dict[str, str]:
    return dict.fromkeys(("float", "int", "uint", "bool"), text)


def _arithmetic(name: str, symbol: str, numpy: Callable[..., Any], f: str, i: str) -> None:
    llvm = {"float": f + " {t} {0}, {1}", "int": i + " {t} {0}, {1}", "uint": i + " {t} {0}, {1}"}
    text = "{0} " + symbol + " {1}"
    # Overflow wraps as in NumPy, which C++ promises of unsigned types only.
    cuda = {**_everywhere(text), "int": "({t})(({u}){0} " + symbol + " ({u}){1})"}
    # Addition of truth values is `or`, multiplication `and`; WGSL wants that said.
    wgsl = {**_everywhere(text), "bool": "{0} | {1}" if name == "add" else "{0} & {1}"}
    python = dict.fromkeys(("float", "int"), text)
    intrinsic(name, 2, numpy, llvm=llvm, cuda=cuda, wgsl=wgsl, python=python)


# Each rounds on its own: a value that one kernel keeps and another computes again has the same
# bits in both, so that the gradient of a maximum finds it. `muladd` is for where that is no matter.
_arithmetic("add", "+", np.add, "fadd", "add")
_arithmetic("sub", "-", np.subtract, "fsub", "sub")
_arithmetic("mul", "*", np.multiply, "fmul", "mul")
intrinsic(
    "div", 2, np.divide, llvm={"float": "fdiv {t} {0}, {1}"}, cuda="{0} / {1}", wgsl="{0} / {1}",
    python="{0} / {1} if {1} else divide({0}, {1})",
)  # fmt: skip
intrinsic(
    "neg", 1, np.negative,
    llvm={"float": "fneg {t} {0}", "int": "sub {t} zeroinitializer, {0}",
          "uint": "sub {t} zeroinitializer, {0}"},
    cuda={"float": "-{0}", "int": "({t})(0 - ({u}){0})", "uint": "0 - {0}"},
    wgsl={"float": "-{0}", "int": "-{0}", "uint": "0u - {0}"},
    python={"float": "-{0}", "int": "-{0}"},
)  # fmt: skip


def _floor_divide(a: Any, b: Any) -> Any:
    safe = np.where(b == 0, np.ones_like(b), b)
    return np.where(b == 0, np.zeros_like(a), np.floor_divide(a, safe))


def _modulo(a: Any, b: Any) -> Any:
    safe = np.where(b == 0, np.ones_like(b), b)
    return np.where(b == 0, np.zeros_like(a), np.mod(a, safe))


# Integer division rounds down, and by zero gives zero: the backends' own rows only truncate.
intrinsic("floordiv", 2, _floor_divide)
intrinsic("mod", 2, _modulo)
intrinsic(
    "quotient", 2, lambda a, b: (np.sign(a) * np.sign(b)) * (np.abs(a) // np.maximum(np.abs(b), 1)),
    llvm={"int": "sdiv {t} {0}, {1}", "uint": "udiv {t} {0}, {1}"},
    cuda=dict.fromkeys(("int", "uint"), "{0} / {1}"), wgsl="{0} / {1}",
)  # fmt: skip


# WGSL does not order truth values.
_BOOL_ORDER = {
    "lt": "!{0} & {1}", "le": "!{0} | {1}", "gt": "{0} & !{1}", "ge": "{0} | !{1}",
}  # fmt: skip


def _comparison(name: str, symbol: str, numpy: Callable[..., Any], f: str, i: str, u: str) -> None:
    llvm = {"float": f"fcmp {f} {{t}} {{0}}, {{1}}", "int": f"icmp {i} {{t}} {{0}}, {{1}}"}
    llvm["uint"] = llvm["bool"] = f"icmp {u} {{t}} {{0}}, {{1}}"
    text = "{0} " + symbol + " {1}"
    wgsl = {**_everywhere(text), "bool": _BOOL_ORDER.get(name, text)}
    if name == "ne":  # naga's own != is false for NaN
        wgsl["float"] = "!({0} == {1})"
    intrinsic(name, 2, numpy, llvm=llvm, cuda=text, wgsl=wgsl, python=text, gives_bool=True)


_comparison("lt", "<", np.less, "olt", "slt", "ult")
_comparison("le", "<=", np.less_equal, "ole", "sle", "ule")
_comparison("gt", ">", np.greater, "ogt", "sgt", "ugt")
_comparison("ge", ">=", np.greater_equal, "oge", "sge", "uge")
_comparison("eq", "==", np.equal, "oeq", "eq", "eq")
_comparison("ne", "!=", np.not_equal, "une", "ne", "ne")
# WGSL compilers fold x != x to false, so NaN is found by its bits there.
intrinsic(
    "isnan", 1, np.isnan, gives_bool=True,
    llvm={"float": "fcmp uno {t} {0}, {0}"}, cuda="isnan({0})",
    wgsl="(bitcast<u32>({0}) & 0x7fffffffu) > 0x7f800000u",
)  # fmt: skip


def _logical(name: str, symbol: str, numpy: Callable[..., Any]) -> None:
    llvm = dict.fromkeys(("bool", "int", "uint"), name + " {t} {0}, {1}")
    text = "{0} " + symbol + " {1}"
    wgsl = {"bool": text if name != "xor" else "{0} != {1}", "int": text, "uint": text}
    intrinsic(name, 2, numpy, llvm=llvm, cuda=text, wgsl=wgsl, python=text)


_logical("and", "&", np.bitwise_and)
_logical("or", "|", np.bitwise_or)
_logical("xor", "^", np.bitwise_xor)
intrinsic(
    "not",
    1,
    np.logical_not,
    llvm={"bool": "icmp eq {t} {0}, zeroinitializer"},
    cuda="!{0}",
    wgsl="!{0}",
)
intrinsic(
    "shl", 2, np.left_shift, llvm=dict.fromkeys(("int", "uint"), "shl {t} {0}, {1}"),
    cuda="({t})(({u}){0} << ({1} & {mask}))", wgsl="{0} << (u32({1}) & 31u)",
)  # fmt: skip
intrinsic(
    "shr", 2, np.right_shift, llvm={"int": "ashr {t} {0}, {1}", "uint": "lshr {t} {0}, {1}"},
    # An int64 held in 32 bits may be shifted by more: its upper half is its sign.
    cuda="({t}){0} >> ({1} & {mask})",
    wgsl={"int": "{0} >> min(u32({1}), 31u)", "uint": "{0} >> ({1} & 31u)"},
)  # fmt: skip
intrinsic(
    "mulhi", 2, lambda a, b: ((a.astype(np.uint64) * b) >> np.uint64(32)).astype(np.uint32),
    cuda="__umulhi({0}, {1})",
)  # fmt: skip
intrinsic(
    "select", 3, np.where, llvm="select {c} {0}, {t} {1}, {t} {2}",
    cuda="{0} ? {1} : {2}", wgsl="select({2}, {1}, {0})", python="{1} if {0} else {2}",
)  # fmt: skip

# max and min keep NaN, which the backends' own functions drop: select does it right everywhere.
intrinsic("max", 2, np.maximum)
intrinsic("min", 2, np.minimum)


@decomposes("max")
def _max(a: Expr, b: Expr) -> Expr:
    greater = a > b
    return select(greater | isnan(a) if a.dtype.is_floating_point else greater, a, b)


@decomposes("min")
def _min(a: Expr, b: Expr) -> Expr:
    less = a < b
    return select(less | isnan(a) if a.dtype.is_floating_point else less, a, b)


@decomposes("floordiv")
def _floordiv(a: Expr, b: Expr) -> Expr:
    if a.dtype.is_floating_point:
        return floor(a / b)
    signed = a.dtype.is_signed
    if is_power_of_two(b):
        return a >> const(b.data.bit_length() - 1, a.dtype)
    if b.fn == "const" and type(b.data) is int and b.data > 0:
        quotient = call("quotient", a, b)
        below = a < quotient * b
        return quotient - select(below, const(1, a.dtype), 0) if signed else quotient
    # Processors trap on two quotients: by zero, and the lowest number by -1, which overflows.
    safe = select(eq(b, 0) | eq(b, -1) if signed else eq(b, 0), 1, b)
    quotient = call("quotient", a, safe)
    if signed:
        remainder = a - quotient * safe
        down = ne(remainder, 0) & ((remainder < 0) ^ (safe < 0))
        quotient = quotient - select(down, const(1, a.dtype), 0)
        quotient = select(eq(b, -1), -a, quotient)
    return select(eq(b, 0), 0, quotient)


@decomposes("mod")
def _mod(a: Expr, b: Expr) -> Expr:
    if is_power_of_two(b):
        return a & const(b.data - 1, a.dtype)
    return select(eq(b, 0), const(0, a.dtype), a - (a // b) * b)


def _function(name: str, arity: int, numpy: Callable[..., Any], **columns: Any) -> None:
    given = ", ".join(f"{{{i}}}" for i in range(arity))
    typed = ", ".join(f"{{t}} {{{i}}}" for i in range(arity))
    columns.setdefault("llvm", {"float": "call {t} @llvm." + name + ".{m}(" + typed + ")"})
    columns.setdefault("cuda", f"{name}({given})")
    columns.setdefault("wgsl", f"{name}({given})")
    intrinsic(name, arity, numpy, **columns)


_function("sqrt", 1, np.sqrt, python="root({0}) if {0} >= 0 else nan")
_function("floor", 1, np.floor)
_function("ceil", 1, np.ceil)
_function("trunc", 1, np.trunc)
_function("rint", 1, np.rint, wgsl="round({0})")
_function(
    "abs", 1, np.abs,
    llvm={"float": "call {t} @llvm.fabs.{m}({t} {0})",
          "int": "call {t} @llvm.abs.{m}({t} {0}, i1 false)"},
    cuda={**_everywhere("abs({0})"), "uint": "{0}"},
)  # fmt: skip


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _sum_to_odd(a: Any, b: Any) -> Any:
    # A sum that is not exact gets an odd last bit, so that rounding it again, to two digits less
    # or more, gives what rounding the exact sum would.
    total, error = _two_sum(a, b)
    bits = np.asarray(total).view(np.int64)
    away = np.where((error > 0) == (total > 0), 1, -1)
    inexact = np.isfinite(error) & (error != 0) & (bits & 1 == 0)
    return np.where(inexact, bits + away, bits).view(np.float64)


def _fused_multiply_add(a: Any, b: Any, c: Any) -> Any:
    # a * b + c rounded once, after Boldo and Melquiond; float64 is exact unless the splitting
    # overflows or the product's error is subnormal.
    target = np.result_type(a, b, c)
    with np.errstate(all="ignore"):
        a, b, c = (np.asarray(v, np.float64) for v in (a, b, c))
        if target != np.float64:
            return _sum_to_odd(a * b, c).astype(target)
        product = a * b
        a_high, b_high = (v * 134217729.0 - (v * 134217729.0 - v) for v in (a, b))
        a_low, b_low = a - a_high, b - b_high
        error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
        middle, low = _two_sum(c, error)
        high, rest = _two_sum(product, middle)
        result = high + _sum_to_odd(rest, low)
        return np.where(np.isfinite(result), result, a * b + c)


_function("fma", 3, _fused_multiply_add)
intrinsic(
    "muladd", 3, lambda a, b, c: a * b + c,
    llvm={"float": "call {t} @llvm.fmuladd.{m}({t} {0}, {t} {1}, {t} {2})"},
    cuda="{0} * {1} + {2}", wgsl="{0} * {1} + {2}",
)  # fmt: skip


def _lifted(function: Callable[[float], float]) -> Callable[[Any], Any]:
    lifted = np.frompyfunc(function, 1, 1)

    def apply(x: Any) -> Any:
        x = np.asarray(x)
        return np.asarray(lifted(x.astype(np.float64)), dtype=np.float64).astype(x.dtype)

    return apply


# The transcendental functions: CUDA's own are within 2 ulp; LLVM has none to inline and WGSL's
# promise nothing, so both use the decompositions of elementary.py.
for _name, _numpy in (("exp", np.exp), ("log", np.log), ("tanh", np.tanh), ("sin", np.sin),
                      ("cos", np.cos), ("erf", _lifted(math.erf))):  # fmt: skip
    intrinsic(_name, 1, _numpy, cuda=_name + "({0})")
# Of a base up to one and an exponent from zero on, nothing overflows or is complex.
_POWER = "{0} ** {1} if 0 < {0} <= 1 and {1} >= 0 else power({0}, {1})"
intrinsic("pow", 2, np.power, cuda={"float": "pow({0}, {1})"}, python=_POWER)

# An index that was loaded: backends write the check themselves (kernel.py says how).
intrinsic("checked", 2, lambda i, n: _check_index(i, n), llvm="", cuda="", wgsl="")


def _check_index(i: Any, n: Any) -> Any:
    bad = (i < 0) | (i >= n)
    if np.any(bad):
        raise OutOfRange(f"index {np.asarray(i)[bad].flat[0]} is out of range for size {n}.")
    return i


# Conversions are written by each renderer: they depend on two dtypes.
intrinsic("cast", 1, lambda x: x)
intrinsic("bitcast", 1, lambda x: x)


# --- NumPy -------------------------------------------------------------------------------------


def saturating_cast(x: Any, dtype: DType) -> Any:
    """Convert an array as generated code does: floats to integers saturate, NaN becomes zero."""
    x = np.asarray(x)
    target = dtype.numpy
    if x.dtype == target:
        return x
    if target.kind in "iu" and x.dtype.kind not in "biu":
        info: Any = np.iinfo(target)
        wide = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0))
        # float64 has no exact 2**63 - 1: compare instead of clipping.
        inside = (wide >= float(info.min)) & (wide < float(info.max) + 1.0)
        clipped = np.where(wide < 0, info.min, info.max)
        return np.where(inside, np.where(inside, wide, 0.0).astype(target), clipped).astype(target)
    return x.astype(target)


def evaluate(roots: Sequence[Expr], leaves: Callable[[Expr, list[Any]], Any]) -> list[Any]:
    """Compute expressions over NumPy arrays; `leaves(expr, args)` supplies the leaves."""
    values: dict[Expr, Any] = {}
    for e in walk(roots):
        args = [values[a] for a in e.args]
        if e.fn == "const":
            values[e] = np.asarray(e.data, e.dtype.numpy)
        elif e.fn in LEAVES:
            values[e] = leaves(e, args)
        elif e.fn == "cast":
            values[e] = saturating_cast(args[0], e.dtype)
        elif e.fn == "bitcast":
            values[e] = np.asarray(args[0], order="C").view(e.dtype.numpy)
        else:
            values[e] = INTRINSICS[e.fn].numpy(*args)
    return [values[e] for e in roots]


def read_array(array: Any, args: list[Any], guarded: bool) -> Any:
    """What a `read` leaf means to NumPy: the elements at integer coordinates."""
    if not guarded:
        return array[tuple(args)] if args else array
    *at, valid = np.broadcast_arrays(*args)
    inside = tuple(np.where(valid, c, 0) for c in at)
    if array.size == 0:
        return np.zeros(valid.shape, array.dtype)
    return np.where(valid, array[inside] if inside else array, np.zeros((), array.dtype))
