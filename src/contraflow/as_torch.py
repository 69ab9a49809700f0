"""PyTorch programs as they are: `import torch` means contraflow.

    python -m contraflow.as_torch PROGRAM --epochs 3    run a program
    python -m contraflow.as_torch --check PROGRAM       say what it needs and what is missing

`import contraflow.as_torch` at the beginning of a program does the same for what follows. It must
come before the first `import torch`. The module `torch` shows the names of contraflow, with a
version that programs take for PyTorch's; a name that is absent is refused with the file and the
line that asked for it. Packages that know PyTorch (einops, safetensors, tensorboardX) then work
with contraflow's tensors.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import os
import runpy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace, TracebackType
from typing import Any, Literal, NamedTuple, NoReturn

import ml_dtypes  # noqa: F401  # by which NumPy knows float8 by name
import numpy as np

import contraflow
from contraflow import library, shapes
from contraflow.absent import find
from contraflow.dtypes import DType
from contraflow.errors import AbsentByChoice, counted, hide_frames
from contraflow.names import meant
from contraflow.tensors.tensor import Tensor
from contraflow.torch_uses import NameUse, method_uses, uses

VERSION = "2.13.0+contraflow"
# Paths of PyTorch that packages import from, and where the same is here.
PRIVATE_PATHS = {
    "_custom_ops": "library", "_dynamo": "compiler", "_dynamo.utils": "compiler",
    "_inductor": "compiler",
    "_dynamo._trace_wrapped_higher_order_op": "compiler",
    "_subclasses": "compiler", "_subclasses.fake_tensor": "compiler",
    "fx.experimental": "compiler", "fx.experimental.proxy_tensor": "compiler",
    "autograd.profiler": "profiler", "jit.annotations": "jit",
}  # fmt: skip
_ARRAYS_OF_TENSORBOARD = "tensorboardX.x2num"
_INSIDE = os.path.dirname(__file__) + os.sep


# Dtypes of PyTorch's that tables of packages name, and that no tensor has here.
_ABSENT = """complex32 complex64 complex128 chalf cfloat cdouble float8_e4m3fn float8_e4m3fnuz
    float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2 uint16 uint32 uint64"""
ABSENT_DTYPES = frozenset(_ABSENT.split())


class AbsentDtype(NamedTuple):
    """A dtype of PyTorch's that is not here: it equals no tensor's, and no tensor is made of it."""

    name: str

    def __repr__(self) -> str:
        return f"torch.{self.name}"


class TorchLimits(contraflow.finfo):
    """`torch.finfo`: the limits of a floating-point dtype, of those too that no tensor has here."""

    def __init__(self, type: Any = None) -> None:
        if isinstance(type, AbsentDtype) and type.name.startswith("float8"):
            self._read(type.name, np.dtype(type.name))
        else:
            super().__init__(type)


class MappedFile:
    """`torch.UntypedStorage`: the bytes of a file, by which safetensors reads tensors."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, nbytes: int = 0) -> MappedFile:
        """The first bytes of a file; without `shared` writes do not reach it."""
        mode: Literal["r+", "c"] = "r+" if shared else "c"
        return cls(np.memmap(filename, np.uint8, mode, shape=(nbytes,)))

    def untyped(self) -> MappedFile:
        """Itself: it has no dtype."""
        return self

    def __getitem__(self, part: slice) -> MappedFile:
        return MappedFile(self._array[part])

    def __len__(self) -> int:
        return len(self._array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._array, dtype)


class TorchModule(ModuleType):
    """The module `torch` of programs: contraflow's names, and a few that only PyTorch has."""

    def __getattr__(self, name: str) -> Any:
        if name in ABSENT_DTYPES:
            return AbsentDtype(name)
        if name in ("_dynamo", "_inductor"):  # which programs set options of without an import
            return importlib.import_module(f"torch.{name}")
        try:
            found = getattr(contraflow, name)
        except AttributeError as error:
            raise _with_line(error) from None
        self.__dict__[name] = found
        return found

    def __dir__(self) -> list[str]:
        return sorted({*dir(contraflow), *self.__dict__})


