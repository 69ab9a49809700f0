"""The error for a name that a module does not have: what was meant, or why it is absent."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import NoReturn

from contraflow.errors import AbsentByChoice

# Modules in which a name that is missing elsewhere is looked for, in this order.
_PLACES = (
    "contraflow", "contraflow.nn", "contraflow.nn.functional", "contraflow.linalg",
    "contraflow.special", "contraflow.optim", "contraflow.optim.lr_scheduler",
    "contraflow.autograd", "contraflow.func", "contraflow.utils.data", "contraflow.nn.init",
    "contraflow.nn.utils", "contraflow.amp", "contraflow.distributions",
)  # fmt: skip

# PyTorch's names that tensors do not have: each is an attribute that raises the error. A
# `__getattr__` of tensors would raise it for any name, but Python reads every attribute of objects
# that have one in a longer way.
_OF_TENSORS = (
    "as_strided_scatter as_subclass ccol_indices cdouble cfloat chalf coalesce col_indices "
    "conj_physical_ const_data_ptr crow_indices dense_dim dequantize dim_order eig geqrf "
    "grad_dtype hash_tensor histogram imag index indices int_repr ipu is_ipu is_maia is_mtia "
    "istft lstsq lu lu_solve map2_ module_load mtia name names narrow_copy new_empty_strided "
    "nonzero_static orgqr ormqr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points "
    "q_scale q_zero_point qr qscheme reinforce resize resize_as resize_as_sparse_ row_indices "
    "slice_inverse smm solve sparse_dim sparse_mask sparse_resize_ sparse_resize_and_clear_ "
    "sspaddmm stft storage_type symeig to_complex to_dense to_mkldnn to_padded_tensor "
    "to_sparse to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr "
    "triangular_solve values volatile xpu"
)
OF_TENSORS = tuple(_OF_TENSORS.split())


def missing(module: str, name: str) -> AttributeError:
    """The error for a name that a module does not have."""
    start = f"module {module!r} has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(start)
    path = f"{module}.{name}".removeprefix("contraflow.")
    error = _told(start, path, name, _names(module), [p for p in _PLACES if p != module])
    error.name = name  # with it Python adds no second suggestion of its own
    return error


class AbsentMethod:
    """Stands for a name of PyTorch's that tensors do not have."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, x: object, owner: type | None = None) -> NoReturn:
        start = f"'Tensor' object has no attribute {self.name!r}"
        raise _told(start, f"Tensor.{self.name}", self.name, (), ())


def _told(
    start: str, path: str, name: str, names: Iterable[str], places: Iterable[str]
) -> AttributeError:
    """The error: that a name is absent by choice, where it is, or what it is like."""
    absent = import_module("contraflow.absent").find(path)
    if absent is not None:
        return AbsentByChoice(f"{path}: {absent.reason} {absent.remedy} See docs/names.md.")
    return AttributeError(f"{start}.{_meant(name, names, places)}")


def meant(path: str) -> str:
    """A sentence that suggests another name for a path that does not exist, or nothing."""
    owner, _, name = path.rpartition(".")
    module = f"contraflow.{owner}".removesuffix(".")
    try:
        names = _names(module)
    except ImportError:
        return ""
    return _meant(name, names, [place for place in _PLACES if place != module]).strip()


def _meant(name: str, names: Iterable[str], places: Iterable[str]) -> str:
    names = list(names)
    for place in places:
        if name in _names(place):
            return f" It is {place}.{name}."
    close = _close(name, names)
    if close:
        return f" Did you mean {close!r}?"
    for place in places:
        close = _close(name, _names(place), 0.8)
        if close:
            return f" Did you mean {place}.{close}?"
    return ""


def _names(module: str) -> list[str]:
    found = sys.modules.get(module) or import_module(module)
    return [name for name in dir(found) if not name.startswith("_")]


def _close(name: str, names: Iterable[str], cutoff: float = 0.75) -> str | None:
    """The name that was meant, if one is alike; letters in another order are.

    One that differs in capitals and underscores alone comes first.
    """
    names = list(names)
    plain = [n for n in names if _plain(n) == _plain(name)]
    near = import_module("difflib").get_close_matches(name, names, n=3, cutoff=cutoff)
    turned = [n for n in near if sorted(n) == sorted(name)]
    return next(iter([*plain, *turned, *near]), None)


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def getter(module: str, *later: str) -> Callable[[str], object]:
    """A module's `__getattr__`: it imports the submodules that are named when they are asked for,
    and raises the error for another name."""

    def __getattr__(name: str) -> object:
        if name in later:
            return import_module(f"{module}.{name}")
        raise missing(module, name)

    vars(sys.modules[module]).setdefault("__dir__", listing(module, *later))
    return __getattr__


def listing(module: str, *later: str) -> Callable[[], list[str]]:
    """A module's `__dir__`: the names in its `__all__`, if it has one, without what it imports."""

    def __dir__() -> list[str]:
        found = vars(sys.modules[module])
        private = [name for name in found if name.startswith("_")]
        public = found.get("__all__") or [name for name in found if not name.startswith("_")]
        return sorted({*private, *public, *later})

    return __dir__


def without_objects(name: str, what: str) -> type:
    """A class of PyTorch's of which there are no objects here: `isinstance` is False of all.

    Programs name such classes in annotations and in questions.

    >>> Graph = without_objects("Graph", "a graph of PyTorch's")
    >>> isinstance(1, Graph)
    False
    """

    def refuse(self: object, *args: object, **kwargs: object) -> None:
        raise TypeError(f"{name}: there is no {what.removeprefix('a ')} here. See docs/names.md.")

    doc = f"""The type of {what}, of which there are none here.

    >>> import contraflow as cf
    >>> isinstance(cf.ones(2), {name})
    False
    """
    subscripted = classmethod(lambda cls, item: cls)  # as in annotations
    fields = {"__init__": refuse, "__doc__": doc, "__class_getitem__": subscripted}
    return type(name, (), fields)
