"""Ready parametrizations: weight normalization and spectral normalization."""

from __future__ import annotations

from contraflow.autograd.modes import no_grad
from contraflow.errors import describe
from contraflow.nn import functional as F
from contraflow.nn.module import Module
from contraflow.nn.utils.parametrize import register_parametrization
from contraflow.ops.creation.random import randn
from contraflow.ops.linalg.matrices import vector_norm
from contraflow.ops.shape.view import movedim, reshape
from contraflow.tensors.tensor import Tensor


class WeightNorm(Module):
    """weight = g * v / |v|, with one length for each coordinate of `dim`; -1 is one for all."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def _length(self, v: Tensor) -> Tensor:
        if self.dim == -1:
            return vector_norm(v)  # type: ignore[no-any-return]
        others = tuple(d for d in range(v.ndim) if d != self.dim % v.ndim)
        length: Tensor = vector_norm(v, 2, others, True)
        return length

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / self._length(weight_v))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Length and direction of a weight."""
        return self._length(weight), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn the norm and the direction of a weight separately (Salimans and Kingma, 2016).

    >>> import contraflow as cf
    >>> layer = weight_norm(cf.nn.Linear(3, 2, bias=False))
    >>> {name: tuple(p.shape) for name, p in layer.named_parameters()}
    {'parametrizations.weight.original0': (2, 1), 'parametrizations.weight.original1': (2, 3)}
    """
    return register_parametrization(module, name, WeightNorm(dim), unsafe=True)


class SpectralNorm(Module):
    """weight / sigma, the largest singular value as found by power iteration in training."""

    _u: Tensor
    _v: Tensor

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        if n_power_iterations < 1:
            raise ValueError(
                f"spectral_norm: n_power_iterations is {n_power_iterations}; it must be at least 1."
            )
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(f"spectral_norm: dim {dim} is out of range for {describe(weight)}.")
        self.dim, self.eps, self.n_power_iterations = dim % weight.ndim, eps, n_power_iterations
        if weight.ndim > 1:
            with no_grad():
                matrix = self._matrix(weight)
                dtype, device = weight.dtype, weight.device
                drawn = (randn(n, dtype=dtype, device=device) for n in matrix.shape)
                u, v = (F.normalize(x, dim=0) for x in drawn)
                self.register_buffer("_u", u)
                self.register_buffer("_v", v)
                self._iterate(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        moved = movedim(weight, self.dim, 0)
        matrix: Tensor = reshape(moved, (moved.shape[0], -1))
        return matrix

    def _iterate(self, matrix: Tensor, count: int) -> None:
        with no_grad():
            for _ in range(count):
                self._u.copy_(F.normalize(matrix @ self._v, dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matrix.T @ self._u, dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            out: Tensor = F.normalize(weight, dim=0, eps=self.eps)
            return out
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        # Copies, since the next call overwrites them and backward may come later.
        return weight / (self._u.clone() @ (matrix @ self._v.clone()))

    def right_inverse(self, value: Tensor) -> Tensor:
        """The weight itself: it may have this norm already."""
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value (Miyato et al., 2018)."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"spectral_norm: {type(module).__name__} has no parameter {name!r}.")
    if dim is None:  # transposed convolutions have their outputs second
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    norm = SpectralNorm(weight, n_power_iterations, dim, eps)
    return register_parametrization(module, name, norm)