def _with_line(error: AttributeError) -> AttributeError:
    """The error for a name that is absent, with the line of the program that asked for it."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame = frame.f_back
    where = f"{os.path.relpath(frame.f_code.co_filename)}, line {frame.f_lineno}"
    return type(error)(f"{where}: {error}")


class _Existing(importlib.abc.Loader):
    """A loader of a module that is there already."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # which the import has exchanged


class _TaughtLoader(importlib.abc.Loader):
    """The loader of the module of tensorboardX that makes arrays: it takes tensors then."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _teach_tensorboard()


def _teach_tensorboard() -> None:
    """Let tensorboardX, which knows PyTorch's tensors by the name of their module, take ours."""
    old = getattr(sys.modules.get(_ARRAYS_OF_TENSORBOARD), "make_np", None)
    if old is None or hasattr(old, "taught"):
        return

    def make_np(x: Any) -> np.ndarray:
        taken: np.ndarray = old(x.detach().cpu().numpy() if isinstance(x, Tensor) else x)
        return taken

    make_np.taught = True  # type: ignore[attr-defined]
    for name, module in list(sys.modules.items()):
        if name.startswith("tensorboardX") and getattr(module, "make_np", None) is old:
            module.make_np = make_np  # type: ignore[attr-defined]


class TorchFinder(importlib.abc.MetaPathFinder):
    """Finds `torch` and what is below it: the modules of contraflow at the same paths."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module of contraflow that a name of PyTorch's stands for; None for other names."""
        if fullname == "torch":
            return importlib.machinery.ModuleSpec(fullname, _Existing(_torch()), is_package=True)
        if fullname == _ARRAYS_OF_TENSORBOARD:
            spec = importlib.machinery.PathFinder.find_spec(fullname, path)
            if spec is not None and spec.loader is not None:
                spec.loader = _TaughtLoader(spec.loader)
            return spec
        if not fullname.startswith("torch."):
            return None
        if fullname == "torch._C":
            return importlib.machinery.ModuleSpec(fullname, _Existing(_torch()._C))
        path = fullname.removeprefix("torch.")
        own = f"contraflow.{PRIVATE_PATHS.get(path, path)}"
        try:
            module = importlib.import_module(own)
        except ModuleNotFoundError as error:
            if error.name is None or not own.startswith(error.name):
                raise  # one that is there needs something that is not
            # Without its name, which `from torch import x` would take for an answer.
            raise ModuleNotFoundError(_refusal(fullname)) from None
        return importlib.machinery.ModuleSpec(fullname, _Existing(module), is_package=True)


class RefusedFunction(ModuleType):
    """A function of PyTorch's that is absent by choice: it can be imported, and not called."""

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        path = self.__name__.removeprefix("contraflow.")
        raise _with_line(AbsentByChoice(f"{path}: {_why_absent(path)} See docs/names.md."))


class AbsentFinder(importlib.abc.MetaPathFinder):
    """Refuses names that contraflow lacks by choice, where no other finder knows them.

    `from torch.linalg import x` asks for a module `contraflow.linalg.x` once the attribute is
    missing, and Python would only say that it cannot import the name. Fourier transforms are
    refused when they are called: packages import them at their top for a few of their functions.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A Fourier transform; another name that is absent by choice is an error that says why."""
        package, _, name = fullname.partition(".")
        if package != "contraflow" or (find(name) is None and not meant(name)):
            return None
        if name.startswith("fft."):
            return importlib.machinery.ModuleSpec(fullname, _Existing(RefusedFunction(fullname)))
        raise ModuleNotFoundError(_refusal(f"torch.{name}"))


def _refusal(fullname: str) -> str:
    return f"{fullname}: {_why_absent(fullname.removeprefix('torch.'))} See docs/names.md."


