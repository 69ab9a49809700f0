"""Optimizers and learning-rate schedules."""

from contraflow.names import getter
from contraflow.optim import lr_scheduler, swa_utils
from contraflow.optim.adafactor import Adafactor
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
    "Adafactor",
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
    "swa_utils",
]

globals()["__getattr__"] = getter(__name__)
