"""Where the terms of a sum cancel: compilers of WGSL simplify such sums.

They take x - x for 0, a - b + b for a and sqrt(x) * sqrt(x) for |x|, which holds of real numbers.
Of NaN and infinities it does not, nor of numbers whose digits a sum has lost. `wgsl.py` hides an
argument of such an operation from the compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from contraflow.expressions.intrinsics import INTRINSICS


class Term(NamedTuple):
    """A term of a sum: a product of values by name, sorted, with its sign."""

    factors: tuple[str, ...]
    negative: bool

    def times(self, other: Term) -> Term:
        """The product of two."""
        factors = tuple(sorted(self.factors + other.factors))
        return Term(factors, self.negative != other.negative)


Terms = frozenset[Term]

_ROWS = {INTRINSICS[fn].wgsl["float"]: fn for fn in ("add", "sub", "mul", "neg", "muladd")}  # type: ignore[index]
_ROOT = INTRINSICS["sqrt"].wgsl


class Sums:
    """The terms that the values of a text add up, as far as sums, products and signs tell."""

    def __init__(self) -> None:
        self._terms: dict[str, Terms] = {}  # by the text of a value or its name
        self._roots: set[str] = set()  # the texts and names of square roots

    def name(self, name: str, text: str) -> None:
        """Note that a value has a name from here on."""
        self._terms.pop(name, None)
        self._roots.discard(name)
        if text in self._terms:
            self._terms[name] = self._terms[text]
        if text in self._roots:
            self._roots.add(name)

    def hide(self, template: str, args: Sequence[str]) -> list[str] | None:
        """The arguments of an operation with one hidden, where their terms cancel; else None.

        The terms of the result are noted by its text.
        """
        fn = _ROWS.get(template)
        if fn is None:
            if template == _ROOT:
                self._roots.add(template.format(*args))
            return None
        sides = [self._of(arg) for arg in args]
        if fn in ("mul", "muladd"):
            a, b = (_alone(terms, arg) for terms, arg in zip(sides[:2], args))
            sides[:2] = [frozenset((a.times(b),))]
        if fn in ("sub", "neg"):
            sides[-1] = _negative(sides[-1])
        self._terms[template.format(*args)] = frozenset().union(*sides)
        if len(sides) > 1:
            cancels = not sides[0].isdisjoint(_negative(sides[1]))
        else:
            cancels = fn == "mul" and args[0] == args[1] and args[0] in self._roots
        if not cancels:
            return None
        at = max(range(len(args)), key=lambda i: len(self._of(args[i])))  # which is not a constant
        return [f"hidden({arg})" if i == at else arg for i, arg in enumerate(args)]

    def _of(self, text: str) -> Terms:
        if text in self._terms:
            return self._terms[text]
        if text.startswith("(-"):  # a negative constant
            return frozenset((Term((text[2:-1],), negative=True),))
        return frozenset((Term((text,), negative=False),))


def _negative(terms: Terms) -> Terms:
    return frozenset(Term(term.factors, not term.negative) for term in terms)


def _alone(terms: Terms, text: str) -> Term:
    """The terms as one factor: a sum is a factor by its name."""
    return next(iter(terms)) if len(terms) == 1 else Term((text,), negative=False)
