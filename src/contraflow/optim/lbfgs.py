"""L-BFGS: quasi-Newton steps from the last changes of the gradient. Eager only.

It evaluates the loss as often as it needs, by a closure, and decides by what it finds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from contraflow.autograd.modes import enable_grad, no_grad
from contraflow.capture.compile import is_compiling
from contraflow.operation.context import other_devices
from contraflow.operation.context import state as thread_state
from contraflow.ops.creation.create import zeros_like
from contraflow.ops.shape.joining import cat
from contraflow.optim.optimizer import Optimizer, OptimizerState, ParamGroup, check_not_negative
from contraflow.tensors.tensor import Tensor

Closure = Callable[[], Any]


class LBFGS(Optimizer):
    """Limited-memory BFGS: quasi-Newton steps by the last `history_size` gradients.

    `step(closure)` makes up to `max_iter` iterations and `max_eval` evaluations; the closure clears
    the gradients, computes the loss, runs backward and returns the loss. With
    `line_search_fn="strong_wolfe"` each iteration looks for a good length along its direction.

    >>> import contraflow as cf
    >>> p = cf.tensor([4.0, -2.0], requires_grad=True)
    >>> optimizer = cf.optim.LBFGS([p], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((p - 1.0) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item()
    18.0
    >>> p
    tensor([1., 1.], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr, "max_iter": max_iter,
                "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
                "history_size": history_size, "line_search_fn": line_search_fn,
            },
        )  # fmt: skip

    def adopt_groups(self, given: Sequence[Any]) -> list[ParamGroup]:
        """Adopt the parameter group; LBFGS supports only one."""
        if len(given) > 1:
            raise ValueError("LBFGS: there can be one parameter group only.")
        return super().adopt_groups(given)

    def check_group(self, group: Mapping[str, Any]) -> None:
        check_not_negative("LBFGS", group, "lr")
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise ValueError(
                f"LBFGS: line_search_fn is {group['line_search_fn']!r}; it must be None or "
                f"'strong_wolfe'."
            )

    def initial_state(self, parameter: Tensor, group: ParamGroup) -> OptimizerState:
        # As in PyTorch, the state of the whole is that of the first parameter.
        return {"func_evals": 0, "n_iter": 0} if parameter is group["params"][0] else {}

    @no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        """Minimize the loss that `closure` computes; give the first one."""
        if is_compiling():
            raise thread_state().context.refusal(
                "LBFGS.step decides by the values of the loss, which a recording would freeze",
                "Compile the closure instead, and call step outside.",
            )
        if closure is None:
            raise TypeError("LBFGS.step: it needs a closure, which computes the loss.")
        if other_devices:
            self.follow_parameters()
        group = self.param_groups[0]
        state = self.state[group["params"][0]]
        evaluate = enable_grad()(closure)
        first = evaluate()
        loss, g = float(first), self._gradient()
        evaluations = 1
        state["func_evals"] += 1
        if _largest(g) <= group["tolerance_grad"]:
            return first
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            t = group["lr"]
            if state["n_iter"] == 1:
                t *= min(1.0, 1.0 / g.abs().sum().item())
            direction = self._direction(state, g, group["history_size"])
            state.update(d=direction, t=t, prev_flat_grad=g, prev_loss=loss)
            slope = g.dot(direction).item()
            if slope > -group["tolerance_change"]:
                break
            before, count = loss, 0
            if group["line_search_fn"] is not None:
                start = _Trial(0.0, loss, g, slope)
                line = _LossAlong(self, evaluate, direction)
                found, count = _search(
                    line, start, t, group["tolerance_change"], group["max_eval"] - evaluations
                )
                t, loss, g = found.t, found.loss, found.gradient
                state["t"] = t
                self._move(direction, t)
            else:
                self._move(direction, t)
                if iteration < group["max_iter"]:  # afterwards nothing would use it
                    loss, g, count = float(evaluate()), self._gradient(), 1
            evaluations += count
            state["func_evals"] += count
            if (
                evaluations >= group["max_eval"]
                or _largest(g) <= group["tolerance_grad"]
                or _largest(direction) * t <= group["tolerance_change"]
                or abs(loss - before) < group["tolerance_change"]
            ):
                break
        return first

    def _direction(self, state: OptimizerState, g: Tensor, history_size: int) -> Tensor:
        """Minus the gradient times the inverse Hessian that past changes of the gradient give."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            return -g
        changes, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        change, step = g - state["prev_flat_grad"], state["d"] * state["t"]
        product = change.dot(step).item()
        if product > 1e-10:  # the curvature is positive, as an inverse needs it
            if len(changes) == history_size:
                for history in (changes, steps, inverses):
                    history.pop(0)
            changes.append(change)
            steps.append(step)
            inverses.append(1.0 / product)
            state["H_diag"] = product / change.dot(change).item()
        direction: Tensor = -g
        shares = []
        for change, step, inverse in reversed(list(zip(changes, steps, inverses))):
            shares.append(step.dot(direction).item() * inverse)
            direction = direction - change * shares[-1]
        direction = direction * state["H_diag"]
        for change, step, inverse, share in zip(changes, steps, inverses, reversed(shares)):
            direction = direction + step * (share - change.dot(direction).item() * inverse)
        return direction

    # --- all parameters as one vector -----------------------------------------------------

    def _gradient(self) -> Tensor:
        params = self.param_groups[0]["params"]
        grads = [zeros_like(p) if p.grad is None else p.grad for p in params]
        flat: Tensor = cat([g.reshape(-1) for g in grads])
        return flat

    def _move(self, direction: Tensor, t: float) -> None:
        start = 0
        for p in self.param_groups[0]["params"]:
            p.add_(direction[start : start + p.numel()].reshape(p.shape) * t)
            start += p.numel()


def _largest(x: Tensor) -> float:
    largest: float = x.abs().max().item()
    return largest


# --- the line search ---------------------------------------------------------------------------


class _Trial(NamedTuple):
    """How far along the direction, and what was found there."""

    t: float
    loss: float
    gradient: Tensor
    slope: float


class _LossAlong:
    """The loss along a direction from where the parameters are."""

    def __init__(self, owner: LBFGS, evaluate: Closure, direction: Tensor) -> None:
        self.owner, self.evaluate, self.direction = owner, evaluate, direction
        self.params = owner.param_groups[0]["params"]
        self.origin = [p.detach().clone() for p in self.params]

    def at(self, t: float) -> _Trial:
        """Evaluate at a place and go back."""
        self.owner._move(self.direction, t)
        loss, g = float(self.evaluate()), self.owner._gradient()
        for p, value in zip(self.params, self.origin):
            p.copy_(value)
        return _Trial(t, loss, g, g.dot(self.direction).item())


_DECREASE, _FLATNESS = 1e-4, 0.9  # the constants of the strong Wolfe conditions


def _search(
    line: _LossAlong, start: _Trial, t: float, tolerance: float, tries: int
) -> tuple[_Trial, int]:
    """A point that meets the strong Wolfe conditions, or the best found, and the evaluations."""

    def too_high(point: _Trial) -> bool:
        return point.loss > start.loss + _DECREASE * point.t * start.slope

    def is_flat(point: _Trial) -> bool:
        return abs(point.slope) <= -_FLATNESS * start.slope

    # Go further until the minimum has been passed.
    previous, point, tried = start, line.at(t), 0
    while tried < tries:
        if too_high(point) or (tried > 1 and point.loss >= previous.loss):
            break
        if is_flat(point):
            return point, tried + 1
        if point.slope >= 0:
            break
        bounds = point.t + 0.01 * (point.t - previous.t), point.t * 10
        t = _cubic_minimum(previous, point, bounds)
        previous, point, tried = point, line.at(t), tried + 1
    else:
        previous = start
    # Close in on it between the two, of which `low` has the lower loss.
    low, high = (previous, point) if previous.loss <= point.loss else (point, previous)
    reach, close = _largest(line.direction), False
    while tried < tries:
        left, right = sorted((low.t, high.t))
        if (right - left) * reach < tolerance:
            break
        t = _cubic_minimum(low, high, (left, right))
        margin = 0.1 * (right - left)
        near = min(right - t, t - left) < margin
        if near and (close or not left < t < right):
            t, near = (right - margin if right - t < t - left else left + margin), False
        close = near
        point, tried = line.at(t), tried + 1
        if too_high(point) or point.loss >= low.loss:
            high = point
            if high.loss < low.loss:
                low, high = high, low
            continue
        if point.slope * (high.t - low.t) >= 0:
            high = low
        low = point
        if is_flat(point):
            break
    return low, tried + 1


def _cubic_minimum(a: _Trial, b: _Trial, bounds: tuple[float, float]) -> float:
    """Where the cubic through two points with their slopes is least, within bounds."""
    low, high = bounds
    left, right = (a, b) if a.t <= b.t else (b, a)
    bend = left.slope + right.slope - 3 * (left.loss - right.loss) / (left.t - right.t)
    square = bend * bend - left.slope * right.slope
    if not square >= 0:  # no minimum, or not a number
        return (low + high) / 2
    root = math.sqrt(square)
    share = (right.slope + root - bend) / (right.slope - left.slope + 2 * root)
    return min(max(right.t - (right.t - left.t) * share, low), high)
