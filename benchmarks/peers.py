"""How each library runs a step: contraflow compiled and eager, PyTorch and JAX.

A contender starts from the step's own weights and gets the batches in its library's tensors, so
that a turn is the step alone. PyTorch and JAX are optional; `absent` says which are not there.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import contraflow as cf
from benchmarks.models import Step

try:
    import torch
except ImportError:
    torch = None
try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None

COMPILED = "contraflow compiled"
EAGER = "contraflow eager"
TORCH = "torch eager, default Adam"
TORCH_FUSED = "torch eager, fused Adam"
TORCH_COMPILE = "torch.compile, fused Adam"
JAX = "jax jit"


@dataclass(frozen=True)
class Contender:
    """One way to run a step."""

    name: str
    run: Callable[..., Any]  # (*batch) -> the loss
    read: Callable[[Any], float]  # the loss as a number, which waits for it
    batches: list[tuple[Any, ...]]

    def turn(self, number: int) -> float:
        """Step `number`, over the batch whose turn it is."""
        return self.read(self.run(*self.batches[number % len(self.batches)]))


# --- contraflow --------------------------------------------------------------------------------


def _contraflow(step: Step, name: str) -> Contender:
    weights = {k: cf.tensor(v, requires_grad=True) for k, v in step.weights.items()}
    optimizer = cf.optim.Adam(list(weights.values()), lr=step.learning_rate)

    def train_step(*batch: cf.Tensor) -> cf.Tensor:
        optimizer.zero_grad()
        loss = step.loss(cf.nn.functional, weights, *batch)
        loss.backward()
        optimizer.step()
        return loss

    batches = [tuple(cf.tensor(x) for x in batch) for batch in step.batches]
    run = cf.compile(train_step) if name == COMPILED else train_step
    return Contender(name, run, cf.Tensor.item, batches)


# --- PyTorch -----------------------------------------------------------------------------------


def _torch(step: Step, name: str) -> Contender:
    functions = torch.nn.functional
    weights = {k: torch.tensor(v, requires_grad=True) for k, v in step.weights.items()}
    fused = True if name in (TORCH_FUSED, TORCH_COMPILE) else None
    optimizer = torch.optim.Adam(list(weights.values()), lr=step.learning_rate, fused=fused)

    def forward(*batch: Any) -> Any:
        return step.loss(functions, weights, *batch)

    # As PyTorch's own guides do: forward and its backward compiled, a fused optimizer after it.
    loss_of = torch.compile(forward) if name == TORCH_COMPILE else forward

    def train_step(*batch: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(*batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    batches = [tuple(torch.tensor(x) for x in batch) for batch in step.batches]
    return Contender(name, train_step, torch.Tensor.item, batches)


# --- JAX ---------------------------------------------------------------------------------------


def _jax_functions() -> Any:
    """What the steps use of PyTorch's functions, in JAX."""

    def cross_entropy(logits: Any, target: Any) -> Any:
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), target[:, None], 1)
        return -chosen.mean()

    return types.SimpleNamespace(
        cross_entropy=cross_entropy,
        linear=lambda x, weight, bias: x @ weight.T + bias,
        relu=jax.nn.relu,
        tanh=jnp.tanh,
    )


def _jax(step: Step, name: str) -> Contender:
    functions = _jax_functions()
    beta1, beta2, eps = 0.9, 0.999, 1e-8  # PyTorch's defaults
    grad = jax.value_and_grad(lambda w, *batch: step.loss(functions, w, *batch))

    def train_step(state: Any, *batch: Any) -> Any:
        weights, means, squares, count = state
        loss, gradients = grad(weights, *batch)
        count = count + 1
        means = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, means, gradients)
        squares = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * g * g, squares, gradients)
        first, second = 1 - beta1**count, 1 - beta2**count

        def update(w: Any, m: Any, v: Any) -> Any:
            return w - step.learning_rate * (m / first) / (jnp.sqrt(v / second) + eps)

        return (jax.tree.map(update, weights, means, squares), means, squares, count), loss

    compiled = jax.jit(train_step, donate_argnums=0)
    weights = {k: jnp.array(v) for k, v in step.weights.items()}
    zeros = jax.tree.map(jnp.zeros_like, weights)
    held = [(weights, zeros, jax.tree.map(jnp.zeros_like, weights), jnp.float32(0))]

    def run(*batch: Any) -> Any:
        held[0], loss = compiled(held[0], *batch)
        return loss

    batches = [tuple(jnp.array(x) for x in batch) for batch in step.batches]
    return Contender(name, run, float, batches)


# --- who is there ------------------------------------------------------------------------------


def absent() -> dict[str, str]:
    """The libraries that cannot be compared with, and why."""
    missing = "not installed; `make peers` installs it"
    return {name: missing for name, module in (("torch", torch), ("jax", jax)) if module is None}


def names(peers: bool = True, torch_compile: bool = False) -> list[str]:
    """The contenders that can run here."""
    found = [COMPILED, EAGER]
    if peers and torch is not None:
        found += [TORCH, TORCH_FUSED] + [TORCH_COMPILE] * torch_compile
    if peers and jax is not None:
        found.append(JAX)
    return found


def make(step: Step, name: str) -> Contender:
    """A contender of that name at the beginning of its training."""
    if name in (COMPILED, EAGER):
        return _contraflow(step, name)
    return _jax(step, name) if name == JAX else _torch(step, name)
