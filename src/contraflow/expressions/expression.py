"""Scalar expressions: the vocabulary in which the bodies of ops are written.

An op's body is written over `Expr`s and is its meaning on every backend. `intrinsics.py` has the
table of the functions that expressions are made of, and `evaluate.py` what they mean to NumPy.

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
from typing import Any

import numpy as np

from contraflow import threads
from contraflow.dtypes import DType, bool_, int64
from contraflow.expressions.intrinsics import INTRINSICS, decomposes

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
        if not e.args or e in entered:  # and all its arguments have been found
            found[stack.pop()] = None
        else:
            entered.add(e)
            stack.extend(e.args[::-1])
    return list(found)


# Functions that give one of their arguments, if with another sign or in another type, or the
# integer part of one.
_EXACT = frozenset(
    ("select", "max", "min", "cast", "bitcast", "neg", "abs", "floor", "ceil", "trunc", "rint")
)


def rounds(roots: Sequence[Expr]) -> bool:
    """Whether there is arithmetic on floats in some expressions, each step of which rounds."""
    return any(
        e.dtype.is_floating_point and e.fn not in _EXACT and e.fn not in LEAVES for e in walk(roots)
    )


def rewrite(roots: Sequence[Expr], replace: Callable[[Expr], Expr | None]) -> list[Expr]:
    """Rebuild expressions bottom up; `replace` gives a node's substitute or None to keep it."""
    done: dict[Expr, Expr] = {}
    for e in walk(roots):
        rebuilt = e
        if e.args:
            args = tuple([done[a] for a in e.args])
            rebuilt = e if args == e.args else make(e.fn, args, e.dtype, e.data)
        substitute = replace(rebuilt)
        done[e] = rebuilt if substitute is None else substitute
    return [done[e] for e in roots]


# --- what some rows are made of on every backend ------------------------------------------------


@decomposes("max")
def _max(a: Expr, b: Expr) -> Expr:
    greater = a > b
    return select(greater | isnan(a) if a.dtype.is_floating_point else greater, a, b)


@decomposes("min")
def _min(a: Expr, b: Expr) -> Expr:
    less = a < b
    return select(less | isnan(a) if a.dtype.is_floating_point else less, a, b)


@decomposes("clamp")
def _clamp(x: Expr, low: Expr, high: Expr) -> Expr:
    below = select(x > high, high, x)
    return below if low.fn == "const" and low.data == -math.inf else select(x < low, low, below)


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
