"""Learning-rate schedules. They write into the optimizer's host scalars, between its steps.

    schedule.py    the base
    decays.py      rates that go from one value to another
    cycles.py      rates, and momentum, that go up and down again
    combined.py    several schedules together or one after the other
    plateau.py     a rate that falls when a measure stops getting better

A warm-up is `LinearLR`, before another schedule in a `SequentialLR`.
"""

from contraflow.names import getter
from contraflow.optim.lr_scheduler.combined import ChainedScheduler, SequentialLR
from contraflow.optim.lr_scheduler.cycles import (
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    CyclicLR,
    OneCycleLR,
)
from contraflow.optim.lr_scheduler.decays import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from contraflow.optim.lr_scheduler.plateau import ReduceLROnPlateau
from contraflow.optim.lr_scheduler.schedule import LRScheduler

# PyTorch's older name of the base, from which many programs inherit.
from contraflow.optim.lr_scheduler.schedule import LRScheduler as _LRScheduler  # noqa: F401

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

globals()["__getattr__"] = getter(__name__)
