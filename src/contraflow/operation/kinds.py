"""Kinds: the shape rule and lowering that ops of one sort share, and their decorators."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from contraflow import dtypes, thresholds
from contraflow.dtypes import DType, float64, int64
from contraflow.expressions import expression as s
from contraflow.expressions.expression import Expr, Source
from contraflow.operation.op import REGISTRY, Op, Traits
from contraflow.operation.samples import Array, Sample
from contraflow.shapes import broadcast_shapes, contiguous, normalize_dims, numel, reduced_shape
from contraflow.spec import Given, Params, Spec

LINEAR = s.leaf("axis", int64, "linear")  # the element's row-major number in the output
REDUCED = s.leaf("axis", int64, "reduced")  # its row-major number within the reduced dims


class Kind:
    """The base of the kinds of ops. `lowering` says how fusion treats a line of this kind:

    map        a scalar expression per output point       (kind.expression)
    reduce     a fold over some dims of the input         (op.extra: combine, identity)
    contract   two specs to one                           (kind.labels)
    scan       a state carried along a dim, and kept      (op.extra: step, start)
    sort       positions in the order of keys             (kind.key)
    scatter    values folded into elements                (kind.points, kind.sweeps)
    attention  averages by a softmax of scores, or their gradients; expanded where a device has no
               kernel for it
    assign     a store into one region of a value
    view       no kernel: the line changes the strides with which others read
    opaque     no kernel: the line runs `ref` on the host
    composite  never on a tape: its parts are recorded instead
    """

    name = "kind"
    lowering = "opaque"
    indexes = False  # the body reads its arguments at positions of its own
    direct = False  # `ref` gives the right dtype by itself where all inputs have one
    # An element is a short expression of elements of inputs at its own point, or of its position:
    # it may be computed again, or by the host.
    pointwise = False
    bilinear = False  # the result is zero if one input is
    creates = False  # it has no tensors as inputs
    expands = False  # its parts are recorded for a device that has no kernel of this lowering
    required: tuple[str, ...] = ("ref", "shape")  # fields a declaration must have
    # Further fields it may have; the tests read the first two: which directions an input admits.
    optional: tuple[str, ...] = ("symmetric", "triangular")

    def check(self, op: Op) -> None:
        """Reject a declaration that lacks a required field or has an unknown one."""
        given = {"ref": op.ref, "shape": op.shape, **op.extra}
        for name in self.required:
            if given.get(name) is None:
                raise TypeError(f"{op.name}: an op of kind {self.name} needs {name}=.")
        for name in op.extra:
            if name not in self.required + self.optional:
                own = (*self.required, *self.optional)
                known = ", ".join(sorted({*_FIELDS, *Traits.__annotations__, *own}))
                raise TypeError(
                    f"{op.name}: an op of kind {self.name} has no field {name!r}. Known: {known}."
                )

    def infer(self, op: Op, inputs: Sequence[Given], params: Params) -> tuple[Spec, ...]:
        """Shapes by the op's `shape=` function, dtypes by its rule."""
        assert op.shape is not None, op
        shapes = op.shape(*inputs, **params)
        if isinstance(shapes, tuple) and (not shapes or not isinstance(shapes[0], tuple)):
            shapes = (shapes,)
        return tuple(map(Spec, shapes, op.types(inputs, params)[1]))

    def samples(self, op: Op) -> Iterable[Sample]:
        """Default samples; an op that has none must declare its own."""
        return ()

    def carried(self, op: Op, inputs: Sequence[Given], params: Params) -> DType | None:
        """The dtype in which sums are carried from point to point, None for that of the arithmetic.

        A device that lacks the dtype carries sums in that of its arithmetic.
        """
        return None

    def expression(
        self, op: Op, inputs: Sequence[Given], params: Params, sources: Sequence[Any]
    ) -> tuple[Expr, ...]:
        """The scalar meaning at the current point; for kinds lowered to maps."""
        raise NotImplementedError(op)


