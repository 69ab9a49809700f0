"""How often public programs use each name of PyTorch's: counted in packages of the package index.

    python -m pip download --no-deps --dest FOLDER NAME==VERSION ...    what `--packages` prints
    python -m tests.helpers.torch_uses FOLDER      count, and write torch_uses.txt

Uses are found in the text: imports from `torch` and attributes of what was imported, so that
methods of tensors are not among them. Files of tests are left out, and so are names with an
underscore, which are not public, and names that PyTorch itself does not have, such as those that
other packages add to it (`torch.npu`, `torch.ops.torchvision`): counting needs PyTorch. The list
holds names and numbers, nothing of the packages' text.
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from contraflow.as_torch import uninstall
from contraflow.torch_uses import uses

uninstall()  # in this process PyTorch is PyTorch

LIST = Path(__file__).with_name("torch_uses.txt")
# Models, layers, training loops, metrics, probability, graphs, reinforcement learning: libraries
# that many programs are written with, at the versions of one day.
PACKAGES = {
    "captum": "0.9.0",
    "denoising-diffusion-pytorch": "2.3.4",
    "diffusers": "0.42.1",
    "efficientnet-pytorch": "0.7.1",
    "einops": "0.8.2",
    "entmax": "1.3",
    "gpytorch": "1.15.2",
    "kornia": "0.9.0",
    "lion-pytorch": "0.2.5",
    "lpips": "0.1.4",
    "monai": "1.6.1",
    "nflows": "0.14",
    "open-clip-torch": "3.3.0",
    "performer-pytorch": "1.1.4",
    "pyro-ppl": "1.9.2",
    "pytorch-ignite": "0.5.5",
    "pytorch-lightning": "2.6.6",
    "pytorch-metric-learning": "2.9.0",
    "pytorch-msssim": "1.0.0",
    "segmentation-models-pytorch": "0.6.0",
    "sentence-transformers": "6.2.0",
    "skorch": "1.4.0",
    "speechbrain": "1.1.2",
    "stable-baselines3": "2.9.2",
    "tianshou": "2.0.1",
    "timm": "1.0.30",
    "torch-geometric": "2.8.1",
    "torch-optimizer": "0.3.0",
    "torchdiffeq": "0.2.5",
    "torchmetrics": "1.9.0",
    "torchvision": "0.29.1",
    "transformers": "5.22.2",
    "ultralytics": "8.4.190",
    "vector-quantize-pytorch": "1.32.0",
    "vit-pytorch": "1.26.11",
    "x-transformers": "2.31.10",
}


class PackageShare(NamedTuple):
    """How many uses of PyTorch's names a package has, and how many of them are there."""

    package: str
    uses: int
    there: int


def _files(archive: Path) -> Iterator[tuple[str, str]]:
    """The Python files of a wheel or a source archive, without those of tests."""
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as opened:
            for name in sorted(opened.namelist()):
                if _counts(name):
                    yield name, opened.read(name).decode("utf-8", "replace")
        return
    with tarfile.open(archive) as opened:
        for member in sorted(opened.getmembers(), key=lambda m: m.name):
            if member.isfile() and _counts(member.name):
                data = opened.extractfile(member)
                assert data is not None
                yield member.name, data.read().decode("utf-8", "replace")


def _counts(name: str) -> bool:
    *folders, last = name.split("/")
    if not last.endswith(".py") or last in ("setup.py", "conftest.py"):
        return False
    return not last.startswith("test_") and not {"test", "tests", "testing"} & set(folders)


def _archive(folder: Path, package: str) -> Path:
    start = f"{package.replace('-', '_')}-{PACKAGES[package]}"
    found = [
        f for f in folder.iterdir() if f.name.replace("-", "_").startswith(start.replace("-", "_"))
    ]
    if not found:
        raise FileNotFoundError(f"{package}=={PACKAGES[package]} is not in {folder}")
    return found[0]


