"""Schedules whose rates go from one value to another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from contraflow.optim.lr_scheduler.schedule import ByFunction, LRScheduler
from contraflow.optim.optimizer import Optimizer


class LambdaLR(ByFunction):
    """The initial rate times a function of the epoch, one for all groups or one for each.

    >>> import contraflow as cf
    >>> optimizer = cf.optim.SGD([cf.nn.Parameter(cf.ones(1))], lr=1.0)
    >>> schedule = LambdaLR(optimizer, lambda step: 1 / (1 + step))
    >>> rates = []
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     schedule.step()
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    >>> rates
    [0.5, 0.3333, 0.25]
    """

    def get_lr(self) -> list[float]:
        return [base * factor for base, factor in zip(self.base_lrs, self._factors())]


class MultiplicativeLR(ByFunction):
    """The rate is multiplied every epoch by a function of the epoch.

    >>> import contraflow as cf
    >>> optimizer = cf.optim.SGD([cf.nn.Parameter(cf.ones(1))], lr=1.0)
    >>> schedule = MultiplicativeLR(optimizer, lambda step: 0.5)
    >>> rates = []
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     schedule.step()
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    >>> rates
    [0.5, 0.25, 0.125]
    """

    def get_lr(self) -> list[float]:
        if self._is_initial:
            return self._rates()
        return [lr * factor for lr, factor in zip(self._rates(), self._factors())]

    def begin(self) -> None:
        """Go on from the present rates: a sequence has come to this schedule."""
        self.last_epoch = -1
        self.step()


class StepLR(LRScheduler):
    """The rate is multiplied by gamma every `step_size` epochs.

    >>> import contraflow as cf
    >>> optimizer = cf.optim.SGD([cf.nn.Parameter(cf.ones(1))], lr=1.0)
    >>> schedule = StepLR(optimizer, step_size=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     optimizer.step()
    ...     schedule.step()
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    >>> rates
    [1.0, 0.1, 0.1, 0.01]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        due = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return [lr * self.gamma if due else lr for lr in self._rates()]


class MultiStepLR(LRScheduler):
    """The rate is multiplied by gamma at given epochs.

    >>> import contraflow as cf
    >>> optimizer = cf.optim.SGD([cf.nn.Parameter(cf.ones(1))], lr=1.0)
    >>> schedule = MultiStepLR(optimizer, [1, 3])
    >>> rates = []
    >>> for _ in range(4):
    ...     optimizer.step()
    ...     schedule.step()
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    >>> rates
    [0.1, 0.1, 0.01, 0.01]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        factor = self.gamma ** self.milestones[self.last_epoch]
        return [lr * factor for lr in self._rates()]


class ConstantLR(LRScheduler):
    """The rate times a factor, until `total_iters` epochs have passed.

    >>> import contraflow as cf
    >>> optimizer = cf.optim.SGD([cf.nn.Parameter(cf.ones(1))], lr=1.0)
    >>> schedule = ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> rates = []
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     schedule.step()
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    >>> rates
    [0.5, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueError(f"ConstantLR: factor is {factor}; it must be from 0 to 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._rates()]
        if self.last_epoch == self.total_iters:
            return [lr * (1.0 / self.factor) for lr in self._rates()]
        return self._rates()


class LinearLR(LRScheduler):
    """A warm-up: the rate times a factor that goes from start to end in `total_iters` epochs.

    >>> import contraflow as cf
    >>> optimizer = cf.optim.SGD([cf.nn.Parameter(cf.ones(1))], lr=1.0)
    >>> schedule = LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> rates = []
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     schedule.step()
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    >>> rates
    [0.75, 1.0, 1.0]
    """

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
        if self._is_initial or epoch > self.total_iters:
            return self._rates()
        # The quotient of this epoch's factor and the one before.
        before = self.total_iters * self.start_factor + (epoch - 1) * climb
        return [lr * (1.0 + climb / before) for lr in self._rates()]


class ExponentialLR(LRScheduler):
    """The rate is multiplied by gamma every epoch.

    >>> import contraflow as cf
    >>> optimizer = cf.optim.SGD([cf.nn.Parameter(cf.ones(1))], lr=1.0)
    >>> schedule = ExponentialLR(optimizer, gamma=0.5)
    >>> rates = []
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     schedule.step()
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    >>> rates
    [0.5, 0.25, 0.125]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [lr if self._is_initial else lr * self.gamma for lr in self._rates()]


class PolynomialLR(LRScheduler):
    """The rate times (1 - epoch / total_iters)^power, and then 0.

    >>> import contraflow as cf
    >>> optimizer = cf.optim.SGD([cf.nn.Parameter(cf.ones(1))], lr=1.0)
    >>> schedule = PolynomialLR(optimizer, total_iters=4)
    >>> rates = []
    >>> for _ in range(4):
    ...     optimizer.step()
    ...     schedule.step()
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    >>> rates
    [0.75, 0.5, 0.25, 0.0]
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        epoch, last = self.last_epoch, self.total_iters
        if self._is_initial or epoch > last:
            return self._rates()
        # The quotient of this epoch's power and the one before.
        factor = ((1.0 - epoch / last) / (1.0 - (epoch - 1) / last)) ** self.power
        return [lr * factor for lr in self._rates()]
