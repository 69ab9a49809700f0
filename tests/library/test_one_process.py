"""PyTorch's names for several processes, its tracers and its downloads, as far as they are here."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import contraflow as cf
from contraflow import distributed as dist
from contraflow.testing import assert_close


@pytest.fixture
def group():
    dist.init_process_group("gloo", rank=0, world_size=1)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_without_a_group_questions_are_refused() -> None:
    assert not dist.is_available()
    assert not dist.is_initialized()
    for ask in (dist.get_rank, dist.get_world_size, dist.barrier):
        with pytest.raises(ValueError, match=f"{ask.__name__}: there is no group"):
            ask()
    with pytest.raises(ValueError, match="get_world_size: there is no group"):
        cf.nn.parallel.DistributedDataParallel(cf.nn.Linear(1, 1))


def test_more_processes_are_refused(monkeypatch) -> None:
    with pytest.raises(NotImplementedError, match="a group of 4 processes is asked for"):
        dist.init_process_group(world_size=4, rank=0)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(NotImplementedError, match="a group of 2 processes is asked for"):
        dist.init_process_group()
    with pytest.raises(ValueError, match="rank 1 is not below the world size, 1"):
        dist.init_process_group(world_size=1, rank=1)
    assert not dist.is_initialized()


def test_a_group_of_one(group) -> None:
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
    with pytest.raises(RuntimeError, match="there is a group already"):
        dist.init_process_group()
    with pytest.raises(ValueError, match="broadcast: there is no process 3"):
        dist.broadcast(cf.ones(1), src=3)
    assert dist.new_group([0]).size() == 1
    dist.barrier()


def test_collectives_of_one(group) -> None:
    x = cf.tensor([1.0, 2.0])
    assert dist.all_reduce(x, async_op=True).wait()
    dist.all_reduce(x, dist.ReduceOp.MAX)
    dist.broadcast(x, 0)
    assert_close(x, cf.tensor([1.0, 2.0]))
    for fill in (
        lambda out: dist.all_gather([out], x),
        lambda out: dist.gather(x, [out]),
        lambda out: dist.scatter(out, [x]),
        lambda out: dist.reduce_scatter(out, [x]),
        lambda out: dist.all_to_all([out], [x]),
        lambda out: dist.all_gather_into_tensor(out, x),
        lambda out: dist.reduce_scatter_tensor(out, x),
        lambda out: dist.all_to_all_single(out, x),
    ):
        out = cf.zeros(2)
        fill(out)
        assert_close(out, x)
    with pytest.raises(ValueError, match="a list has a tensor for each process: one"):
        dist.all_gather([cf.zeros(2), cf.zeros(2)], x)
    found = [None]
    dist.all_gather_object(found, {"a": 1})
    assert found == [{"a": 1}]
    dist.gather_object("b", found)
    assert found == ["b"]
    dist.scatter_object_list(found, ["c"])
    dist.broadcast_object_list(found)
    assert found == ["c"]


def test_a_module_trains_in_a_group(group) -> None:
    inner = cf.nn.Linear(2, 1)
    model = cf.nn.parallel.DistributedDataParallel(inner)
    x = cf.ones(3, 2)
    with model.no_sync():
        assert_close(model(x), inner(x))
    model(x).sum().backward()
    assert inner.weight.grad is not None
    with pytest.raises(ValueError, match="device_ids names 2 devices"):
        cf.nn.parallel.DistributedDataParallel(inner, device_ids=[0, 1])


def test_shares_of_a_dataset() -> None:
    sampler = cf.utils.data.distributed.DistributedSampler
    assert sampler is cf.utils.data.DistributedSampler
    data = range(10)
    for drop_last, length in ((False, 4), (True, 3)):
        parts = [sampler(data, 3, rank, drop_last=drop_last) for rank in range(3)]
        assert [len(part) for part in parts] == [length] * 3
        found = [list(part) for part in parts]
        assert {i for part in found for i in part} <= set(data)
        if not drop_last:
            assert {i for part in found for i in part} == set(data)
    one = sampler(data, 1, 0)
    first = list(one)
    assert list(one) == first
    one.set_epoch(1)
    assert list(one) != first
    assert sorted(one) == sorted(first)
    with pytest.raises(ValueError, match="rank 2 is not below the 2 processes"):
        sampler(data, 2, 2)


def test_tracers_leave_functions_as_they_are() -> None:
    def double(x: cf.Tensor) -> cf.Tensor:
        return x + x

    assert cf.jit.trace(double, cf.ones(1)) is double
    assert cf.fx.wrap(double) is double
    assert cf.fx.wrap("len") == "len"
    assert cf.compiler.disable(double) is double
    assert cf.compiler.disable(recursive=False)(double) is double
    assert not cf.onnx.is_in_onnx_export()
    assert not cf.mps.is_available()
    assert cf.xpu.device_count() == 0
    assert not isinstance(double, (cf.jit.ScriptModule, cf.fx.GraphModule, cf.SymInt))
    with pytest.raises(TypeError, match="GraphModule: there is no module made of a graph"):
        cf.fx.GraphModule()


def test_collectives_that_are_differentiated(group) -> None:
    x = cf.ones(2, requires_grad=True)
    (gathered,) = dist.nn.all_gather(x)
    (dist.nn.functional.all_reduce(gathered) * 3).sum().backward()
    assert_close(x.grad, cf.full((2,), 3.0))


def test_classes_are_subscripted_and_lists_of_modules_have_gaps() -> None:
    class Mine(cf.utils.data.Dataset[int]):
        pass

    assert issubclass(Mine, cf.utils.data.Dataset)
    assert cf.utils.data.DataLoader[int] is not None
    layers = cf.nn.ModuleList([cf.nn.Linear(1, 1), None])
    assert [layer is None for layer in layers] == [False, True]
    assert layers[1] is None
    assert len(list(layers.parameters())) == 2
    with pytest.raises(TypeError, match="Sequential: child 0 is NoneType, not a Module"):
        cf.nn.Sequential(None)


def test_an_inverse_without_an_error() -> None:
    a = cf.tensor([[[2.0, 1.0], [1.0, 3.0]], [[1.0, 1.0], [1.0, 1.0]]])
    found = cf.linalg.inv_ex(a)
    assert found.info.tolist() == [0, 2]
    assert_close(found.inverse[0], cf.linalg.inv(a[0]))
    with pytest.raises(cf.linalg.LinAlgError, match="is singular"):
        cf.linalg.inv_ex(a, check_errors=True)


def test_autocast_for_gpus_is_off_where_there_is_none() -> None:
    if cf.cuda.is_available():
        pytest.skip("there is a GPU")
    with cf.cuda.amp.autocast():
        assert (cf.ones(2, 2) @ cf.ones(2, 2)).dtype == cf.float32
    state = cf.get_rng_state()
    cf.cuda.manual_seed_all(3)
    assert_close(cf.get_rng_state(), state)


def test_weights_by_an_address(tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    cf.save({"w": cf.ones(2)}, file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:8]
    named = tmp_path / f"weights-{digest}.safetensors"
    file.rename(named)
    kept = tmp_path / "kept"
    for _ in range(2):  # the second time from the folder
        found = cf.hub.load_state_dict_from_url(named.as_uri(), str(kept), check_hash=True)
        assert_close(found["w"], cf.ones(2))
        named.unlink(missing_ok=True)
    assert [path.name for path in kept.iterdir()] == [named.name]
    other = tmp_path / "other-00000000.bin"
    other.write_bytes(b"x")
    with pytest.raises(RuntimeError, match="whose hash begins with 2d711642, not with 00000000"):
        cf.hub.load_state_dict_from_url(other.as_uri(), str(kept), check_hash=True)
    assert [path.name for path in kept.iterdir()] == [named.name]


def _note(i: int, folder: str) -> None:
    (Path(folder) / str(i)).write_text(str(i))


def _fail(i: int) -> None:
    raise SystemExit(i)


def test_processes(tmp_path: Path) -> None:
    cf.multiprocessing.spawn(_note, (str(tmp_path),), nprocs=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]
    with pytest.raises(RuntimeError, match=r"processes \[1\] have failed"):
        cf.multiprocessing.spawn(_fail, nprocs=2)