# These import a package that need not be installed.
OPTIONAL = ("utils.tensorboard",)


def is_pytorchs(path: str) -> bool:
    """Whether PyTorch, as it is installed, has a name."""
    at: Any = import_module("torch")
    parts = path.split(".")
    for i, name in enumerate(parts):
        try:
            at = getattr(at, name)
        except (AttributeError, RuntimeError, OSError):  # as `ops` and `classes` have them
            try:
                at = import_module(".".join(["torch", *parts[: i + 1]]))
            except (ImportError, TypeError):  # as for parts of `torch.classes`
                return path.startswith(OPTIONAL)
    return True


def count(folder: Path) -> dict[str, Counter[str]]:
    """The uses of each public name by package."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for package in PACKAGES:
        for name, text in _files(_archive(folder, package)):
            try:
                paths = [use.path for use in uses(text, name)]
            except SyntaxError:
                continue  # written for another Python
            for path in paths:
                if not any(part.startswith("_") for part in path.split(".")):
                    found[path][package] += 1
    return {path: uses for path, uses in found.items() if is_pytorchs(path)}


def write(found: dict[str, Counter[str]]) -> None:
    """The list: a line for each name, with the number of uses in each package, in their order."""
    numbers = {package: str(i) for i, package in enumerate(PACKAGES)}
    rows = [
        f"{path} " + " ".join(f"{numbers[p]}:{n}" for p, n in by_package.items())
        for path, by_package in sorted(found.items())
    ]
    LIST.write_text("\n".join(rows) + "\n")


def read() -> dict[str, Counter[str]]:
    """The uses of each public name by package, from the list."""
    packages = list(PACKAGES)
    found = {}
    for row in LIST.read_text().splitlines():
        path, *parts = row.split()
        pairs = (part.split(":") for part in parts)
        found[path] = Counter({packages[int(i)]: int(n) for i, n in pairs})
    return found


def shares(is_there: Callable[[str], bool]) -> list[PackageShare]:
    """How many of the uses are there, by package."""
    total: Counter[str] = Counter()
    there: Counter[str] = Counter()
    for path, by_package in read().items():
        total += by_package
        if is_there(path):
            there += by_package
    return [PackageShare(package, total[package], there[package]) for package in PACKAGES]


def lacking(is_there: Callable[[str], bool]) -> list[tuple[str, int]]:
    """The names that are not there, with their uses, most first."""
    found = [(path, n.total()) for path, n in read().items() if not is_there(path)]
    return sorted(found, key=lambda each: (-each[1], each[0]))


def page(is_there: Callable[[str], bool], shown: int = 60) -> list[str]:
    """The lines of docs/names.md about the uses: a table of packages, and what is missing most."""
    found = shares(is_there)
    total, there = sum(s.uses for s in found), sum(s.there for s in found)
    mean = sum(s.there / s.uses for s in found) / len(found)
    rows = [
        f"{len(PACKAGES)} packages of the package index use public names of PyTorch's {total:,}",
        f"times, by imports and attributes of what they import; **{there / total:.2%}** of them",
        f"are of names that are there ({mean:.2%} in the mean of the packages). Files of tests are",
        "left out, and so are names that PyTorch itself does not have.",
        "`tests/helpers/torch_uses.py` says how they are counted, and counts them anew.",
        "",
        "| package | uses | there |",
        "| --- | --- | --- |",
        *(
            f"| {s.package} {PACKAGES[s.package]} | {s.uses:,} | {s.there / s.uses:.2%} |"
            for s in found
        ),
        "",
        "Not there, most uses first:",
        ", ".join(f"`{path}` {n}" for path, n in lacking(is_there)[:shown]) + ".",
    ]
    return rows


def main(arguments: list[str]) -> None:
    """Count, or say what to download."""
    if arguments == ["--packages"]:
        print(" ".join(f"{name}=={version}" for name, version in PACKAGES.items()))
    else:
        write(count(Path(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
