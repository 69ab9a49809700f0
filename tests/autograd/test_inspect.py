"""Looking at a graph: what it says of values that were packed away, of ops and of nodes."""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.engine_common import leaf, refused

import contraflow as cf
from contraflow import nn
from contraflow.autograd.graph import Graph, registered_hooks, saved_tensors_hooks
from contraflow.compiler.tape import Tape
from contraflow.nn import functional as F
from contraflow.operation.context import apply
from contraflow.operation.op import REGISTRY
from contraflow.tensors.tensor import Tensor
from contraflow.testing import assert_close, is_real, make_inputs


def listing(*roots: Tensor) -> list[str]:
    """The lines of a graph without the user's lines."""
    text = re.sub(r"at \S+:\d+", "", str(Graph(*roots)))
    return [re.sub(r" {2,}", "  ", row).rstrip() for row in text.split("\n")]


# --- values that were packed away ------------------------------------------------------------


def test_a_graph_with_a_checkpoint() -> None:
    x = cf.ones(4, requires_grad=True)
    y = cf.checkpoint(lambda v: (v * v).sin(), x).sum()
    assert Graph(y).saved_bytes == 0
    assert listing(y) == [
        "graph of float32[]: 3 nodes, 1 leaves, 0 bytes saved",
        "leaf0 = leaf : float32[4]",
        "%1  = mul(leaf0, leaf0) : float32[4]  saves a packed, b packed",
        "%2  = sin(%1) : float32[4]  saves x packed",
        "%3  = sum(%2) : float32[]",
    ]
    assert "mul" in cf.draw(y)
    y.backward()


def test_a_graph_with_hooks_on_saved_values() -> None:
    x = cf.ones(4, requires_grad=True)
    with saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
        y = x.sin()
    with saved_tensors_hooks(lambda t: t.numpy(), cf.tensor):
        y = y.exp()
    with saved_tensors_hooks(lambda t: "away", lambda t: x.detach()):
        y = y.sin()
    y = (y * x).sum()
    assert Graph(y).saved_bytes == 8 + 16 + 16 + 16
    rows = listing(y)
    assert rows[0] == "graph of float32[]: 5 nodes, 1 leaves, 56 bytes saved"
    assert [row.split("saves ")[1] for row in rows[2:-1]] == [
        "x packed 8 bytes", "out packed 16 bytes", "x packed", "a 16 bytes, b 16 bytes",
    ]  # fmt: skip
    assert "saves 8 bytes" in cf.draw(y)


# --- the user's ops --------------------------------------------------------------------------


def r(*shape: int) -> Tensor:
    return cf.rand(*shape, requires_grad=True)


APPLIED: dict[str, Callable[[int], Tensor]] = {
    "conv1d": lambda n: F.conv1d(r(1, 2, 5 * n), r(3, 2, 3), r(3)),
    "conv2d": lambda n: F.conv2d(r(1, 2, 5 * n, 5 * n), r(3, 2, 3, 3), r(3), padding=1),
    "conv_transpose2d": lambda n: F.conv_transpose2d(r(1, 2, 5 * n, 5 * n), r(2, 3, 3, 3)),
    "max_pool2d": lambda n: F.max_pool2d(r(1, 2, 4 * n, 4 * n), 2),
    "avg_pool2d": lambda n: F.avg_pool2d(r(1, 2, 4 * n, 4 * n), 2),
    "adaptive_avg_pool2d": lambda n: F.adaptive_avg_pool2d(r(1, 2, 4 * n, 4 * n), 2),
    "batch_norm": lambda n: nn.BatchNorm1d(3 * n)(r(4, 3 * n)),
    "group_norm": lambda n: F.group_norm(r(4, 4 * n), 2, r(4 * n), r(4 * n)),
    "instance_norm": lambda n: F.instance_norm(r(2, 3, 4 * n)),
    "layer_norm": lambda n: F.layer_norm(r(4, 3 * n), (3 * n,), r(3 * n), r(3 * n)),
    "index_select": lambda n: r(5 * n, 3).index_select(0, cf.tensor([0, 2])),
    "dropout": lambda n: nn.Dropout(0.5)(r(4 * n, 4 * n)),
    "cross_entropy": lambda n: F.cross_entropy(r(4 * n, 4), cf.zeros(4 * n, dtype=cf.int64)),
    "mse_loss": lambda n: nn.MSELoss()(r(4 * n, 4), r(4 * n, 4)),
    "scaled_dot_product_attention": lambda n: F.scaled_dot_product_attention(
        r(1, 2, 4 * n, 3), r(1, 2, 4 * n, 3), r(1, 2, 4 * n, 3)
    ),
    "mean": lambda n: r(5 * n, 3).mean(0),
    "pow": lambda n: r(5 * n) ** 2,
    "getitem": lambda n: r(5 * n, 3)[cf.tensor([0, 1])],
    "unfold": lambda n: F.unfold(r(1, 1, 4 * n, 4 * n), 2),
    "pad": lambda n: F.pad(r(3 * n), (1, 1)),
    "stack": lambda n: cf.stack([r(3 * n), r(3 * n)]),
    "einsum": lambda n: cf.einsum("ij,jk->ik", r(3, 4 * n), r(4 * n, 2)),
    "sum": lambda n: r(3 * n).sum(),
}


