"""`Module.summary`: a table of submodules, parameters and output shapes."""

from __future__ import annotations

from typing import Any

from contraflow.autograd.modes import no_grad
from contraflow.errors import describe
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import leaves_of


def summarize(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The table. With arguments the module is called once, in evaluation mode and without grad."""
    outputs = _outputs(module, args, kwargs) if args or kwargs else {}
    rows = [("module", "output", "parameters")]
    counted: set[int] = set()
    for name, part in module.named_modules():
        own = [p for p in part.parameters(recurse=False) if id(p) not in counted]
        counted.update(map(id, own))
        title = type(part).__name__
        if name:
            title = f"{'  ' * (name.count('.') + 1)}({name.rpartition('.')[2]}): {title}"
        rows.append((title, outputs.get(id(part), ""), f"{sum(p.numel() for p in own):,}"))
    columns = [0, 1, 2] if outputs else [0, 2]
    wide = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = [
        "  ".join(row[i].rjust(wide[i]) if i == 2 else row[i].ljust(wide[i]) for i in columns)
        for row in rows
    ]
    parameters = list(module.parameters())
    trained = sum(p.numel() for p in parameters if p.requires_grad)
    lines.append(
        f"{sum(p.numel() for p in parameters):,} parameters of "
        f"{sum(p.nbytes for p in parameters):,} bytes, {trained:,} of them trained"
    )
    for name, part in module.named_modules():
        for key, value in vars(part).items():
            if not key.startswith("_") and _holds_modules(value):
                path = f"{name}.{key}" if name else key
                lines.append(
                    f"{path} keeps layers in a plain {type(value).__name__}: they are neither "
                    f"counted nor trained. Use Module{'Dict' if type(value) is dict else 'List'}."
                )
    return "\n".join(lines)


def _holds_modules(value: Any) -> bool:
    """Whether it is a container of Python's with a module in it."""
    parts = value.values() if type(value) is dict else value
    return type(value) in (list, tuple, dict) and any(hasattr(x, "named_modules") for x in parts)


def _outputs(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[int, str]:
    """The output of each module in its last call, by its identity."""
    found: dict[int, str] = {}

    def note(part: Any, inputs: Any, out: Any) -> None:
        tensors = (describe(x) for x in leaves_of(out) if isinstance(x, Tensor))
        found[id(part)] = ", ".join(tensors)

    parts = list(module.modules())
    modes = [part.training for part in parts]
    handles = [part.register_forward_hook(note) for part in parts]
    try:
        module.eval()
        with no_grad():
            module(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
        for part, mode in zip(parts, modes):
            part.training = mode
    return found
