"""Compiled functions, gradients, tools and messages on the walled device: each program gives what
it gives on the cpu, and leaves its tensors where they are.

Each runs twice, as in `test_walled_library.py`.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.helpers.two_places import drawn, run_on, same, small, train, whole
from tests.helpers.walled import opened

import contraflow as cf
import contraflow.nn.functional as F
from contraflow import func, nn, optim
from contraflow.autograd import Function, grad
from contraflow.tensors.typed import TensorType
from contraflow.testing import assert_close


@pytest.fixture(autouse=True, scope="module")
def device():
    with opened() as found:
        yield found


# --- functions that are compiled -----------------------------------------------------------------

DRAWS: dict[str, Callable[[cf.Tensor], Any]] = {
    "rand": lambda x: cf.rand(3, device=x.device) + x,
    "randn": lambda x: F.dropout(x, 0.5) + cf.randn(3, device=x.device),
    "randperm": lambda x: x[cf.randperm(3, device=x.device)],
    "bernoulli": lambda x: cf.bernoulli(x.sigmoid()),
    "normal_": lambda x: x.clone().normal_(),
    "gumbel": lambda x: F.gumbel_softmax(x),
}

NUMBERS: dict[str, Callable[[cf.Tensor, float], Any]] = {
    "mul": lambda x, n: x * n,
    "full": lambda x, n: cf.full((3,), n, device=x.device),
    "full and add": lambda x, n: x + cf.full((3,), n, device=x.device),
    "clamp": lambda x, n: x.clamp(-n, n),
    "fill": lambda x, n: x.clone().fill_(n),
    "where": lambda x, n: cf.where(x > n, x, n),
    "view": lambda x, n: x[int(n) - 2 :],
}

VIEWS: dict[str, Callable[[cf.Tensor], Any]] = {
    "deepcopy": copy.deepcopy,
    "slice": lambda x: x[1:],
    "several": lambda x: (x, x[0]),
    "detach": lambda x: x.detach(),
    "numpy": lambda x: x * np.ones(3, np.float32),
}


@pytest.mark.parametrize("name", [*DRAWS, *VIEWS])
def test_compiled_functions_draw_and_view_on_their_device(name):
    function = {**DRAWS, **VIEWS}[name]
    same(lambda place: [function(drawn(place, 3)), cf.compile(function)(drawn(place, 3))])


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_among_the_arguments(name):
    function = NUMBERS[name]

    def program(place: str) -> Any:
        compiled = cf.compile(function)
        results = [compiled(drawn(place, 3), 2.0), compiled(drawn(place, 3), 3.0)]
        assert compiled.captures == (2 if name == "view" else 1)
        whole_numbers = cf.compile(function)
        results += [whole_numbers(drawn(place, 3), 2), whole_numbers(drawn(place, 3), 3)]
        assert whole_numbers.captures == compiled.captures
        return results

    same(program)


def test_arrays_among_the_arguments():
    def program(place: str) -> Any:
        array = np.ones(3, np.float32)
        functions = [
            lambda x, a: x * a,
            lambda x, a: a - x,
            lambda x, a: x * cf.tensor(a, device=place),
            lambda x, a: x * x.new_tensor(a),
        ]
        return [cf.compile(function)(drawn(place, 3), array) for function in functions]

    same(program)


def test_arrays_meet_tensors_where_those_lie():
    def program(place: str) -> Any:
        x, array = drawn(place, 2, 3), np.ones(3, np.float32)
        y = x.clone()
        y[cf.tensor([0, 1], device=place)] = np.zeros((2, 3))
        return [x * array, array - x, x + np.float32(2), y]

    same(program)


def test_integers_to_negative_powers():
    def program(place: str) -> Any:
        base = cf.tensor([7, -1, 1, 2], device=place)
        return base ** cf.tensor([-1, -3, -2, 5], device=place)

    same(program)


# --- gradients -----------------------------------------------------------------------------------


def test_checkpoints_run_twice():
    def program(place: str) -> Any:
        runs = []

        def block(x: cf.Tensor) -> cf.Tensor:
            runs.append(str(cf.zeros(1).device))
            return F.dropout((x * x).tanh().sin(), 0.3) * x

        x = drawn(place, 4, requires_grad=True)
        cf.checkpoint(block, cf.checkpoint(block, x)).sum().backward()
        assert len(runs) == 4
        assert len(set(runs)) == 1  # a user's function makes tensors where the user says
        return [x, x.grad]

    same(program)


def test_hooks_on_saved_values_see_each_once():
    def program(place: str) -> Any:
        x = drawn(place, 3, requires_grad=True)
        packed: list[Any] = []
        unpacked: list[Any] = []
        with cf.autograd.saved_tensors_hooks(
            lambda t: packed.append(t) or t.cpu(), lambda t: unpacked.append(t) or t.to(place)
        ):
            y = (x * x).sin().sum()
        y.backward()
        assert len(packed) == len(unpacked) > 0
        return x.grad

    same(program)


def test_hooks():
    def program(place: str) -> Any:
        module = small(place)
        seen: list[Any] = []
        module[0].register_forward_hook(lambda m, args, out: seen.append(out.detach()))
        module[3].register_full_backward_hook(lambda m, gi, go: seen.extend((*gi, *go)))
        x = drawn(place, 4, 3, requires_grad=True)
        x.register_hook(lambda g: g * 2)
        x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.clone()))
        h = module(x)
        h.retain_grad()
        h.square().sum().backward()
        return [seen, x.grad, h.grad]

    same(program)


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: cf.Tensor, unused: cf.Tensor) -> Any:
        ctx.save_for_backward(x)
        return x**3, unused * 2

    @staticmethod
    def backward(ctx: Any, g: cf.Tensor, other: cf.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return g * 3 * x**2 + other.sum(), other


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_custom_functions(compiled):
    def program(place: str) -> Any:
        def run(x: cf.Tensor, z: cf.Tensor) -> Any:
            return grad(Cube.apply(x, z)[0].sum(), [x, z])

        x, z = (drawn(place, 3, seed=i, requires_grad=True) for i in range(2))
        return list((cf.compile(run) if compiled else run)(x, z))

    same(program)


def f(x: cf.Tensor) -> cf.Tensor:
    return (x.sin() * x.exp()).cumsum(0).sum() + F.softmax(x, 0).prod()


TRANSFORMS: dict[str, Callable[[str, cf.Tensor], Any]] = {
    "grad": lambda place, x: func.grad(f)(x),
    "value_and_grad": lambda place, x: func.value_and_grad(f)(x),
    "vjp": lambda place, x: func.vjp(cf.sin, x)[1](x),
    "jvp": lambda place, x: func.jvp(f, (x,), (x,)),
    "jacrev": lambda place, x: func.jacrev(lambda t: t.sin() * t.sum())(x),
    "jacfwd": lambda place, x: func.jacfwd(lambda t: t.sin() * t.sum())(x),
    "hessian": lambda place, x: func.hessian(f)(x),
    "hvp": lambda place, x: func.hvp(f, (x,), (x,)),
    "vmap": lambda place, x: func.vmap(lambda a, b: a * b.sum())(x, x.expand(3, 3)),
    "vmap of grad": lambda place, x: func.vmap(func.grad(f))(x.expand(2, 3)),
    "vmap and draw": lambda place, x: func.vmap(
        lambda t: F.dropout(t, 0.5) + cf.randn(3, device=place), randomness="different"
    )(x.expand(2, 3)),
    "vmap over indices": lambda place, x: func.vmap(lambda i: x[i] * 2)(
        cf.tensor([2, 0], device=place)
    ),
    "vmap and write": lambda place, x: func.vmap(lambda t: cf.zeros_like(t).add_(t))(
        x.expand(2, 3)
    ),
    "vmap and detach": lambda place, x: func.vmap(
        lambda row: func.vmap(lambda y: (row.detach() * y).sum())(row)
    )(x.expand(2, 3)),
    "compiled jacrev": lambda place, x: cf.compile(func.jacrev(lambda t: t.sin() * t.sum()))(x),
    "compiled vmap": lambda place, x: cf.compile(func.vmap(func.grad(f)))(x.expand(2, 3)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transform(name):
    same(lambda place: TRANSFORMS[name](place, drawn(place, 3)))


def test_functional_call():
    def program(place: str) -> Any:
        module = nn.Linear(3, 2).to(place)
        params = dict(module.named_parameters())
        x = drawn(place, 4, 3)

        def loss(params: Any, x: cf.Tensor) -> cf.Tensor:
            return func.functional_call(module, params, (x,)).square().sum()

        return [func.grad(loss)(params, x), func.vmap(func.grad(loss), (None, 0))(params, x)]

    same(program)


def test_transfers_inside_transforms():
    x = drawn("cpu", 3)
    there = x.to("walled")
    found = func.vmap(lambda t: (t.to("walled") * 2).sin())(x)
    assert str(found.device) == "walled"
    assert_close(found, (x * 2).sin())
    found = func.vmap(lambda t: (t * 2).cpu())(there)
    assert str(found.device) == "cpu"
    value, tangent = func.jvp(lambda t: (t.to("walled") ** 2).cpu(), (x,), (cf.ones(3),))
    assert (str(value.device), str(tangent.device)) == ("cpu", "cpu")
    assert_close(tangent, 2 * x)
    value, tangent = func.jvp(lambda t: t.to("walled") ** 2, (x,), (cf.ones(3),))
    assert str(tangent.device) == "walled"
    assert_close(func.jacrev(lambda t: t.to("walled") ** 2)(x), cf.diag(2 * x))
    # A tensor of the cpu without dims passes, and its tangent with it.
    two = cf.tensor(2.0)
    value, tangent = func.jvp(lambda s: there * s, (two,), (cf.tensor(3.0),))
    assert str(tangent.device) == "walled"
    assert_close(tangent, 3 * x)


def test_backward_by_several_threads():
    def program(place: str) -> Any:
        x, w = drawn(place, 4, 6, requires_grad=True), drawn(place, 6, 6, requires_grad=True)
        parts = [((x * float(k)) @ w).tanh().sum() for k in range(20)]
        sum(parts).backward(workers=4)
        return [x.grad, w.grad]

    same(program)


def test_gradcheck():
    def program(place: str) -> Any:
        x = drawn(place, 3).double().requires_grad_()
        assert cf.autograd.gradcheck(lambda t: t.sin() * t, [x])
        assert cf.autograd.gradgradcheck(lambda t: t.sin() * t, [x])
        return x

    same(program)


def test_anomalies():
    for place in ("walled", "cpu"):

        def program(place: str) -> Any:
            x = cf.tensor([0.0, 1.0], device=place, requires_grad=True)
            with cf.autograd.detect_anomaly():
                (x.sqrt() * 0.0).sum().backward()

        with pytest.raises(cf.GradientError, match="sqrt"):
            run_on(place, program)


def test_graphs_are_described():
    def program(place: str) -> Any:
        x = drawn(place, 4, 3, requires_grad=True)
        out = small(place)(x).sum()
        graph = cf.autograd.graph.Graph(out)
        assert graph.saved_bytes > 0
        assert str(graph)
        assert cf.draw(out)
        store = cf.autograd.gradients(out)
        return store[x]

    same(program)


# --- tools ---------------------------------------------------------------------------------------


def test_verified_programs():
    def program(place: str) -> Any:
        w = drawn(place, 3, requires_grad=True)
        counter = cf.zeros((), device=place)

        def step(x: cf.Tensor) -> cf.Tensor:
            counter.add_(1)
            (x * w).sum().backward()
            return (x * w).sin() + counter

        run = cf.compile(step, verify=True)
        return [run(drawn(place, 3)), run(drawn(place, 3, seed=1)), counter, w.grad]

    same(program)


def test_profiles():
    def program(place: str) -> Any:
        x = drawn(place, 3, requires_grad=True)
        run = cf.compile(lambda x: (x.sin() * x).sum())
        with cf.profiler.profile() as found:
            (x.exp() * 2).sum().backward()
            run(x)
        assert "exp" in found.key_averages().table()
        return x.grad

    same(program)


def test_files(tmp_path):
    def program(place: str) -> Any:
        module = small(place)
        optimizer = optim.Adam(module.parameters())
        train(module, optimizer, drawn(place, 4, 3))
        path = tmp_path / f"{place}.safetensors"
        cf.save({"module": module.state_dict(), "optimizer": optimizer.state_dict()}, path)
        found = cf.load(path, map_location=place)
        other = small(place)
        other.load_state_dict(found["module"])
        again = optim.Adam(other.parameters())
        again.load_state_dict(cf.load(path)["optimizer"])
        train(other, again, drawn(place, 4, 3))
        with cf.inference_mode():
            assert cf.load(path, map_location=place)["module"]["0.weight"].is_inference()
        return [found["module"], other.state_dict()]

    same(program)


def test_batches(device):
    def program(place: str) -> Any:
        dataset = cf.data.TensorDataset(drawn(place, 6, 2), whole(place, 3, 6))
        loader = cf.data.DataLoader(dataset, batch_size=4, shuffle=True)
        first, second = cf.data.random_split(dataset, [2, 4])
        return [list(loader), first[0], second.indices]

    same(program)
    before = device.runs, device.uploads
    run_on("cpu", lambda place: list(cf.data.RandomSampler(range(5))))
    run_on("cpu", lambda place: list(cf.data.WeightedRandomSampler([1.0, 2.0], 3)))
    assert (device.runs, device.uploads) == before  # orders are drawn on the host
    here = cf.data.TensorDataset(drawn("cpu", 6, 2))
    for (batch,) in cf.data.DataLoader(here, batch_size=3, pin_memory=True):
        assert str(batch.to("walled", non_blocking=True).device) == "walled"


# --- messages ------------------------------------------------------------------------------------


def test_mixed_devices_are_named():
    x, y = drawn("walled", 2, 3), drawn("cpu", 2, 3)
    module = nn.Linear(3, 2)
    with pytest.raises(cf.DeviceError) as found:
        module(x)
    assert str(found.value).startswith(
        "linear: x is float32[2, 3] on walled and weight is float32[2, 3] on cpu at "
        "test_walled_engine.py:"
    )
    with pytest.raises(cf.DeviceError, match=r"stack: .* on walled and .* on cpu at test_"):
        cf.stack([x, y])
    with pytest.raises(
        cf.DeviceError, match=r"mse_loss: .* on walled and .* on cpu at test_walled"
    ):
        F.mse_loss(x, y)
    with pytest.raises(cf.DeviceError, match="must lie on one device"):
        cf.compile(lambda a, b: a + b)(x, y)


def test_results_are_written_on_their_own_device():
    x, wrong = drawn("walled", 2, 3), cf.zeros(2, 3)
    text = (
        r": result is .* on walled and out is .* on cpu at test_walled_engine.py:\d+; tensors must "
        r"lie on one device. Move the result itself: out.copy_\(result\)"
    )
    with pytest.raises(cf.DeviceError, match="add" + text):
        cf.add(x, 1, out=wrong)
    with pytest.raises(cf.DeviceError, match="ones" + text):
        cf.ones(2, 3, device="walled", out=wrong)
    empty = cf.empty(0)
    with pytest.raises(cf.DeviceError, match="sort" + text):
        cf.sort(x, out=(wrong, empty))
    assert wrong.tolist() == cf.zeros(2, 3).tolist()
    assert empty.shape == (0,)
    right = cf.zeros(2, 3, device="walled")
    assert cf.add(x, 1, out=right) is right
    assert_close(right, x + 1)


def test_gradients_of_transfers_move_however_often_they_are_taken():
    """What was learned of the rules of small nodes of the cpu does not stand for a transfer."""
    for _ in range(4):
        a = cf.ones(3).requires_grad_()
        there = a.to("walled")
        back = (there * there).to("cpu")
        (g,) = cf.autograd.grad((back * a).to("walled").sum(), a, create_graph=True)
        (h,) = cf.autograd.grad(g.sum(), a)
        assert (str(g.device), str(h.device), h.tolist()) == ("cpu", "cpu", [6.0] * 3)


def test_gradients_lie_where_their_tensors_do():
    x = drawn("walled", 3, requires_grad=True)
    message = r"backward: tensor is float32\[3\] on walled and gradient is float32\[3\] on cpu at "
    with pytest.raises(cf.DeviceError, match=message):
        grad(x * 2, x, cf.ones(3))
    with pytest.raises(cf.DeviceError, match=message):
        (x * 2).backward(cf.ones(3))
    x.register_hook(lambda g: g.cpu())
    message = r"hook: gradient is float32\[3\] on walled and result is float32\[3\] on cpu at "
    with pytest.raises(cf.DeviceError, match=message):
        (x * 2).sum().backward()


def test_ops_of_the_host_are_named_as_they_were_called():
    x = drawn("walled", 3)
    for name, call in {
        "unique": lambda: x.unique(),
        "masked_select": lambda: x.masked_select(x > 0),
        "getitem": lambda: x[x > 0],
        "isin": lambda: cf.isin(x, x),
    }.items():
        with pytest.raises(cf.DeviceError, match=rf"{name}: it runs on .*, at test_walled_engin"):
            call()


def test_masks_of_the_cpu_pass():
    x = drawn("walled", 3, 2)
    mask = np.array([True, False, True])
    for key in (mask, mask.tolist(), cf.tensor(mask)):
        assert str(x[key].device) == "walled"
        assert_close(x[key], x.cpu()[key])
    y = x.clone()
    y[cf.tensor(mask)] = 0.0
    y[:, [True, False]] = cf.ones(3, 1, device="walled")
    expected = x.cpu()
    expected[mask] = 0.0
    expected[:, 0] = 1.0
    assert_close(y, expected)


def test_types_of_tensors_have_a_device():
    x, there = cf.ones(2), drawn("walled", 3).int()
    assert (str(x.type_as(there).device), x.type_as(there).dtype) == ("walled", cf.int32)
    assert (str(there.type_as(x).device), there.type_as(x).dtype) == ("cpu", cf.float32)
    assert str(there.type(cf.float32).device) == "walled"  # a dtype alone
    for cpu in (cf.FloatTensor, "torch.FloatTensor"):
        assert (str(there.type(cpu).device), there.type(cpu).dtype) == ("cpu", cf.float32)
    walled = TensorType("WalledTensor", (), {"dtype": cf.float32, "place": "walled"})
    assert isinstance(walled(2, 3), walled)
    assert walled(2, 3).shape == (2, 3)
    assert str(x.type(walled).device) == "walled"
    assert not isinstance(x, walled)


def test_names_of_devices():
    there = cf.device("walled")
    assert str(there) == there.type == "walled"
    assert cf.device(there) == there == drawn("walled", 2).device
    assert pickle.loads(pickle.dumps(there)) == there
    assert copy.deepcopy(there) == there
    assert eval(repr(there), {"device": cf.device}) == there
    assert str(cf.zeros(2, device=there).to(cf.device("cpu")).device) == "cpu"
