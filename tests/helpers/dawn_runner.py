"""Runs kernel calls on Dawn's Vulkan backend, all in one process of Node."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.helpers import dawn, wgsl_calls

from contraflow.compiler.interpret import BoundOperand
from contraflow.compiler.kernel import KernelCall
from contraflow.render.clike import wgsl

# Runs each call, and writes the bytes of its bindings one after the other. Gives the problems.
SCRIPT = """
  const { writeFile } = await import("node:fs/promises");
  const calls = JSON.parse(await readFile(`${folder}/calls.json`, "utf8"));
  const data = await readFile(`${folder}/data.bin`);
  const device = await (await gpu.requestAdapter()).requestDevice();
  const { STORAGE, UNIFORM, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
  const pipelines = {}, problems = {}, results = [];
  for (const [number, { code, entryPoint, groups, bindings }] of calls.entries()) {
    device.pushErrorScope("validation");
    const create = () => {
      const entries = bindings.map(([binding, type]) =>
        ({ binding, visibility: 4, buffer: { type } }));
      const layout = device.createBindGroupLayout({ entries });
      const module = device.createShaderModule({ code });
      return [layout, device.createComputePipeline({
        layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
        compute: { module, entryPoint },
      })];
    };
    const [layout, pipeline] = pipelines[code] ??= create();
    const usage = STORAGE | UNIFORM | COPY_SRC | COPY_DST;
    const buffers = bindings.map(([, , start, size]) => {
      const buffer = device.createBuffer({ size, usage });
      device.queue.writeBuffer(buffer, 0, data, start, size);
      return buffer;
    });
    const entries = bindings.map(([binding], i) =>
      ({ binding, resource: { buffer: buffers[i] } }));
    const encoder = device.createCommandEncoder();
    const run = encoder.beginComputePass();
    run.setPipeline(pipeline);
    run.setBindGroup(0, device.createBindGroup({ layout, entries }));
    run.dispatchWorkgroups(...groups);
    run.end();
    const total = bindings.reduce((sum, [, , , size]) => sum + size, 0);
    const staging = device.createBuffer({ size: total, usage: MAP_READ | COPY_DST });
    let at = 0;
    for (const [i, buffer] of buffers.entries()) {
      encoder.copyBufferToBuffer(buffer, 0, staging, at, bindings[i][3]);
      at += bindings[i][3];
    }
    device.queue.submit([encoder.finish()]);
    const error = await device.popErrorScope();
    if (error) problems[number] = error.message;
    if (error) { results.push(new Uint8Array(total)); continue; }
    await staging.mapAsync(GPUMapMode.READ);
    results.push(new Uint8Array(staging.getMappedRange().slice(0)));
    for (const buffer of [...buffers, staging]) buffer.destroy();
  }
  await writeFile(`${folder}/results.bin`, Buffer.concat(results));
  return { problems, adapter: device.adapterInfo.description };
"""


class Recorded(NamedTuple):
    """A call that is to run, with the operands that get its results."""

    call: KernelCall
    arrays: Sequence[BoundOperand]
    contents: dict[int, bytes]
    code: str


class Calls:
    """Calls that run together, later."""

    def __init__(self) -> None:
        self._recorded: list[Recorded] = []

    def __len__(self) -> int:
        return len(self._recorded)

    def run_call(
        self, call: KernelCall, arrays: Sequence[BoundOperand], scalars: Sequence[float | int] = ()
    ) -> None:
        """Note a call; its operands have its results after `run`."""
        code = wgsl.render(call.kernel, wgsl.variant_of(call))
        contents = wgsl_calls.contents(call, arrays, scalars)
        self._recorded.append(Recorded(call, arrays, contents, code))

    def run(self, folder: Path) -> dict[int, str]:
        """Run all calls. Gives what Dawn says against some, by number; these have no results."""
        data, described = bytearray(), []
        for call, _, contents, code in self._recorded:
            bindings: list[Any] = []
            types = wgsl.bindings(call.kernel)
            for binding, held in contents.items():
                bindings.append((binding, types[binding], len(data), len(held)))
                data += held
            described.append({
                "code": code,
                "entryPoint": call.kernel.name,
                "groups": wgsl.launch(call),
                "bindings": bindings,
            })  # fmt: skip
        folder.joinpath("data.bin").write_bytes(data)
        folder.joinpath("calls.json").write_text(json.dumps(described))
        found = dawn.run(SCRIPT, folder, "vulkan", timeout=1800)
        results, at = folder.joinpath("results.bin").read_bytes(), 0
        for number, (call, arrays, contents, _) in enumerate(self._recorded):
            parts = {}
            for binding, held in contents.items():
                parts[binding] = results[at : at + len(held)]
                at += len(held)
            if str(number) not in found["problems"]:
                wgsl_calls.take(call, arrays, parts)
        return {int(number): text for number, text in found["problems"].items()}
