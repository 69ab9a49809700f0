"""Autocast and GradScaler: dtypes, nesting, compiled steps, overflow, and PyTorch's numbers."""

from __future__ import annotations

import numpy as np
import pytest

import contraflow as cf
from contraflow import config
from contraflow.amp import GradScaler, autocast, custom_bwd, custom_fwd
from contraflow.nn import functional as F

LOW = [cf.bfloat16, cf.float16]


@pytest.fixture(params=["off", "interpret", "native"])
def mode(request, monkeypatch):
    monkeypatch.setattr(config, "compile_mode", request.param)
    return request.param


# --- autocast ----------------------------------------------------------------------------------


X, W = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), np.ones((4, 5), np.float32)

PRODUCTS = {
    "matmul": lambda x, w: x @ w,
    "mm": lambda x, w: x.mm(w),
    "vector": lambda x, w: x[0] @ w,
    "bmm": lambda x, w: x[None].bmm(w[None]),
    "addmm": lambda x, w: cf.addmm(cf.ones(5), x, w),
    "linear": lambda x, w: F.linear(x, w.mT, cf.ones(5)),
    "einsum": lambda x, w: cf.einsum("ij,jk->ik", x, w),
    "tensordot": lambda x, w: cf.tensordot(x, w, 1),
    "multi_dot": lambda x, w: cf.linalg.multi_dot([x, w, w.mT]),
    "conv1d": lambda x, w: F.conv1d(x[None], w[:3, :3][None], cf.ones(1)),
    "attention": lambda x, w: F.scaled_dot_product_attention(x, x, x),
}
IN_FLOAT32 = {
    "softmax": lambda x: x.softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "cross_entropy": lambda x: F.cross_entropy(x, cf.tensor([0, 1, 2])),
    "mse_loss": lambda x: F.mse_loss(x, x * 2.0),
    "kl_div": lambda x: F.kl_div(x, x),
    "cdist": lambda x: cf.cdist(x, x),
}


@pytest.mark.parametrize("dtype", LOW, ids=str)
@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS.keys())
def test_products_are_computed_in_the_low_dtype(product, dtype):
    x, w = (cf.tensor(v, requires_grad=True) for v in (X, W))
    with autocast("cpu", dtype):
        out = product(x, w)
    exact = product(x, w)
    assert out.dtype is dtype
    assert exact.dtype is cf.float32
    np.testing.assert_allclose(out.float().detach(), exact.detach(), rtol=0.03, atol=0.03)
    out.sum().backward()
    assert x.grad.dtype is cf.float32
    assert x.grad.shape == x.shape


@pytest.mark.parametrize("function", IN_FLOAT32.values(), ids=IN_FLOAT32.keys())
def test_what_needs_precision_is_computed_in_float32(function):
    x = cf.tensor(X, requires_grad=True).to(cf.bfloat16)
    with autocast("cpu"):
        out = function(x)
    assert out.dtype is cf.float32
    expected = function(x.float())
    np.testing.assert_array_equal(out.detach(), expected.detach())
    out.sum().backward()


def test_other_ops_and_float64_stay_as_they_are():
    x, y = cf.tensor(X), cf.tensor(X, dtype=cf.float64)
    with autocast("cpu"):
        low = x @ x.mT
        assert (low * 2.0).exp().dtype is cf.bfloat16
        assert (low + cf.ones(3)).dtype is cf.float32  # promoted
        assert (y @ y.mT).dtype is cf.float64
        assert cf.stack([low, cf.ones(3, 3)]).dtype is cf.float32


def test_nested_and_disabled_regions():
    x = cf.tensor(X)

    def dtype():
        return (x @ x.mT).dtype

    with autocast("cpu", cf.float16):
        assert dtype() is cf.float16
        assert cf.amp.is_autocast_enabled("cpu")
        assert cf.amp.get_autocast_dtype("cpu") is cf.float16
        with autocast("cpu", enabled=False):
            assert dtype() is cf.float32
            with autocast("cpu"):
                assert dtype() is cf.bfloat16
        assert dtype() is cf.float16
        with pytest.raises(RuntimeError, match="stop"), autocast("cpu"):
            raise RuntimeError("stop")
        assert dtype() is cf.float16
    assert dtype() is cf.float32
    assert not cf.amp.is_autocast_enabled()
    decorated = autocast("cpu")(dtype)
    assert decorated() is cf.bfloat16
    assert dtype() is cf.float32


