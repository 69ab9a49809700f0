"""Tensors beside other packages, each of them the real one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import contraflow as cf
from contraflow.testing import assert_close

WHY = "`make test` installs it"


def drawn(*shape: int) -> cf.Tensor:
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    return cf.tensor(array)


# --- NumPy -------------------------------------------------------------------------------------


def test_arrays_and_tensors_in_one_expression() -> None:
    t, a = cf.ones(3), np.arange(3, dtype=np.float32)
    before = t
    t += a
    assert t is before
    assert_close(t, cf.tensor([1.0, 2.0, 3.0]))
    t *= a
    t -= a
    assert_close(t, cf.tensor([0.0, 1.0, 4.0]))
    assert isinstance(t + a, cf.Tensor)
    assert isinstance(a + t, (cf.Tensor, np.ndarray))
    np.testing.assert_array_equal(np.asarray(a + t), [0.0, 2.0, 6.0])
    a += t
    np.testing.assert_array_equal(a, [0.0, 2.0, 6.0])
    np.testing.assert_array_equal(np.exp(t), np.exp(t.numpy()))


# --- einops and opt_einsum ---------------------------------------------------------------------


def test_einops_by_its_backend() -> None:
    einops = pytest.importorskip("einops", reason=WHY)
    pytest.importorskip("contraflow.utils.einops", reason=WHY)
    x = drawn(2, 3, 4).requires_grad_()
    n = x.detach().numpy()
    for pattern in ("a b c -> c (a b)", "a b c -> (a c) b", "a b c -> b 1 a c"):
        np.testing.assert_array_equal(
            einops.rearrange(x, pattern).detach().numpy(), einops.rearrange(n, pattern)
        )
    for how in ("mean", "sum", "max", "min", "prod"):
        got = einops.reduce(x, "a b c -> b", how)
        np.testing.assert_allclose(got.detach().numpy(), einops.reduce(n, "a b c -> b", how), 1e-5)
    assert einops.repeat(x, "a b c -> a b c k", k=2).shape == (2, 3, 4, 2)
    joined, shapes = einops.pack([x, x[:, :1]], "a * c")
    assert joined.shape == (2, 4, 4)
    assert [tuple(part.shape) for part in einops.unpack(joined, shapes, "a * c")] == [
        (2, 3, 4),
        (2, 1, 4),
    ]
    got = einops.einsum(x, drawn(4, 5), "a b c, c d -> a b d")
    np.testing.assert_allclose(got.detach().numpy(), n @ drawn(4, 5).numpy(), 1e-5)
    assert einops.asnumpy(x).shape == (2, 3, 4)
    einops.reduce(x, "a b c ->", "sum").backward()
    assert_close(x.grad, cf.ones(2, 3, 4))


def test_einops_inside_a_compiled_function() -> None:
    einops = pytest.importorskip("einops", reason=WHY)
    pytest.importorskip("contraflow.utils.einops", reason=WHY)

    @cf.compile
    def heads(x: cf.Tensor) -> cf.Tensor:
        return einops.rearrange(x * 2, "n t (h d) -> n h t d", h=2)

    x = drawn(2, 3, 4)
    for _ in range(2):
        assert_close(heads(x), (x * 2).reshape(2, 3, 2, 2).transpose(1, 2))


def test_einops_by_the_array_api() -> None:
    api = pytest.importorskip("einops.array_api", reason=WHY)
    x = drawn(2, 3, 4)
    np.testing.assert_array_equal(
        api.rearrange(x, "a b c -> (a c) b").numpy(), x.permute(0, 2, 1).reshape(8, 3).numpy()
    )
    np.testing.assert_allclose(api.reduce(x, "a b c -> a", "max").numpy(), x.numpy().max((1, 2)))


@pytest.mark.parametrize("pattern", ["ij,jk,kl->il", "abc,bd,cd->a", "i,j->ji", "ii,ij->j"])
def test_opt_einsum(pattern: str) -> None:
    opt_einsum = pytest.importorskip("opt_einsum", reason=WHY)
    sizes = dict(zip("abcdijkl", (2, 3, 4, 5, 3, 4, 2, 5)))
    tensors = [drawn(*(sizes[c] for c in part)) for part in pattern.split("->")[0].split(",")]
    if pattern.startswith("ii"):
        tensors = [drawn(3, 3), drawn(3, 4)]
    for t in tensors:
        t.requires_grad_()
    got = opt_einsum.contract(pattern, *tensors)
    assert isinstance(got, cf.Tensor)
    arrays = [t.detach().numpy() for t in tensors]
    np.testing.assert_allclose(got.detach().numpy(), np.einsum(pattern, *arrays), 1e-4, 1e-5)
    got.sum().backward()
    assert all(t.grad is not None for t in tensors)


# --- pictures and logs -------------------------------------------------------------------------


def test_matplotlib_draws_tensors(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib", reason=WHY)
    matplotlib.use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot", reason=WHY)
    figure, axes = plt.subplots(2, 3)
    x = cf.linspace(0.0, 6.0, 20)
    (line,) = axes[0, 0].plot(x, x.sin())
    np.testing.assert_allclose(line.get_ydata(), np.sin(x.numpy()), 1e-5)
    image = axes[0, 1].imshow(drawn(4, 5))
    np.testing.assert_array_equal(image.get_array(), drawn(4, 5).numpy())
    axes[0, 2].scatter(x, x.cos(), c=x)
    counts, _, _ = axes[1, 0].hist(drawn(50), bins=5)
    assert counts.sum() == 50
    axes[1, 1].bar(cf.arange(3), cf.tensor([1.0, 2.0, 3.0]))
    axes[1, 2].fill_between(x, x.sin(), x.cos())
    figure.savefig(tmp_path / "picture.png")
    plt.close(figure)
    assert (tmp_path / "picture.png").stat().st_size > 1000


def test_tensorboardx_writes_what_tensors_hold(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason=WHY)
    from contraflow.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        loss = (drawn(4).requires_grad_() ** 2).sum()
        writer.add_scalar("loss", loss.item(), 1)
        writer.add_scalar("tensor", loss, 1)
        writer.add_histogram("weights", drawn(100), 1)
        writer.add_image("image", drawn(3, 8, 8).sigmoid(), 1)
    (file,) = tmp_path.iterdir()
    text = file.read_bytes()
    assert all(name in text for name in (b"loss", b"tensor", b"weights", b"image"))


# --- tables and models -------------------------------------------------------------------------


def test_pandas() -> None:
    pd = pytest.importorskip("pandas", reason=WHY)
    t = drawn(4, 2)
    frame = pd.DataFrame(t.numpy(), columns=["a", "b"])
    frame["c"] = t[:, 0] * 2
    frame["d"] = t.sum(1)
    np.testing.assert_allclose(frame["c"], 2 * frame["a"])
    assert frame["d"].dtype == np.float32
    assert_close(cf.tensor(frame[["a", "b"]].to_numpy()), t)
    assert_close(cf.tensor(frame["a"]), t[:, 0])
    assert_close(cf.as_tensor(frame[["a", "b"]]), t)
    assert pd.Series(t[:, 1]).iloc[0] == t[0, 1].item()


def test_scikit_learn() -> None:
    linear = pytest.importorskip("sklearn.linear_model", reason=WHY)
    scaling = pytest.importorskip("sklearn.preprocessing", reason=WHY)
    x = drawn(60, 3)
    y = (x @ cf.tensor([1.0, -2.0, 0.5]) > 0).long()
    model = linear.LogisticRegression().fit(x, y)
    assert (cf.tensor(model.predict(x)) == y).float().mean() > 0.9
    scaled = cf.tensor(scaling.StandardScaler().fit_transform(x))
    np.testing.assert_allclose(scaled.std(0, correction=0).numpy(), np.ones(3), 1e-4)
    fitted = linear.LinearRegression().fit(x, x @ cf.tensor([1.0, -2.0, 0.5]))
    np.testing.assert_allclose(fitted.coef_, [1.0, -2.0, 0.5], 1e-4)
