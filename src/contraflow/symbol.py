"""Symbols: Python numbers of a function that is being recorded.

A number that a function only computes with need not be part of a program: while recording, a
symbol stands for it, arithmetic on which is recorded too. It passes for the number in `isinstance`.
Whoever needs the value itself (`range(n)`, a shape, an `if`, `math.sqrt(x)`) makes the recording
start again, with the number as it is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contraflow.tensor import Tensor


class ValueNeeded(BaseException):
    """The function asks for the value of some of its numbers. Not for users to catch."""


class Symbols:
    """The symbols of one recording, and which of the numbers turned out to be needed."""

    def __init__(self) -> None:
        self.open = True  # the recording goes on
        self.needed: set[int] = set()  # places among the leaves of the arguments

    def need(self, x: Any) -> None:
        """Note that the values of the symbols in a parameter are needed, and start again."""
        self.needed.update(*(item._places for item in symbols_in(x)))
        raise ValueNeeded


class Symbol:
    """A number: its value in the call that is recorded, and the 0-d tensor that stands for it."""

    __slots__ = ("_number", "_places", "_symbols", "_tensor")

    def __init__(
        self, number: int | float, tensor: Tensor, places: frozenset[int], symbols: Symbols
    ) -> None:
        self._number, self._tensor = number, tensor
        self._places, self._symbols = places, symbols

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._number)

    def _value(self) -> Any:
        """The number itself. A symbol that outlives the recording is no more than that."""
        if self._symbols.open:
            self._symbols.need(self)
        return self._number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._value(), name)

    def __pow__(self, exponent: Any) -> Any:
        return _power(self, exponent)

    def __rpow__(self, base: Any) -> Any:
        return _power(base, self)

    def __copy__(self) -> Symbol:
        return self

    def __deepcopy__(self, memo: Any) -> Symbol:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self._number), (self._value(),)


def is_symbol(x: Any) -> bool:
    """Whether something is a symbol; `isinstance` sees the number."""
    return type(x) is Symbol


def symbols_in(x: Any) -> list[Symbol]:
    """The symbols in a parameter: a number, or tuples of them."""
    kind = type(x)
    if kind is tuple or kind is list:
        if _PLAIN.issuperset(map(type, x)):
            return []
        return [found for item in x for found in symbols_in(item)]
    return [x] if kind is Symbol else []


_PLAIN = frozenset((int, float, bool, str, type(None)))  # what holds no symbol


def _apply(compute: Callable[..., Any], *operands: Any) -> Any:
    """Arithmetic on symbols and numbers, as Python does it: in float64 if one is a float."""
    numbers = [x._number if type(x) is Symbol else x for x in operands]
    symbols = [x for x in operands if type(x) is Symbol]
    shared = symbols[0]._symbols
    number = compute(*numbers)
    if not shared.open:
        return number
    tensors = [x._tensor if type(x) is Symbol else x for x in operands]
    if type(number) is float:
        tensors = [x.double() if type(o) is Symbol else float(x) for x, o in zip(tensors, operands)]
    places = frozenset().union(*(x._places for x in symbols))
    return Symbol(number, compute(*tensors), places, shared)


def _plain(x: Any) -> Any:
    return x._value() if type(x) is Symbol else x


def _fits(x: Any) -> bool:
    return type(x) in (Symbol, int, float)


def _binary(name: str, compute: Callable[..., Any]) -> None:
    def forward(self: Symbol, other: Any) -> Any:
        return _apply(compute, self, other) if _fits(other) else NotImplemented

    def backward(self: Symbol, other: Any) -> Any:
        return _apply(compute, other, self) if _fits(other) else NotImplemented

    setattr(Symbol, f"__{name}__", forward)
    setattr(Symbol, f"__r{name}__", backward)


def _power(base: Any, exponent: Any) -> Any:
    """A power: arithmetic, unless of whole numbers, which may be a fraction or too large."""
    if not _fits(base) or not _fits(exponent):
        return NotImplemented
    if isinstance(base, int) and isinstance(exponent, int):
        return operator.pow(*map(_plain, (base, exponent)))
    return _apply(operator.pow, base, exponent)


def _unary(name: str, compute: Callable[..., Any]) -> None:
    setattr(Symbol, f"__{name}__", lambda self: _apply(compute, self))


def _value_needed(name: str) -> None:
    def method(self: Symbol, *args: Any) -> Any:
        if name in _COMPARISONS and hasattr(args[0], "storage"):
            return NotImplemented  # a tensor's own comparison is recorded
        return getattr(self._value(), name)(*map(_plain, args))

    setattr(Symbol, name, method)


_COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")

for _name in ("add", "sub", "mul", "truediv"):
    _binary(_name, getattr(operator, _name))
for _name in ("neg", "pos", "abs"):
    _unary(_name, getattr(operator, _name))
for _name in (
    "bool", "int", "float", "index", "complex", "hash", "eq", "ne", "lt", "le", "gt", "ge", "round",
    "trunc", "floor", "ceil", "floordiv", "rfloordiv", "mod", "rmod", "divmod", "rdivmod", "lshift",
    "rlshift", "rshift", "rrshift", "and", "rand", "or", "ror", "xor", "rxor", "invert", "str",
    "repr", "format", "array",
):  # fmt: skip
    _value_needed(f"__{_name}__")