def test_errors_of_autocast():
    with pytest.raises(ValueError, match=r"autocast: dtype is float32; it must be contraflow\.bfl"):
        autocast("cpu", cf.float32)
    with pytest.raises(ValueError, match="device: 'tpu' is not a device"):
        autocast("tpu")


def test_backward_in_the_region_uses_the_dtypes_of_the_forward():
    grads = []
    for inside in (True, False):
        x = cf.tensor(X, requires_grad=True)
        with autocast("cpu"):
            loss = (x.exp() @ x.mT.exp()).sum().float()
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        grads.append(x.grad.tolist())
    assert grads[0] == grads[1]


@pytest.mark.parametrize("size", [3, 128])  # the large one runs as generated code
def test_parts_of_a_composite_follow_it(size):
    x = cf.ones(size, size, requires_grad=True)
    with autocast("cpu"):
        out = F.huber_loss((x @ x) * 0.5, cf.zeros(size, size))
        kept = x.kron(cf.ones(1, 1))
    assert out.dtype is cf.float32
    assert kept.dtype is cf.float32
    out.backward()
    assert x.grad.dtype is cf.float32


def test_checkpoint_recomputes_in_the_mode_of_the_forward():
    grads = []
    for checkpointed in (True, False):
        x = cf.tensor(X, requires_grad=True)

        def function(v):
            return ((v @ v.mT).exp() @ v).sum()

        with autocast("cpu"):
            out = cf.checkpoint(function, x) if checkpointed else function(x)
        out.backward()
        grads.append(x.grad.tolist())
    assert grads[0] == grads[1]


def test_forward_mode():
    x, t = cf.tensor(X), cf.tensor(X[::-1].copy())
    with autocast("cpu"):
        out, tangent = cf.func.jvp(lambda v: v @ v.mT, (x,), (t,))
    assert out.dtype is tangent.dtype is cf.bfloat16
    expected = X @ X[::-1].T + X[::-1] @ X.T
    np.testing.assert_allclose(tangent.float(), expected, rtol=0.02, atol=0.02)


def test_a_compiled_function_is_recorded_for_each_mode(mode):
    function = cf.compile(lambda x: (x @ x.mT) * 2.0)
    x = cf.tensor(X)
    for _ in range(2):
        assert function(x).dtype is cf.float32
        for dtype in LOW:
            with autocast("cpu", dtype):
                assert function(x).dtype is dtype
    assert function.captures == (0 if mode == "off" else 3)


MODELS = {
    "transformer": lambda: cf.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
    "lstm": lambda: cf.nn.LSTM(8, 4, batch_first=True),
    "convolution": lambda: cf.nn.Sequential(
        cf.nn.Unflatten(1, (1, 5)), cf.nn.Conv2d(1, 4, 3), cf.nn.BatchNorm2d(4), cf.nn.ReLU()
    ),
}  # fmt: skip


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
def test_models(make, mode):
    cf.manual_seed(0)
    model, x = make(), cf.randn(2, 5, 8)

    def loss_of(x):
        out = model(x)
        return F.mse_loss(out[0] if isinstance(out, tuple) else out, cf.tensor(0.5))

    @cf.compile
    def step(x):
        with autocast("cpu"):
            loss = loss_of(x)
        loss.backward()
        return loss.detach()

    loss = step(x)
    grads = [p.grad for p in model.parameters()]
    model.zero_grad()
    expected = loss_of(x)
    expected.backward()
    assert loss.dtype is cf.float32
    assert loss.item() == pytest.approx(expected.item(), rel=0.02)
    for g, p in zip(grads, model.parameters()):
        assert g.dtype is cf.float32
        scale = p.grad.abs().max().item()
        np.testing.assert_allclose(g, p.grad, rtol=0, atol=0.05 * scale + 0.02)


class Product(cf.autograd.Function):
    """A product that notes the dtypes it is given."""

    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x @ x.mT

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        seen.append((x @ x.mT).dtype)
        return (g + g.mT) @ x


class InFloat32(cf.autograd.Function):
    """The same, always in float32."""

    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=cf.float32)
    def forward(ctx, x):
        seen.append(x.dtype)
        return x @ x.mT

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx, g):
        seen.append((g @ g).dtype)
        return g @ cf.tensor(X)


