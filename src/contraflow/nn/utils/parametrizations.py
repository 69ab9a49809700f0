"""Ready parametrizations: weight norm, spectral norm, and orthogonal weights."""

from __future__ import annotations

from contraflow.autograd.modes import no_grad
from contraflow.errors import describe
from contraflow.names import getter
from contraflow.nn import functional as F
from contraflow.nn.module import Module
from contraflow.nn.utils.parametrize import register_parametrization
from contraflow.ops.creation.create import eye, zeros_like
from contraflow.ops.creation.random import randn
from contraflow.ops.elementwise.basic import where
from contraflow.ops.linalg.decompositions import qr
from contraflow.ops.linalg.matrices import householder_product, matrix_exp
from contraflow.ops.linalg.norms import vector_norm
from contraflow.ops.linalg.solve import solve
from contraflow.ops.shape.diagonals import tril
from contraflow.ops.shape.joining import cat
from contraflow.ops.shape.parts import diagonal
from contraflow.ops.shape.view import movedim, reshape
from contraflow.tensors.tensor import Tensor


class WeightNorm(Module):
    """weight = g * v / |v|, with one length for each coordinate of `dim`; -1 is one for all.

    >>> import contraflow as cf
    >>> length, direction = WeightNorm(0).right_inverse(cf.tensor([[3.0, 4.0]]))
    >>> length
    tensor([[5.]])
    """

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


@no_grad()
def iterate(
    matrix: Tensor, u: Tensor, v: Tensor, count: int, eps: float, *, right_first: bool = False
) -> None:
    """Bring estimates of the first singular vectors closer to them, in place.

    >>> import contraflow as cf
    >>> u, v = cf.tensor([0.6, 0.8]), cf.tensor([0.6, 0.8])
    >>> iterate(cf.diag(cf.tensor([4.0, 2.0])), u, v, 20, 1e-12)
    >>> u.round(decimals=3)
    tensor([1., 0.])
    """
    for _ in range(count):
        if right_first:
            v.copy_(F.normalize(matrix.T @ u, dim=0, eps=eps))
        u.copy_(F.normalize(matrix @ v, dim=0, eps=eps))
        if not right_first:
            v.copy_(F.normalize(matrix.T @ u, dim=0, eps=eps))