def _why_absent(path: str) -> str:
    absent = find(path)
    if absent is None:
        return f"it is not there. {meant(path)}".strip()
    return f"{absent.reason} {absent.remedy}"


@dataclass(frozen=True)
class DispatcherOp:
    """An op of PyTorch's dispatcher by its path: a key of packages' tables, refused when called."""

    _path: str

    def __getattr__(self, name: str) -> DispatcherOp:
        if name.startswith("__"):
            raise AttributeError(name)
        return DispatcherOp(f"{self._path}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        refusal = (
            f"{self._path}: ops of PyTorch's dispatcher are not here. Use the public function."
        )
        raise _with_line(AttributeError(refusal))


class TorchOps:
    """`torch.ops`: ops by name: those of `library.custom_op`, and none of PyTorch's dispatcher."""

    def load_library(self, path: str) -> None:
        """Refuse a library that was compiled for PyTorch, as one that cannot be loaded."""
        raise OSError(f"load_library: {os.path.basename(path)} is compiled for PyTorch itself.")

    def __getattr__(self, name: str) -> Any:
        paths = (path.partition("::") for path in library.OPS)
        known = {op: library.OPS[f"{name}::{op}"] for package, _, op in paths if package == name}
        if known:
            return SimpleNamespace(**known)
        if name == "aten":
            return DispatcherOp("ops.aten")
        raise _with_line(AttributeError(f"ops.{name}: ops of PyTorch's dispatcher are not here."))


class TorchCore:
    """`torch._C`: the few functions of PyTorch's core that packages call."""

    def _log_api_usage_once(self, *args: Any) -> None:
        """Nothing is logged."""

    def _get_tracing_state(self) -> None:
        """Nothing is traced by PyTorch's tracer."""

    def _are_functorch_transforms_active(self) -> bool:
        """False: transforms here need no other ops."""
        return False

    def _disabled_torch_function_impl(self, *args: Any) -> None:
        """Nothing calls it: subclasses of Tensor are not asked about functions here."""

    class DispatchKey:
        """Keys of PyTorch's dispatcher, by which packages register ops that are not here."""

        def __getattr__(self, name: str) -> str:
            return name

    DispatchKeySet = frozenset
    # A block in which subclasses of Tensor are not asked; they never are.
    DisableTorchFunctionSubclass = contextlib.nullcontext
    __spec__ = None

    def __getattr__(self, name: str) -> Any:
        raise _with_line(AttributeError(f"_C.{name}: PyTorch's core is not here."))


def _torch() -> TorchModule:
    """The module `torch`, made once."""
    found = sys.modules.get("torch")
    if isinstance(found, TorchModule):
        return found
    module = TorchModule("torch", contraflow.__doc__)
    module.__path__ = []  # so that what is below it is asked for
    module.__file__ = contraflow.__file__
    module.__spec__ = importlib.machinery.ModuleSpec("torch", None, is_package=True)
    config = SimpleNamespace(show=contraflow.show_config, parallel_info=contraflow.show_config)
    module.__dict__.update(__version__=VERSION, torch=module, __config__=config)
    for name in dir(contraflow):  # at once, so that compiled functions find plain attributes
        if not name.startswith("_"):
            module.__dict__[name] = getattr(contraflow, name)
    core = TorchCore()
    core.__dict__["DispatchKey"] = TorchCore.DispatchKey()
    module.__dict__.update(ops=TorchOps(), _C=core, finfo=TorchLimits, UntypedStorage=MappedFile)
    return module


def install() -> None:
    """Let `import torch` mean contraflow from now on."""
    found = sys.modules.get("torch")
    if found is not None and not isinstance(found, TorchModule):
        raise ImportError(
            "as_torch: PyTorch itself is imported already. Import contraflow.as_torch before torch."
        )
    if not any(isinstance(finder, TorchFinder) for finder in sys.meta_path):
        DType.prefix = "torch."
        shapes.behave_as_pytorchs(True)
        _teach_tensorboard()
        sys.meta_path.insert(0, TorchFinder())
        sys.meta_path.append(AbsentFinder())