@pytest.mark.parametrize("size", [1, 8])
@pytest.mark.parametrize("name", APPLIED)
def test_nodes_bear_the_name_of_what_the_user_called(name: str, size: int) -> None:
    y = APPLIED[name](size)
    graph = Graph(y)
    assert {node.name for node in graph} == {name}
    assert y.grad_fn.label.split(".")[0] == name
    for node in graph:
        assert node.label == name or not REGISTRY[node.label.split(".")[1]].internal
    assert f"grad_fn=<{name}>" in repr(y)


def test_parts_are_told_apart_in_listings() -> None:
    x = cf.ones(4, 3, requires_grad=True)
    y = F.batch_norm(x, None, None, cf.ones(3), cf.ones(3), training=True)
    rows = [row.split(" = ")[1].split("(")[0] for row in listing(y.mean())[2:]]
    assert rows == ["batch_norm", "batch_norm.mul", "batch_norm.add", "mean.sum", "mean.div"]
    assert repr(y.grad_fn).startswith("<batch_norm.add #")
    drawn = cf.draw(y)
    assert '"batch_norm\\n' in drawn
    assert '"batch_norm.mul\\n' in drawn


def test_errors_name_what_the_user_called() -> None:
    x, w = cf.ones(1, 1, 3, 3), cf.ones(1, 1, 2, 2, requires_grad=True)
    y = F.conv2d(x, w)
    x.add_(1)
    with pytest.raises(
        cf.OverwrittenError, match=r"^conv2d saved float32.1, 1, 3, 3. at "
    ) as caught:
        y.sum().backward()
    assert caught.value.op == "conv2d"
    assert caught.value.__notes__[0].startswith("In the backward of conv2d, applied at ")
    with cf.autograd.detect_anomaly(), pytest.raises(cf.GradientError, match=r"^mse_loss\.mul: "):
        F.mse_loss(cf.full((2,), 1e30, requires_grad=True), cf.zeros(2))


@pytest.mark.parametrize("size", [4, 32])
def test_a_profile_shows_what_the_user_called(size: int) -> None:
    layer = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2))
    with cf.profiler.profile() as p:
        layer(cf.rand(1, 1, size, size)).mean().backward()
    rows = {row.name: row.calls for row in p.key_averages() if not row.name.endswith("(kernel)")}
    assert rows["conv2d"] == 1
    assert rows["max_pool2d"] == 1
    assert rows["max_pool2d (backward)"] == 1
    parts = {name.removesuffix(" (backward)").split(".")[-1] for name in rows}
    assert not [name for name in parts if getattr(REGISTRY.get(name), "internal", False)]


# --- nodes -----------------------------------------------------------------------------------


def test_calling_a_node() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0)
    y = x * w
    node = y.grad_fn
    g = cf.tensor([1.0, 10.0], dtype=cf.float64)
    with cf.no_grad():
        of_x, of_w = node(g)
    assert of_x.tolist() == [3.0, 30.0]
    assert of_w.tolist() == [21.0]  # summed to the shape of the input
    assert not of_x.requires_grad
    of_x, of_w = node(g)
    (second,) = cf.autograd.grad(of_x.sum(), w)
    assert second.tolist() == [11.0]
    assert x.grad is None
    one = x.exp().grad_fn
    y.sum().backward()
    with pytest.raises(cf.GradientError, match=r"mul .* has run already"):
        node(g)
    with cf.no_grad():
        assert one(g).tolist() == (x.exp() * g).tolist()  # one input, one tensor


