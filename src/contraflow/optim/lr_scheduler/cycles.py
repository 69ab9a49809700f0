"""Cyclic schedules, some of which cycle momentum inversely."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from contraflow.optim.lr_scheduler.schedule import LRScheduler, check_optimizer, for_each_group
from contraflow.optim.optimizer import Optimizer, ParamGroup


class CosineAnnealingLR(LRScheduler):
    """The rate follows half a cosine down to `eta_min` in `T_max` epochs, and up again.

    >>> import contraflow as cf
    >>> optimizer = cf.optim.SGD([cf.nn.Parameter(cf.ones(1))], lr=1.0)
    >>> schedule = CosineAnnealingLR(optimizer, T_max=4)
    >>> rates = []
    >>> for _ in range(4):
    ...     optimizer.step()
    ...     schedule.step()
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    >>> rates
    [0.8536, 0.5, 0.1464, 0.0]
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        epoch, low = self.last_epoch, self.eta_min
        if self._is_initial:
            return self._rates()
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # The rate before is eta_min, which has no quotient: start upward from the base rate.
            return [
                lr + (base - low) * _height((self.T_max - 1) / self.T_max)
                for lr, base in zip(self._rates(), self.base_lrs)
            ]
        quotient = _height(epoch / self.T_max) / _height((epoch - 1) / self.T_max)
        return [low + (lr - low) * quotient for lr in self._rates()]


