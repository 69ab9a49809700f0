"""ReduceLROnPlateau: a schedule that follows a metric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import SupportsFloat

from contraflow.optim.lr_scheduler.schedule import LRScheduler, check_optimizer, for_each_group
from contraflow.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """The rate is multiplied by `factor` when a metric stops improving for `patience` epochs.

    Better is below the best so far ("min") or above it ("max") by more than `threshold`, a share of
    the best ("rel") or a number ("abs"). After a change, `cooldown` epochs are not looked at.

    >>> import contraflow as cf
    >>> optimizer = cf.optim.SGD([cf.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = cf.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     scheduler.step(loss)
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        check_optimizer("ReduceLROnPlateau", optimizer)
        if not factor < 1:
            raise ValueError(f"ReduceLROnPlateau: factor is {factor}; it must be below 1.")
        if mode not in ("min", "max"):
            raise ValueError(f"ReduceLROnPlateau: mode is {mode!r}; it must be 'min' or 'max'.")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(
                f"ReduceLROnPlateau: threshold_mode is {threshold_mode!r}; it must be 'rel' or "
                f"'abs'."
            )
        for_each_group("ReduceLROnPlateau", optimizer, "min_lr", min_lr)
        self.optimizer, self.min_lr = optimizer, min_lr
        self.mode, self.factor, self.patience = mode, factor, patience
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown, self.eps = cooldown, eps
        self.best = math.inf if mode == "min" else -math.inf
        self.cooldown_counter = self.num_bad_epochs = self.last_epoch = 0
        self._last_lr = self._rates()

    def step(self, metrics: SupportsFloat) -> None:  # type: ignore[override]
        """Take a metric into account, and lower the rate if it has stopped improving."""
        self._refuse_recording()
        measured = float(metrics)
        self.last_epoch += 1
        if self._is_better(measured):
            self.best, self.num_bad_epochs = measured, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._rates()

    @property
    def in_cooldown(self) -> bool:
        """Whether metrics are being ignored, after a reduction."""
        return self.cooldown_counter > 0

    def _is_better(self, measured: float) -> bool:
        sign = 1 if self.mode == "max" else -1
        relative = self.threshold_mode == "rel"
        bar = self.best * (1 + sign * self.threshold) if relative else (
            self.best + sign * self.threshold
        )  # fmt: skip
        return sign * measured > sign * bar

    def _reduce(self) -> None:
        lowest_rates = for_each_group("ReduceLROnPlateau", self.optimizer, "min_lr", self.min_lr)
        for group, lowest in zip(self.optimizer.param_groups, lowest_rates):
            lr = max(group["lr"] * self.factor, lowest)
            if group["lr"] - lr > self.eps:
                group["lr"] = lr
