"""Every op against PyTorch: the same samples, values, shapes, dtypes and gradients.

PyTorch's function of an op has the op's name, or the one COUNTERPARTS gives; what has none is in
OWN. Nothing else names an op, except where we differ on purpose, in DIFFERENCES.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import Any

import numpy as np
import pytest

import contraflow as cf
from contraflow.autograd import grad
from contraflow.dtypes import DType
from contraflow.operation.context import apply
from contraflow.operation.op import REGISTRY, Op
from contraflow.operation.samples import Sample
from contraflow.tensors.tensor import Tensor
from contraflow.testing import TOLERANCES, assert_close, make_inputs

try:
    import torch
except ImportError:
    torch = None

pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore::UserWarning"),  # PyTorch's, of what it will change
    pytest.mark.skipif(torch is None, reason="needs PyTorch, which `make peers` installs"),
]

# Ops that PyTorch has no function of, and what they are for.
OWN = {
    "bernoulli_probability": "a check, in compiled functions",
    "constrained": "a check, in compiled functions",
    "binomial_quantile": "binomial",
    "log_gamma_quantile": "distributions",
    "poisson_quantile": "poisson",
    "multinomial_total": "a check, in compiled functions",
    "multinomial_weight": "a check, in compiled functions",
    "alignment_step": "ctc_loss",
    "assign": "writing to a view",
    "attend": "attention",
    "attention": "attention",
    "attention_gradients": "attention",
    "binary_surprise": "binary_cross_entropy",
    "cofactor": "the gradient of det",
    "contract": "matrix products",
    "correlate": "convolutions",
    "distinct": "unique",
    "existing_taps": "max pooling",
    "first_largest": "max, argmax",
    "getitem": "the operator, which tests/ops/test_indexing.py compares with NumPy",
    "integers": "our random numbers",
    "keep_mask": "our random numbers",
    "leading": "topk, kthvalue",
    "masked_softmax": "attention",
    "max_among": "max pooling",
    "max_unpool": "max_unpool1d and its like, whose sizes are given otherwise",
    "max_windows": "max pooling",
    "median_of_all": "median",
    "normal": "our random numbers",
    "normalize_channels": "batch_norm",
    "piece": "split",
    "pivot_order": "linalg.lu",
    "possible_weights": "a check, in compiled functions",
    "put_along_dim": "gradients of selections",
    "put_at": "setitem",
    "put_windows": "the gradient of max pooling",
    "recurrence": "the gradient of cumprod",
    "repeated_numbers": "repeat_interleave",
    "running_averages": "Adam and its kin, which tests/optim/test_optim.py compares",
    "runs": "unique_consecutive",
    "scaled_step": "Adam",
    "scatter_fold": "scatter_reduce",
    "scatter_sum": "the gradient of gather",
    "search": "searchsorted",
    "segment_sum": "the gradient of embedding",
    "setitem": "the operator, which tests/ops/test_indexing.py compares with NumPy",
    "shortest_waits": "multinomial",
    "slice": "getitem",
    "stack_many": "stack",
    "standardize": "norms",
    "standardize_alone": "norms",
    "strided": "views of memory",
    "sum_at": "the gradient of take_at",
    "sum_windows": "fold, gradients of windows",
    "take_at": "getitem",
    "tap_places": "max pooling",
    "to_device": "Tensor.to",
    "to_dtype": "Tensor.to",
    "uniform": "our random numbers",
    "weigh_along": "interpolate",
    "windows": "convolution, pooling",
}

# Where we differ on purpose; docs/differences.md says how.
DIFFERENCES = {
    "cholesky_inverse": "only the triangle that is read has a gradient",
    "cholesky_solve": "only the triangle that is read has a gradient",
    "lstsq": "always by singular values, so every result is given",
    "svd": "the signs of singular vectors are anyone's; tests/ops/test_linalg.py multiplies them",
}

# Samples (by number) that PyTorch, or its backward, refuses.
REFUSED = {
    ("full", 3): "a number out of the dtype's range saturates here",
    ("full", 4): "a number out of the dtype's range saturates here",
    ("cond", 1): "its backward reads what its forward has overwritten",
    ("linear", 2): "a weight of one dim works here without a batch too",
    ("lu_factor", 3): "PyTorch needs pivots on the cpu",
    ("margin_ranking_loss", 1): "a target of fewer dims is broadcast here",
    ("vander", 0): "its backward reads what its forward has overwritten",
    ("vander", 1): "its backward reads what its forward has overwritten",
}

# Inputs that are constants to PyTorch.
CONSTANTS = {
    "binary_cross_entropy": ("weight",),
    "binary_cross_entropy_with_logits": ("weight", "pos_weight"),
    "cross_entropy": ("weight",),
    "igamma": ("a",),
    "igammac": ("a",),
    "multi_margin_loss": ("weight",),
    "nll_loss": ("weight",),
    "soft_margin_loss": ("target",),
}

# The same, for one sample of an op, and why.
SAMPLE_CONSTANTS = {
    ("ldexp", 2): ("a", "PyTorch's gradient has powers of 2 in int64, where 2**-1 is 0"),
}

# PyTorch's name, where it is another or stands in several places with several signatures.
COUNTERPARTS = {
    "col2im": "nn.functional.fold",
    "constant_pad": "constant_pad_nd",
    "cross": "cross",
    "diagonal": "diagonal",
    "div_trunc": "div",
    "fill_diagonal": "Tensor.fill_diagonal_",
    "im2col": "nn.functional.unfold",
    "linalg_norm": "linalg.norm",
    "norm": "norm",
    "unfold": "Tensor.unfold",
    "vander": "vander",
}

# How PyTorch's function `f` is called, where not by what the recorded form holds under its names.
CALLS: dict[str, Callable[..., Any]] = {
    "addcdiv": lambda f, x, a, b, value: f(x, a, b, value=value),
    "addcmul": lambda f, x, a, b, value: f(x, a, b, value=value),
    "arange": lambda f, start, step, shape, dtype: (
        start + step * f(shape[0], dtype=torch.float64)
    ).to(dtype),
    "as_strided": lambda f, x, size, stride, offset: f(x, size, stride, offset),
    "bincount": lambda f, x, weights, minlength: f(
        x, None if isinstance(weights, int) else weights, minlength
    ),
    "binary_cross_entropy_with_logits": lambda f, x, target, weight, reduction, pos_weight: f(
        x, target, weight, reduction=reduction, pos_weight=pos_weight
    ),
    "block_diag": lambda f, tensors: f(*tensors),
    "broadcast_tensors": lambda f, tensors: f(*tensors),
    "broadcast_to": lambda f, x, shape: f(x, shape),
    "cartesian_prod": lambda f, tensors: f(*tensors),
    "constant_pad": lambda f, x, value, pads: f(
        x, [n for pair in reversed(pads) for n in pair], value
    ),
    "cov": lambda f, x, correction, fweights, aweights: f(
        x, correction=correction, fweights=fweights, aweights=aweights
    ),
    "cumsum": lambda f, x, dim, reverse: f(x.flip(dim), dim).flip(dim) if reverse else f(x, dim),
    "div_trunc": lambda f, a, b: f(a, b, rounding_mode="trunc"),
    "dsplit": lambda f, x, indices_or_sections: f(x, indices_or_sections),
    "einsum": lambda f, operands, equation: f(equation, *operands),
    "embedding": lambda f, weight, index, padding_idx: f(index, weight, padding_idx),
    "expand": lambda f, x, shape: f(x, shape),
    "full": lambda f, value, shape, dtype: f(shape, value, dtype=dtype),
    "feature_dropout": lambda f, x, p, training: f(x, p, training),
    "fill_diagonal": lambda f, x, value, wrap: f(x.clone(), value, wrap),
    "hsplit": lambda f, x, indices_or_sections: f(x, indices_or_sections),
    "huber_loss": lambda f, x, target, weight, delta=1.0, **named: f(
        x, target, delta=delta, weight=weight, **named
    ),
    "index_put": lambda f, x, indices, values, accumulate: f(
        x, tuple(map(to_torch, indices)), values, accumulate
    ),
    "l1_loss": lambda f, x, target, weight, **named: f(x, target, weight=weight, **named),
    "ldexp": lambda f, x, other: f(x, torch.as_tensor(other)),
    "lu_factor": lambda f, x, pivot, check: f(x, pivot=pivot),
    "max": lambda f, x, dim, keepdim: f(x, *dim, keepdim=keepdim),
    "min": lambda f, x, dim, keepdim: f(x, *dim, keepdim=keepdim),
    "mse_loss": lambda f, x, target, weight, **named: f(x, target, weight=weight, **named),
    "prod": lambda f, x, dim, keepdim: reduce(
        lambda y, d: f(y, d, keepdim), sorted(dim, reverse=True), x
    ),
    "squeeze": lambda f, x, dim: f(x) if dim is None else f(x, dim),
    "tensor_split": lambda f, x, indices_or_sections, dim: f(x, indices_or_sections, dim),
    "trapezoid": lambda f, y, x, dx, dim: (
        f(y, x, dim=dim) if x is not None else f(y, dx=dx, dim=dim)
    ),
    "cumulative_trapezoid": lambda f, y, x, dx, dim: (
        f(y, x, dim=dim) if x is not None else f(y, dx=dx, dim=dim)
    ),
    "unfold": lambda f, x, dimension, size, step: f(x, dimension, size, step),
    "view": lambda f, x, shape: f(x, shape),
    "vsplit": lambda f, x, indices_or_sections: f(x, indices_or_sections),
}


# --- PyTorch's side ----------------------------------------------------------------------------


def find(path: str) -> Any:
    """What `torch.{path}` is, or None."""
    found: Any = torch
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def counterpart(op: Op) -> Callable[..., Any] | None:
    """PyTorch's function of the op, called with the op's tensors and parameters."""
    places = ("nn.functional.", "linalg.", "", "special.", "Tensor.")
    paths = [COUNTERPARTS[op.name]] if op.name in COUNTERPARTS else [p + op.name for p in places]
    function = next(filter(None, map(find, paths)), None)
    return partial(CALLS[op.name], function) if op.name in CALLS else function


def to_torch(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return torch.from_numpy(x.copy())
    return getattr(torch, x.name) if isinstance(x, DType) else x


def arguments(op: Op, inputs: Any, params: Any) -> tuple[list[Any], dict[str, Any]]:
    """Tensors by position, in the order of the public signature, and what follows them by name."""
    if op.variadic:
        return [list(inputs)], dict(params)
    given = {**dict(zip(op.inputs, inputs)), **params}
    order = []
    if op.custom:
        public = inspect.signature(op.call).parameters.values()
        order = [p.name for p in public if p.kind is not p.VAR_POSITIONAL]
    if not given.keys() <= set(order):
        order = list(given)
    last = max(map(order.index, op.inputs), default=-1)
    positional = [given.pop(name, None) for name in order[: last + 1]]
    return positional, given


# --- the comparison ----------------------------------------------------------------------------


def as_tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def is_array(x: Any) -> bool:
    return isinstance(x, np.ndarray)


def varies(op: Op, i: int, x: Any, number: int | None = None) -> bool:
    """Whether input `i` shall have a gradient in the sample of that number."""
    constants = CONSTANTS.get(op.name, ()) + SAMPLE_CONSTANTS.get((op.name, number), ())[:1]
    constant = not op.variadic and op.inputs[i] in constants
    return is_array(x) and x.dtype.kind == "f" and not constant


def check(op: Op, inputs: Any, params: Any, number: int | None = None) -> None:
    """Values, dtypes, shapes and gradients of a weighed sum of all outputs agree."""
    theirs = counterpart(op)
    assert theirs is not None, f"{op.name}: PyTorch has no such function; list it in OWN."
    given = [(cf.tensor(x), to_torch(x)) if is_array(x) else (x, x) for x in inputs]
    points = [pair for i, pair in enumerate(given) if varies(op, i, inputs[i], number)]
    for pair in points:
        for x in pair:
            x.requires_grad_()
    outs = as_tuple(apply(op, tuple(ours for ours, _ in given), params))
    positional, named = arguments(op, [other for _, other in given], params)
    expected = as_tuple(theirs(*positional, **{k: to_torch(v) for k, v in named.items()}))
    assert len(outs) == len(expected)
    for out, other in zip(outs, expected):
        assert (out.dtype.name, out.shape) == (str(other.dtype)[6:], tuple(other.shape))
        compare(out, other)
    pairs = [(a, b) for a, b in zip(outs, expected) if b.requires_grad]
    if pairs:
        compare_gradients(pairs, points)


def compare_gradients(pairs: list[tuple[Tensor, Any]], points: list[tuple[Tensor, Any]]) -> None:
    rng = np.random.default_rng(7)
    ours, theirs = zip(*pairs)
    weights = [np.asarray(rng.standard_normal(x.shape), x.dtype.numpy) for x in ours]
    try:
        expected = torch.autograd.grad(
            theirs, [b for _, b in points], [*map(to_torch, weights)], allow_unused=True
        )
    except RuntimeError as error:
        if "is not implemented" in str(error):  # what PyTorch gives no gradient of
            return
        raise
    found = grad(ours, [a for a, _ in points], [*map(cf.tensor, weights)], allow_unused=True)
    for point, a, b in zip(points, found, expected):
        # A gradient that does not exist is zero.
        compare(point[0] * 0 if a is None else a, point[1] * 0 if b is None else b)


def compare(ours: Tensor, theirs: Any) -> None:
    expected = theirs.detach().numpy(force=True)
    # Two ways to the same sum differ by the rounding of its largest terms.
    largest = np.abs(expected[np.isfinite(expected)], dtype=np.float64).max(initial=1.0)
    rtol, atol = (8 * t for t in TOLERANCES.get(ours.dtype, (0.0, 0.0)))
    assert_close(ours, expected, rtol, atol * float(largest))


# --- the matrix --------------------------------------------------------------------------------


def cases() -> Iterator[Any]:
    for op in REGISTRY.values():
        if op.name not in OWN and op.name not in DIFFERENCES:
            for i, sample in enumerate(op.samples()):
                if (op.name, i) not in REFUSED:
                    for dtype in (cf.float32, cf.float64):
                        yield pytest.param(op, i, sample, dtype, id=f"{op.name}-{i}-{dtype.name}")


@pytest.mark.parametrize(("op", "number", "sample", "dtype"), list(cases()))
def test_agrees_with_pytorch(op: Op, number: int, sample: Sample, dtype: DType) -> None:
    check(op, make_inputs(sample, dtype=dtype), sample.params, number)


@pytest.mark.parametrize("name", OWN)
def test_pytorch_has_no_such_function(name: str) -> None:
    function = counterpart(REGISTRY[name])
    # PyTorch's layout, module and generator of these names are something else.
    assert function is None or name in ("normal", "strided", "windows")


@pytest.mark.parametrize("name", DIFFERENCES)
def test_the_difference_is_there(name: str) -> None:
    op = REGISTRY[name]

    def agrees(sample: Sample) -> bool:
        try:
            check(op, make_inputs(sample), sample.params)
        except AssertionError:
            return False
        return True

    assert not all(map(agrees, op.samples()))


@pytest.mark.parametrize(("name", "number"), REFUSED)
def test_pytorch_refuses(name: str, number: int) -> None:
    sample = list(REGISTRY[name].samples())[number]
    with pytest.raises(RuntimeError):
        check(REGISTRY[name], make_inputs(sample), sample.params, number)
