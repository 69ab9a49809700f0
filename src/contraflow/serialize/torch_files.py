"""PyTorch's own files (`.pt`, `.pth`, `.bin`): read without running anything that they say.

Such a file is a pickle, which is a program: it names functions and calls them. This reader knows a
short list of them (those that make tensors, containers and numbers) and refuses every other one by
its name, before anything is called. Storages become memory, and tensors views of it that were
checked to lie within.
"""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
import zlib
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, BinaryIO, ClassVar, NamedTuple

import numpy as np

from contraflow import dtypes
from contraflow.dtypes import DType
from contraflow.operation.context import state
from contraflow.serialize.header import WIDENED, Damaged, widened
from contraflow.shapes import Sizes, View
from contraflow.tensors.storage import Storage
from contraflow.tensors.tensor import Tensor

ZIP, PICKLE = b"PK\x03\x04", b"\x80\x02"
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C

# Types of elements in files, with the dtype that they become.
_NUMPY: dict[str, tuple[np.dtype[Any], DType]] = {
    **{dtype.name: (dtype.numpy, dtype) for dtype in dtypes.ALL}, **WIDENED
}  # fmt: skip
_STORAGES = {f"{title}Storage": dtype.name for title, dtype in dtypes.TENSOR_NAMES.items()}


# How memory that was read is moved to its device: a function of it, its dtype, and where it lay.
Locator = Callable[[Storage, DType, str], Storage]


class StorageType(NamedTuple):
    """The type of a storage in a file, by the name of its elements; "" is bytes."""

    elements: str


class FileStorage:
    """The memory of some tensors in a file, made when the first of them is."""

    def __init__(
        self, elements: str, lay: str, read: Callable[[], bytes], located: Locator
    ) -> None:
        self.elements, self._lay, self._read, self._located = elements, lay, read, located
        self._made: dict[str, Storage] = {}

    def storage(self, elements: str) -> Storage:
        """The elements of a type, as contraflow's storage."""
        found = self._made.get(elements)
        if found is None:
            numpy, dtype = _NUMPY[elements]
            data = self._read()
            if len(data) % numpy.itemsize:
                raise Damaged(f"a storage of {len(data)} bytes does not hold {elements} elements")
            array = np.frombuffer(data, numpy)
            is_here = numpy == dtype.numpy
            found = Storage(array.copy() if is_here else widened(elements, array))
            found.inference = state().inference
            found = self._made[elements] = self._located(found, dtype, self._lay)
        return found


def _rebuilt(elements: str, storage: Any, offset: Any, size: Any, stride: Any) -> Tensor:
    """A tensor over a storage, whose view was checked to lie within it."""
    numbers = (offset, *size, *stride)
    if not isinstance(storage, FileStorage) or not all(type(n) is int for n in numbers):
        raise Damaged("a tensor is not described by a storage and whole numbers")
    if elements not in _NUMPY:
        raise Damaged(f"it holds a tensor of {elements}, a dtype that does not exist here")
    held = storage.storage(elements)
    view = View(tuple(size), tuple(stride), offset)
    _, high = view.extent()
    if min(numbers, default=0) < 0 or len(size) != len(stride) or high > held.data.size:
        raise Damaged(f"a tensor of shape {tuple(size)} does not lie within its storage")
    return Tensor.of_storage(held, view, _NUMPY[elements][1])


def _tensor_v2(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, *rest: Any
) -> Tensor:
    made = _rebuilt(getattr(storage, "elements", ""), storage, offset, size, stride)
    return made.requires_grad_() if requires_grad is True and made.is_floating_point() else made


def _tensor_v3(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any,
    *rest: Any,
) -> Tensor:  # fmt: skip
    made = _rebuilt(str(getattr(dtype, "elements", dtype)), storage, offset, size, stride)
    return made.requires_grad_() if requires_grad is True and made.is_floating_point() else made


def _parameter(data: Any, requires_grad: Any = True, *rest: Any) -> Any:
    if not isinstance(data, Tensor):
        raise Damaged("a parameter is not a tensor")
    return data.requires_grad_() if requires_grad and data.is_floating_point() else data


def _from_type(function: Any, kind: Any, args: Any, attributes: Any) -> Any:
    return function(*args)


class _NumpyDtype:
    """NumPy's dtype while a pickle describes it."""

    def __init__(self, name: Any, *rest: Any) -> None:
        self.numpy = np.dtype(str(name))
        if self.numpy.kind not in "biuf":
            raise Damaged(f"it holds an array of {name}")

    def __setstate__(self, given: Any) -> None:
        if isinstance(given, tuple) and len(given) > 1 and given[1] == ">":
            self.numpy = self.numpy.newbyteorder(">")


