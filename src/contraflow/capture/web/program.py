"""A program of a bundle: its tensors by name, its dispatches, and its arithmetic among numbers."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from contraflow.capture.call import Owner
from contraflow.capture.explain import parameter_names
from contraflow.capture.key import CallKey, TensorKey
from contraflow.capture.replay import CapturedProgram
from contraflow.capture.results import (
    ArgumentResult,
    Fresh,
    Graded,
    HostNumber,
    MovedResult,
    NumberResult,
    Result,
    SameResult,
    SharedResult,
)
from contraflow.capture.state.trees import FLOAT, INT, leaf_names, markers
from contraflow.capture.web.numbers import NumberRows
from contraflow.compiler.narrow_integers import OVERFLOW
from contraflow.compiler.plan import KernelStep
from contraflow.contexts.recording import InputSource
from contraflow.devices.failures import IndexOutOfRange
from contraflow.devices.webgpu.epilogues import with_epilogues
from contraflow.dtypes import DType, float16
from contraflow.errors import CaptureError, DeviceError
from contraflow.render.clike import source, wgsl
from contraflow.runtime.executable import Native
from contraflow.shapes import View, contiguous
from contraflow.tensors.tensor import Tensor

if TYPE_CHECKING:
    from contraflow.capture.web.bundle import WebBundle

WORD = 4  # bytes of an element
# Stand for the index in a message; no tensor of webgpu has so many elements.
_INDICES = {"index": 2147480001, "negative": -2147480001}


class ExportedFunction(NamedTuple):
    """A compiled function, the program of it that is exported, and the key of its calls."""

    owner: Owner
    program: CapturedProgram
    key: CallKey

    def parameter_names(self, count: int) -> list[str]:
        """The names of the positional parameters of a call with so many."""
        return parameter_names(self.owner.function, self.owner.instance, count)


def tensor_entry(buffer: int, view: View, dtype: DType) -> dict[str, Any]:
    """How a plan describes a tensor in a buffer."""
    layout = {"buffer": buffer, "dtype": dtype.name, "shape": list(view.shape)}
    if view != contiguous(view.shape):
        layout |= {"strides": list(view.strides), "offset": view.offset}
    return layout


class ProgramWriter:
    """Writes one program of a bundle."""

    def __init__(self, bundle: WebBundle, function: ExportedFunction) -> None:
        self.bundle, self.program, self.key = bundle, function.program, function.key
        self.name = function.owner.name
        executable = self.program.executable
        if not isinstance(executable, Native) or executable.device.name != "webgpu":
            raise DeviceError(
                f"export_web({self.name}): its last call ran on {self.program.tape.device}, and a "
                "browser runs programs of webgpu. Put what it computes with there, and call it "
                "once: model.to('webgpu'), x.to('webgpu')."
            )
        self.native: Native = executable
        self._check_effects()
        _, ((_, positional), (_, named), _) = self.key.structure
        given = [*function.parameter_names(len(positional)), *(k for k, _ in named)]
        names = self.key.leaf_names([*given, *map(str, self.program.carried_places)])
        self.leaf_names = names
        kinds = markers(self.key.structure)
        self.argument_names = [n for n, kind in zip(names, kinds) if kind not in (INT, FLOAT)]
        self.tensors: dict[str, Any] = {}
        self.results: dict[str, Any] = {}
        self.copies: list[list[int]] = []
        self._argument_buffers: dict[int, int] = {}  # by the number of the storage in the key
        self._gradients: dict[int, tuple[str, int]] = {}  # names and buffers, by ids of owners

    # --- refusals -------------------------------------------------------------------------

    def _refusal(self, problem: str, remedy: str) -> CaptureError:
        return CaptureError(f"export_web({self.name}): {problem}. {remedy}")

    def _check_effects(self) -> None:
        """Refuse programs that need Python."""
        program = self.program
        if program.writes:
            places = ", ".join(dict.fromkeys(map(str, program.writes)))
            raise self._refusal(
                f"the function changes Python's state, {places}, which a browser does not have",
                "Return it instead, or keep it in a tensor that is written in place.",
            )
        if program.recording.steps:
            raise self._refusal(
                "Python computes with a number among the arguments, or compares it",
                "Compute it outside, or pass it as a tensor.",
            )
        if program.guards.pins:
            raise self._refusal(
                "an argument is state of the function as well", "Pass a copy: x.clone()."
            )
        if any(spec.dtype is float16 for spec in program.tape.specs.values()):
            raise self._refusal(
                "it has values of float16, which not every browser has",
                "Compute in float32: without autocast, and model.float().",
            )
        unknown = {i for _, i in program.cell_outputs} - self.native.scalar_outputs
        if unknown:
            raise self._refusal(
                "whether a step counts depends on elements of tensors, as that of a GradScaler",
                "Leave the scaler out: float32 needs none.",
            )
        left = {id(held.tensor()) for held, gradient in program.slot_outputs if gradient}
        for read in program.guards.gradients:
            if read.layout is None and id(read.held.tensor()) in left:
                raise self._refusal(
                    "the function adds to the gradients that calls before have left, and this "
                    "program is for a call before which there were none",
                    "Begin it with optimizer.zero_grad(), or call it twice before exporting.",
                )

    # --- the program ----------------------------------------------------------------------

    def write(self) -> dict[str, Any]:
        """The program as an entry of the plan."""
        program, tape = self.program, self.program.tape
        sources = [(v, program.recording.sources[v]) for v in tape.inputs]
        cells = [self._cell(v, x) for v, x in sources if x.role == "scalar"]
        self.rows = NumberRows(self.name, self.native.tape, cells)
        inputs = [self._input(v, x) for v, x in sources if x.role != "scalar"]
        self._name_arguments()
        specs = tape.specs
        self.outputs = {
            i: self.bundle.buffer(WORD * int(np.prod(specs[v].shape, dtype=np.int64)))
            for i, v in enumerate(tape.outputs)
            if i not in self.native.scalar_outputs
        }
        updates = self._updates()
        self._name_gradients()
        for name, result in zip(self._result_names(), program.results, strict=True):
            self._name_result(name, result)
        buffers = self._buffers([*inputs, *self.outputs.values()])
        steps = [x for x in self.native.plan.steps if isinstance(x, KernelStep)]
        assert len(steps) == len(self.native.plan.steps), "webgpu has no host steps"
        steps = [step for step in steps if source.count_groups(step.call)]
        steps = with_epilogues(steps, self.native.plan.slots)
        checked = max((i + 1 for i, step in enumerate(steps) if step.may_fail), default=0)
        return {
            "tensors": self.tensors,
            "results": self.results,
            "numbers": self.rows.rows,
            "updates": updates,
            "dispatches": [self._dispatch(step, buffers) for step in steps],
            "checked": checked,
            "copies": self.copies,
            "failures": {str(x.line): self._failures(x.line) for x in steps if x.may_fail},
        }

    def _cell(self, v: Any, x: InputSource) -> int:
        """The position of the host scalar that an input is."""
        if x.generator is not None:
            return self.bundle.random(x.generator, x.field)
        if x.cell is not None:
            cell = x.cell()
            assert cell is not None
            return self.bundle.cell(cell)
        name, dtype = self.leaf_names[x.argument], self.program.tape.specs[v].dtype
        position = self.bundle.argument(name, dtype)
        self.tensors[name] = {"cell": position, "role": "input"}
        return position

    def _input(self, v: Any, x: InputSource) -> int:
        """The buffer of an input."""
        shape, dtype = self.program.tape.specs[v]
        if x.is_argument:
            number = self.key.tensors[x.argument].alias
            if number not in self._argument_buffers:
                nbytes = WORD * self.key.tensors[x.argument].size
                self._argument_buffers[number] = self.bundle.buffer(nbytes)
            return self._argument_buffers[number]
        storage = x.find(())
        if storage is None:
            raise self._refusal(
                "a tensor that the function reads is gone", "Keep a reference to it until then."
            )
        position = self.bundle.stored(storage, dtype)
        if x.role == "grad":
            assert x.owner is not None
            owner = x.owner()
            assert owner is not None  # it had the storage
            name = self.bundle.names.of(storage, self._owner_name(x.argument, owner) + ".grad")
            self._gradients[id(owner)] = name, position
        else:
            kind = "constant" if x.constant is not None else "state"
            name = self.bundle.names.of(storage, f"{kind}{position}")
        self.bundle.name_state(name, position, contiguous(shape), dtype)
        return position

    def _name_arguments(self) -> None:
        known: list[tuple[str, TensorKey]] = list(zip(self.argument_names, self.key.tensors))
        for name, t in known:
            buffer = self._argument_buffers.get(t.alias)
            if buffer is None:  # which the program does not read
                self.tensors[name] = {"shape": list(t.layout.shape), "role": "unused"}
            else:
                self.tensors[name] = tensor_entry(buffer, t.layout, t.dtype) | {"role": "input"}

    def _owner_name(self, argument: int, owner: Tensor) -> str:
        if argument >= 0:
            return self.argument_names[argument]
        return self.bundle.names.of(owner.storage, "state")

    def _updates(self) -> list[list[int]]:
        """Which host scalars get which numbers when the program has run."""
        updates = []
        for ref, position in self.program.cell_outputs:
            cell = ref()
            if cell is not None:
                row = self.rows.of(self.native.tape.outputs[position])
                updates.append([self.bundle.cell(cell), row])
        recording = self.program.recording
        for generator, blocks in recording.advances.items():
            position = self.bundle.random(generator, "offset")
            updates.append([position, self.rows.plus(self.rows.cell(position), blocks)])
        for generator, numbers in recording.reseeds.items():
            for field, number in zip(("seed", "offset"), numbers):
                updates.append([self.bundle.random(generator, field), self.rows.of(number)])
        return updates

    def _name_gradients(self) -> None:
        """Let gradients be found by the names of their tensors. One that is read at the start of a
        run, and not added to in place, is copied to where the next run finds it."""
        for held, gradient in self.program.slot_outputs:
            owner = held.tensor()
            if owner is None:
                continue
            known = self._gradients.get(id(owner))
            if known is not None and gradient is None:
                raise self._refusal(
                    f"the function reads {known[0]} and leaves no gradient there",
                    "Begin it with optimizer.zero_grad(), so that each call makes its own.",
                )
            if isinstance(gradient, Fresh) and known is not None:
                self.copies.append([self.outputs[gradient.position], known[1]])
            elif isinstance(gradient, Fresh):
                name = self._owner_name(held.argument, owner) + ".grad"
                output = self.outputs[gradient.position]
                self.tensors[name] = tensor_entry(output, gradient.view, gradient.dtype)

    # --- results --------------------------------------------------------------------------

    def _result_names(self) -> list[str]:
        """Names of results: keys of a dict, or positions, as in result[0]."""
        structure = self.program.structure
        if structure[0] is dict:
            return [name for k, part in structure[1] for name in leaf_names(part, str(k))]
        return list(leaf_names(structure, "result"))

    def _name_result(self, name: str, result: Result) -> None:
        shown = result.result if isinstance(result, Graded) else result
        if isinstance(shown, SameResult):
            original = list(self.results)[shown.original]
            self.results[name] = self.results[original]
        elif isinstance(shown, (Fresh, MovedResult, HostNumber)):
            if shown.position in self.native.scalar_outputs:
                row = self.rows.of(self.native.tape.outputs[shown.position])
                self.results[name] = {"row": row}
            elif isinstance(shown, HostNumber):
                dtype = self.program.tape.specs[self.program.tape.outputs[shown.position]].dtype
                self.results[name] = tensor_entry(
                    self.outputs[shown.position], contiguous(()), dtype
                )
            else:
                buffer = self.outputs[shown.position]
                self.results[name] = tensor_entry(buffer, shown.view, shown.dtype)
        elif isinstance(shown, SharedResult):
            origin = self.program.recording.sources[shown.origin]
            buffer = self._input(shown.origin, origin)
            self.results[name] = tensor_entry(buffer, shown.view, shown.dtype)
        elif isinstance(shown, ArgumentResult):
            self.results[name] = self.tensors[self.argument_names[shown.argument]]
        elif isinstance(shown, NumberResult):
            self.results[name] = {"row": self.rows.of(shown.value)}
        else:
            raise self._refusal(
                f"{name} is not a tensor or a number of the program", "Return what it is made of."
            )

    # --- dispatches -----------------------------------------------------------------------

    def _buffers(self, external: Sequence[int]) -> list[int]:
        """The buffer of each slot of the plan."""
        plan = self.native.plan
        given = iter(external)
        arenas = [self.bundle.buffer(nbytes) for nbytes in plan.arenas]
        nothing: list[int] = []
        found = []
        for slot in plan.slots:
            if slot.kind != "temp":
                found.append(next(given))
            elif slot.numel:
                found.append(arenas[slot.arena])
            else:
                nothing = nothing or [self.bundle.buffer(0)]
                found.append(nothing[0])
        assert next(given, None) is None
        return found

    def _dispatch(self, step: KernelStep, buffers: Sequence[int]) -> dict[str, Any]:
        call, kernel = step.call, step.call.kernel
        packed = wgsl.pack_arguments(call, [b.offset for b in step.bindings], step.line)
        words = self.native.words
        scalars = [
            [code, self.rows.of(words[step.bindings[i].offset])]
            for i, code in wgsl.scalar_codes(kernel)
        ]
        x, y, _ = wgsl.launch(call)
        return {
            "kernel": self.bundle.kernel(step),
            "groups": [x, y],
            "arguments": list(struct.unpack(f"<{len(packed) // WORD}i", packed)),
            "scalars": scalars,
            "buffers": [buffers[step.bindings[i].slot] for i in source.in_memory(kernel)],
        }

    def _failures(self, line: int) -> dict[str, Any]:
        """The messages for what a line finds wrong: `index` and `negative` are of indices, where {}
        stands for the number itself, more what is added to it; others have numbers of their own."""
        messages: dict[str, Any] = {}
        for name, index in _INDICES.items():
            text, number = self._message(line, index), str(index)[:-2]
            found = re.search(rf"{number}\d\d", text)
            shown = text if found is None else text.replace(found[0], "{}")
            messages[name] = [shown, 0 if found is None else int(found[0]) - index]
        codes = [x.params.get("code") for x in self.native.tape.lines[line:]]
        for code in (OVERFLOW, *(code for code in codes if code is not None)):
            messages[str(code)] = self._message(line, code)
        return messages

    def _message(self, line: int, index: int) -> str:
        return str(self.native.with_line(IndexOutOfRange(index, line)))
