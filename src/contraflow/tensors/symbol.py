"""Symbols: Python numbers of a function that is being recorded.

A number that a function only computes with need not be part of a program: while recording, a
symbol stands for it, and what Python computes with it is noted as steps, which every replay
repeats in Python on its own numbers (`arithmetic`). It passes for the number in `isinstance`.
Of a comparison (`if n > 2`, `min(n, 5)`) the outcome is noted: a replay is only for numbers that
give the same one. Code that needs the value itself (`range(n)`, a shape, `int(x)`) makes the
recording start again, with the number as a constant.
"""

from __future__ import annotations

import builtins
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from contraflow import thresholds
from contraflow.tensors.tree import exact

if TYPE_CHECKING:
    from contraflow.tensors.tensor import Tensor


class ValueNeeded(BaseException):
    """The function asks for the value of some of its numbers. Not for users to catch."""


class Known(NamedTuple):
    """A number that every replay has: a leaf of its arguments, or the result of a step."""

    position: int  # leaves come first


class NumberStep(NamedTuple):
    """An operation of Python on numbers, and its recorded outcome.

    The outcome is the type of the result, or an error; for a comparison or a truth test it is the
    answer itself.
    """

    function: Callable[..., Any]
    operands: tuple[Any, ...]  # Known or a number
    outcome: type | bool


class Symbols:
    """The symbols of one recording, and which of the numbers turned out to be needed."""

    def __init__(self, leaves: int = 0, enter: Callable[[Symbol], Tensor] | None = None) -> None:
        self.open = True  # the recording goes on
        self.needed: set[int] = set()  # by their index among the leaves of the arguments
        self.leaves = leaves  # how many the arguments have
        self.steps: list[NumberStep] = []
        self._known: dict[Any, Known] = {}  # by the step: none is noted twice
        self._questions: Counter[int] = Counter()  # by the leaf they are about
        self.entered: dict[Known, Tensor] = {}  # what stands for symbols beside tensors
        self.enter = enter  # gives the tensor that stands for a symbol beside tensors

    def close(self) -> None:
        """The recording is over: drop the function that enters symbols, and what has entered."""
        self.open, self.enter = False, None
        self.entered.clear()

    def note(
        self, function: Callable[..., Any], operands: Sequence[Any], outcome: type | bool
    ) -> Known:
        """Note a step; its result is known by what this returns."""
        known = tuple(x._known if type(x) is Symbol else x for x in operands)
        key = function, *(x if isinstance(x, Known) else (type(x), exact(x)) for x in known)
        if key not in self._known:
            if isinstance(outcome, bool):
                self._question(operands)
            self._known[key] = Known(self.leaves + len(self.steps))
            self.steps.append(NumberStep(function, known, outcome))
        return self._known[key]

    def _question(self, operands: Sequence[Any]) -> None:
        for symbol in symbols_in(operands):
            self._questions.update(symbol._leaves)
            if any(self._questions[leaf] > thresholds.number_questions for leaf in symbol._leaves):
                self.need(symbol)

    def settle(self, symbol: Symbol) -> bool:
        """Whether the value of a symbol may be used, since it is one of a few: a remainder, or
        computed from some. The program is then for numbers that give the same value."""
        if not self._is_one_of_few(symbol._known):
            return False
        self.note(operator.eq, (symbol, symbol._number), True)
        return True

    def _is_one_of_few(self, known: Known) -> bool:
        if known.position < self.leaves:
            return False
        function, operands, outcome = self.steps[known.position - self.leaves]
        if function is operator.mod and type(operands[1]) is int and outcome is int:
            return 0 < operands[1] <= thresholds.number_questions
        return all(self._is_one_of_few(x) for x in operands if isinstance(x, Known))

    def values_in(self, x: Any) -> Any:
        """A parameter with the values of the symbols in it, which it needs."""
        if not all(map(self.settle, symbols_in(x))):
            self.need(x)
        return _values_in(x)

    def need(self, x: Any) -> None:
        """Note that the values of the symbols in a parameter are needed, and start again."""
        self.needed.update(*(item._leaves for item in symbols_in(x)))
        raise ValueNeeded


