"""How contraflow runs a step: eager, or compiled as a whole; by functions, or by its modules."""

from __future__ import annotations

import types
from typing import Any

import contraflow as cf
from benchmarks.contender import Contender
from benchmarks.models import Loop, Step

functions = types.SimpleNamespace(
    **vars(cf.nn.functional), exp=cf.exp, bfloat16=cf.Tensor.bfloat16, float=cf.Tensor.float
)
threads = cf.get_num_threads()


def make(step: Step, mode: str) -> Contender:
    """The step at its beginning."""
    trains = step.learning_rate is not None
    run = _of_modules(step) if mode == "modules" else _training(step) if trains else _gradient(step)
    batches = [
        tuple(cf.tensor(x, requires_grad=not trains) for x in batch) for batch in step.batches
    ]
    return Contender(
        run if mode == "eager" else cf.compile(run), cf.Tensor.item, cf.Tensor.numpy, batches
    )


def begin(loop: Loop, mode: str) -> Contender:
    """The loop at its beginning."""
    return Contender(loop.begin(cf, mode != "eager"), cf.Tensor.item, cf.Tensor.numpy, [()])


def _training(step: Step) -> Any:
    weights = {k: cf.tensor(v, requires_grad=True) for k, v in step.weights.items()}
    optimizer = cf.optim.Adam(list(weights.values()), lr=step.learning_rate)

    def train_step(*batch: cf.Tensor) -> tuple[cf.Tensor, None]:
        optimizer.zero_grad()
        loss = step.loss(functions, weights, *batch)
        loss.backward()
        optimizer.step()
        return loss.detach(), None

    return train_step


def _of_modules(step: Step) -> Any:
    assert step.model is not None
    model = step.model(cf.nn)
    model.load_state_dict({k: cf.tensor(v) for k, v in step.weights.items()})
    optimizer = cf.optim.Adam(model.parameters(), lr=step.learning_rate)
    criterion = cf.nn.CrossEntropyLoss()

    def train_step(x: cf.Tensor, target: cf.Tensor) -> tuple[cf.Tensor, None]:
        optimizer.zero_grad()
        loss = criterion(model(x), target.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.detach(), None

    return train_step


def _gradient(step: Step) -> Any:
    def value_and_gradient(x: cf.Tensor) -> tuple[cf.Tensor, cf.Tensor]:
        loss = step.loss(functions, {}, x)
        (gradient,) = cf.autograd.grad(loss, [x])
        return loss.detach(), gradient

    return value_and_gradient
