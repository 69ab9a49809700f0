"""Whole training steps on GPUs: every line has a kernel, and each agrees with its meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.helpers.gpu_programs import KernelRun, compare

import contraflow as cf
from contraflow import nn
from contraflow.compiler.kernel import Limits, Merge, Scan, Scatter, Sort
from contraflow.compiler.lower import HostUse
from contraflow.compiler.passes import optimize
from contraflow.compiler.plan import HostStep, make_plan
from contraflow.compiler.tape import Tape
from contraflow.nn import functional as F
from contraflow.optim import SGD, AdamW
from contraflow.render.clike import cuda, wgsl


def tape_of_step(step: Callable[..., Any], *arguments: Any) -> Tape:
    """The tape of a compiled function."""
    compiled: Any = cf.compile(step)
    compiled(*arguments)
    return optimize(compiled.tape)


def language_model() -> Tape:
    """Embedding, attention, norms and cross-entropy, with AdamW, of more than 64 tokens."""
    cf.manual_seed(0)
    embedding, norm, head = nn.Embedding(50, 32), nn.LayerNorm(32), nn.Linear(32, 50)
    project = nn.Linear(32, 96)
    modules = nn.ModuleList([embedding, norm, head, project])
    optimizer = AdamW(modules.parameters(), lr=1e-3)

    def step(tokens: Any, targets: Any) -> Any:
        optimizer.zero_grad()
        x = embedding(tokens)
        heads = [
            part.reshape(4, 30, 2, 16).transpose(1, 2) for part in project(norm(x)).chunk(3, dim=-1)
        ]
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + mixed.transpose(1, 2).reshape(4, 30, 32)
        loss = F.cross_entropy(head(x).reshape(-1, 50), targets.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    tokens = cf.tensor(np.random.default_rng(0).integers(0, 50, (4, 30)))
    return tape_of_step(step, tokens, tokens)


def image_model() -> Tape:
    """Convolutions, batch norm and pooling, with SGD and momentum."""
    cf.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(images: Any, labels: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    random = np.random.default_rng(1)
    images = cf.tensor(random.standard_normal((4, 3, 8, 8)).astype(np.float32))
    return tape_of_step(step, images, cf.tensor(random.integers(0, 10, 4)))


def ordered_lines() -> Tape:
    """Sums, maxima, sorts and quantiles of long rows, with their gradients."""
    weight = cf.tensor(np.zeros(1500, np.float32), requires_grad=True)

    def step(x: Any) -> Any:
        y = (x + weight).cumsum(1)
        values, _ = y.sort(1)
        loss = values[:, ::3].sum() + y.cummax(1)[0].mean() + y.topk(5, dim=1)[0].sum()
        loss.backward()
        return loss

    x = np.random.default_rng(2).standard_normal((3, 1500)).astype(np.float32)
    return tape_of_step(step, cf.tensor(x))


STEPS = {f.__name__: f for f in (language_model, image_model, ordered_lines)}


def contents(tape: Tape) -> dict[Any, Any]:
    """Something for every input: small numbers, none of them negative, since some are squares."""
    random = np.random.default_rng(3)
    found: dict[Any, Any] = {}
    for v, role in tape.inputs.items():
        shape, dtype = tape.specs[v]
        if role == "scalar":
            found[v] = 3
        elif dtype.is_floating_point:
            found[v] = (0.1 + random.random(shape)).astype(dtype.numpy)
        else:
            found[v] = random.integers(0, 10, shape).astype(dtype.numpy)
    return found


def prepared(name: str, limits: Limits) -> KernelRun:
    tape = STEPS[name]()
    program = KernelRun(tape, contents(tape), limits)
    assert not any(isinstance(use, HostUse) for use in program.uses)
    return program


@pytest.mark.parametrize("name", STEPS)
def test_webgpu_agrees_with_the_interpreter(name: str, webgpu: Any) -> None:
    program = prepared(name, wgsl.LIMITS)
    calls = program.run(webgpu.run_call, compare)
    kinds = {type(call.kernel) for call in calls}
    if name == "language_model":
        assert {Scatter, Sort} <= kinds
    if name == "ordered_lines":
        assert {Scan, Sort, Merge, Scatter} <= kinds


@pytest.mark.parametrize("name", STEPS)
def test_nvrtc_compiles(name: str, nvrtc: Any) -> None:
    for use in prepared(name, cuda.LIMITS).uses:
        assert not isinstance(use, HostUse)
        assert nvrtc.compile_call(use.call, cuda.index_bits(use.call))


@pytest.mark.parametrize("name", STEPS)
def test_cuda_agrees_with_the_interpreter(name: str, gpu: Any) -> None:
    prepared(name, cuda.LIMITS).run(gpu.run_call, compare)


@pytest.mark.parametrize("name", STEPS)
def test_plans_for_webgpu_bind_what_it_allows(name: str) -> None:
    """No kernel of a plan has too many bindings, or reads and writes memory by two of them."""
    program = prepared(name, wgsl.LIMITS)
    plan, _ = make_plan(program.tape, program.uses, set(program.numbers), wgsl.LIMITS)
    for step in plan.steps:
        assert not isinstance(step, HostStep)
        operands = list(zip(step.call.kernel.operands, step.bindings))
        written = [b.slot for o, b in operands if o.mode in ("out", "inout")]
        read = [b.slot for o, b in operands if o.mode == "in"]
        assert not set(written) & set(read)
        assert len(set(written)) == len(written)
        assert wgsl.render(step.call.kernel)