class Symbol:
    """A number: its value in the recorded call, and how later calls find its value."""

    __slots__ = ("_known", "_number", "_leaves", "_symbols")

    def __init__(
        self, number: int | float, known: Known, leaves: frozenset[int], symbols: Symbols
    ) -> None:
        self._number, self._known = number, known
        self._leaves, self._symbols = leaves, symbols

    @property
    def _tensor(self) -> Tensor:
        """The 0-d tensor that stands for it beside tensors."""
        entered = self._symbols.entered
        if self._known not in entered:
            assert self._symbols.enter is not None
            entered[self._known] = self._symbols.enter(self)
        return entered[self._known]

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._number)

    def _value(self) -> Any:
        """The number itself, which is all that a symbol is after the recording."""
        if self._symbols.open and not self._symbols.settle(self):
            self._symbols.need(self)
        return self._number

    storage = None  # it lies on no device, which can be asked without its number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._value(), name)

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


def _values_in(x: Any) -> Any:
    if type(x) in (tuple, list):
        return type(x)(map(_values_in, x))
    return x._number if type(x) is Symbol else x


_PLAIN = frozenset((int, float, bool, str, type(None)))  # what holds no symbol


def apply_step(compute: Callable[..., Any], *operands: Any) -> Any:
    """A step of Python on symbols and numbers: arithmetic, a comparison, a function of `math`.

    The type of the result must follow from those of the operands, beside that of `pow`.
    """
    numbers = [x._number if type(x) is Symbol else x for x in operands]
    symbols = [x for x in operands if type(x) is Symbol]
    shared = symbols[0]._symbols
    if not shared.open:
        return compute(*numbers)
    try:
        found = compute(*numbers)
    except Exception as error:
        shared.note(compute, operands, type(error))
        raise
    if type(found) is complex:
        shared.need(operands)
    if type(found) is bool:
        shared.note(compute, operands, found)
        return found
    leaves = frozenset().union(*(x._leaves for x in symbols))
    return Symbol(found, shared.note(compute, operands, type(found)), leaves, shared)


def _plain(x: Any) -> Any:
    return x._value() if type(x) is Symbol else x


def _fits(x: Any) -> bool:
    return type(x) in (Symbol, int, float, bool)


def _binary(name: str, compute: Callable[..., Any]) -> None:
    def forward(self: Symbol, other: Any, *modulus: Any) -> Any:
        if modulus:
            return apply_step(pow, self, other, *modulus)
        return apply_step(compute, self, other) if _fits(other) else NotImplemented

    def backward(self: Symbol, other: Any) -> Any:
        return apply_step(compute, other, self) if _fits(other) else NotImplemented

    setattr(Symbol, f"__{name}__", forward)
    setattr(Symbol, f"__r{name}__", backward)


def _unary(name: str, compute: Callable[..., Any]) -> None:
    setattr(Symbol, f"__{name}__", lambda self: apply_step(compute, self))


def _comparison(name: str, compute: Callable[..., Any]) -> None:
    def method(self: Symbol, other: Any) -> Any:
        if _fits(other):
            return apply_step(compute, self, other)
        if hasattr(other, "storage"):
            return NotImplemented  # a tensor's own comparison is recorded
        if name in ("eq", "ne") and (other is None or type(other) is str):
            return NotImplemented  # a number is neither, whatever its value
        return getattr(self._value(), f"__{name}__")(other)

    setattr(Symbol, f"__{name}__", method)


def _value_needed(name: str) -> None:
    def method(self: Symbol, *args: Any) -> Any:
        return getattr(self._value(), name)(*map(_plain, args))

    setattr(Symbol, name, method)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _binary(_name, getattr(operator, _name))
for _name in ("neg", "pos", "abs"):
    _unary(_name, getattr(operator, _name))
_unary("bool", bool)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _comparison(_name, getattr(operator, _name))
for _name in (
    "int", "float", "index", "complex", "hash", "round", "trunc", "floor", "ceil", "divmod",
    "rdivmod", "lshift", "rlshift", "rshift", "rrshift", "and", "rand", "or", "ror", "xor", "rxor",
    "invert", "str", "repr", "format", "array",
):  # fmt: skip
    _value_needed(f"__{_name}__")


# --- the same in later calls ---------------------------------------------------------------------

