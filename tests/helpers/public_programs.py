"""Models and programs of public packages, run with PyTorch and through `as_torch`.

python -m tests.helpers.public_programs FOLDER             run all with both; write docs/programs.md
python -m tests.helpers.public_programs FOLDER NAME ...    run those whose names begin so, and print

It runs in an environment that has PyTorch and the packages; `PACKAGES` of this module says which.
Each program of `public_programs.txt` imports a package as it is on the package index, and defines
a `model` and a `loss`. PyTorch runs first, with weights that it draws and that are kept in the
folder; contraflow loads them. Both compute in float64 and take `STEPS` steps of an optimizer.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import textwrap
import time
import traceback
import warnings
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
TEXT = Path(__file__).with_name("public_programs.txt").read_text()
PROGRAMS = dict(re.findall(r"^===== ([^\n]*)\n(.*?)(?=^=====|\Z)", TEXT, re.M | re.S))
PACKAGES = sorted({name.partition(":")[0] for name in PROGRAMS})
PAGE = ROOT / "docs" / "programs.md"
STEPS = 3
TOLERANCE = 1e-8  # of the losses, relative


class ProgramRun(NamedTuple):
    """The losses of a program, or the last line of its error."""

    losses: list[float]
    seconds: float
    error: str


def run_here(name: str, folder: Path, loads: bool) -> ProgramRun:
    """Run a program in this process with what `import torch` means here."""
    started = time.perf_counter()
    try:
        losses = _losses(name, folder, loads)
    except Exception as error:
        traceback.print_exc()
        text = str(error).strip().splitlines()
        return ProgramRun([], 0.0, f"{type(error).__name__}: {text[0] if text else ''}")
    return ProgramRun(losses, time.perf_counter() - started, "")


def _has_its_pytorch(package: str) -> bool:
    """Whether the installed PyTorch is one that an installed package asks for; without it, yes."""
    try:
        asked = [Requirement(text) for text in importlib.metadata.requires(package) or ()]
    except importlib.metadata.PackageNotFoundError:
        return True
    there = importlib.metadata.version("torch").partition("+")[0]
    return all(each.specifier.contains(there) for each in asked if each.name == "torch")


def _losses(name: str, folder: Path, loads: bool) -> list[float]:
    torch: Any = __import__("torch")
    # torchvision's own library needs the PyTorch that it was built for; its models do not.
    if not loads and not _has_its_pytorch("torchvision"):
        known = torch.library.Library("torchvision", "FRAGMENT")
        for op in ("nms", "qnms"):
            if not hasattr(torch.ops.torchvision, op):
                known.define(f"{op}(Tensor a, Tensor b, float c) -> Tensor")
    random = np.random.default_rng(zlib.crc32(name.encode()))
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    space = {
        "__name__": "program",
        "torch": torch,
        "F": torch.nn.functional,
        "draw": lambda *shape: torch.from_numpy(random.standard_normal(shape)),
        "draw_integers": lambda high, *shape: torch.from_numpy(random.integers(high, size=shape)),
    }
    exec(compile(PROGRAMS[name], f"<{name}>", "exec"), space)
    model = space["model"].double()
    file = folder / (re.sub(r"\W+", "-", name) + ".npz")
    if loads:
        with np.load(file) as saved:
            state = {key: torch.from_numpy(saved[key]) for key in saved.files}
        model.load_state_dict(state)
    else:
        state = {key: value.detach().numpy() for key, value in model.state_dict().items()}
        np.savez(file, **state)
    optimizer = space.get("optimizer") or torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = space["loss"]()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def run_apart(name: str, folder: Path, through_as_torch: bool) -> ProgramRun:
    """Run a program in a process of its own."""
    way = ["-m", "contraflow.as_torch"] if through_as_torch else []
    command = [sys.executable, *way, "-m", "tests.helpers.public_programs", "--here", str(folder)]
    if through_as_torch:
        command.append("--load")
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [*command, name], capture_output=True, text=True, check=False, env=environment, cwd=ROOT
    )
    last = done.stdout.strip().splitlines()[-1:] or [""]
    try:
        found = ProgramRun(*json.loads(last[0]))
    except ValueError:
        found = ProgramRun([], 0.0, (done.stderr.strip().splitlines() or ["it was killed"])[-1])
    if found.error:
        print(done.stderr[-3000:], file=sys.stderr)
    return found


def difference(name: str, folder: Path) -> tuple[float, ProgramRun, ProgramRun]:
    """The largest relative difference of the losses (NaN for an error), and both runs."""
    torchs = run_apart(name, folder, through_as_torch=False)
    ours = run_apart(name, folder, through_as_torch=True)
    if torchs.error or ours.error:
        return float("nan"), torchs, ours
    expected, found = np.array(torchs.losses), np.array(ours.losses)
    return float(np.max(np.abs(found - expected) / np.abs(expected))), torchs, ours


def page(rows: list[str]) -> str:
    """The page of the programs."""
    named = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    versions = textwrap.fill(f"{named}; PyTorch {importlib.metadata.version('torch')}.", 98)
    return (
        f"""# Public programs, run as they are

Models and programs of packages from the package index, unchanged, with `import torch` meaning
contraflow (`contraflow.as_torch`). PyTorch and contraflow begin with the same weights and take
{STEPS} steps of gradient descent in float64; the last column is the largest relative difference of
the losses. `python -m tests.helpers.public_programs FOLDER` makes this page in an environment that
has PyTorch and the packages, and `tests/library/test_public_programs.py` holds each row there.

These are the programs of 45 that could be compared and agreed. Not among them: lightning, which
does not import, since it takes the metaclass of tensors out of PyTorch's core, pytorch-msssim,
whose window is computed in float32, where `exp` rounds its last bit otherwise, so that losses in
float64 were 3e-6 apart, captum, which has no losses (seven of its methods gave PyTorch's
numbers), and seven whose runs were not finished. transformers' Llama and T5 compute norms in
float32, whatever the dtype of the model is. `generate` of its GPT-2, greedy and by beams, gives
PyTorch's tokens and `save_pretrained` saves; `from_pretrained` is refused, since it makes models
on the meta device. torchvision's `nms` ops were declared by hand for PyTorch's side.

{versions}

| program | losses of PyTorch | losses of contraflow | difference |
| --- | --- | --- | --- |
"""
        + "\n".join(rows)
        + "\n"
    )


def main(arguments: list[str]) -> int:
    """Run one program here, or some or all of them apart."""
    if arguments[0] == "--here":
        warnings.simplefilter("ignore")
        loads = "--load" in arguments
        run = run_here(arguments[-1], Path(arguments[1]), loads)
        print(json.dumps(run))
        return int(bool(run.error))
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [n for n in PROGRAMS if len(arguments) == 1 or n.startswith(tuple(arguments[1:]))]
    rows, failed = [], 0
    for name in chosen:
        apart, torchs, ours = difference(name, folder)
        failed += not apart <= TOLERANCE
        print(
            f"{name}: {torchs.error or torchs.losses} {ours.error or ours.losses} {apart:.1e}",
            flush=True,
        )
        losses = (" ".join(f"{loss:.6f}" for loss in run.losses) for run in (torchs, ours))
        rows.append(f"| {name} | {' | '.join(losses)} | {apart:.0e} |")
    if len(arguments) == 1 and not failed:
        PAGE.write_text(page(rows))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
