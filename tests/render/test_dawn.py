"""Every WGSL text of the registry compiled by Dawn, as browsers do: it checks uniformity too.

The kernels of the registry's samples, and the cases of the renderers, also run on its Vulkan
backend, which takes the SwiftShader of Chromium.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import (  # noqa: F401 (they declare cases)
    dawn,
    dawn_runner,
    gpu_attention,
    gpu_functions,
    gpu_fused,
    gpu_kernels,
    gpu_ordered,
)
from tests.helpers.gpu_case import CASES
from tests.helpers.gpu_programs import KernelRun, compare
from tests.helpers.registry_tapes import first_sample, record

from contraflow.compiler.kernel import Contraction, Kernel, KernelCall, Loops
from contraflow.compiler.lower import KernelUse
from contraflow.dtypes import float16, float32
from contraflow.errors import DeviceError
from contraflow.operation.op import REGISTRY
from contraflow.render.clike import source, wgsl, wide
from contraflow.render.clike.fused import FusedProduct
from contraflow.render.clike.wgsl import WgslVariant

# What Dawn says of each text that it refuses, alone or with its layout, within guaranteed limits.
SCRIPT = """
  const texts = JSON.parse(await readFile(`${folder}/texts.json`, "utf8"));
  const adapter = await gpu.requestAdapter();
  const device = await adapter.requestDevice({ requiredFeatures: ["shader-f16"] });
  const refused = {};
  for (const [name, { code, entryPoint, bindings }] of Object.entries(texts)) {
    device.pushErrorScope("validation");
    const module = device.createShaderModule({ code });
    const info = await module.getCompilationInfo();
    const told = info.messages.map((m) => `line ${m.lineNum}: ${m.message}`);
    const entry = ([binding, type]) => ({ binding, visibility: 4, buffer: { type } });
    const entries = bindings.map(entry);
    const bindGroupLayouts = [device.createBindGroupLayout({ entries })];
    const layout = device.createPipelineLayout({ bindGroupLayouts });
    device.createComputePipeline({ layout, compute: { module, entryPoint } });
    const error = await device.popErrorScope();
    if (error) refused[name] = told.join("; ") || error.message;
  }
  return refused;
"""
NOT_UNIFORM = """
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) local: u32) {
    if (x[local] == 0u) { workgroupBarrier(); }
}
"""


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What Dawn refuses of all texts, by name."""
    if dawn.missing("null"):
        pytest.skip(str(dawn.missing("null")))
    folder = tmp_path_factory.mktemp("dawn")
    texts = dict(all_texts())
    assert len(texts) > 5000
    texts["not uniform"] = {"code": NOT_UNIFORM, "entryPoint": "main", "bindings": [[0, "storage"]]}
    folder.joinpath("texts.json").write_text(json.dumps(texts))
    found: dict[str, str] = dawn.run(SCRIPT, folder, "null")
    return found


def kernels() -> Iterator[Kernel]:
    """The kernels of the registry's samples, of their gradients, and of the renderers' cases."""
    for op in REGISTRY.values():
        samples = list(op.samples() if op.samples else op.kind.samples(op))
        for sample, dtype in [
            *((x, float32) for x in samples),
            *((x, float16) for x in samples[:1]),
        ]:
            for backward in (False, True):
                try:
                    found = record(op, sample, backward=backward, dtype=dtype)
                except (
                    TypeError,
                    ValueError,
                    RuntimeError,
                ):  # which the matrix has its own line for
                    continue
                for use in KernelRun(*found, wgsl.LIMITS).uses if found else ():
                    if isinstance(use, KernelUse):
                        yield use.call.kernel
    for build in CASES.values():
        yield build().call.kernel
    yield from gpu_fused.kernels().values()


def all_texts() -> Iterator[tuple[str, dict[str, Any]]]:
    """The texts of kernels, by name and variant, with their layouts."""
    for name, kernel in {kernel.name: kernel for kernel in kernels()}.items():
        for variant in variants(kernel):
            bindings = list(wgsl.bindings(kernel, variant.guarded).items())
            try:
                text = wgsl.render(kernel, variant)
            except DeviceError as error:
                assert "webgpu" in str(error)  # noqa: PT017 (a dtype that it does not have)
                continue
            yield f"{name}, {variant}", {"code": text, "entryPoint": name, "bindings": bindings}


def variants(kernel: Kernel) -> Iterator[WgslVariant]:
    """The variants that calls of a kernel may have, and one that is guarded."""
    if isinstance(kernel, FusedProduct):
        yield from map(WgslVariant, wide.TILINGS)
        yield WgslVariant(wide.TILINGS[-1], guarded=True)
        return
    yield wgsl.PLAIN
    yield WgslVariant(guarded=True)
    if isinstance(kernel, Contraction):
        if kernel.accumulate is float32 and not kernel.digits:
            yield from map(WgslVariant, wide.TILINGS)
        if kernel.dtype is kernel.accumulate is float32 and not kernel.digits:
            yield WgslVariant(wide.TILINGS[-1], adds=True)
    elif isinstance(kernel, Loops):
        alone = bool(kernel.inner) and not source.is_cooperative(kernel)
        if alone:
            yield WgslVariant(columns=wgsl.COLUMNS)
        elif kernel.inner and kernel.cut is None:
            yield WgslVariant(rows=wgsl.ROWS)
        if not kernel.checks_indices:
            yield WgslVariant(columns=wgsl.COLUMNS if alone else 0, wide=True)


@pytest.mark.slow
def test_dawn_takes_every_text(refused: dict[str, str]) -> None:
    problems = [f"{name}: {text}" for name, text in refused.items() if name != "not uniform"]
    assert not problems, "\n".join(problems)


@pytest.mark.slow
def test_dawn_checks_uniformity(refused: dict[str, str]) -> None:
    assert "uniform" in refused["not uniform"]


PARTS = 8  # of the registry, whose kernels run together


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_dawn_agrees_with_the_interpreter(part: int, tmp_path: Path) -> None:
    if dawn.missing("vulkan"):
        pytest.skip(str(dawn.missing("vulkan")))
    calls = dawn_runner.Calls()
    checks: list[tuple[int, str, Callable[[], None]]] = []  # each with the number of its call
    for name, op in sorted(REGISTRY.items())[part::PARTS]:
        for backward in (False, True):
            sample = first_sample(op)
            found = sample and record(op, sample, backward=backward)
            if not found:
                continue

            def check(
                call: KernelCall, operand: int, result: Any, wanted: Any, name: str = name
            ) -> None:
                wanted = wanted.copy()  # later kernels may write there
                test = functools.partial(compare, call, operand, result, wanted)
                checks.append((len(calls) - 1, name, test))

            try:
                KernelRun(*found, wgsl.LIMITS).run(calls.run_call, check)
            except DeviceError as error:
                assert "float64" in str(error)  # noqa: PT017 (most samples have none)
    assert len(calls) > 100
    refused = calls.run(tmp_path)
    problems = [f"call {number}: {text}" for number, text in refused.items()]
    for number, name, test in checks:
        if number not in refused:
            try:
                test()
            except AssertionError as error:
                problems.append(f"{name}: {error}")
    assert not problems, "\n".join(problems)