def test_calling_a_node_of_several_outputs() -> None:
    x = leaf(3.0, 1.0, 2.0)
    values, indices = x.max(dim=0)
    assert not indices.requires_grad
    node = values.grad_fn
    assert node.output_count == 2
    assert node(cf.ones((), dtype=cf.float64), None).tolist() == [1.0, 0.0, 0.0]
    with refused(TypeError, "max: a node with 2 outputs takes as many gradients, not 1."):
        node(cf.ones(()))
    with refused(TypeError, "exp: expected a tensor or None, not 3.0."):
        x.exp().grad_fn(3.0)


def test_calling_a_node_with_a_gradient_that_does_not_fit() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0)
    node = (x * w).grad_fn
    for wrong in (cf.ones(3), cf.ones(3, 2), cf.ones(1), cf.ones(())):
        with pytest.raises(cf.GradientShapeError) as caught:
            node(wrong)
        error = caught.value
        shape = ", ".join(map(str, wrong.shape))
        assert str(error) == (
            f"mul: float32[{shape}] cannot be the gradient of its output float64[2] at "
            f"{node.line}; it must have that shape."
        )
        assert (error.op, error.shape, error.expected) == ("mul", wrong.shape, (2,))
        assert error.line == node.line.location
    compiled, own = cf.compile(lambda v: v.sin())(x).grad_fn, Twice.apply(x).grad_fn
    for other in (compiled, own):
        with pytest.raises(cf.GradientShapeError, match=r"float32.3. cannot be the gradient"):
            other(cf.ones(3))


def test_gradients_that_callers_give_are_cast() -> None:
    """As in PyTorch's backward; another dtype came out at the leaf, which refused it."""
    for dtype in (cf.float64, cf.float16, cf.int64, cf.bool):
        x = cf.tensor([1.0, 2.0], requires_grad=True)
        y, g = x * x, cf.ones(2, dtype=dtype)
        assert [of.dtype for of in y.grad_fn(g)] == [cf.float32, cf.float32]
        (direct,) = cf.autograd.grad(y, x, g, retain_graph=True)
        y.backward(g)
        assert direct.dtype is x.grad.dtype is cf.float32
        assert x.grad.tolist() == direct.tolist() == [2.0, 4.0]


def test_nodes_know_their_outputs() -> None:
    """Of every sample of every op, as large as eager mode makes one program of, too."""
    count = 0
    for op in REGISTRY.values():
        for sample in op.samples() if op.differentiable else ():
            given = [
                cf.tensor(x, requires_grad=is_real(x)) if hasattr(x, "dtype") else x
                for x in make_inputs(sample)
            ]
            result = apply(op, tuple(given), dict(sample.params))
            for out in result if isinstance(result, tuple) else (result,):
                if out.grad_fn is not None:
                    count += 1
                    index = out.edge[1]
                    assert out.grad_fn.output_specs[index] == out.spec, (op, sample)
    assert count > 500
    x = cf.ones(300, 300, requires_grad=True)
    for large in (F.gelu(x), F.layer_norm(x, (300,)), x.softmax(1), x[3:, ::2], x.std(0)):
        assert large.grad_fn.output_specs == [large.spec]
    kept = x.masked_select(x > 0)
    assert kept.grad_fn.output_specs == [kept.spec]


class Twice(cf.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0] * 2


def test_a_node_of_a_custom_function_and_of_a_compiled_call() -> None:
    x = leaf(0.5)
    f = cf.compile(lambda v: v.sin())
    g = cf.ones(1, dtype=cf.float64)
    node, own = f(x).grad_fn, Twice.apply(x).grad_fn
    with cf.no_grad():
        assert_close(node(g), x.cos())
        assert own(g).tolist() == [2.0]


def test_inputs_of_nodes() -> None:
    x, w = cf.ones(4, 2), cf.ones(3, 2, requires_grad=True)
    h = w.exp()
    node = F.linear(x, h).grad_fn
    first, second = node.inputs[:2]
    assert (first.name, first.spec, first.source) == ("x", x.spec, None)
    assert (second.name, second.spec, second.source) == ("weight", h.spec, h.grad_fn)
    assert h.grad_fn.inputs[0].source is w
    assert [i.name for i in cf.cat([h, w]).grad_fn.inputs] == ["0", "1"]


