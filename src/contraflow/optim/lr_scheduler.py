"""Learning-rate schedules. They write into the optimizer's host scalars, between its steps.

A schedule computes the next rate from the present one, as PyTorch's do, so several can act on one
optimizer. `step()` is called outside a compiled function: it counts in Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from contraflow.errors import CaptureError
from contraflow.optim.optimizer import Optimizer
from contraflow.tensor import Tensor


class LRScheduler:
    """The base of schedules. One writes `get_lr`, which gives a rate for each group."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        name = type(self).__name__
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{name}: {type(optimizer).__name__} is not an Optimizer.")
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise ValueError(
                    f"{name}: last_epoch is {last_epoch}, but group {number} has no 'initial_lr' "
                    f"to resume from. Load the optimizer's state first."
                )
        self.optimizer = optimizer
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._resuming = True  # the first step sets the rate of an epoch that others led up to
        self.step()
        self._resuming = False

    def get_lr(self) -> list[float]:
        """The rate of each group in epoch `last_epoch`."""
        raise NotImplementedError(f"{type(self).__name__}: get_lr is not written.")

    def get_last_lr(self) -> list[float]:
        """The rates set last."""
        return self._last_lr

    def step(self) -> None:
        """Go to the next epoch and set its rates."""
        if any(isinstance(lr, Tensor) for lr in self._rates()):
            name = type(self).__name__
            raise CaptureError(
                f"{name}.step: a schedule counts in Python, which a recording would freeze. "
                f"Call it outside the compiled function; the new rate is used without recompiling."
            )
        self.last_epoch += 1
        for group, lr in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            group["lr"] = lr
        self._last_lr = self._rates()

    def _rates(self) -> list[Any]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; the optimizer's own state holds the rates."""
        vars(self).update(state_dict)


class StepLR(LRScheduler):
    """Times gamma every `step_size` epochs."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        due = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return [lr * self.gamma if due else lr for lr in self._rates()]


class ExponentialLR(LRScheduler):
    """Times gamma every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [lr * self.gamma if self.last_epoch > 0 else lr for lr in self._rates()]


class LinearLR(LRScheduler):
    """A warm-up: the rate times a factor that goes from start to end in `total_iters` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise ValueError(
                f"LinearLR: the factors are {start_factor} and {end_factor}; the first must be "
                f"above 0, and both at most 1."
            )
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        epoch, climb = self.last_epoch, self.end_factor - self.start_factor
        if epoch == 0:
            return [lr * self.start_factor for lr in self._rates()]
        if epoch > self.total_iters:
            return self._rates()
        # The quotient of this epoch's factor and the one before.
        before = self.total_iters * self.start_factor + (epoch - 1) * climb
        return [lr * (1.0 + climb / before) for lr in self._rates()]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial rate down to `eta_min` in `T_max` epochs, and up again."""

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        epoch, low = self.last_epoch, self.eta_min
        if epoch == 0:
            return self._rates()
        if self._resuming:
            return [low + (base - low) * self._height(epoch) for base in self.base_lrs]
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # The rate before is eta_min, which has no quotient: start upward from the base rate.
            return [
                lr + (base - low) * self._height(self.T_max - 1)
                for lr, base in zip(self._rates(), self.base_lrs)
            ]
        quotient = self._height(epoch) / self._height(epoch - 1)
        return [low + (lr - low) * quotient for lr in self._rates()]

    def _height(self, epoch: int) -> float:
        """Where the cosine stands between eta_min (0) and the initial rate (1)."""
        return (1 + math.cos(math.pi * epoch / self.T_max)) / 2


class LambdaLR(LRScheduler):
    """The initial rate times a function of the epoch, one for all groups or one for each."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas = [lr_lambda] * count if callable(lr_lambda) else list(lr_lambda)
        if len(self.lr_lambdas) != count:
            raise ValueError(
                f"LambdaLR: {len(self.lr_lambdas)} functions for {count} parameter groups."
            )
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [
            base * factor(self.last_epoch) for base, factor in zip(self.base_lrs, self.lr_lambdas)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and the functions."""
        return {k: v for k, v in super().state_dict().items() if k != "lr_lambdas"}
