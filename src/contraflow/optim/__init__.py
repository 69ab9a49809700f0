"""Optimizers and learning-rate schedules."""

from contraflow.optim import lr_scheduler
from contraflow.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from contraflow.optim.lbfgs import LBFGS
from contraflow.optim.muon import Muon
from contraflow.optim.optimizer import Optimizer, ParamGroup
from contraflow.optim.sgd import ASGD, SGD
from contraflow.optim.signs import Lion, Rprop
from contraflow.optim.squares import Adadelta, Adagrad, RMSprop

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lion",
    "Muon",
    "NAdam",
    "Optimizer",
    "ParamGroup",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
]
