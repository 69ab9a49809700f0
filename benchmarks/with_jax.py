"""How JAX runs a step: all of it under jit, with the weights and Adam's state donated."""

from __future__ import annotations

import math
import os
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.contender import ADAM, Contender
from benchmarks.models import Step

threads = os.cpu_count()  # XLA takes one per core and has no setting


# --- PyTorch's functions -----------------------------------------------------------------------


def _attention(q: Any, k: Any, v: Any, is_causal: bool) -> Any:
    scores = (q @ k.swapaxes(-1, -2)).astype(jnp.float32) / math.sqrt(q.shape[-1])
    if is_causal:
        seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        scores = jnp.where(seen, scores, -jnp.inf)
    return jax.nn.softmax(scores).astype(v.dtype) @ v


def _batch_norm(x: Any, mean: None, variance: None, weight: Any, bias: Any, training: bool) -> Any:
    x = x - x.mean((0, 2, 3), keepdims=True)
    x = x * jax.lax.rsqrt((x * x).mean((0, 2, 3), keepdims=True) + 1e-5)
    return x * weight[:, None, None] + bias[:, None, None]


def _conv2d(x: Any, weight: Any, bias: Any = None, stride: int = 1, padding: int = 0) -> Any:
    sides = [(padding, padding)] * 2
    x = jax.lax.conv_general_dilated(
        x, weight, (stride, stride), sides, dimension_numbers=("NCHW", "OIHW", "NCHW")
    )
    return x if bias is None else x + bias[:, None, None]


def _cross_entropy(logits: Any, target: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), target[:, None], 1).mean()


def _layer_norm(x: Any, shape: tuple[int, ...], weight: Any, bias: Any) -> Any:
    dtype, x = x.dtype, x.astype(jnp.float32)
    x = x - x.mean(-1, keepdims=True)
    x = x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight + bias
    return x.astype(dtype)


def _max_pool2d(x: Any, size: int) -> Any:
    """By a maximum over two dims, whose gradient is far cheaper than that of reduce_window."""
    n, c, height, width = x.shape
    return x.reshape(n, c, height // size, size, width // size, size).max((3, 5))


functions = types.SimpleNamespace(
    batch_norm=_batch_norm,
    bfloat16=lambda x: x.astype(jnp.bfloat16),
    conv2d=_conv2d,
    cross_entropy=_cross_entropy,
    embedding=lambda index, weight: weight[index],
    exp=jnp.exp,
    float=lambda x: x.astype(jnp.float32),
    gelu=lambda x: jax.nn.gelu(x, approximate=False),
    layer_norm=_layer_norm,
    linear=lambda x, weight, bias: x @ weight.T + bias,
    max_pool2d=_max_pool2d,
    relu=jax.nn.relu,
    scaled_dot_product_attention=_attention,
    sigmoid=jax.nn.sigmoid,
    tanh=jnp.tanh,
)


# --- steps -------------------------------------------------------------------------------------


def make(step: Step, mode: str) -> Contender:
    """The step at its beginning."""
    run = _gradient(step) if step.learning_rate is None else _training(step)
    batches = [tuple(jnp.array(x) for x in batch) for batch in step.batches]
    return Contender(run, float, np.asarray, batches)


def _training(step: Step) -> Any:
    beta1, beta2, eps = ADAM
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
    means, squares = (jax.tree.map(jnp.zeros_like, weights) for _ in range(2))
    state = (weights, means, squares, jnp.float32(0))

    def run(*batch: Any) -> tuple[Any, None]:
        nonlocal state
        state, loss = compiled(state, *batch)
        return loss, None

    return run


def _gradient(step: Step) -> Any:
    compiled = jax.jit(jax.value_and_grad(lambda x: step.loss(functions, {}, x)))

    def run(x: Any) -> tuple[Any, Any]:
        loss, gradient = compiled(x)
        return loss, gradient.block_until_ready()

    return run
