"""Combined schedules: several together, or one after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from contraflow.optim.lr_scheduler.plateau import ReduceLROnPlateau
from contraflow.optim.lr_scheduler.schedule import LRScheduler, check_optimizer
from contraflow.optim.optimizer import Optimizer


class _Several(LRScheduler):
    """The base of schedules that act through others."""

    _schedulers: list[LRScheduler]

    def _take(self, optimizer: Optimizer | None, schedulers: Sequence[LRScheduler]) -> None:
        name = type(self).__name__
        self._schedulers = list(schedulers)
        if not self._schedulers:
            raise ValueError(f"{name}: the list of schedulers is empty.")
        for number, scheduler in enumerate(self._schedulers):
            which = f"scheduler {number}"
            if not isinstance(scheduler, LRScheduler):
                raise TypeError(f"{name}: {which} is {type(scheduler).__name__}, not a scheduler.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name}: {which} is ReduceLROnPlateau, whose step takes a metric. Step it "
                    f"separately."
                )
            optimizer = scheduler.optimizer if optimizer is None else optimizer
            if scheduler.optimizer is not optimizer:
                raise ValueError(f"{name}: {which}, {type(scheduler).__name__}, belongs to "
                                 f"another optimizer.")  # fmt: skip
        check_optimizer(name, optimizer)
        assert optimizer is not None
        self.optimizer = optimizer

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, with the states of the schedules."""
        states = [scheduler.state_dict() for scheduler in self._schedulers]
        return {**super().state_dict(), "_schedulers": states}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)


class SequentialLR(_Several):
    """One schedule after the other; the next begins at each milestone.

    >>> import contraflow as cf
    >>> from contraflow.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
    >>> optimizer = cf.optim.SGD([cf.ones(1, requires_grad=True)], lr=1.0)
    >>> warmup = LinearLR(optimizer, 0.5, total_iters=2)
    >>> scheduler = SequentialLR(optimizer, [warmup, CosineAnnealingLR(optimizer, 4)], [2])
    >>> for _ in range(4):
    ...     print(round(optimizer.param_groups[0]["lr"], 4), end=" ")
    ...     scheduler.step()
    0.5 0.75 1.0 0.8536
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        check_optimizer("SequentialLR", optimizer)
        self._take(optimizer, schedulers)
        if len(milestones) != len(self._schedulers) - 1:
            raise ValueError(
                f"SequentialLR: {len(milestones)} milestones for {len(self._schedulers)} "
                f"schedulers; there must be one fewer."
            )
        self._milestones = list(milestones)
        self._begin_first()
        self.last_epoch = last_epoch + 1

    def step(self) -> None:
        """Go to the next epoch, which may be the first of the next schedule."""
        self._refuse_recording()
        self.last_epoch += 1
        number = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[number]
        if number > 0 and self._milestones[number - 1] == self.last_epoch:
            scheduler.begin()
        else:
            scheduler.step()
        self._last_lr = self._rates()

    def begin(self) -> None:
        """Begin with the first schedule anew."""
        self.last_epoch = 0
        self._begin_first()

    def _begin_first(self) -> None:
        self._set_rates([group["initial_lr"] for group in self.optimizer.param_groups])
        self._schedulers[bisect_right(self._milestones, 0)].begin()
        self._last_lr = self._rates()


class ChainedScheduler(_Several):
    """Several schedules that step together, each starting from the rates the others leave.

    >>> import contraflow as cf
    >>> from contraflow.optim.lr_scheduler import ConstantLR, ExponentialLR
    >>> optimizer = cf.optim.SGD([cf.nn.Parameter(cf.ones(1))], lr=1.0)
    >>> first = ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> schedule = ChainedScheduler([first, ExponentialLR(optimizer, gamma=0.9)])
    >>> rates = []
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     schedule.step()
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    >>> rates
    [0.45, 0.81, 0.729]
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        self._take(optimizer, schedulers)
        self._last_lr = self._rates()

    def step(self) -> None:
        """Step them all."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._rates()

    def begin(self) -> None:
        """Begin with all of them anew: each from what the others leave of the initial rates."""
        self._set_rates([group["initial_lr"] for group in self.optimizer.param_groups])
        for scheduler in self._schedulers:
            scheduler.last_epoch = -1
            scheduler._initial_step()
        self._last_lr = self._rates()