def test_saved_values_are_tensors() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    h = w.exp()
    saved = (x * h).grad_fn.saved_values
    assert saved["a"] is x
    assert saved["b"].tolist() == h.tolist()
    assert saved["b"].grad_fn is h.grad_fn
    y = cf.checkpoint(lambda v: (v * v).sin(), x)
    assert y.grad_fn.saved_values["x"].tolist() == [1.0, 4.0]
    z = h.sin()
    h.add_(1)
    with pytest.raises(cf.OverwrittenError):
        _ = z.grad_fn.saved_values
    z = x.exp()
    z.sum().backward()
    assert z.grad_fn.saved_values == {}


def test_registered_hooks() -> None:
    x = leaf(1.0)
    y = x * 2.0
    assert registered_hooks(x) == registered_hooks(y) == registered_hooks(y.grad_fn) == {}

    def hook(*args: object) -> None:
        pass

    def other(*args: object) -> None:
        pass

    x.register_hook(hook)
    x.register_hook(other)
    x.register_post_accumulate_grad_hook(hook)
    handle = y.register_hook(hook)
    y.grad_fn.register_prehook(other)
    y.grad_fn.register_hook(hook)
    assert registered_hooks(x) == {
        "register_hook": (hook, other), "register_post_accumulate_grad_hook": (hook,),
    }  # fmt: skip
    assert registered_hooks(y) == {"register_hook": (hook,)}
    assert registered_hooks(y.grad_fn) == {"register_prehook": (other,), "register_hook": (hook,)}
    handle.remove()
    assert registered_hooks(y) == {}
    layer = nn.Linear(1, 1)
    layer.register_forward_hook(hook)
    layer.register_full_backward_pre_hook(other)
    assert registered_hooks(layer) == {
        "register_forward_hook": (hook,), "register_full_backward_pre_hook": (other,),
    }  # fmt: skip
    optimizer = cf.optim.SGD(layer.parameters(), lr=0.1)
    optimizer.register_step_post_hook(hook)
    assert registered_hooks(optimizer) == {"register_step_post_hook": (hook,)}
    with refused(
        TypeError,
        "registered_hooks: expected a tensor, a node, a module or an optimizer, not 3.",
    ):
        registered_hooks(3)


def test_every_kind_of_hook_of_a_module_is_listed() -> None:
    for owner in (nn.Linear(1, 1), cf.optim.SGD([leaf(1.0)], lr=0.1)):
        methods = {m for m in dir(owner) if re.fullmatch(r"register_.*_hook", m)}
        assert set(owner.hook_tables()) == methods


# --- tapes -----------------------------------------------------------------------------------


def test_drawing_a_tape() -> None:
    state = cf.zeros(2)

    @cf.compile
    def step(x: Tensor) -> Tensor:
        state.add_(x)
        return x.max(dim=0).values * 2

    step(cf.ones(2))
    drawn = cf.draw(step.tape)
    rows = drawn.split("\n")
    assert rows[0] == "digraph contraflow {"
    assert rows[-1] == "}"
    for line in step.tape.lines:
        assert f'[label="{line.op.name}\\n' in drawn
    assert '[label="write", style=dashed];' in drawn
    boxes = set(re.findall(r'^  "([^"]+)" \[', drawn, re.MULTILINE))
    arrows = re.findall(r'^  "([^"]+)" -> "([^"]+)"', drawn, re.MULTILINE)
    assert {end for arrow in arrows for end in arrow} <= boxes
    text = "tape t\n  input %0 : float32[2]  arg\n  %1 = exp(%0) : float32[2]\n  return %1"
    assert cf.draw(Tape.parse(text)).split("\n")[2:] == [
        '  "%0" [label="%0 arg\\nfloat32[2]", style=filled];',
        '  "%1" [label="exp\\nfloat32[2]"];',
        '  "%0" -> "%1";',
        '  "return" [label="return", style=filled];',
        '  "%1" -> "return";',
        "}",
    ]
    with refused(TypeError, "draw: a tape is drawn by itself, and names its own values."):
        cf.draw(step.tape, names={})


# --- the page about it -----------------------------------------------------------------------


def test_the_examples_of_the_page() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "autograd.md"
    text = page.read_text(encoding="utf-8").replace("```", "")
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    found = doctest.DocTestRunner(optionflags=flags).run(test)
    assert found.attempted > 8
    assert found.failed == 0
