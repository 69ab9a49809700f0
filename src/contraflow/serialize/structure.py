"""The structure of an object as JSON beside arrays, and the object that a structure describes."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from contraflow import dtypes
from contraflow.dtypes import DType
from contraflow.operation.context import state
from contraflow.serialize.header import Damaged, are_sizes
from contraflow.shapes import View, numel
from contraflow.tensors.generator import GeneratorState
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import parts

DEPTH_LIMIT = 100  # containers within containers


class FileContents:
    """An object taken apart: `structure` is JSON, `regions` are arrays by the names in it.

    Numbers, strings, None and lists are themselves in JSON. All else is an object with one key that
    says what it is, `{"tuple": [1, 2]}`, and for tensors more that say how they lie in the region.
    """

    def __init__(self, obj: Any) -> None:
        self.regions: dict[str, np.ndarray] = {}
        self.copies: dict[str, str] = {}  # for other readers, and what they are part of
        self.devices: dict[str, str] = {}  # that regions lay on, but for the cpu
        self._sharing: dict[object, list[tuple[str, Tensor, dict[str, Any]]]] = {}
        self._names = {"__metadata__"}
        self.structure = self._pack(obj, ())
        for members in self._sharing.values():
            self._place(members)

    def _pack(self, x: Any, path: tuple[Any, ...]) -> Any:
        if len(path) > DEPTH_LIMIT:
            raise ValueError(
                f"save: {_dotted(path[:3])}… is nested more than {DEPTH_LIMIT} deep; "
                f"perhaps it contains itself."
            )
        if x is None or isinstance(x, (bool, str)):
            return x
        if isinstance(x, int):
            return int(x)
        if isinstance(x, float):
            return float(x) if np.isfinite(x) else {"float": str(float(x))}
        if isinstance(x, Tensor):
            return self._pack_tensor(x, path)
        if isinstance(x, DType):
            return {"dtype": x.name}
        if isinstance(x, np.generic):
            return self._pack(x.item(), path)
        if isinstance(x, np.ndarray):
            return {"array": self._pack_tensor(Tensor.of_data("save", x, None), path)}
        if isinstance(x, PurePath):
            return {"path": str(x)}
        if isinstance(x, GeneratorState):
            return {"generator": list(x)}
        if isinstance(x, (Mapping, list, tuple)):
            inside = parts(x, Mapping) or ()
            packed = [(key, self._pack(value, (*path, key))) for key, value in inside]
            if isinstance(x, Mapping):
                kind = type(x).__name__ if type(x) in _MAPPINGS.values() else "dict"
                return {kind: [[_pack_key(key, path), value] for key, value in packed]}
            items = [value for _, value in packed]
            return {"tuple": items} if isinstance(x, tuple) else items
        if callable(getattr(x, "state_dict", None)) and not isinstance(x, type):
            return self._pack(x.state_dict(), path)
        raise TypeError(
            f"save: {_dotted(path)} is {type(x).__name__}. Files hold tensors, arrays, numbers, "
            f"strings, paths, None, dicts, lists, tuples, and what has a state_dict."
        )

    def _pack_tensor(self, x: Tensor, path: tuple[Any, ...]) -> dict[str, Any]:
        state().context.leave(x, "save()")
        leaf: dict[str, Any] = {"tensor": None}
        if x.requires_grad:
            leaf["requires_grad"] = True
        # Two empty tensors have nothing to share.
        key = (id(x.storage), x.dtype) if numel(x.shape) else id(leaf)
        self._sharing.setdefault(key, []).append((self._name(path), x, leaf))
        return leaf

    def _name(self, path: tuple[Any, ...]) -> str:
        """A name that no other tensor has, without what a reader may take for a folder."""
        plain = ".".join(re.sub(r"[^\w.-]", "_", str(key)) for key in path) or "tensor"
        name, number = plain, 1
        while name in self._names:
            number += 1
            name = f"{plain}.{number}"
        self._names.add(name)
        return name

    def _place(self, members: list[tuple[str, Tensor, dict[str, Any]]]) -> None:
        """Give the tensors of one storage their region: their elements, if they have the same.

        Tensors that see different parts of a storage get the span that all of them lie in.
        """
        region, first, _ = members[0]
        alike = all(x.layout == first.layout for _, x, _ in members)
        seen = [(name, x) for name, x, _ in members if not x.layout.overlaps_itself()]
        if alike and seen:
            self.regions[region] = first.fetched()
            self._note_device(region, first)
            for _, _, leaf in members:
                leaf["tensor"] = region
            self._copy(region, seen[1:])
            return
        region = self._name((region, "storage"))  # no tensor's elements, to other readers
        ends = [x.layout.extent() for _, x, _ in members]
        low, high = min(low for low, _ in ends), max(high for _, high in ends)
        self.regions[region] = first.storage.fetched()[low:high]
        self._note_device(region, first)
        for _, x, leaf in members:
            shape, strides, offset = x.layout
            leaf["tensor"] = region
            leaf["view"] = [list(shape), list(strides), offset - low]
        self._copy(region, seen)

    def _note_device(self, region: str, x: Tensor) -> None:
        if x.storage.device != "cpu":
            self.devices[region] = x.storage.device

    def _copy(self, region: str, members: list[tuple[str, Tensor]]) -> None:
        """Write tensors that lie in a region under their own names too.

        Ranges of bytes must not overlap in the format, and other readers know nothing but names.
        """
        for name, x in members:
            self.regions[name] = x.fetched()
            self.copies[name] = region


_MAPPINGS: dict[str, Callable[[dict[Any, Any]], Any]] = {
    "dict": dict,
    "OrderedDict": OrderedDict,
    "Counter": Counter,
}


def _pack_key(key: Any, path: tuple[Any, ...]) -> Any:
    if isinstance(key, tuple):
        return {"tuple": [_pack_key(part, path) for part in key]}
    if key is None or isinstance(key, (bool, str, int)):
        return key
    if isinstance(key, float):
        return float(key) if np.isfinite(key) else {"float": str(float(key))}
    raise TypeError(
        f"save: {_dotted(path)} has a key of type {type(key).__name__}. Keys are strings, numbers, "
        f"None and tuples of these."
    )


def _dotted(path: tuple[Any, ...]) -> str:
    return repr(".".join(map(str, path))) if path else "the object"


# --- and back ----------------------------------------------------------------------------------


def unpack(x: Any, tensors: Mapping[str, Tensor], depth: int = 0) -> Any:
    """The object that a structure describes."""
    if depth > DEPTH_LIMIT:
        raise Damaged(f"its structure is nested more than {DEPTH_LIMIT} deep")
    if isinstance(x, list):
        return [unpack(item, tensors, depth + 1) for item in x]
    if not isinstance(x, dict):
        return x
    kind, content = next(iter(x.items()), ("nothing", None))
    if kind == "tensor":
        return _unpack_tensor(x, tensors)
    if kind == "array" and isinstance(content, dict) and "tensor" in content:
        return _unpack_tensor(content, tensors).numpy()
    if kind == "path" and isinstance(content, str):
        return Path(content)
    if kind == "tuple" and isinstance(content, list):
        return tuple(unpack(item, tensors, depth + 1) for item in content)
    if kind == "generator" and isinstance(content, list) and list(map(type, content)) == [int, int]:
        return GeneratorState(*content)
    if kind == "float" and content in ("nan", "inf", "-inf"):
        return float(content)
    if kind == "dtype" and content in {dtype.name for dtype in dtypes.ALL}:
        return dtypes.by_name(content)
    if kind in _MAPPINGS and isinstance(content, list):
        return _MAPPINGS[kind](_unpack_pairs(content, tensors, depth))
    raise Damaged(f"its structure holds something unknown, {kind!r:.40}")


def _unpack_pairs(pairs: list[Any], tensors: Mapping[str, Tensor], depth: int) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2):
            raise Damaged("its structure holds a dict without keys")
        key = unpack(pair[0], tensors, depth + 1)
        try:
            known = key in made
        except TypeError:
            raise Damaged(f"its structure holds a key of type {type(key).__name__}") from None
        if known:
            raise Damaged(f"its structure holds the key {key!r:.40} twice")
        made[key] = unpack(pair[1], tensors, depth + 1)
    return made


def _unpack_tensor(leaf: dict[str, Any], tensors: Mapping[str, Tensor]) -> Tensor:
    name = leaf["tensor"]
    if not isinstance(name, str) or name not in tensors:
        raise Damaged(f"its structure names a tensor {name!r:.40} that it does not hold")
    whole = tensors[name]
    view = _view(name, leaf["view"], numel(whole.shape)) if "view" in leaf else whole.layout
    made = Tensor.of_storage(whole.storage, view, whole.dtype)
    if "requires_grad" not in leaf:
        return made
    if leaf["requires_grad"] is not True or not whole.dtype.is_floating_point:
        raise Damaged(f"tensor {name!r} cannot require grad")
    return made.requires_grad_()


def _view(name: str, given: Any, size: int) -> View:
    """A checked view of a region of `size` elements."""
    if isinstance(given, list) and len(given) == 3:
        shape, strides, offset = given
        if are_sizes(shape) and are_sizes(strides) and are_sizes([offset]):
            view = View(tuple(shape), tuple(strides), offset)
            low, high = view.extent()
            if len(shape) == len(strides) and 0 <= low <= high <= size:
                return view
    raise Damaged(f"tensor {name!r} has no view within its {size} elements")
