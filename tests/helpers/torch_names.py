"""PyTorch's public names: listed where it is installed, compared with ours, written as a page.

python -m tests.helpers.torch_names          write docs/names.md
python -m tests.helpers.torch_names --list   list PyTorch's names anew first; it must be installed
"""

from __future__ import annotations

import functools
import pkgutil
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from tests.helpers import torch_uses

import contraflow
from contraflow import absent
from contraflow.absent import REMARKS

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("torch_names.txt")
MODULE_LIST = Path(__file__).with_name("torch_modules.txt")  # all of PyTorch's, without `torch.`
PAGE = ROOT / "docs" / "names.md"

# The namespaces whose names are listed: modules, and then classes.
MODULES = [
    "torch",
    "torch.accelerator",
    "torch.amp",
    "torch.autograd",
    "torch.autograd.forward_ad",
    "torch.autograd.function",
    "torch.autograd.functional",
    "torch.autograd.graph",
    "torch.autograd.profiler",
    "torch.backends.cuda",
    "torch.backends.mps",
    "torch.compiler",
    "torch.cpu",
    "torch.cuda",
    "torch.cuda.amp",
    "torch.distributed",
    "torch.distributions",
    "torch.export",
    "torch.fft",
    "torch.func",
    "torch.futures",
    "torch.fx",
    "torch.hub",
    "torch.jit",
    "torch.library",
    "torch.linalg",
    "torch.masked",
    "torch.monitor",
    "torch.mps",
    "torch.multiprocessing",
    "torch.nested",
    "torch.nn",
    "torch.nn.attention",
    "torch.nn.attention.bias",
    "torch.nn.attention.flex_attention",
    "torch.nn.functional",
    "torch.nn.init",
    "torch.nn.modules",
    "torch.nn.parallel",
    "torch.nn.parameter",
    "torch.nn.utils",
    "torch.nn.utils.parametrizations",
    "torch.nn.utils.parametrize",
    "torch.nn.utils.prune",
    "torch.nn.utils.rnn",
    "torch.nn.utils.stateless",
    "torch.onnx",
    "torch.optim",
    "torch.optim.lr_scheduler",
    "torch.optim.swa_utils",
    "torch.overrides",
    "torch.package",
    "torch.profiler",
    "torch.random",
    "torch.serialization",
    "torch.signal.windows",
    "torch.sparse",
    "torch.special",
    "torch.testing",
    "torch.types",
    "torch.utils.checkpoint",
    "torch.utils.data",
    "torch.utils.dlpack",
    "torch.utils.hooks",
    "torch.utils.model_zoo",
    "torch.xpu",
]
CLASSES = [
    "torch.Generator",
    "torch.Size",
    "torch.Tensor",
    "torch.device",
    "torch.dtype",
    "torch.finfo",
    "torch.iinfo",
    "torch.nn.Module",
    "torch.nn.ModuleDict",
    "torch.nn.ModuleList",
    "torch.nn.MultiheadAttention",
    "torch.nn.ParameterDict",
    "torch.nn.ParameterList",
    "torch.nn.Sequential",
    "torch.nn.utils.rnn.PackedSequence",
    "torch.optim.Optimizer",
]


class Decision(NamedTuple):
    """What became of a name: "there", "remark" or "refused", or "" for one that was forgotten."""

    name: str
    state: str
    text: str


def torchs_names() -> Iterator[str]:
    """PyTorch's public names: those of `__all__`, else all without an underscore."""
    warnings.simplefilter("ignore")
    for path in MODULES:
        module = import_module(path)
        here = [n for n in dir(module) if not isinstance(getattr(module, n, None), ModuleType)]
        own = [n for n in here if _is_torchs(getattr(module, n, None))]
        listed = getattr(module, "__all__", own)
        if path == "torch":
            within = [m.removeprefix("torch.").split(".")[0] for m in MODULES[1:]]
            listed = [*listed, *own, *within]
        yield from (f"{path}.{name}" for name in listed if not name.startswith("_"))
    for path in CLASSES:
        owner = _reach(import_module("torch"), path.split(".")[1:])
        base = {} if path == "torch.nn.Module" else _inherited(owner)
        yield from (f"{path}.{n}" for n in dir(owner) if not n.startswith("_") and n not in base)


def torchs_modules(folders: Iterable[str], before: str = "") -> Iterator[str]:
    """The modules of PyTorch by their paths, without those that a name marks as its own."""
    for found in pkgutil.iter_modules(folders):
        if not found.name.startswith(("_", "test")):
            yield before + found.name
            if found.ispkg:
                inner = [f"{folder}/{found.name}" for folder in folders]
                yield from torchs_modules(inner, f"{before}{found.name}.")