# The fields that ops of every kind have.
_FIELDS = tuple(
    p.name for p in inspect.signature(Op.__init__).parameters.values() if p.kind is p.KEYWORD_ONLY
)

_CATEGORIES = {dtypes.BOOL: "bool", dtypes.INT: "integer", dtypes.FLOAT: "floating-point"}


def _check_categories(op: Op, inputs: Sequence[Given], takes: Sequence[int]) -> None:
    """Refuse inputs of categories that the op does not take, by the dtype they are promoted to.

    An op with `each` refuses any tensor of such a category, whatever stands beside it.
    """
    given = [x.dtype if isinstance(x, Spec) else dtypes.of_number(x) for x in inputs]
    highest = max(dtype.category for dtype in given)
    for x, dtype in zip(inputs, given):
        judged = isinstance(x, Spec) if op.extra.get("each") else dtype.category == highest
        if judged and dtype.category not in takes:
            if tuple(takes) == (dtypes.FLOAT,):
                raise TypeError(f"{op.name}: {x} is not floating-point. Use x.float().")
            names = " and ".join(_CATEGORIES[category] for category in takes)
            raise TypeError(f"{op.name}: {x} is {dtype}; it takes {names} tensors.")


class Elementwise(Kind):
    """Scalars to a scalar, broadcasting.

    `takes` may name the categories of dtypes that it computes in, and `each` says that every tensor
    must be of one of them before promotion.
    """

    required = ("ref",)
    optional = (*Kind.optional, "domain", "avoid", "sample_dtype", "takes", "each")

    name = "elementwise"
    lowering = "map"
    direct = True
    pointwise = True

    def infer(self, op: Op, inputs: Sequence[Given], params: Params) -> tuple[Spec, ...]:
        if "takes" in op.extra:
            _check_categories(op, inputs, op.extra["takes"])
        shapes = [x.shape for x in inputs if isinstance(x, Spec)]
        shape = broadcast_shapes(op.name, shapes) if shapes else ()
        return tuple(Spec(shape, d) for d in op.types(inputs, params)[1])

    def samples(self, op: Op) -> Iterable[Sample]:
        low, high = op.extra.get("domain", (-2.0, 2.0))
        avoid = tuple(op.extra.get("avoid", ()))
        dtype = op.extra.get("sample_dtype", float64)

        def array(*shape: int) -> Array:
            return Array(shape, low, high, dtype, avoid)

        n = len(op.inputs)
        yield Sample((array(3, 4),) * n)
        yield Sample((array(),) * n)
        yield Sample((array(2, 0),) * n)
        if n >= 2:
            yield Sample((array(2, 3, 4), array(3, 1)) + (array(4),) * (n - 2))

    def expression(
        self, op: Op, inputs: Sequence[Given], params: Params, sources: Sequence[Any]
    ) -> tuple[Expr, ...]:
        out = op.body(*sources, **params)
        return out if isinstance(out, tuple) else (out,)


class Reduction(Kind):
    """A fold over some dims. The body gives what an element contributes; `combine` folds.

    `REDUCED` in the body is the element's index within the reduced dims.
    """

    required = ("ref", "combine")
    optional = (*Kind.optional, "identity", "start")

    name = "reduction"
    lowering = "reduce"

    def infer(self, op: Op, inputs: Sequence[Given], params: Params) -> tuple[Spec, ...]:
        (x,) = inputs
        assert isinstance(x, Spec)
        dims = normalize_dims(op.name, params["dim"], len(x.shape))
        if op.extra.get("identity") is None and any(x.shape[d] == 0 for d in dims):
            raise ValueError(f"{op.name}: {x} has no elements along dim {dims} and no identity.")
        shape = reduced_shape(x.shape, dims, params["keepdim"])
        return tuple(Spec(shape, d) for d in op.types(inputs, params)[1])

    def samples(self, op: Op) -> Iterable[Sample]:
        x = Array((3, 4, 2))
        yield Sample((x,), {"dim": (1,), "keepdim": False})
        yield Sample((x,), {"dim": (0,), "keepdim": True})
        yield Sample((x,), {"dim": (0, 2), "keepdim": False})
        yield Sample((x,), {"dim": (0, 1, 2), "keepdim": False})
        yield Sample((Array(()),), {"dim": (), "keepdim": False})
        if op.extra.get("identity") is not None:
            yield Sample((Array((2, 0)),), {"dim": (1,), "keepdim": False})

    def fold(self, op: Op, x: Expr) -> tuple[tuple[Expr, ...], ...]:
        """(values, combine, identity) of the reduction of an element `x`."""
        out = op.body(x, **op.params)
        values = out if isinstance(out, tuple) else (out,)
        left = tuple(s.leaf("left", v.dtype, i) for i, v in enumerate(values))
        right = tuple(s.leaf("right", v.dtype, i) for i, v in enumerate(values))
        combined = op.extra["combine"](*left, *right)
        combine = combined if isinstance(combined, tuple) else (combined,)
        given = op.extra.get("start", op.extra.get("identity"))
        start = given(x.dtype) if callable(given) else given
        starts = start if isinstance(start, tuple) else (start,)
        identity = tuple(s.const(v, e.dtype) for v, e in zip(starts, values))
        return values, combine, identity