class _NumpyArray:
    """NumPy's array while a pickle describes it."""

    made: np.ndarray

    def __setstate__(self, given: Any) -> None:
        _, shape, dtype, order, data = given
        array = np.frombuffer(_as_bytes(data), dtype.numpy).copy()
        self.made = array.reshape(shape, order="F" if order else "C")


def _as_bytes(data: Any) -> bytes:
    return data.encode("latin-1") if isinstance(data, str) else bytes(data)


def _numpy_scalar(dtype: Any, data: Any) -> Any:
    return np.frombuffer(_as_bytes(data), dtype.numpy)[0].item()


def _encoded(text: Any, encoding: Any = "latin-1") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1", "utf-8"):
        raise Damaged("it encodes something other than text")
    return text.encode(encoding)


def _device(*given: Any) -> str:
    return ":".join(str(part) for part in given if part is not None)


# The functions and classes that a file may name. Nothing else is looked up, ever.
_KNOWN: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "defaultdict"): defaultdict,
    ("collections", "Counter"): Counter,
    ("collections", "deque"): deque,
    ("builtins", "set"): set,
    ("__builtin__", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "list"): list,
    ("builtins", "dict"): dict,
    ("builtins", "tuple"): tuple,
    ("builtins", "slice"): slice,
    ("pathlib", "PosixPath"): PurePosixPath,
    ("pathlib", "PurePosixPath"): PurePosixPath,
    ("_codecs", "encode"): _encoded,
    ("torch._utils", "_rebuild_tensor"): lambda *a: _tensor_v2(*a, False),
    ("torch._utils", "_rebuild_tensor_v2"): _tensor_v2,
    ("torch._utils", "_rebuild_tensor_v3"): _tensor_v3,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _parameter,
    ("torch._tensor", "_rebuild_from_type_v2"): _from_type,
    ("torch.nn.parameter", "Parameter"): _parameter,
    ("torch", "Tensor"): StorageType("a type"),
    ("torch", "Size"): lambda sizes=(): Sizes(sizes),
    ("torch", "device"): _device,
    ("torch.storage", "UntypedStorage"): StorageType(""),
    ("torch", "UntypedStorage"): StorageType(""),
    **{("torch", name): StorageType(elements) for name, elements in _STORAGES.items()},
    **{("torch", name): pair[1] for name, pair in _NUMPY.items() if pair[1].name == name},
    **{("torch", name): StorageType(name) for name, pair in _NUMPY.items() if pair[1].name != name},
    ("numpy", "dtype"): _NumpyDtype,
    ("numpy", "ndarray"): None,
    **{
        (f"numpy.{core}.multiarray", name): made
        for core in ("core", "_core")
        for name, made in (
            ("_reconstruct", lambda *a: _NumpyArray()), ("scalar", _numpy_scalar)
        )
    },
}  # fmt: skip


class RestrictedUnpickler(pickle._Unpickler):
    """Python's unpickler, which finds nothing but what is known here.

    It is the one that is written in Python, whose instructions can be exchanged: the one that sets
    the state of an object must not reach functions, classes or tensors.
    """

    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)
    stack: list[Any]

    def __init__(self, file: Any, storage: Callable[..., FileStorage]) -> None:
        super().__init__(file, encoding="utf-8")
        self._storage = storage

    def _build(self) -> None:
        """Give an object its state: arrays and dtypes of NumPy's, and dicts, which have none."""
        given = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, (_NumpyArray, _NumpyDtype)):
            target.__setstate__(given)
        elif not isinstance(target, OrderedDict):
            raise Damaged(f"it sets the state of {type(target).__name__}")

    dispatch[pickle.BUILD[0]] = _build

    def find_class(self, module: str, name: str) -> Any:
        """A function or class of the list, or the refusal of any other one."""
        if (module, name) not in _KNOWN:
            raise Damaged(
                f"it asks for {module}.{name}, which is neither a tensor, a container nor a "
                f"number, and nothing in a file is run. Save the state_dict() of modules and "
                f"optimizers instead of the objects"
            )
        return _KNOWN[module, name]

    def persistent_load(self, given: Any) -> Any:
        if not isinstance(given, tuple) or len(given) < 5 or given[0] != "storage":
            raise Damaged("it refers to something that is not a storage")
        _, kind, key, lay, count = given[:5]
        if not isinstance(kind, StorageType):
            raise Damaged("it refers to a storage of an unknown type")
        return self._storage(kind, str(key), str(lay), count)