def _inherited(owner: type) -> set[str]:
    modules = [base for base in owner.__mro__[1:] if base.__module__.startswith("torch.nn")]
    return {name for base in modules for name in vars(base)}


def _is_torchs(x: Any) -> bool:
    return (getattr(x, "__module__", None) or "torch").startswith("torch")


def _reach(at: Any, path: list[str]) -> Any:
    for name in path:
        at = getattr(at, name)
    return at


@functools.cache
def is_there(path: str) -> bool:
    """Whether contraflow has what PyTorch has at a path; a field of objects counts."""
    at: Any = contraflow
    parts = path.split(".")
    for i, name in enumerate(parts):
        try:
            at = getattr(at, name)
        except AttributeError:
            if path in FIELDS or any(_has_field(kind, name) for kind in getattr(at, "__mro__", ())):
                return True
            try:
                at = import_module(f"contraflow.{'.'.join(parts[: i + 1])}")
            except ImportError:
                return False
    return True


def _has_field(kind: type, name: str) -> bool:
    return name in vars(kind).get("__annotations__", {}) or name in vars(kind).get("__slots__", ())


# Attributes of objects, which their classes do not show.
FIELDS = {
    f"{owner}.{name}"
    for owner, names in {
        "finfo": "bits dtype eps max min resolution smallest_normal tiny",
        "iinfo": "bits dtype max min",
        "Tensor": "dtype",
        "Generator": "seed",
    }.items()
    for name in names.split()
}


def decide(line: str) -> Decision:
    """What became of a name of PyTorch's."""
    path = line.removeprefix("torch.")
    if is_there(path):
        return Decision(line, "remark" if path in REMARKS else "there", REMARKS.get(path, ""))
    found = absent.match(path)
    if found is None:
        return Decision(line, "", "")
    return Decision(line, "refused", f"{found.reason} {found.remedy}")


def decisions() -> list[Decision]:
    """What became of each name."""
    return [decide(line) for line in LIST.read_text().split()]


def absent_names() -> str:
    """The text of the list of names, modules among them, that absent.py has a reason for."""
    names = [d.name.removeprefix("torch.") for d in decisions() if d.state == "refused"]
    modules = [path for path in MODULE_LIST.read_text().split() if not is_there(path)]
    return "\n".join(sorted({*names, *(path for path in modules if absent.match(path))})) + "\n"


def page() -> str:
    """The page: a summary by namespace, what is refused and why, and the remarks."""
    found = decisions()
    by_space: dict[str, list[Decision]] = defaultdict(list)
    for decision in found:
        by_space[decision.name.rpartition(".")[0]].append(decision)
    counts = Counter(decision.state for decision in found)
    there = counts["there"] + counts["remark"]
    rows = [
        "# PyTorch's names",
        "",
        "Each public name of PyTorch 2.13 is there, there with a remark, or refused with a reason.",
        "`make names` writes this page, and `tests/house/test_names.py` holds it. A name that is",
        "refused raises an `AttributeError` that says the same.",
        "",
        f"Of {len(found)} names {there} are there ({there / len(found):.1%}), "
        f"{counts['remark']} of them with a remark; {counts['refused']} are refused.",
        "",
        "| namespace | names | there | refused |",
        "| --- | --- | --- | --- |",
    ]
    for space, members in sorted(by_space.items()):
        refused = sum(d.state == "refused" for d in members)
        rows.append(f"| `{space}` | {len(members)} | {len(members) - refused} | {refused} |")
    rows += ["", "## Uses in public code", "", *torch_uses.page(is_there)]
    rows += ["", "## Remarks", "", "| name | remark |", "| --- | --- |"]
    rows += [f"| `{d.name}` | {d.text} |" for d in found if d.state == "remark"]
    rows += ["", "## Refused"]
    by_reason: dict[str, list[str]] = defaultdict(list)
    for decision in found:
        if decision.state == "refused":
            by_reason[decision.text].append(decision.name.removeprefix("torch."))
    for reason, names in by_reason.items():
        text = reason[0].upper() + reason[1:]
        rows += ["", text, "", ", ".join(f"`{name}`" for name in names) + "."]
    return "\n".join(rows) + "\n"


def main(arguments: list[str]) -> None:
    """Write the list if asked to, and the page."""
    if "--list" in arguments:
        LIST.write_text("\n".join(sorted(set(torchs_names()))) + "\n")
        folder = import_module("torch").__path__
        MODULE_LIST.write_text("\n".join(sorted(torchs_modules(folder))) + "\n")
    if "--no-page" not in arguments:
        PAGE.write_text(page())
        absent.LIST.write_text(absent_names())


if __name__ == "__main__":
    main(sys.argv[1:])