seen: list[cf.dtype] = []


def test_custom_functions():
    seen.clear()
    x = cf.tensor(X, requires_grad=True)
    with autocast("cpu"):
        out = Product.apply(x)
    assert out.dtype is cf.bfloat16
    out.sum().backward()
    with autocast("cpu"):
        out = InFloat32.apply(x.to(cf.bfloat16))
    assert out.dtype is cf.float32
    out.sum().backward()
    assert seen == [cf.bfloat16, cf.float32, cf.float32]


# --- GradScaler --------------------------------------------------------------------------------


def trained(kind, mode, dtype, spikes=(), steps=12, **options):
    """Parameters, scales and counters after steps, some with inputs that are not finite."""
    cf.manual_seed(0)
    model = cf.nn.Sequential(cf.nn.Linear(6, 8), cf.nn.Tanh(), cf.nn.Linear(8, 3))
    optimizer = kind(model.parameters(), lr=0.01, **options)
    scaler = GradScaler(init_scale=1024.0, growth_interval=3)

    def step(x, y):
        optimizer.zero_grad()
        with autocast("cpu", dtype):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    run = cf.compile(step)
    rng = np.random.default_rng(1)
    scales = []
    for i in range(steps):
        x = rng.standard_normal((8, 6)).astype(np.float32)
        if i in spikes:
            x[0, 0] = np.inf
        run(cf.tensor(x), cf.tensor(rng.integers(0, 3, 8)))
        scales.append(scaler.get_scale())
    assert run.captures == (0 if config.compile_mode == "off" else 1)
    assert all(p.dtype is cf.float32 for p in model.parameters())
    counts = [s["step"].value for s in optimizer.state.values() if "step" in s]
    return [p.detach().numpy() for p in model.parameters()], scales, counts


@pytest.mark.parametrize("dtype", LOW, ids=str)
@pytest.mark.parametrize(
    ("kind", "options"),
    [(cf.optim.Adam, {"amsgrad": True}), (cf.optim.SGD, {"momentum": 0.9}), (cf.optim.NAdam, {})],
)
def test_steps_that_overflow_are_skipped(kind, options, dtype, mode, monkeypatch):
    actual, scales, counts = trained(kind, mode, dtype, (0, 5), **options)
    assert scales == [512, 512, 512, 1024, 1024, 512, 512, 512, 1024, 1024, 1024, 2048]
    assert set(counts) <= {10}
    monkeypatch.setattr(config, "compile_mode", "off")
    expected, *_ = trained(kind, mode, dtype, (0, 5), **options)
    for a, b in zip(actual, expected):
        # Fused code rounds less often than eager does.
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-3 if mode == "native" else 1e-6)
        assert np.isfinite(a).all()