Numbers = Callable[[Sequence[Any]], "list[Any] | None"]

INT64 = range(-(1 << 63), 1 << 63)  # what a program takes as a whole number

_SIGNS = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/",
    operator.floordiv: "//", operator.mod: "%", operator.pow: "**", operator.eq: "==",
    operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=",
}  # fmt: skip


def arithmetic(steps: Sequence[NumberStep], leaves: int, entering: Iterable[int]) -> Numbers:
    """A function that gives all numbers of a call, the leaves of its arguments first.

    It gives None where something else comes of a step than when it was recorded, an error or
    another answer for instance, or where one of the whole numbers that are `entering` the program
    does not fit: then it is not the program for these numbers.

    >>> compute = arithmetic([NumberStep(operator.truediv, (1, Known(0)), float)], 1, [])
    >>> compute([4]), compute([0])
    ([4, 0.25], None)
    >>> compute = arithmetic([NumberStep(operator.gt, (Known(0), 2), True)], 1, [])
    >>> compute([4]), compute([0])
    ([4, None], None)
    """
    scope: dict[str, Any] = {"INT64": INT64}
    names = [f"n{i}" for i in range(leaves)]
    lines = [f"{''.join(f'{name}, ' for name in names)} = leaves"] if leaves else []
    for number, (function, operands, outcome) in enumerate(steps, leaves):
        given = []
        for x in operands:
            if isinstance(x, Known):
                given.append(f"n{x.position}")
            else:
                given.append(f"x{len(scope)}")
                scope[given[-1]] = x
        scope[f"f{number}"], scope[f"t{number}"] = function, outcome
        sign = _SIGNS.get(function)
        call = f" {sign} ".join(given) if sign else f"f{number}({', '.join(given)})"
        if isinstance(outcome, bool):
            lines.append(f"if {call if outcome is False else f'not ({call})'}: return None")
            names.append("None")
            continue
        names.append(f"n{number}")
        if issubclass(outcome, Exception):
            lines += [
                f"try: {call}", f"except t{number} as error:",
                f"  if type(error) is not t{number}: return None", "else: return None",
                f"n{number} = None",
            ]  # fmt: skip
            continue
        lines.append(f"n{number} = {call}")
        if function is operator.pow:  # all others give a kind that follows from those of operands
            lines.append(f"if type(n{number}) is not t{number}: return None")
    lines += [f"if n{i} not in INT64: return None" for i in entering]
    text = ["def compute(leaves):", "  try:", *(f"    {line}" for line in lines)]
    text += [f"    return [{', '.join(names)}]", "  except Exception:", "    return None"]
    exec(builtins.compile("\n".join(text), "<numbers>", "exec"), scope)
    return scope["compute"]  # type: ignore[no-any-return]


LONGEST = 80  # characters of an expression that is shown


def number_text(x: int | float) -> str:
    """A number as text; Python refuses to write very long ones."""
    return f"an int of {x.bit_length()} bits" if type(x) is int and x not in INT64 else str(x)


def departure(
    steps: Sequence[NumberStep], leaves: Sequence[Any], names: Sequence[str]
) -> str | None:
    """The first step whose outcome differs from the recorded one, as text.

    >>> departure([NumberStep(operator.gt, (Known(0), 2), True)], [1], ["n"])
    'n > 2 was True and is False'
    """
    numbers, texts = list(leaves), list(names)
    enclosed = list(names)  # as operands
    for function, operands, outcome in steps:
        sign = _SIGNS.get(function)
        known = enclosed if sign else texts
        given = [numbers[x.position] if isinstance(x, Known) else x for x in operands]
        shown = [known[x.position] if isinstance(x, Known) else number_text(x) for x in operands]
        text = f" {sign} ".join(shown) if sign else f"{function.__name__}({', '.join(shown)})"
        if len(text) > LONGEST:
            text = "..."
        try:
            found = function(*given)
        except Exception as error:
            found = error
        if isinstance(outcome, bool):
            if found is not outcome:
                return f"{text} was {outcome} and is {found}"
        elif type(found) is not outcome:
            return f"{text} was a {outcome.__name__} and is a {type(found).__name__}"
        numbers.append(found)
        texts.append(text)
        enclosed.append(f"({text})" if sign else text)
    return None