class SpectralNorm(Module):
    """weight / sigma, the largest singular value as found by power iteration in training.

    >>> import contraflow as cf
    >>> matrix = cf.diag(cf.tensor([4.0, 2.0]))
    >>> cf.linalg.matrix_norm(SpectralNorm(matrix, 50)(matrix), 2).round(decimals=3)
    tensor(1.)
    """

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
        iterate(matrix, self._u, self._v, count, self.eps)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            out: Tensor = F.normalize(weight, dim=0, eps=self.eps)
            return out
        return self.divided(weight, self._u, self._v, self.training)

    def divided(
        self, weight: Tensor, u: Tensor, v: Tensor, training: bool, right_first: bool = False
    ) -> Tensor:
        """A weight by its largest singular value, after power iterations in training."""
        matrix = self._matrix(weight)
        if training:
            iterate(matrix, u, v, self.n_power_iterations, self.eps, right_first=right_first)
        # Copies, since the next call overwrites them and backward may come later.
        return weight / (u.clone() @ (matrix @ v.clone()))

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
    """Divide a weight by its largest singular value (Miyato et al., 2018).

    >>> import contraflow as cf
    >>> layer = spectral_norm(cf.nn.Linear(3, 2), n_power_iterations=50)
    >>> cf.linalg.matrix_norm(layer.weight.detach(), 2).round(decimals=3)
    tensor(1.)
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"spectral_norm: {type(module).__name__} has no parameter {name!r}.")
    if dim is None:  # transposed convolutions have their outputs second
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    norm = SpectralNorm(weight, n_power_iterations, dim, eps)
    return register_parametrization(module, name, norm)


class Orthogonal(Module):
    """A matrix with orthonormal columns, or rows if it is wide, by one of three maps.

    "matrix_exp" and "cayley" take the lower triangle to a skew-symmetric matrix, "householder" the
    columns below the diagonal to reflections. With a `base` the result is the base times that.

    >>> import contraflow as cf
    >>> layer = cf.nn.utils.parametrizations.orthogonal(cf.nn.Linear(2, 2))
    >>> (layer.weight.T @ layer.weight).detach().allclose(cf.eye(2), atol=1e-5)
    True
    """

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
            raise ValueError(
                f"orthogonal: orthogonal_map is {orthogonal_map!r}; it must be 'matrix_exp', "
                f"'cayley' or 'householder'."
            )
        if weight.ndim < 2:
            raise ValueError(f"orthogonal: {describe(weight)} is not a matrix.")
        if orthogonal_map != "householder" and not use_trivialization:
            raise NotImplementedError(
                f"orthogonal: {orthogonal_map!r} needs use_trivialization, without which a weight "
                f"cannot be taken back to its original."
            )
        self.orthogonal_map = orthogonal_map
        self.tall = weight.shape[-2] >= weight.shape[-1]
        self.has_base = use_trivialization
        if use_trivialization:
            self.register_buffer("base", self._completed(weight if self.tall else weight.mT))

    def _completed(self, tall: Tensor) -> Tensor:
        """A square orthogonal matrix whose first columns span those of a tall one."""
        rows, columns = tall.shape[-2:]
        more = randn(*tall.shape[:-1], rows - columns, dtype=tall.dtype, device=tall.device)
        with no_grad():
            q, r = qr(cat([tall.detach(), more], -1) if rows > columns else tall.detach())
            signs = diagonal(r, 0, -2, -1).sign().unsqueeze(-2)
            out: Tensor = q * where(signs == 0, 1.0, signs)
        return out

    def forward(self, weight: Tensor) -> Tensor:
        x = weight if self.tall else weight.mT
        rows, columns = x.shape[-2:]
        if self.orthogonal_map == "householder":
            below = tril(x, -1)
            tau = 2.0 / (1.0 + (below * below).sum(-2))
            q = householder_product(below, tau) * diagonal(x, 0, -2, -1).unsqueeze(-2)
        else:
            low = tril(x)
            if rows > columns:
                low = cat(
                    [low, zeros_like(low[..., :1]).expand(*low.shape[:-1], rows - columns)], -1
                )
            skew = low - low.mT
            if self.orthogonal_map == "matrix_exp":
                q = matrix_exp(skew)
            else:
                unit = eye(rows, dtype=x.dtype, device=x.device)
                q = solve(unit - skew * 0.5, unit + skew * 0.5)
            q = q[..., :columns]
        out: Tensor = self.base @ q if self.has_base else q
        return out if self.tall else out.mT

    def right_inverse(self, value: Tensor) -> Tensor:
        """An original whose image is `value`, which should be orthogonal already."""
        if not self.has_base:
            raise NotImplementedError(
                "orthogonal: a weight without a base cannot be assigned. Pass "
                "use_trivialization=True."
            )
        self.base.copy_(self._completed(value if self.tall else value.mT))
        # Each map takes minus the unit matrix to the unit matrix.
        unit = eye(*value.shape[-2:], dtype=value.dtype, device=value.device)
        out: Tensor = (-unit).expand(value.shape).clone()
        return out


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a weight orthogonal: its columns, or its rows if there are more of them.

    It starts with the orthogonal factor of what it was. `orthogonal_map` is "matrix_exp",
    "cayley" or "householder"; by default the first for square weights and the last for others.

    >>> import contraflow as cf
    >>> weight = orthogonal(cf.nn.Linear(3, 2)).weight
    >>> (weight @ weight.T).allclose(cf.eye(2), atol=1e-5)
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"orthogonal: {type(module).__name__} has no parameter {name!r}.")
    if orthogonal_map is None:
        square = weight.ndim > 1 and weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square else "householder"
    made = Orthogonal(weight, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)


globals()["__getattr__"] = getter(__name__)