def _height(x: float) -> float:
    """Half a cosine that falls from 1 to 0 as x goes from 0 to 1."""
    return (1 + math.cos(math.pi * x)) / 2


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine down to `eta_min` in `T_0` epochs, then restarts `T_mult` times as long.

    >>> import contraflow as cf
    >>> optimizer = cf.optim.SGD([cf.nn.Parameter(cf.ones(1))], lr=1.0)
    >>> schedule = CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     optimizer.step()
    ...     schedule.step()
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    >>> rates
    [0.5, 1.0, 0.5, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        for name, value in (("T_0", T_0), ("T_mult", T_mult)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"CosineAnnealingWarmRestarts: {name} is {value}; it must be an integer, at "
                    f"least 1."
                )
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        self.T_i, self.T_cur = T_0, float(last_epoch)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        height = _height(self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch, or to a given one, which may be a fraction."""
        self._refuse_recording()
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = epoch or 0
            if epoch < 0:
                raise ValueError(
                    f"CosineAnnealingWarmRestarts.step: epoch is {epoch}; it must not be negative."
                )
            self._go_to(epoch)
        self.last_epoch = math.floor(epoch)
        self._set_rates(self.get_lr())

    def _go_to(self, epoch: float) -> None:
        if self.T_mult == 1:
            self.T_cur, self.T_i = epoch % self.T_0, self.T_0
            return
        # The lengths so far are a geometric series.
        growth = self.T_mult - 1
        restarts = int(math.log(epoch / self.T_0 * growth + 1, self.T_mult))
        self.T_cur = epoch - self.T_0 * (self.T_mult**restarts - 1) / growth
        self.T_i = self.T_0 * self.T_mult**restarts


class _WithMomentum(LRScheduler):
    """A schedule that may set the momentum too: "momentum", or the first of "betas"."""

    def _prepare_momentum(
        self, optimizer: Optimizer, base_momentum: Any, max_momentum: Any, last_epoch: int
    ) -> None:
        """Note the bounds of the momentum in the groups, and start from the upper one."""
        name = type(self).__name__
        if not {"momentum", "betas"} & set(optimizer.defaults):
            raise ValueError(
                f"{name}: cycle_momentum needs an optimizer with momentum or betas, not "
                f"{type(optimizer).__name__}. Pass cycle_momentum=False."
            )
        self.use_beta1 = "betas" in optimizer.defaults
        self.base_momentums = for_each_group(name, optimizer, "base_momentum", base_momentum)
        self.max_momentums = for_each_group(name, optimizer, "max_momentum", max_momentum)
        if last_epoch != -1:
            return
        bounds = zip(optimizer.param_groups, self.base_momentums, self.max_momentums)
        for group, low, high in bounds:
            self._set_momentum(group, high)
            group.update(max_momentum=high, base_momentum=low)

    def _set_momentum(self, group: ParamGroup, momentum: float) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class CyclicLR(_WithMomentum):
    """The rate rises from `base_lr` to `max_lr` and falls back, over and over.

    The height of the peaks stays ("triangular"), halves each time ("triangular2"), falls by gamma
    every epoch ("exp_range"), or is what `scale_fn` says of the cycle or the epoch.

    >>> import contraflow as cf
    >>> optimizer = cf.optim.SGD([cf.nn.Parameter(cf.ones(1))], lr=1.0)
    >>> schedule = CyclicLR(optimizer, 0.1, 0.5, step_size_up=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     optimizer.step()
    ...     schedule.step()
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    >>> rates
    [0.3, 0.5, 0.3, 0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer("CyclicLR", optimizer)
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(
                f"CyclicLR: mode is {mode!r}; it must be 'triangular', 'triangular2' or "
                f"'exp_range', or pass a scale_fn."
            )
        base_lrs = for_each_group("CyclicLR", optimizer, "base_lr", base_lr)
        self.max_lrs = for_each_group("CyclicLR", optimizer, "max_lr", max_lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma = mode, gamma
        self._scale_fn_custom = scale_fn
        by_epoch = mode == "exp_range" if scale_fn is None else scale_mode == "iterations"
        self.scale_mode = "iterations" if by_epoch else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._prepare_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, base_lrs):
                group["lr"] = lr
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The height of a peak, by the number of the cycle or of the epoch."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "exp_range":
            return float(self.gamma**x)
        return 1.0 if self.mode == "triangular" else 1 / 2.0 ** (x - 1)

    def get_lr(self) -> list[float]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        rising = x <= self.step_ratio
        height = x / self.step_ratio if rising else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums)
            for group, low, high in bounds:
                self._set_momentum(group, high - (high - low) * height)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs)]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and the function."""
        return {**super().state_dict(), "_scale_fn_custom": None}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state from `state_dict`, but keep the function."""
        super().load_state_dict({**state_dict, "_scale_fn_custom": self._scale_fn_custom})


class OneCycleLR(_WithMomentum):
    """One cycle from max_lr / div_factor up to max_lr and far down; step it every batch.

    `pct_start` is the share of the rise. With `three_phase` the fall is as long as the rise, and
    the rest goes down to initial rate / final_div_factor.

    >>> import contraflow as cf
    >>> optimizer = cf.optim.SGD([cf.nn.Parameter(cf.ones(1))], lr=1.0)
    >>> schedule = OneCycleLR(optimizer, max_lr=1.0, total_steps=5)
    >>> rates = []
    >>> for _ in range(4):
    ...     optimizer.step()
    ...     schedule.step()
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 4))
    >>> rates
    [0.9505, 0.6113, 0.1883, 0.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer("OneCycleLR", optimizer)
        if total_steps is None and epochs is not None and steps_per_epoch is not None:
            total_steps = epochs * steps_per_epoch
        if not isinstance(total_steps, int) or total_steps < 1:
            raise ValueError(
                f"OneCycleLR: total_steps is {total_steps}; pass a positive integer, or epochs and "
                f"steps_per_epoch."
            )
        if not 0 <= pct_start <= 1:
            raise ValueError(f"OneCycleLR: pct_start is {pct_start}; it must be from 0 to 1.")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"OneCycleLR: anneal_strategy is {anneal_strategy!r}; it must be 'cos' or 'linear'."
            )
        self.total_steps = total_steps
        self._anneal_func_type = anneal_strategy
        # Where each phase ends, and the entries of a group that it goes between.
        rise = pct_start * total_steps
        up = (rise - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum")
        if three_phase:
            self._schedule_phases = [
                up,
                (2 * rise - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                (total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            down = (total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")
            self._schedule_phases = [up, down]
        peaks = for_each_group("OneCycleLR", optimizer, "max_lr", max_lr)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._prepare_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        if last_epoch == -1:
            for group, peak in zip(optimizer.param_groups, peaks):
                start = peak / div_factor
                group.update(initial_lr=start, max_lr=peak, min_lr=start / final_div_factor)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch > self.total_steps:
            raise ValueError(
                f"OneCycleLR.step: this is step {self.last_epoch} of a schedule of "
                f"{self.total_steps} steps."
            )
        phases = self._schedule_phases
        running = (i for i, phase in enumerate(phases) if self.last_epoch <= phase[0])
        number = next(running, len(phases) - 1)
        start = phases[number - 1][0] if number else 0
        end, *keys = phases[number]
        share = (self.last_epoch - start) / (end - start)
        if self._anneal_func_type == "cos":
            share = 1 - _height(share)
        rates = []
        for group in self.optimizer.param_groups:
            lr, next_lr, momentum, next_momentum = (group.get(key) for key in keys)
            if self.cycle_momentum:
                self._set_momentum(group, momentum + (next_momentum - momentum) * share)
            rates.append(lr + (next_lr - lr) * share)
        return rates
