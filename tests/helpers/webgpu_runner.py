"""Runs one kernel call on a WebGPU device, as simply as can be: for tests of the renderer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import wgpu
from tests.helpers import wgsl_calls

from contraflow.compiler.interpret import BoundOperand
from contraflow.compiler.kernel import Kernel, KernelCall
from contraflow.devices.webgpu import adapters
from contraflow.render.clike import source, wgsl


@lru_cache(maxsize=1)
def open_device() -> Any:
    """The first adapter's device within portable limits, or None."""
    found = adapters.adapters()
    return adapters.request(found[0]) if found else None


def compile_kernel(kernel: Kernel, variant: wgsl.WgslVariant = wgsl.PLAIN) -> tuple[Any, Any]:
    """The pipeline of a kernel and its bind-group layout; naga rejects a faulty text."""
    device = open_device()
    entries = [
        {"binding": i, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": kind}}
        for i, kind in wgsl.bindings(kernel).items()
    ]
    layout = device.create_bind_group_layout(entries=entries)
    module = device.create_shader_module(code=wgsl.render(kernel, variant))
    pipeline = device.create_compute_pipeline(
        layout=device.create_pipeline_layout(bind_group_layouts=[layout]),
        compute={"module": module, "entry_point": kernel.name},
    )
    return pipeline, layout


def run_call(
    call: KernelCall,
    arrays: Sequence[BoundOperand],
    scalars: Sequence[float | int] = (),
    line: int = 0,
) -> np.ndarray | None:
    """As `interpret.run_call`; gives the two words of a failure where the kernel checks indices."""
    device, kernel = open_device(), call.kernel
    pipeline, layout = compile_kernel(kernel, wgsl.variant_of(call))
    contents = wgsl_calls.contents(call, arrays, scalars, line)
    failure = max(contents) if source.checks_indices(kernel) else None
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_SRC
    buffers = {
        i: device.create_buffer_with_data(data=data, usage=usage) for i, data in contents.items()
    }
    group = device.create_bind_group(
        layout=layout,
        entries=[{"binding": i, "resource": {"buffer": b}} for i, b in buffers.items()],
    )
    encoder = device.create_command_encoder()
    run = encoder.begin_compute_pass()
    run.set_pipeline(pipeline)
    run.set_bind_group(0, group)
    run.dispatch_workgroups(*wgsl.launch(call))
    run.end()
    device.queue.submit([encoder.finish()])
    written = wgsl_calls.written(call)
    wgsl_calls.take(call, arrays, {i: device.queue.read_buffer(buffers[i]) for i in written})
    if failure is None:
        return None
    return np.frombuffer(device.queue.read_buffer(buffers[failure]), np.int32)
