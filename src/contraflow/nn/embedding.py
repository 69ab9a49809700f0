"""Embedding layers: tables of vectors looked up by index, one by one or in bags."""

from __future__ import annotations

from typing import Any, Self

from contraflow.autograd.modes import no_grad
from contraflow.devices.names import Device
from contraflow.dtypes import DType
from contraflow.errors import describe
from contraflow.nn import functional as F
from contraflow.nn import init
from contraflow.nn.module import Module
from contraflow.nn.parameter import Parameter
from contraflow.ops.creation.create import zeros
from contraflow.tensors.tensor import Tensor


class _EmbeddingTable(Module):
    """A weight [num_embeddings, embedding_dim] of normal numbers, or a given one."""

    def _set(
        self, rows: int, width: int, padding_idx: int | None, given: Tensor | None,
        device: Device | str | None, dtype: DType | None,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        if padding_idx is not None and not -rows <= padding_idx < rows:
            raise ValueError(f"{name}: padding_idx {padding_idx} is not one of the {rows} rows.")
        self.num_embeddings, self.embedding_dim = rows, width
        self.padding_idx = None if padding_idx is None else padding_idx % rows
        if given is None:
            self.weight = Parameter(zeros(rows, width, device=device, dtype=dtype))
            self.reset_parameters()
        elif given.shape != (rows, width):
            raise ValueError(f"{name}: {describe(given)} is not a table of shape {[rows, width]}.")
        else:
            self.weight = Parameter(given)

    def reset_parameters(self) -> None:
        """Draw the initial values anew; the padding is zeros."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, **options: Any) -> Self:
        """A table that is there already; it is not trained, unless `freeze` is False."""
        if embeddings.ndim != 2:
            raise ValueError(
                f"{cls.__name__}.from_pretrained: {describe(embeddings)} is not a table "
                f"[num_embeddings, embedding_dim]."
            )
        table: Self = cls(*embeddings.shape, _weight=embeddings, **options)  # type: ignore[call-arg]
        table.weight.requires_grad_(not freeze)
        return table


class Embedding(_EmbeddingTable):
    """A table of vectors looked up by index: [...] integers to [..., embedding_dim].

    >>> import contraflow as cf
    >>> cf.nn.Embedding(10, 3)(cf.tensor([[1, 2, 4]])).shape
    (1, 3, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self._set(num_embeddings, embedding_dim, padding_idx, _weight, device, dtype)
        self.weight.requires_grad_(not _freeze)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        for name, plain in (
            ("padding_idx", None), ("max_norm", None), ("norm_type", 2),
            ("scale_grad_by_freq", False),
        ):  # fmt: skip
            value = getattr(self, name)
            text += "" if value == plain else f", {name}={value}"
        return f"{text}, sparse=True" if self.sparse else text


class EmbeddingBag(_EmbeddingTable):
    """Sums, means or maxima of rows of a table: indices [bags, n] to [bags, embedding_dim].

    >>> import contraflow as cf
    >>> bag = cf.nn.EmbeddingBag(10, 3, mode="sum")
    >>> bag(cf.tensor([1, 2, 4, 5]), cf.tensor([0, 3])).shape
    (2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self.mode, self.include_last_offset = mode, include_last_offset
        self._set(num_embeddings, embedding_dim, padding_idx, _weight, device, dtype)

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        for name, plain in (
            ("max_norm", None), ("norm_type", 2), ("scale_grad_by_freq", False),
        ):  # fmt: skip
            value = getattr(self, name)
            text += "" if value == plain else f", {name}={value}"
        text += f", mode={self.mode!r}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"