class Viewing(Kind):
    """View to View: no data moves. The body gives the new View of a View."""

    required = ()

    name = "view"
    lowering = "view"

    def infer(self, op: Op, inputs: Sequence[Given], params: Params) -> tuple[Spec, ...]:
        x = inputs[0]
        assert isinstance(x, Spec)
        view = op.body(contiguous(x.shape), **params)
        return (Spec(view.shape, x.dtype),)


class Index(Kind):
    """Output position to source element; may load integers. The body gets `at` and sources.

    `body(at, *sources, **params)` where `at` holds the output coordinates and each source reads
    by `x[coordinates]`, or `x.where(valid, coordinates)`.
    """

    required = ("ref", "shape", "source")

    lowering = "map"
    indexes = True

    def __init__(self, name: str) -> None:
        self.name = name

    def expression(
        self, op: Op, inputs: Sequence[Given], params: Params, sources: Sequence[Any]
    ) -> tuple[Expr, ...]:
        shape = self.infer(op, inputs, params)[0].shape
        at = tuple(s.axis(k) for k in range(len(shape)))
        given = [
            Source(i, x.shape, x.dtype.compute) if isinstance(x, Spec) else sources[i]
            for i, x in enumerate(inputs)
        ]
        return (op.extra["source"](at, *given, **params),)


class Creating(Kind):
    """Scalars and the element's position to a value: constants, ranges, random numbers.

    `LINEAR` in the body is the element's row-major number. The `shape` parameter is the shape.
    """

    required = ("ref",)

    lowering = "map"
    creates = True

    def __init__(self, name: str, *, pointwise: bool) -> None:
        self.name, self.pointwise = name, pointwise

    def infer(self, op: Op, inputs: Sequence[Given], params: Params) -> tuple[Spec, ...]:
        return (Spec(params["shape"], op.types(inputs, params)[1][0]),)

    def expression(
        self, op: Op, inputs: Sequence[Given], params: Params, sources: Sequence[Any]
    ) -> tuple[Expr, ...]:
        return (op.body(*sources, **params),)


class Contracting(Kind):
    """Two operands, labelled per dim, to a third: `labels` gives the three label strings."""

    required = ("ref", "labels")

    name = "contraction"
    lowering = "contract"
    bilinear = True

    def labels(self, op: Op, inputs: Sequence[Given], params: Params) -> tuple[str, str, str]:
        """One letter per dim of a, b and the result; `_` is a dim of size one that broadcasts."""
        labels: tuple[str, str, str] = op.extra["labels"](*inputs, **params)
        return labels

    def infer(self, op: Op, inputs: Sequence[Given], params: Params) -> tuple[Spec, ...]:
        a, b = inputs
        assert isinstance(a, Spec)
        assert isinstance(b, Spec)
        sizes: dict[str, int] = {}
        left, right, out = self.labels(op, inputs, params)
        for letters, shape in ((left, a.shape), (right, b.shape)):
            for letter, n in zip(letters, shape):
                if sizes.setdefault(letter, n) != n and letter != "_":
                    raise ValueError(
                        f"{op.name}: cannot contract {a} with {b} as {left},{right}->{out}: "
                        f"{letter} is {sizes[letter]} and {n}."
                    )
        return (Spec(tuple(sizes[c] for c in out), op.types(inputs, params)[1][0]),)


