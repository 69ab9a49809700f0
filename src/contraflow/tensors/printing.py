"""How tensors print: PyTorch's layout, over NumPy arrays.

One format serves all elements: whole numbers as `2.`, others with a fixed number of digits, and
scientific notation where the sizes of the elements differ too much for that. Of a large tensor the
first and last few elements along each dim are shown. Suffixes such as `dtype=` follow the elements.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from contraflow.operation.public import public


class PrintOptions(NamedTuple):
    """The options of `set_printoptions`."""

    precision: int = 4
    threshold: float = 1000  # tensors with more elements are summarised
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None  # None: as the elements need


_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}
_options = PrintOptions()


@public
def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print; other options keep their values, but `sci_mode` is chosen anew.

    >>> import contraflow as cf
    >>> with cf.printoptions(precision=2):
    ...     cf.tensor([3.14159])
    tensor([3.14])
    """
    global _options
    if profile is not None and profile not in _PROFILES:
        known = ", ".join(_PROFILES)
        raise ValueError(f"set_printoptions: profile {profile!r} is unknown. Known: {known}.")
    given = {
        "precision": precision, "threshold": threshold, "edgeitems": edgeitems,
        "linewidth": linewidth,
    }  # fmt: skip
    for name, value in given.items():
        least = int(name in ("edgeitems", "linewidth"))
        if value is not None and value < least:
            raise ValueError(f"set_printoptions: {name} is {value}; it must be at least {least}.")
    base = _options if profile is None else _PROFILES[profile]
    changes = {name: value for name, value in given.items() if value is not None}
    _options = base._replace(sci_mode=sci_mode, **changes)  # type: ignore[arg-type]


def get_printoptions() -> dict[str, Any]:
    """How tensors print now.

    >>> import contraflow as cf
    >>> cf.get_printoptions()["precision"]
    4
    """
    return _options._asdict()


@contextlib.contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Print as `set_printoptions(**options)` says, until the end of the with-block.

    >>> import contraflow as cf
    >>> with cf.printoptions(precision=2):
    ...     print(cf.tensor([0.12345]))
    tensor([0.12])
    """
    global _options
    before = _options
    set_printoptions(**options)
    try:
        yield
    finally:
        _options = before


class ElementFormat(NamedTuple):
    """How every element of a tensor is written."""

    kind: str  # of str.format: "e", "f", "." for whole floats, "" for integers and bools
    width: int
    precision: int

    def text(self, value: bool | int | float) -> str:
        """One element."""
        if self.kind == "":
            shown = str(value)
        elif self.kind == ".":
            shown = f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"
        else:
            shown = f"{value:.{self.precision}{self.kind}}"
        return shown.rjust(self.width)


def _format_for(array: np.ndarray) -> ElementFormat:
    """The narrowest format that shows every element."""
    precision = _options.precision
    if array.dtype.kind != "f":
        return ElementFormat(
            "", max((len(str(v)) for v in array.ravel().tolist()), default=1), precision
        )
    values = array[np.isfinite(array) & (array != 0)].astype(np.float64)
    if not values.size:
        return ElementFormat(".", 1, precision)
    sizes = np.abs(values)
    low, high = sizes.min(), sizes.max()
    whole = bool((values == np.ceil(values)).all())
    scientific = high / low > 1000.0 or high > 1e8 or (not whole and low < 1e-4)
    if _options.sci_mode is not None:
        scientific = _options.sci_mode
    kind = "e" if scientific else "." if whole else "f"
    narrow = ElementFormat(kind, 1, precision)
    return narrow._replace(width=max(len(narrow.text(v)) for v in values.tolist()))


def _edges(array: np.ndarray) -> np.ndarray:
    """The elements of a large array that are shown."""
    edge = _options.edgeitems
    for dim, size in enumerate(array.shape):
        if size > 2 * edge:
            array = np.take(array, [*range(edge), *range(size - edge, size)], axis=dim)
    return array


def _vector(array: np.ndarray, indent: int, form: ElementFormat, summarised: bool) -> str:
    edge = _options.edgeitems
    per_line = max(1, (_options.linewidth - indent) // (form.width + 2))
    if summarised and len(array) > 2 * edge:
        first = [form.text(v) for v in array[:edge].tolist()]
        words = [*first, " ...", *(form.text(v) for v in array[-edge:].tolist())]
    else:
        words = [form.text(v) for v in array.tolist()]
    lines = [", ".join(words[i : i + per_line]) for i in range(0, len(words), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _nested(array: np.ndarray, indent: int, form: ElementFormat, summarised: bool) -> str:
    if array.ndim == 0:
        return form.text(array.item())
    if array.ndim == 1:
        return _vector(array, indent, form, summarised)
    edge = _options.edgeitems
    if summarised and len(array) > 2 * edge:
        rows = [_nested(row, indent + 1, form, summarised) for row in array[:edge]]
        rows.append("...")
        last = array[len(array) - edge :]
        rows += [_nested(row, indent + 1, form, summarised) for row in last]
    else:
        rows = [_nested(row, indent + 1, form, summarised) for row in array]
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(rows) + "]"


def tensor_text(array: np.ndarray, suffixes: Sequence[str]) -> str:
    """`tensor(elements, suffix, ...)`; half-precision arrays come as float32."""
    prefix = "tensor("
    indent = len(prefix)
    if array.size:
        summarised = array.size > _options.threshold
        form = _format_for(_edges(array) if summarised else array)
        text = prefix + _nested(array, indent, form, summarised)
    else:
        text = prefix + "[]"
    used = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if used + len(suffix) + 2 > _options.linewidth:
            text += f",\n{' ' * indent}{suffix}"
            used = indent + len(suffix)
        else:
            text += f", {suffix}"
            used += len(suffix) + 2
    return text + ")"
