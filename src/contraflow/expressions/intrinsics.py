"""The table of scalar functions, with their text in the language of each backend.

The language is closed: every function is a row of `INTRINSICS`, with a column per backend. A column
holds text for that backend's language, or None where the backend uses the row's decomposition into
simpler rows (`elementary.py` has those of the transcendental functions). A new backend is a new
column.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from contraflow.dtypes import DType, bool_
from contraflow.errors import OutOfRange

if TYPE_CHECKING:
    from contraflow.expressions.expression import Expr


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
    # Addition of truth values is `or`, multiplication `and`; WGSL has no arithmetic of bools.
    wgsl = {**_everywhere(text), "bool": "{0} | {1}" if name == "add" else "{0} & {1}"}
    python = dict.fromkeys(("float", "int"), text)
    intrinsic(name, 2, numpy, llvm=llvm, cuda=cuda, wgsl=wgsl, python=python)


# Each rounds on its own: a value that one kernel keeps and another computes again has the same
# bits in both, so that the gradient of a maximum finds it. `muladd` is for where that does not
# matter.
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
_WGSL_ISNAN = "(bitcast<u32>({0}) & 0x7fffffffu) > 0x7f800000u"
intrinsic(
    "isnan", 1, np.isnan, gives_bool=True,
    llvm={"float": "fcmp uno {t} {0}, {0}"}, cuda="isnan({0})",
    wgsl=_WGSL_ISNAN,
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
# The same of a number within limits, in this order. Compilers of WGSL may take comparisons that
# select one of what they compare for the functions that drop NaN, so its bits are asked there.
intrinsic(
    "clamp", 3, np.clip,
    wgsl={"float": "select(clamp({0}, {1}, {2}), {0}, " + _WGSL_ISNAN + ")"},
)  # fmt: skip


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
    cuda={"float": "fma({0}, {1}, {2})"}, wgsl={"float": "fma({0}, {1}, {2})"},
)  # fmt: skip


def lifted(function: Callable[[float], float]) -> Callable[[Any], Any]:
    """A function of Python floats, over arrays."""
    of_objects = np.frompyfunc(function, 1, 1)

    def apply(x: Any) -> Any:
        x = np.asarray(x)
        return np.asarray(of_objects(x.astype(np.float64)), dtype=np.float64).astype(x.dtype)

    return apply


# The transcendental functions: CUDA's own are within 2 ulp; LLVM has none to inline and WGSL's
# promise nothing, so both use the decompositions of elementary.py.
for _name, _numpy in (("exp", np.exp), ("log", np.log), ("tanh", np.tanh), ("sin", np.sin),
                      ("cos", np.cos), ("erf", lifted(math.erf))):  # fmt: skip
    intrinsic(_name, 1, _numpy, cuda=_name + "({0})")


# Of a base up to one and an exponent from zero on, nothing overflows or is complex.
def power(a: Any, b: Any) -> Any:
    """a to the power of b. NumPy refuses integers to negative ones."""
    if getattr(b, "dtype", np.dtype(float)).kind == "i":
        # The truncated fraction: 0 unless the base is 1 or -1.
        fraction = np.where(np.abs(a) == 1, np.where(b & 1, a, 1), 0)
        return np.where(b < 0, fraction, np.power(a, np.maximum(b, 0)))
    return np.power(a, b)


_POWER = "{0} ** {1} if 0 < {0} <= 1 and {1} >= 0 else power({0}, {1})"
intrinsic("pow", 2, power, cuda={"float": "pow({0}, {1})"}, python=_POWER)

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
