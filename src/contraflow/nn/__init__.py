"""Neural networks: modules, layers, containers, and their functional forms."""

from contraflow.nn import functional, init
from contraflow.nn.containers import ModuleDict, ModuleList, Sequential
from contraflow.nn.layers import (
    GELU,
    BatchNorm2d,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Embedding,
    Flatten,
    Identity,
    LayerNorm,
    Linear,
    MaxPool2d,
    MSELoss,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Tanh,
)
from contraflow.nn.module import Module, Parameter

__all__ = [
    "GELU", "BatchNorm2d", "Conv2d", "CrossEntropyLoss", "Dropout", "Embedding", "Flatten",
    "Identity", "LayerNorm", "Linear", "MSELoss", "MaxPool2d", "Module", "ModuleDict",
    "ModuleList", "Parameter", "ReLU", "Sequential", "SiLU", "Sigmoid", "Softmax", "Tanh",
    "functional", "init",
]  # fmt: skip