def uninstall() -> None:
    """Let `import torch` mean PyTorch again; programs that have imported it keep what they have."""
    DType.prefix = ""
    shapes.behave_as_pytorchs(False)
    ours = (TorchFinder, AbsentFinder)
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, ours)]
    if isinstance(sys.modules.get("torch"), TorchModule):  # PyTorch cannot be imported twice
        for name in [n for n in sys.modules if n == "torch" or n.startswith("torch.")]:
            del sys.modules[name]
    for name, module in list(sys.modules.items()):
        if isinstance(module, RefusedFunction):
            del sys.modules[name]
            delattr(sys.modules["contraflow.fft"], name.rpartition(".")[2])


# --- what a program needs ----------------------------------------------------------------------


def missing_part(path: str) -> str | None:
    """The first part of a path that contraflow does not have; None if all of it is there."""
    at: Any = _torch()
    parts = path.split(".")
    for i, name in enumerate(parts):
        if i and not isinstance(at, (ModuleType, type)):
            return None  # an attribute of an object, which only a run shows
        try:
            at = getattr(at, name)
        except AttributeError:
            try:
                at = importlib.import_module(f"contraflow.{'.'.join(parts[: i + 1])}")
            except ImportError:
                return ".".join(parts[: i + 1])
    return None


def check(files: Sequence[str]) -> int:
    """Print what programs need and what of it is missing; the number of names that are."""
    found: list[NameUse] = []
    methods: list[NameUse] = []
    for file in files:
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
        found += uses(text, file)
        methods += method_uses(text, file)
    lacking = [(use, part) for use in found if (part := missing_part(use.path)) is not None]
    for use, part in lacking:
        print(f"{use.file}:{use.line}: torch.{part}: {_why_absent(part)}")
    for use in methods:
        name = use.path.removeprefix("Tensor.")
        print(f"{use.file}:{use.line}: .{name}, if of a tensor: {_why_absent(use.path)}")
    names = {use.path for use in found}
    gone = {part for _, part in lacking}
    row = f"{len(names)} names of PyTorch's are used, {len(gone)} of them missing"
    perhaps = {use.path for use in methods}
    if perhaps:
        row += f"; {counted(len(perhaps), 'more name')} may be one of a tensor that is missing"
    print(f"{row}.")
    return len(gone | perhaps)


def _show_without_runner(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Show an error without the frames that ran the program: as Python does by itself.

    Nor does one that says what is wrong show frames of this package.
    """
    if isinstance(error, Exception) and not isinstance(error, AttributeError):
        hide_frames(error)
        trace = error.__traceback__ or trace
    first = trace
    while first is not None and _runs_programs(first.tb_frame.f_code.co_filename):
        first = first.tb_next
    if first is not None:  # else it is an error of ours
        error.__traceback__ = trace = first
    sys.__excepthook__(kind, error, trace)


def _runs_programs(file: str) -> bool:
    return file in (__file__, runpy.__file__) or file.startswith("<frozen runpy")


def main(arguments: list[str]) -> int:
    """Run a program, or check some."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if arguments else 2
    if arguments[0] == "--check":
        try:
            return int(check(arguments[1:]) > 0)
        except (OSError, SyntaxError, UnicodeDecodeError) as error:
            print(f"--check: {error}", file=sys.stderr)
            return 2
    install()
    sys.excepthook = _show_without_runner
    sys.argv[:] = arguments
    if arguments[0] == "-m" and len(arguments) > 1:
        sys.argv[:] = arguments[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    # The module that programs import is this one, not a second copy under another name.
    sys.modules["contraflow.as_torch"] = sys.modules["__main__"]
    sys.exit(main(sys.argv[1:]))
install()
