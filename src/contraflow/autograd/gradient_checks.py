"""gradcheck: gradients compared with central differences, for users' own functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from contraflow.contexts.forward import Forward
from contraflow.errors import GradientError, describe
from contraflow.graph import engine
from contraflow.operation.context import changed, state
from contraflow.operation.public import public
from contraflow.ops.creation.create import full
from contraflow.ops.creation.data import tensor
from contraflow.tensors.tensor import Tensor
from contraflow.tensors.tree import leaves_of


@public
def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
) -> bool:
    """Whether the gradients of `func` for inputs that require grad equal central differences.

    Every entry of the Jacobian is compared, or, in fast mode, one random projection of it. Inputs
    should be float64: differences in float32 are mostly rounding. `check_forward_ad` compares
    forward mode too. Two runs of backward may differ by `nondet_tol`.

    >>> import contraflow as cf
    >>> x = cf.tensor([0.5, 1.5], dtype=cf.float64, requires_grad=True)
    >>> cf.autograd.gradcheck(lambda v: v.sin() * v, x)
    True
    """
    check = _Check(func, inputs, eps, atol, rtol)
    try:
        if check_backward_ad:
            check.repeats(nondet_tol)
            if fast_mode:
                check.projected()
            else:
                check.entries()
        if check_forward_ad:
            check.forward()
    except GradientError:
        if raise_exception:
            raise
        return False
    return True


@public
def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    fast_mode: bool = False,
) -> bool:
    """Whether the gradients of the gradients equal central differences.

    The gradient is checked as a function of the inputs and of `grad_outputs`, random if not given.

    >>> import contraflow as cf
    >>> x = cf.ones(2, dtype=cf.float64, requires_grad=True)
    >>> cf.autograd.gradgradcheck(lambda x: x**3, [x])
    True
    """
    given = _sequence(inputs)
    wanted = [i for i, x in enumerate(given) if _is_checked(x)]
    with changed(grad=False):
        outs = _outputs("gradgradcheck", func(*given))
    rng = np.random.default_rng(0)
    if grad_outputs is None:
        drawn = [rng.standard_normal(o.shape).astype(o.dtype.numpy) for o in outs]
        seeds = [tensor(x, device=o.device) for x, o in zip(drawn, outs)]
    else:
        seeds = [g.detach() for g in _sequence(grad_outputs)]
    for seed in seeds:
        seed.requires_grad_()

    def gradient(*values: Any) -> tuple[Tensor, ...]:
        args, cotangents = values[: len(given)], values[len(given) :]
        # Of a clone, so that an input that does not depend on these is not differentiated twice.
        args = tuple(x * 1.0 if i in wanted else x for i, x in enumerate(args))
        found = _outputs("gradgradcheck", func(*args))
        pairs = [(o, c) for o, c in zip(found, cotangents) if o.requires_grad]
        targets = [args[i] for i in wanted]
        grads = engine.grad([o for o, _ in pairs], targets, [c for _, c in pairs], None, True, True)
        return tuple(g for g in grads if g is not None and g.requires_grad)

    return gradcheck(
        gradient, (*given, *seeds), eps=eps, atol=atol, rtol=rtol,
        raise_exception=raise_exception, nondet_tol=nondet_tol, fast_mode=fast_mode,
    )  # fmt: skip


def _sequence(x: Any) -> tuple[Any, ...]:
    return (x,) if isinstance(x, Tensor) else tuple(x)


def _is_checked(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad


def _outputs(caller: str, result: Any) -> list[Tensor]:
    found = [x for x in leaves_of(result) if isinstance(x, Tensor) and x.dtype.is_floating_point]
    if not found:
        raise ValueError(f"{caller}: the function returned no floating-point tensor.")
    return found


class _Check:
    """A function at a point: its values, its gradients, its differences."""

    def __init__(
        self, func: Callable[..., Any], inputs: Any, eps: float, atol: float, rtol: float
    ) -> None:
        self.func, self.eps, self.atol, self.rtol = func, eps, atol, rtol
        self.inputs = _sequence(inputs)
        self.wanted = [i for i, x in enumerate(self.inputs) if _is_checked(x)]
        if not self.wanted:
            raise ValueError("gradcheck: no input requires grad, so there is nothing to check.")
        self.points = [np.array(self.inputs[i].detach().fetched()) for i in self.wanted]

    def run(self, points: Sequence[np.ndarray], grad: bool) -> tuple[list[Tensor], list[Tensor]]:
        """The outputs at some point, and the tensors that stand for the checked inputs."""
        args = list(self.inputs)
        places = [args[i].device for i in self.wanted]
        made = [tensor(p, device=d, requires_grad=grad) for p, d in zip(points, places)]
        for i, x in zip(self.wanted, made):
            args[i] = x
        with changed(grad=True):
            outs = _outputs("gradcheck", self.func(*args))
        return outs, made

    def values(self, points: Sequence[np.ndarray]) -> list[np.ndarray]:
        # With grad, since the function may itself take gradients.
        outs, _ = self.run(points, True)
        return [np.asarray(o.detach().fetched(), np.float64) for o in outs]

    def moved(self, k: int, step: np.ndarray) -> list[np.ndarray]:
        """(f(x + step) - f(x - step)) / 2 eps, for a step of input `k`."""
        above, below = (
            self.values([p + s * step if i == k else p for i, p in enumerate(self.points)])
            for s in (1.0, -1.0)
        )
        return [(a - b) / (2 * self.eps) for a, b in zip(above, below)]

    def entries(self) -> None:
        """Compare whole Jacobians."""
        outs, made = self.run(self.points, True)
        for j, out in enumerate(outs):
            rows = []
            for unit in np.eye(out.numel()):
                seed = tensor(unit.reshape(out.shape).astype(out.dtype.numpy), device=out.device)
                rows.append(self.gradients([out], made, [seed]))
            for k, point in enumerate(self.points):
                numeric = np.empty((out.numel(), point.size))
                for c, unit in enumerate(np.eye(point.size)):
                    step = self.eps * unit.reshape(point.shape).astype(point.dtype)
                    numeric[:, c] = self.moved(k, step)[j].reshape(-1)
                found = np.array([row[k].reshape(-1) for row in rows])
                self.compare(found.reshape(numeric.shape), numeric, j, k, out, point)

    def gradients(
        self, outs: list[Tensor], made: list[Tensor], seeds: list[Tensor]
    ) -> list[np.ndarray]:
        pairs = [(o, s) for o, s in zip(outs, seeds) if o.requires_grad]
        if not pairs:
            return [np.zeros(x.shape) for x in made]
        roots, given = [o for o, _ in pairs], [s for _, s in pairs]
        found = engine.grad(roots, made, given, True, False, True)
        return [
            np.zeros(x.shape) if g is None else np.asarray(g.detach().fetched(), np.float64)
            for x, g in zip(made, found)
        ]

    def compare(
        self, found: np.ndarray, numeric: np.ndarray, j: int, k: int, out: Tensor, point: Any
    ) -> None:
        bad = ~(np.abs(found - numeric) <= self.atol + self.rtol * np.abs(numeric))
        if bad.any():
            row, column = np.argwhere(bad)[0]
            at = tuple(int(n) for n in np.unravel_index(row, out.shape))
            by = tuple(int(n) for n in np.unravel_index(column, point.shape))
            raise GradientError(
                f"gradcheck: {int(bad.sum())} of {bad.size} entries of the Jacobian of output {j} "
                f"by input {self.wanted[k]} differ; element {at} by element {by}: the gradient is "
                f"{found[row, column]:.6g}, the difference quotient {numeric[row, column]:.6g}."
            )

    def repeats(self, tolerance: float) -> None:
        """Refuse a function whose gradients differ from run to run."""
        runs = []
        for _ in range(2):
            outs, made = self.run(self.points, True)
            seeds = [tensor(np.ones(o.shape, o.dtype.numpy), device=o.device) for o in outs]
            runs.append(self.gradients(outs, made, seeds))
        for k, (a, b) in enumerate(zip(*runs)):
            if not np.allclose(a, b, 0.0, tolerance, equal_nan=True):
                raise GradientError(
                    f"gradcheck: two backward passes give input {self.wanted[k]} different "
                    f"gradients: the function is not deterministic."
                )

    def projected(self) -> None:
        """Compare one random projection of each Jacobian from both sides."""
        rng = np.random.default_rng(0)
        outs, made = self.run(self.points, True)
        seeds = [rng.standard_normal(o.shape) for o in outs]
        given = [tensor(s.astype(o.dtype.numpy), device=o.device) for s, o in zip(seeds, outs)]
        found = self.gradients(outs, made, given)
        for k, point in enumerate(self.points):
            along = rng.standard_normal(point.shape)
            moved = self.moved(k, (self.eps * along).astype(point.dtype))
            numeric = float(sum((s * m).sum() for s, m in zip(seeds, moved)))
            analytic = float((found[k] * along).sum())
            if not abs(analytic - numeric) <= self.atol + self.rtol * abs(numeric):
                raise GradientError(
                    f"gradcheck: the gradient by input {self.wanted[k]}, {describe(made[k])}, is "
                    f"{analytic:.6g} along a random direction, the difference quotient "
                    f"{numeric:.6g}. Use fast_mode=False to see the entry."
                )

    def forward(self) -> None:
        """Compare forward mode with differences, in one random direction of each input."""
        rng = np.random.default_rng(1)
        for k, point in enumerate(self.points):
            along = rng.standard_normal(point.shape).astype(point.dtype)
            moved = self.moved(k, self.eps * along)
            context = Forward(state().context)
            args = list(self.inputs)
            for i, p in zip(self.wanted, self.points):
                args[i] = tensor(p, device=args[i].device)
            with changed(context=context):
                moving = args[self.wanted[k]]
                context.set_tangent(moving, tensor(along, device=moving.device))
                outs = _outputs("gradcheck", self.func(*args))
            for j, (out, numeric) in enumerate(zip(outs, moved)):
                t = context.tangent(out)
                zeros = full(out.shape, 0.0, dtype=out.dtype, device=out.device)
                found = np.asarray((zeros if t is None else t).detach().fetched(), np.float64)
                if not np.allclose(found, numeric, self.rtol, self.atol):
                    raise GradientError(
                        f"gradcheck: forward mode gives output {j} another derivative by input "
                        f"{self.wanted[k]} than differences do: {found} is not {numeric}."
                    )
