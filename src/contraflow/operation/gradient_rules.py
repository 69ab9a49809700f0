"""Gradient rules: the values that each names, which are saved, and how rules are run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from contraflow.errors import GradientError
from contraflow.spec import Params, Spec

if TYPE_CHECKING:
    from contraflow.operation.op import Op


class Rule(NamedTuple):
    """One gradient rule: for which inputs, and which values it names."""

    inputs: tuple[int, ...]
    function: Callable[..., Any]
    names: tuple[str, ...]


class BoundRule(NamedTuple):
    """A rule, and how its arguments are picked out of all that rules of its op may name."""

    inputs: tuple[int, ...]
    function: Callable[..., Any]
    pick: Callable[[Sequence[Any]], Sequence[Any]]


class Backward(NamedTuple):
    """The rules bound for one set of inputs that need gradients, and what they must save."""

    needs: tuple[bool, ...]
    rules: tuple[BoundRule, ...]
    saved_inputs: tuple[int, ...]  # indices of the inputs some rule names
    saved_outs: tuple[int, ...]  # indices of the outputs and residuals some rule names
    recomputes: bool  # some rule names a residual, so all inputs are kept
    plain: bool  # rules name cotangents and saved values only
    arithmetic: bool  # rules only add, subtract, multiply and divide those

    def run(
        self, op: Op, named: list[Any], params: Params, specs: Sequence[Spec | None]
    ) -> list[Any]:
        """The gradient of each input, None where none is needed.

        `named` holds the cotangents, then the saved inputs, then the saved outputs.
        """
        if not self.plain:
            first = op.output_count
            inputs = tuple(named[first : first + len(self.saved_inputs)])
            named = [*named, *(params[name] for name in op.params), *specs]
            named += (inputs, specs, self.needs)
        grads: list[Any] = [None] * len(specs)
        for targets, function, pick in self.rules:
            result = function(*pick(named))
            if len(targets) == 1 and not isinstance(result, (tuple, list)):
                grads[targets[0]] = result
            else:
                _spread(op, result, targets, grads)
        return grads


def _spread(op: Op, result: Any, targets: tuple[int, ...], grads: list[Any]) -> None:
    """Take the several gradients that a rule returned."""
    targets = targets or tuple(range(len(grads)))
    results = result if isinstance(result, (tuple, list)) else (result,)
    if len(results) != len(targets):
        raise GradientError(
            f"backward: the gradient rule of {op.name} returned {len(results)} gradients "
            f"for {len(targets)} inputs."
        )
    for i, grad in zip(targets, results):
        grads[i] = grad


class _StandIn:
    """Stands for a tensor while it is found out whether a rule is nothing but arithmetic."""

    def _combined(self, other: object) -> _StandIn:
        if not isinstance(other, (_StandIn, float, int)):
            raise NotImplementedError
        return _StandIn()

    __add__ = __radd__ = __sub__ = __rsub__ = _combined
    __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _combined

    def __neg__(self) -> _StandIn:
        return _StandIn()

    def __bool__(self) -> bool:
        raise NotImplementedError


def is_arithmetic(rule: Rule) -> bool:
    """Whether a rule gives the cotangent, or makes one new value by the four operations.

    Arrays have these as well.
    """
    code = getattr(rule.function, "__code__", None)
    if code is not None and code.co_names:
        return False  # it uses something beside its arguments
    operands = {name: _StandIn() for name in rule.names}
    try:
        result = rule.function(*operands.values())
    except Exception:
        return False  # it does something else with its arguments
    saved = [x for name, x in operands.items() if name != "g"]
    return len(rule.inputs) == 1 and type(result) is _StandIn and result not in saved


def picker(indices: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A function that takes the elements with these indices out of a list, as a sequence."""
    if len(indices) > 1:
        return itemgetter(*indices)
    return itemgetter(slice(indices[0], indices[0] + 1) if indices else slice(0))