def test_a_skipped_step_leaves_every_bit(mode):
    p = cf.tensor([1.0, 2.0], requires_grad=True)
    optimizer, scaler = cf.optim.Adam([p], lr=0.1), GradScaler(init_scale=4.0)

    @cf.compile
    def step(x):
        optimizer.zero_grad()
        scaler.scale((p * x).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    step(cf.ones(2))
    before = {k: v.clone() for k, v in optimizer.state[p].items() if isinstance(v, cf.Tensor)}
    value = p.tolist()
    step(cf.tensor([1.0, float("nan")]))
    assert p.tolist() == value
    assert optimizer.state[p]["step"].value == 1
    for name, kept in before.items():
        assert optimizer.state[p][name].tolist() == kept.tolist()
    assert scaler.get_scale() == 2.0
    step(cf.ones(2))
    assert optimizer.state[p]["step"].value == 2
    assert p.tolist() != value


def test_factors_can_change_without_recording_again(mode):
    p = cf.ones(2, requires_grad=True)
    optimizer, scaler = cf.optim.SGD([p], lr=0.1), GradScaler(init_scale=4.0, growth_interval=1)

    @cf.compile
    def step(x):
        optimizer.zero_grad()
        scaler.scale((p * x).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    step(cf.ones(2))
    assert scaler.get_scale() == 8.0
    scaler.set_growth_factor(4.0)
    step(cf.ones(2))
    assert scaler.get_scale() == 32.0
    scaler.set_backoff_factor(0.25)
    step(cf.tensor([1.0, float("inf")]))
    assert scaler.get_scale() == 8.0
    scaler.set_growth_interval(2)
    step(cf.ones(2))
    assert (scaler.get_scale(), scaler.get_growth_interval()) == (8.0, 2)
    assert step.captures == (0 if mode == "off" else 1)


def test_clipping_between_unscale_and_step():
    p = cf.ones(2, requires_grad=True)
    optimizer, scaler = cf.optim.SGD([p], lr=1.0), GradScaler()
    scaler.scale((p * 3.0).sum()).backward()
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [3.0, 3.0]
    p.grad.clamp_(max=1.0)
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0.0, 0.0]


def test_scale_of_structures_and_a_scaler_that_is_not_enabled():
    scaler = GradScaler(init_scale=2.0)
    a, (b,) = scaler.scale((cf.ones(1), [cf.ones(1)]))
    assert a.item() == b.item() == 2.0
    scaler.update(16.0)
    assert scaler.get_scale() == 16.0
    off = GradScaler(enabled=False)
    p = cf.ones(1, requires_grad=True)
    optimizer = cf.optim.SGD([p], lr=1.0)
    off.scale(p.sum()).backward()
    off.unscale_(optimizer)
    off.step(optimizer)
    off.update()
    assert (p.item(), off.get_scale(), off.state_dict(), off.is_enabled()) == (0.0, 1.0, {}, False)


def test_state_of_a_scaler():
    scaler = GradScaler(init_scale=8.0, growth_interval=5)
    p = cf.ones(1, requires_grad=True)
    optimizer = cf.optim.SGD([p])
    scaler.scale(p.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    saved = scaler.state_dict()
    assert saved == {
        "scale": 8.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 5,
        "_growth_tracker": 1,
    }  # fmt: skip
    twin = GradScaler()
    twin.load_state_dict(saved)
    assert twin.state_dict() == saved
    with pytest.raises(ValueError, match="the state is empty"):
        twin.load_state_dict({})


@pytest.mark.parametrize("over", ["profiler", "forward mode"])
def test_contexts_over_a_recording_are_part_of_it(over):
    """What was unscaled under one of them is not unscaled again."""

    def life(compiler):
        p = cf.tensor([1.0, 2.0], requires_grad=True)
        optimizer, scaler = cf.optim.SGD([p], lr=0.5), GradScaler(init_scale=8.0)

        def step(x):
            optimizer.zero_grad()
            scaler.scale((p * x).sum()).backward()
            if over == "profiler":
                with cf.profiler.profile():
                    scaler.unscale_(optimizer)
            else:
                cf.func.jvp(lambda t: (scaler.unscale_(optimizer), t)[1], (x,), (x,))
            scaler.step(optimizer)
            scaler.update()
            return p.detach().clone()

        call = compiler(step)
        return [call(cf.tensor([0.5, k])).tolist() for k in range(3)]

    assert life(cf.compile) == life(lambda f: f)


def test_a_step_is_not_split_between_eager_and_compiled_code():
    p = cf.tensor([1.0, 2.0], requires_grad=True)
    optimizer, scaler = cf.optim.SGD([p], lr=0.5), GradScaler(init_scale=8.0)

    def backward():
        optimizer.zero_grad()
        scaler.scale((p * p).sum()).backward()

    @cf.compile
    def finish():
        scaler.step(optimizer)
        scaler.update()

    for _ in range(4):
        backward()
        finish()
    before = p.tolist()
    backward()
    scaler.unscale_(optimizer)
    with pytest.raises(cf.CaptureError, match=r"unscale_ was called outside of the compiled"):
        finish()
    assert p.tolist() == before
    scaler.step(optimizer)
    scaler.update()
    compiled_step = cf.compile(lambda: scaler.step(optimizer))
    backward()
    compiled_step()
    with pytest.raises(cf.GradientError, match=r"call unscale_, step and update in one function"):
        scaler.update()


def test_errors_of_a_scaler():
    p = cf.ones(1, requires_grad=True)
    optimizer, scaler = cf.optim.SGD([p]), GradScaler()
    with pytest.raises(ValueError, match="GradScaler: growth_factor is 1; it must be above 1"):
        GradScaler(growth_factor=1)
    with pytest.raises(cf.GradientError, match="no step was made since"):
        scaler.update()
    with pytest.raises(ValueError, match="no parameter of this optimizer has a gradient"):
        scaler.step(optimizer)
    scaler.scale(p.sum()).backward()
    with pytest.raises(TypeError, match="a closure cannot be used"):
        scaler.step(optimizer, lambda: None)
    scaler.unscale_(optimizer)
    with pytest.raises(cf.GradientError, match="are unscaled already"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(cf.GradientError, match="called already since the last update"):
        scaler.step(optimizer)
    with pytest.raises(cf.GradientError, match="step has been called already"):
        scaler.unscale_(optimizer)
    scaler.update()
    half = cf.ones(1, dtype=cf.float16, requires_grad=True)
    scaler.scale(half.sum()).backward()
    with pytest.raises(ValueError, match=r"float16\[1\] is a gradient in float16"):
        scaler.unscale_(cf.optim.SGD([half]))


def test_a_recording_that_fails_leaves_the_scaler_usable(monkeypatch):
    monkeypatch.setattr(config, "compile_mode", "interpret")
    p = cf.ones(1, requires_grad=True)
    optimizer, scaler = cf.optim.SGD([p], lr=1.0), GradScaler()

    @cf.compile
    def step():
        scaler.scale(p.sum()).backward()
        scaler.step(optimizer)
        return p.item()

    for _ in range(2):
        with pytest.raises(cf.CaptureError, match="item"):
            step()
    scaler.scale(p.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert p.item() == 0.0


# --- PyTorch -----------------------------------------------------------------------------------


@pytest.mark.peers
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_agree_with_pytorch(name):
    torch = pytest.importorskip(
        "torch", reason="compares with PyTorch, which `make peers` installs"
    )
    theirs = {
        "addmm": lambda x, w: torch.addmm(torch.ones(5), x, w),
        "linear": lambda x, w: torch.nn.functional.linear(x, w.mT, torch.ones(5)),
        "einsum": lambda x, w: torch.einsum("ij,jk->ik", x, w),
        "tensordot": lambda x, w: torch.tensordot(x, w, 1),
        "multi_dot": lambda x, w: torch.linalg.multi_dot([x, w, w.mT]),
        "conv1d": lambda x, w: torch.nn.functional.conv1d(
            x[None], w[:3, :3][None], torch.ones(1)
        ),
        "attention": lambda x, w: torch.nn.functional.scaled_dot_product_attention(x, x, x),
    }  # fmt: skip
    a, b = cf.tensor(X, requires_grad=True), torch.tensor(X, requires_grad=True)
    with autocast("cpu"):
        mine = PRODUCTS[name](a, cf.tensor(W))
    with torch.autocast("cpu"):
        other = theirs.get(name, PRODUCTS[name])(b, torch.tensor(W))
    assert other.dtype is torch.bfloat16
    rounding = {"rtol": 2**-7, "atol": 2**-7}
    np.testing.assert_allclose(mine.float().detach(), other.float().detach(), **rounding)
    mine.float().sum().backward()
    other.float().sum().backward()
    np.testing.assert_allclose(a.grad, b.grad, **rounding)


@pytest.mark.peers
def test_scaler_agrees_with_pytorch():
    torch = pytest.importorskip(
        "torch", reason="compares with PyTorch, which `make peers` installs"
    )
    p, q = cf.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    ours, theirs = cf.optim.Adam([p], lr=0.1), torch.optim.Adam([q], lr=0.1)
    options = {"init_scale": 2.0**100, "growth_interval": 2}
    mine, other = GradScaler(**options), torch.amp.GradScaler("cpu", **options)
    for i in range(60):
        x = float("nan") if i % 7 == 3 else float(i)
        for t, optimizer, scaler in ((p, ours, mine), (q, theirs, other)):
            optimizer.zero_grad()
            scaler.scale((t * t * x).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        assert mine.state_dict() == other.state_dict()
        np.testing.assert_allclose(p.detach(), q.detach(), atol=1e-5)


def test_operators_are_cast_as_functions_are() -> None:
    a = cf.randn(4, 4)
    with cf.amp.autocast("cpu", dtype=cf.bfloat16):
        assert (a @ a).dtype is cf.bfloat16
        assert cf.matmul(a, a).dtype is cf.bfloat16
        assert (a * a).dtype is cf.float32