class Assigning(Kind):
    """The base with the elements of one region replaced; lowered to a store into that region."""

    name = "assign"
    lowering = "assign"


class Scattering(Kind):
    """Values folded into elements of a base, or of zeros: the transpose of an index op.

    `target(at, *sources, **params)` gives the coordinates in the result to which the point `at` of
    the input named by `values` goes; sources read as in an index op. `combine(old, new, **params)`
    gives what an element becomes; a tuple of these is as many sweeps over all points. Points that
    go to one element do so in row-major order. `base` names the input that is folded into.
    """

    required = ("ref", "shape", "target", "values", "combine")
    optional = (*Kind.optional, "base")

    name = "scattering"
    lowering = "scatter"

    def points(
        self, op: Op, inputs: Sequence[Given], params: Params
    ) -> tuple[tuple[Expr, ...], Expr]:
        """The coordinates that a point goes to, and its value."""
        tensors = [x for x in inputs if isinstance(x, Spec)]
        sources = [Source(i, x.shape, x.dtype.compute) for i, x in enumerate(tensors)]
        values = sources[op.inputs.index(op.extra["values"])]
        at = tuple(s.axis(k) for k in range(len(values.shape)))
        return tuple(op.extra["target"](at, *sources, **params)), values[at]

    def domain(self, op: Op, inputs: Sequence[Given]) -> tuple[int, ...]:
        """The shape of the points."""
        values = inputs[op.inputs.index(op.extra["values"])]
        assert isinstance(values, Spec)
        return values.shape

    def walked(self, op: Op, inputs: Sequence[Given], params: Params) -> frozenset[int]:
        """The dims along which points may go to one element: those that no target coordinate is."""
        coordinates, _ = self.points(op, inputs, params)
        return frozenset(
            d for d in range(len(self.domain(op, inputs))) if s.axis(d) not in coordinates
        )

    def carried(self, op: Op, inputs: Sequence[Given], params: Params) -> DType | None:
        """float64 where many values may meet in one element, unless the result, of which a copy in
        float64 is made, has more elements than there are values."""
        ((shape, dtype),) = self.infer(op, inputs, params)
        points = self.domain(op, inputs)
        if not dtype.is_floating_point or numel(points) < numel(shape):
            return None
        meeting = numel(points[d] for d in self.walked(op, inputs, params))
        many = meeting > thresholds.meeting_values
        return float64 if many and s.rounds(self.sweeps(op, dtype.compute, params)) else None

    def sweeps(self, op: Op, dtype: DType, params: Params) -> tuple[Expr, ...]:
        """The new value of an element in each sweep: `left` is the old one, `right` the point's."""
        old, new = s.leaf("left", dtype, 0), s.leaf("right", dtype, 0)
        found = op.extra["combine"](old, new, **params)
        return found if isinstance(found, tuple) else (found,)