def is_torch_file(start: bytes) -> bool:
    """Whether the first bytes of a file are those of one of PyTorch's."""
    return start.startswith((ZIP, PICKLE))


def read_torch_file(file: BinaryIO, located: Locator) -> Any:
    """The object in a file of PyTorch's: tensors, containers, numbers and texts."""
    start = file.read(4)
    file.seek(0)
    try:
        found = (_read_zip if start.startswith(ZIP) else _read_legacy)(file, located)
        return finished(found)
    except Damaged:
        raise
    except (
        pickle.UnpicklingError, zipfile.BadZipFile, KeyError, ValueError, TypeError, IndexError,
        EOFError, AttributeError, UnicodeError, RecursionError, NotImplementedError, struct.error,
        zlib.error, OverflowError,
    ) as error:  # fmt: skip
        raise Damaged(f"it cannot be read ({type(error).__name__}: {error})") from None


def _read_zip(file: BinaryIO, located: Locator) -> Any:
    with zipfile.ZipFile(file) as archive:
        names = {info.filename: info for info in archive.infolist()}
        (pickled,) = [name for name in names if name.endswith("/data.pkl")] or [""]
        if not pickled:
            what = "a TorchScript archive" if any("/code/" in n for n in names) else "a zip archive"
            raise Damaged(f"it is {what} without data.pkl")
        folder = pickled.removesuffix("data.pkl")
        order = folder + "byteorder"
        if order in names and archive.read(order) != b"little":
            raise Damaged("its bytes are in the other order")
        if any(name.startswith(folder + "code/") for name in names):
            raise Damaged("it is a TorchScript archive, which holds code")
        kept: dict[str, FileStorage] = {}

        def storage(kind: StorageType, key: str, lay: str, count: Any) -> FileStorage:
            if key not in kept:
                info = names.get(f"{folder}data/{key}")
                if info is None:
                    raise Damaged(f"it has no storage {key!r:.40}")
                read = archive.read(info)
                kept[key] = FileStorage(kind.elements, lay, lambda: read, located)
            return kept[key]

        return RestrictedUnpickler(io.BytesIO(archive.read(pickled)), storage).load()


def _read_legacy(file: BinaryIO, located: Locator) -> Any:
    """A file as PyTorch wrote them before 1.6: pickles one after the other, then the storages."""

    def none(*given: Any) -> Any:
        raise Damaged("its beginning refers to a storage")

    if RestrictedUnpickler(file, none).load() != _LEGACY_MAGIC:
        raise Damaged("it is a pickle, and not one of PyTorch's")
    RestrictedUnpickler(file, none).load()  # the version of the format
    system = RestrictedUnpickler(file, none).load()
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise Damaged("its bytes are in the other order")
    contents: dict[str, bytes] = {}
    kept: dict[str, FileStorage] = {}
    # Tensors are made when the bytes are there: the object is read twice.
    at = file.tell()

    def storage(kind: StorageType, key: str, lay: str, count: Any) -> FileStorage:
        if key not in kept:
            kept[key] = FileStorage(kind.elements, lay, lambda: contents[key], located)
            sizes[key] = (count, _NUMPY[kind.elements][0].itemsize if kind.elements else 1)
        return kept[key]

    sizes: dict[str, tuple[Any, int]] = {}
    scout = _Scout(file, storage)
    scout.load()
    keys = RestrictedUnpickler(file, none).load()
    for key in keys:
        count = int.from_bytes(file.read(8), "little")
        known, itemsize = sizes.get(str(key), (None, 0))
        if known != count:
            raise Damaged(f"storage {key!r:.40} has another size than its tensors say")
        contents[str(key)] = file.read(count * itemsize)
        if len(contents[str(key)]) != count * itemsize:
            raise Damaged("it ends before its last storage")
    file.seek(at)
    return RestrictedUnpickler(file, storage).load()


class _Scout(RestrictedUnpickler):
    """Reads an object for its storages alone: tensors are left out."""

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        return _nothing if name.startswith("_rebuild") or found is _parameter else found


def _nothing(*given: Any) -> None:
    """In the place of a tensor whose bytes were not read yet."""


def finished(x: Any) -> Any:
    """An object with NumPy's arrays in the place of what described them."""
    if isinstance(x, _NumpyArray):
        return x.made
    if isinstance(x, dict):
        for key in x:
            x[key] = finished(x[key])
    elif isinstance(x, list):
        x[:] = [finished(item) for item in x]
    elif type(x) is tuple:
        return tuple(finished(item) for item in x)
    elif isinstance(x, (_NumpyDtype, StorageType, FileStorage)):
        raise Damaged("it holds a storage or a dtype of NumPy's by itself")
    return x
