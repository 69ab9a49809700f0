"""A recorded call run again, by the function itself: for gradients of gradients.

Nothing of the first run may have changed since, and nothing of the second one stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from contraflow.capture.call import FunctionCall
from contraflow.capture.state.places import GivenArguments
from contraflow.compiler.passes import eliminate_dead
from contraflow.devices import dtype_of
from contraflow.errors import GradientError, OverwrittenError
from contraflow.operation.context import state
from contraflow.tensors.source_line import at, location
from contraflow.tensors.tensor import Tensor

if TYPE_CHECKING:
    from contraflow.capture.pullback import CompiledNode
    from contraflow.capture.replay import CapturedProgram


def check_unchanged(program: CapturedProgram, node: CompiledNode, given: GivenArguments) -> None:
    """Refuse to run the function again where it would not repeat the call."""
    pure = program.tape.replaced(program.tape.lines)
    pure.writes = {}
    read = {x for line in eliminate_dead(pure).lines for x in line.inputs}
    if read & set(program.tape.writes):
        raise GradientError(
            f"backward: {_again(node)}, "
            f"but it overwrites what it reads. Write after reading into another tensor, or "
            f"call {program.owner.name}.eager."
        )
    for storage, version in node.state:
        if storage.version != version:
            writer, line = storage.writer or ("a write", None)
            raise OverwrittenError(
                f"backward: {_again(node)}, but {writer} overwrote what it reads{at(line)}. Use "
                f"the out-of-place form, or run backward before.",
                op=node.name, line=location(node.line), shape=(storage.data.size,),
                dtype=str(dtype_of(storage.data)), saved_version=version,
                version=storage.version, writer=writer, written=location(line),
            )  # fmt: skip
    if not program.guards.repeats(given):
        raise GradientError(
            f"backward: {_again(node)}, "
            f"but modules or variables that it uses have changed. Run backward before."
        )


def _again(node: CompiledNode) -> str:
    """Why a call is run again, for messages."""
    name = f"{node.name}{at(node.line)}"
    if state().grad:
        return f"create_graph differentiates {name} by running it again"
    return f"what the backward of {name} reads has changed since the call, so it is run again"


def note_state(
    program: CapturedProgram, leaves: Sequence[Any], random: list[Any]
) -> Callable[[], None]:
    """Note the state before another run of the function; give a function that restores it."""
    arguments = [x for x in leaves if isinstance(x, Tensor)]
    found = program.find_inputs(FunctionCall(None, list(leaves), arguments, ((), {})))
    if found is None:
        raise GradientError(f"backward: a value that {program.owner.name} read no longer exists.")
    storages = found[0]
    slots = [held.get(arguments) for held, _ in program.slot_outputs]
    grads = [(t, t._grad) for t in slots if t is not None]
    cells = [(cell, cell.value) for ref, _ in program.cell_outputs if (cell := ref()) is not None]
    now = [(g, (g.seed, g.offset)) for g, _ in random]
    written = [storages[position] for position, _ in program.counted.writers]
    before = [(s, s.copied(), s.version, s.writer) for s in written]

    def undo() -> None:
        for generator, saved in now:
            generator.seed, generator.offset = saved
        for t, grad in grads:
            t._grad = grad
        for cell, value in cells:
            cell.value = value
        for storage, data, version, writer in before:
            storage.restore(data)
            storage.version, storage.writer = version, writer

    return undo
