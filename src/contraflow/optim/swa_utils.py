"""Averages of the parameters of a model: over some of its states, or exponential ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

from contraflow.autograd.modes import no_grad
from contraflow.names import getter
from contraflow.nn.module import Module
from contraflow.nn.norm import _BatchNorm
from contraflow.operation.context import state
from contraflow.ops.creation.data import tensor
from contraflow.ops.elementwise.basic import where
from contraflow.optim.lr_scheduler.schedule import LRScheduler, for_each_group
from contraflow.optim.optimizer import Optimizer
from contraflow.tensors.tensor import Tensor

Average = Callable[[Tensor, Tensor, Any], Tensor]
AverageAll = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


def get_swa_avg_fn() -> Average:
    """The mean of all states: averaged + (current - averaged) / (n + 1).

    >>> import contraflow as cf
    >>> get_swa_avg_fn()(cf.tensor(1.0), cf.tensor(4.0), 2)  # the third state
    tensor(2.)
    """

    def average(averaged: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        mean: Tensor = averaged + (current - averaged) / (num_averaged + 1)
        return mean

    return average


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """An exponential mean: decay * averaged + (1 - decay) * current.

    >>> import contraflow as cf
    >>> get_ema_avg_fn(0.75)(cf.tensor(0.0), cf.tensor(8.0), 5)
    tensor(2.)
    """
    _check_decay("get_ema_avg_fn", decay)

    def average(averaged: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        return averaged * decay + current * (1 - decay)

    return average


def get_swa_multi_avg_fn() -> AverageAll:
    """The mean of all states, for a list of tensors at once.

    >>> import contraflow as cf
    >>> mean = cf.tensor(1.0)
    >>> get_swa_multi_avg_fn()([mean], [cf.tensor(4.0)], 2)
    >>> mean
    tensor(2.)
    """
    return _for_all(get_swa_avg_fn())


def get_ema_multi_avg_fn(decay: float = 0.999) -> AverageAll:
    """An exponential mean, for a list of tensors at once.

    >>> import contraflow as cf
    >>> mean = cf.tensor(0.0)
    >>> get_ema_multi_avg_fn(0.75)([mean], [cf.tensor(8.0)], 5)
    >>> mean
    tensor(2.)
    """
    _check_decay("get_ema_multi_avg_fn", decay)
    return _for_all(get_ema_avg_fn(decay))


def _check_decay(name: str, decay: float) -> None:
    if not 0 <= decay <= 1:
        raise ValueError(f"{name}: decay is {decay}; it must be in [0, 1].")


def _for_all(average: Average) -> AverageAll:
    def update(averaged: Sequence[Tensor], current: Sequence[Tensor], num_averaged: Any) -> None:
        for mean, new in zip(averaged, current):
            mean.copy_(average(mean, new, num_averaged) if mean.dtype.is_floating_point else new)

    return update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of those that `update_parameters` is given.

    `avg_fn(averaged, current, num_averaged)` gives the new average, the mean of all by default;
    `multi_avg_fn` does so for lists, in place. With `use_buffers` buffers are averaged too, else
    copied.

    >>> import contraflow as cf
    >>> model = cf.nn.Linear(1, 1, bias=False)
    >>> averaged = AveragedModel(model)
    >>> for value in (1.0, 3.0):
    ...     with cf.no_grad():
    ...         _ = model.weight.fill_(value)
    ...     averaged.update_parameters(model)
    >>> averaged.module.weight.item()
    2.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: AverageAll | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ValueError("AveragedModel: give avg_fn or multi_avg_fn, not both.")
        self.module = deepcopy(model)
        self.register_buffer("n_averaged", tensor(0, device="cpu"))  # beside tensors of any device
        if device is not None:
            self.to(device)
        self.use_buffers = use_buffers
        self._update = multi_avg_fn or _for_all(avg_fn or get_swa_avg_fn())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Take the present parameters of a model into the averages."""

        def members(owner: Module) -> list[Tensor]:
            buffers = owner.buffers() if self.use_buffers else ()
            return [x.detach() for x in itertools.chain(owner.parameters(), buffers)]

        own = members(self.module)
        given = [x.to(mean.device) for mean, x in zip(own, members(model))]
        recording = state().context.is_recording  # then it is not known whether these are the first
        if recording or int(self.n_averaged) > 0:
            self._update(own, given, self.n_averaged)
        if recording or int(self.n_averaged) == 0:
            for mean, new in zip(own, given):
                mean.copy_(where(self.n_averaged == 0, new, mean) if recording else new)
        if not self.use_buffers:
            for mean, new in zip(self.module.buffers(), model.buffers()):
                mean.copy_(new)
        self.n_averaged.add_(1)


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of batch norms anew, by a pass over data.

    A batch may be a tensor, or a tuple or list whose first entry is the input.

    >>> import contraflow as cf
    >>> model = cf.nn.Sequential(cf.nn.BatchNorm1d(2))
    >>> update_bn([cf.tensor([[1.0, 2.0], [3.0, 6.0]])], model)
    >>> model[0].running_mean
    tensor([2., 4.])
    """
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    was_training = model.training
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    model.train()
    try:
        for batch in loader:
            x = batch[0] if isinstance(batch, (tuple, list)) else batch
            model(x if device is None else x.to(device))
    finally:
        for norm, momentum in zip(norms, momenta):
            norm.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """Goes from the present rates to `swa_lr` within some epochs, and stays there.

    >>> import contraflow as cf
    >>> optimizer = cf.optim.SGD([cf.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = SWALR(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> for _ in range(3):
    ...     schedule.step()
    ...     print(optimizer.param_groups[0]["lr"])
    0.75
    0.5
    0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"SWALR: anneal_strategy is {anneal_strategy!r}; it must be 'cos' or 'linear'."
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"SWALR: anneal_epochs is {anneal_epochs!r}; it must not be negative.")
        rates = for_each_group("SWALR", optimizer, "swa_lr", swa_lr)
        for rate, group in zip(rates, optimizer.param_groups):
            group["swa_lr"] = rate
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, part: float) -> float:
        """How much of the way is done after a part of the time."""
        part = max(0.0, min(1.0, part))
        return (1 - math.cos(math.pi * part)) / 2 if self.anneal_strategy == "cos" else part

    def get_lr(self) -> list[float]:
        epochs = max(1, self.anneal_epochs)
        epoch = self.last_epoch if self.anneal_epochs else max(1, self.last_epoch)
        before, now = self._share((epoch - 1) / epochs), self._share(epoch / epochs)
        rates = []
        for group in self.optimizer.param_groups:
            last = group["swa_lr"]
            start = last if before == 1 else (group["lr"] - last * before) / (1 - before)
            rates.append(last * now + start * (1 - now))
        return rates


__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

globals()["__getattr__"] = getter(__name__)
