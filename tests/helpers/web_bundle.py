"""Runs bundles of `export_web` by wgpu: what `contraflow.js` does, in Python."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import wgpu

from contraflow.expressions.intrinsics import INTRINSICS
from contraflow.operation.reference import quiet

_STORED = {"float32": np.float32, "int32": np.int32, "int64": np.int32, "bool": np.uint32}
_CASTS = {"to_float": float, "to_int": int, "to_bool": bool, "to_float32": np.float32}
_USAGE = (
    wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_SRC
    | wgpu.BufferUsage.COPY_DST
)  # fmt: skip


class Bundle:
    """The programs of a folder, on a device of wgpu."""

    def __init__(self, folder: Path, device: Any) -> None:
        self.device = device
        self.plan = json.loads(folder.joinpath("plan.json").read_text())
        weights = folder.joinpath("weights.bin").read_bytes()
        self.texts = folder.joinpath("kernels.wgsl").read_text().split("// ---- ")[1:]
        self.buffers = []
        for buffer in self.plan["buffers"]:
            at, size = buffer.get("weights", (0, 0))
            content = weights[at : at + size].ljust(buffer["bytes"], b"\0")
            self.buffers.append(device.create_buffer_with_data(data=content, usage=_USAGE))
        self.cells = [_number(cell["kind"], cell.get("value")) for cell in self.plan["cells"]]
        self.failure = device.create_buffer_with_data(data=bytes(8), usage=_USAGE)
        self._kernels: dict[int, tuple[Any, Any]] = {}

    def kernel(self, number: int) -> tuple[Any, Any]:
        """The pipeline of a kernel, and the layout of its bind group."""
        if number not in self._kernels:
            kernel = self.plan["kernels"][number]
            entries = [
                {"binding": i, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": kind}}
                for i, kind in kernel["bindings"]
            ]
            layout = self.device.create_bind_group_layout(entries=entries)
            name, text = self.texts[number].split("\n", 1)
            assert name == kernel["name"]
            pipeline = self.device.create_compute_pipeline(
                layout=self.device.create_pipeline_layout(bind_group_layouts=[layout]),
                compute={
                    "module": self.device.create_shader_module(code=text),
                    "entry_point": name,
                },
            )
            self._kernels[number] = pipeline, layout
        return self._kernels[number]

    def run(self, name: str, **inputs: Any) -> None:
        """Run a program; an index out of range is an IndexError."""
        entry = self.plan["programs"][name]
        for given, value in inputs.items():
            self.write(entry["tensors"][given], value)
        rows = self._rows(entry["numbers"])
        for i, dispatch in enumerate(entry["dispatches"]):
            self._dispatch(dispatch, rows)
            if i + 1 == entry["checked"]:
                self._check(entry)
        for source, target in entry["copies"]:
            encoder = self.device.create_command_encoder()
            size = self.plan["buffers"][target]["bytes"]
            encoder.copy_buffer_to_buffer(self.buffers[source], 0, self.buffers[target], 0, size)
            self.device.queue.submit([encoder.finish()])
        for cell, value in [(cell, rows[row]) for cell, row in entry["updates"]]:
            self.cells[cell] = type(self.cells[cell])(value)
        self.last = rows

    def _check(self, entry: Any) -> None:
        mark, index = np.frombuffer(self.device.queue.read_buffer(self.failure), np.int32)
        if mark:
            self.device.queue.write_buffer(self.failure, 0, bytes(8))
            messages = entry["failures"][str(mark - 1)]
            if str(index) in messages:
                raise IndexError(messages[str(index)])
            text, shift = messages["negative" if index < 0 else "index"]
            raise IndexError(text.replace("{}", str(index + shift)))

    def _dispatch(self, dispatch: Any, rows: list[Any]) -> None:
        pipeline, layout = self.kernel(dispatch["kernel"])
        integers = dispatch["arguments"]
        blocks = [struct.pack(f"<{len(integers)}i", *integers)]
        if dispatch["scalars"]:
            convert = {"f": float, "i": int, "q": int}
            blocks.append(b"".join(
                struct.pack(f"<{code}", convert[code](rows[row]))
                for code, row in dispatch["scalars"]
            ))  # fmt: skip
        resources = [self.device.create_buffer_with_data(data=b, usage=_USAGE) for b in blocks]
        resources += [self.buffers[i] for i in dispatch["buffers"]]
        bindings = self.plan["kernels"][dispatch["kernel"]]["bindings"]
        if len(resources) < len(bindings):
            resources.append(self.failure)
        group = self.device.create_bind_group(
            layout=layout,
            entries=[
                {"binding": i, "resource": {"buffer": buffer}}
                for (i, _), buffer in zip(bindings, resources, strict=True)
            ],
        )
        encoder = self.device.create_command_encoder()
        run = encoder.begin_compute_pass()
        run.set_pipeline(pipeline)
        run.set_bind_group(0, group)
        run.dispatch_workgroups(*dispatch["groups"])
        run.end()
        self.device.queue.submit([encoder.finish()])

    def _rows(self, rows: Any) -> list[Any]:
        known: list[Any] = []
        for name, *operands in rows:
            if name == "cell":
                known.append(self.cells[operands[0]])
            elif name in ("float", "int", "bool"):
                known.append(_number(name, operands[0]))
            elif name in _CASTS:
                known.append(_CASTS[name](known[operands[0]]))
            else:
                given = [np.asarray(known[i]) for i in operands]
                known.append(quiet.run(INTRINSICS[name].numpy, *given).item())
        return known

    def find(self, program: str, name: str) -> Any:
        """The entry of a result, an input, a gradient or state."""
        entry = self.plan["programs"][program]
        for known in (entry["results"], entry["tensors"], self.plan["state"]):
            if name in known:
                return known[name]
        (number,) = [i for i, cell in enumerate(self.plan["cells"]) if cell["name"] == name]
        return {"cell": number}

    def read(self, program: str, name: str) -> Any:
        """A number, or an array."""
        found = self.find(program, name)
        if "cell" in found:
            return self.cells[found["cell"]]
        if "row" in found:
            return self.last[found["row"]]
        data = self.device.queue.read_buffer(self.buffers[found["buffer"]])
        return _view(np.frombuffer(data, _STORED[found["dtype"]]), found)

    def write(self, found: Any, value: Any) -> None:
        """Set an input, or a number."""
        if "cell" in found:
            self.cells[found["cell"]] = value
            return
        buffer = self.buffers[found["buffer"]]
        whole = np.frombuffer(self.device.queue.read_buffer(buffer), _STORED[found["dtype"]]).copy()
        _view(whole, found)[...] = value
        self.device.queue.write_buffer(buffer, 0, whole)


def _number(kind: str, value: Any) -> Any:
    return None if value is None else {"int": int, "float": float, "bool": bool}[kind](value)


def _view(whole: np.ndarray, found: Any) -> np.ndarray:
    shape = found["shape"]
    if "strides" not in found:
        return whole[: int(np.prod(shape))].reshape(shape)
    strides = [whole.itemsize * n for n in found["strides"]]
    start = whole[found["offset"] :]
    return np.lib.stride_tricks.as_strided(start, shape, strides)
