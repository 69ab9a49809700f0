"""Optimizers and learning-rate schedules."""

from contraflow.optim import lr_scheduler
from contraflow.optim.adam import Adam, AdamW
from contraflow.optim.optimizer import Optimizer, ParamGroup
from contraflow.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "ParamGroup", "lr_scheduler"]
