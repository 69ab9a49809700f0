"""The base of schedules.

A schedule computes the next rate from the present one, as PyTorch's do, so several can act on one
optimizer. `step()` is called outside a compiled function: it counts in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from contraflow.capture.compile import is_compiling
from contraflow.operation.context import state
from contraflow.optim.optimizer import Optimizer


class LRScheduler:
    """The base of schedules. One writes `get_lr`, which gives a rate for each group.

    >>> import contraflow as cf
    >>> optimizer = cf.optim.SGD([cf.nn.Parameter(cf.ones(1))], lr=1.0)
    >>> class Halving(LRScheduler):
    ...     def get_lr(self):
    ...         return [base / 2**self.last_epoch for base in self.base_lrs]
    >>> schedule = Halving(optimizer)
    >>> rates = []
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     schedule.step()
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    >>> rates
    [0.5, 0.25, 0.125]
    """

    keeps_for_users = True  # compiled functions observe what they read of it
    _is_initial = False  # the first step gives the rate to start from, which may be there already

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(type(self).__name__, optimizer)
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise ValueError(
                    f"{type(self).__name__}: last_epoch is {last_epoch}, but group {number} has no "
                    f"'initial_lr' to resume from. Load the optimizer's state first."
                )
        self.optimizer = optimizer
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._initial_step()

    def get_lr(self) -> list[float]:
        """The rate of each group in epoch `last_epoch`."""
        raise NotImplementedError(f"{type(self).__name__}: get_lr is not implemented.")

    def get_last_lr(self) -> list[float]:
        """The rates set last."""
        return self._last_lr

    def step(self) -> None:
        """Go to the next epoch and set its rates."""
        self._refuse_recording()
        self.last_epoch += 1
        self._set_rates(self.get_lr())

    def begin(self) -> None:
        """Set the rates of epoch 0 anew: a sequence has come to this schedule."""
        self._set_rates(self.base_lrs)
        self.last_epoch = -1
        self._initial_step()

    def _initial_step(self) -> None:
        self._is_initial = True
        try:
            self.step()
        finally:
            del self._is_initial

    def _refuse_recording(self) -> None:
        if is_compiling():
            raise state().context.refusal(
                f"{type(self).__name__}.step counts in Python, which a recording would freeze",
                "Call it outside the compiled function; the new rate is used without recording "
                "again.",
            )

    def _rates(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def _set_rates(self, rates: Sequence[float]) -> None:
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = lr
        self._last_lr = self._rates()

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state from `state_dict`; the optimizer's own state holds the rates."""
        vars(self).update(state_dict)


class ByFunction(LRScheduler):
    """A schedule by functions of the epoch, one for all groups or one for each."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        name = type(self).__name__
        check_optimizer(name, optimizer)
        count = len(optimizer.param_groups)
        self.lr_lambdas = [lr_lambda] * count if callable(lr_lambda) else list(lr_lambda)
        if len(self.lr_lambdas) != count:
            raise ValueError(
                f"{name}: {len(self.lr_lambdas)} functions for {count} parameter groups."
            )
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(f"{name}: {type(function).__name__} is not a function.")
        super().__init__(optimizer, last_epoch)

    def _factors(self) -> list[float]:
        return [function(self.last_epoch) for function in self.lr_lambdas]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of functions that are objects, their attributes."""
        return {**super().state_dict(), "lr_lambdas": [_attributes(f) for f in self.lr_lambdas]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"]):
            if attributes is not None:
                vars(function).update(attributes)


def _attributes(function: Callable[..., Any]) -> dict[str, Any] | None:
    return None if isinstance(function, FunctionType) else dict(getattr(function, "__dict__", {}))


def check_optimizer(name: str, optimizer: Any) -> None:
    """Refuse what is not an optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{name}: {type(optimizer).__name__} is not an Optimizer.")


def for_each_group(name: str, optimizer: Optimizer, key: str, value: Any) -> list[float]:
    """A number for all groups, or one for each, as a list."""
    count = len(optimizer.param_groups)
    values = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if len(values) != count:
        raise ValueError(f"{name}: {len(values)} values of {key} for {count} parameter groups.")
    return values
