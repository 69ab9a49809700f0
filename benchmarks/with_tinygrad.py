"""How tinygrad runs a step: all of it under TinyJit."""

from __future__ import annotations

import math
import types
from typing import Any

from tinygrad import Context, Tensor, TinyJit
from tinygrad.nn.optim import Adam

from benchmarks.contender import ADAM, Contender
from benchmarks.models import Step

threads = None  # it does not say


# --- PyTorch's functions -----------------------------------------------------------------------


def _layer_norm(x: Tensor, shape: tuple[int, ...], weight: Tensor, bias: Tensor) -> Tensor:
    return x.layernorm(axis=-1) * weight + bias


def _gelu(x: Tensor) -> Tensor:
    """The exact one; tinygrad's own is the approximation by tanh."""
    return 0.5 * x * (1 + (x / math.sqrt(2)).erf())


functions = types.SimpleNamespace(
    conv2d=lambda x, weight, bias, padding: x.conv2d(weight, bias, padding=padding),
    cross_entropy=lambda logits, target: logits.sparse_categorical_crossentropy(target),
    embedding=lambda index, weight: weight[index],
    exp=Tensor.exp,
    gelu=_gelu,
    layer_norm=_layer_norm,
    linear=lambda x, weight, bias: x.linear(weight.T, bias),
    max_pool2d=lambda x, size: x.max_pool2d((size, size)),
    relu=Tensor.relu,
    scaled_dot_product_attention=Tensor.scaled_dot_product_attention,
    sigmoid=Tensor.sigmoid,
    tanh=Tensor.tanh,
)
Tensor.swapaxes = Tensor.transpose  # NumPy's name for it, which the other libraries share


# --- steps -------------------------------------------------------------------------------------


def make(step: Step, mode: str) -> Contender:
    """The step at its beginning."""
    run = _gradient(step) if step.learning_rate is None else _training(step)
    batches = [tuple(Tensor(x).realize() for x in batch) for batch in step.batches]
    return Contender(TinyJit(run), Tensor.item, Tensor.numpy, batches)


def _training(step: Step) -> Any:
    weights = {k: Tensor(v).realize() for k, v in step.weights.items()}
    beta1, beta2, eps = ADAM
    optimizer = Adam(list(weights.values()), lr=step.learning_rate, b1=beta1, b2=beta2, eps=eps)

    def train_step(*batch: Tensor) -> tuple[Tensor, None]:
        optimizer.zero_grad()
        loss = step.loss(functions, weights, *batch)
        loss.backward()
        with Context(TRAINING=1):
            return loss.realize(*optimizer.schedule_step()), None

    return train_step


def _gradient(step: Step) -> Any:
    def value_and_gradient(x: Tensor) -> tuple[Tensor, Tensor]:
        loss = step.loss(functions, {}, x)
        (gradient,) = loss.gradient(x)
        return loss.realize(gradient), gradient

    return value_and_gradient
