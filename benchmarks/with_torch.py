"""How PyTorch runs a step: eager, or through torch.compile in several ways."""

from __future__ import annotations

import types
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks.contender import Contender
from benchmarks.models import Loop, Step

functions = types.SimpleNamespace(
    **vars(torch.nn.functional),
    exp=torch.exp,
    bfloat16=torch.Tensor.bfloat16,
    float=torch.Tensor.float,
)
threads = torch.get_num_threads()


def make(step: Step, mode: str) -> Contender:
    """The step at its beginning.

    Compiled is either the model, as PyTorch's guides do it: forward and the backward that belongs
    to it, with a fused optimizer after it; or the function that is the whole step.
    """
    trains = step.learning_rate is not None
    if mode != "eager":
        warnings.filterwarnings("ignore", module="torch")  # of what its compiler leaves to Python
    if mode == "model":
        step = replace(step, loss=torch.compile(step.loss))
    run = _training(step) if trains else _gradient(step)
    if mode == "step":
        run = torch.compile(run)
    elif mode == "max-autotune":
        run = torch.compile(run, mode="max-autotune-no-cudagraphs")
    batches = [tuple(_tensor(x, requires_grad=not trains) for x in batch) for batch in step.batches]
    return Contender(run, torch.Tensor.item, torch.Tensor.numpy, batches)


def begin(loop: Loop, mode: str) -> Contender:
    """The loop at its beginning."""
    if mode != "eager":
        warnings.filterwarnings("ignore", module="torch")
    turn = loop.begin(torch, mode != "eager")
    return Contender(turn, torch.Tensor.item, torch.Tensor.numpy, [()])


def _tensor(array: np.ndarray, requires_grad: bool) -> torch.Tensor:
    """A tensor, images and the weights of convolutions in the layout PyTorch is fastest in."""
    found = torch.tensor(array)
    if found.ndim == 4:
        found = found.to(memory_format=torch.channels_last)
    return found.requires_grad_(requires_grad)


def _training(step: Step) -> Any:
    weights = {k: _tensor(v, requires_grad=True) for k, v in step.weights.items()}
    optimizer = torch.optim.Adam(list(weights.values()), lr=step.learning_rate, fused=True)

    def train_step(*batch: torch.Tensor) -> tuple[torch.Tensor, None]:
        optimizer.zero_grad()
        loss = step.loss(functions, weights, *batch)
        loss.backward()
        optimizer.step()
        return loss.detach(), None

    return train_step


def _gradient(step: Step) -> Any:
    def value_and_gradient(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        loss = step.loss(functions, {}, x)
        (gradient,) = torch.autograd.grad(loss, [x])
        return loss.detach(), gradient

    return value_and_gradient