class Scanning(Kind):
    """A running fold along the dim that the parameter `dim` names, from its end if `reverse`.

    `step(*state, *elements)` gives the next state from the last one and the elements of the inputs
    at a point; its components are the results. `start` is the state before the first, or a function
    of the dtype that gives it. `REDUCED` in a step is the number of the point.

    Where a state may also be made of two, those of the points before and of the points behind some
    place, `combine(*state, *other)` says how, in either order of the two. Parts of a long row are
    scanned at the same time then.
    """

    required = ("ref", "shape", "step", "start")
    optional = (*Kind.optional, "combine")

    name = "scan"
    lowering = "scan"

    def carried(self, op: Op, inputs: Sequence[Given], params: Params) -> DType | None:
        """float64, unless each state is one of the elements, as a running maximum is."""
        casts, dtypes = op.types(inputs, params)
        elements = [
            s.leaf("input", (cast or x.dtype).compute, i)
            for i, (x, cast) in enumerate(zip(inputs, casts))
            if isinstance(x, Spec)
        ]
        _, step = self.fold(op, elements, [dtype.compute for dtype in dtypes])
        return float64 if dtypes[0].is_floating_point and s.rounds(step) else None

    def fold(
        self, op: Op, elements: Sequence[Expr], dtypes: Sequence[DType]
    ) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        """The first state, and the next one over `left` leaves; its components have dtypes."""
        given = op.extra["start"]
        start = given(dtypes[0]) if callable(given) else given
        starts = start if isinstance(start, tuple) else (start,)
        state = [s.leaf("left", dtype, i) for i, dtype in enumerate(dtypes)]
        step = op.extra["step"](*state, *elements)
        steps = step if isinstance(step, tuple) else (step,)
        return tuple(map(s.const, starts, dtypes)), steps

    def combine(self, op: Op, dtypes: Sequence[DType]) -> tuple[Expr, ...] | None:
        """The state of two parts of a row, over `left` and `right` leaves, if it can be had."""
        if op.extra.get("combine") is None:
            return None
        states = [s.leaf(side, d, i) for side in ("left", "right") for i, d in enumerate(dtypes)]
        found = op.extra["combine"](*states)
        return found if isinstance(found, tuple) else (found,)


class Sorting(Kind):
    """The positions along the dim that the parameter `dim` names, in the order of their keys.

    `key(x, **params)` gives the integer by which an element is sorted; equal ones keep their order.
    """

    required = ("ref", "shape", "key")

    name = "sort"
    lowering = "sort"

    def key(self, op: Op, x: Expr, params: Params) -> Expr:
        """The key of an element."""
        found: Expr = op.extra["key"](x, **params)
        return found


class Opaque(Kind):
    """An op without a generated kernel: it runs its `ref`, in a program too."""

    def __init__(self, name: str) -> None:
        self.name = name


class Composite(Kind):
    """Ordinary Python over ops. With `vjp` it is one Node; without, its parts are recorded."""

    required: tuple[str, ...] = ("ref",)
    optional = (*Kind.optional, "floating")

    name = "composite"
    lowering = "composite"

    def infer(self, op: Op, inputs: Sequence[Given], params: Params) -> tuple[Spec, ...]:
        raise NotImplementedError(f"{op.name} is made of other ops; only those are inferred")


class Attending(Composite):
    """A composite of two products and a softmax that is one line where the limits of a device name
    attention. `parts` are the parts of `kernel.Attention` that its kernels compute.
    """

    required = ("ref", "shape", "parts")

    name = "attention"
    lowering = "attention"
    expands = True

    def infer(self, op: Op, inputs: Sequence[Given], params: Params) -> tuple[Spec, ...]:
        return Kind.infer(self, op, inputs, params)


def _declare(kind: Kind) -> Callable[..., Callable[[Callable[..., Any]], Op]]:
    """The decorator of one kind: `@elementwise(ref=..., vjp=...)`."""

    def decorator(**fields: Any) -> Callable[[Callable[..., Any]], Op]:
        def declare(body: Callable[..., Any]) -> Op:
            op = Op(kind, body, **fields)
            REGISTRY.add(op)
            return op

        return declare

    return decorator


elementwise = _declare(Elementwise())
reduction = _declare(Reduction())
view = _declare(Viewing())
index = _declare(Index("index"))
window = _declare(Index("window"))
create = _declare(Creating("create", pointwise=True))
random = _declare(Creating("random", pointwise=False))
assigning = _declare(Assigning())
scattering = _declare(Scattering())
contraction = _declare(Contracting())
scan = _declare(Scanning())
sort = _declare(Sorting())
host = _declare(Opaque("host"))
opaque = _declare(Opaque("opaque"))
composite = _declare(Composite())
attending = _declare(Attending())
