"""save and load: round trips, damaged and hostile files, crashes at any moment."""

from __future__ import annotations

import errno
import json
import math
import os
import random
import re
import signal
import stat
import struct
import subprocess
import sys
import time
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.engine_common import refused
from tests.helpers.killed_run import run

import contraflow as cf
from contraflow import dtypes, nn
from contraflow.serialize import files, header

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.safetensors"


def round_trip(x: Any, path: Path, mmap: bool = False) -> Any:
    cf.save(x, path)
    return cf.load(path, mmap)


def written(path: Path, header: Any, data: bytes = b"") -> Path:
    """A file with any header, a text or what JSON makes of it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


# --- round trips -------------------------------------------------------------------------------


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_every_dtype(dtype, mmap, path):
    values = [[0, 1, 1], [1, 0, 1]] if dtype is cf.bool else [[0, 1, 2], [7, 100, 127]]
    x = cf.tensor(values, dtype=dtype)
    given = {"matrix": x, "column": x[:, 1], "scalar": x[1, 2].clone(), "empty": x[:0].clone()}
    loaded = round_trip(given, path, mmap)
    for name, tensor in given.items():
        assert (loaded[name].dtype, loaded[name].shape) == (dtype, tensor.shape)
        assert loaded[name].tolist() == tensor.tolist()


def test_floats_keep_their_bits(path):
    bits = np.random.default_rng(0).integers(0, 1 << 16, 5000, np.uint16)
    for dtype in (dtypes.float16, dtypes.bfloat16):
        loaded = round_trip(cf.from_numpy(bits.view(dtype.numpy)), path)
        assert np.array_equal(loaded.numpy().view(np.uint16), bits)


STRUCTURES = {
    "none": None,
    "texts": ["", "a.b", "é\n\0\ud800", '"}'],
    "numbers": [0, -1, 1 << 200, True, False, 0.1, -0.0, 5e-324, math.inf, -math.inf],
    "nested": {"a": [(), [], {}, ((1,), [2])], "b": {"c": None}},
    "keys": {0: "int", "0": "text", (1, None): "tuple", None: "none", 0.5: "float", math.inf: 1},
    "kinds": [OrderedDict(a=1), Counter("abca"), cf.float32],
    "python's random state": random.Random(0).getstate(),
}


@pytest.mark.parametrize("given", STRUCTURES.values(), ids=STRUCTURES.keys())
def test_structure(given, path):
    loaded = round_trip(given, path)
    assert loaded == given
    assert repr(loaded) == repr(given)  # True is not 1, a tuple no list, -0.0 not 0.0


def test_nan_is_kept(path):
    assert math.isnan(round_trip(math.nan, path))


def test_one_tensor(path):
    assert round_trip(cf.arange(3), path).tolist() == [0, 1, 2]


def test_requires_grad_is_kept_and_the_graph_is_not(path):
    x = cf.ones(2, requires_grad=True)
    loaded = round_trip([x, x * 2, x.detach(), nn.Parameter(cf.zeros(1))], path)
    assert [t.requires_grad for t in loaded] == [True, True, False, True]
    assert all(t.is_leaf for t in loaded)


def test_names_that_look_alike(path):
    given = {"a.b": cf.zeros(1), "a": {"b": cf.ones(1)}, "a/b": cf.full((1,), 2.0)}
    given |= {"__metadata__": cf.full((1,), 3.0), "../x": cf.full((1,), 4.0)}
    loaded = round_trip(given, path)
    assert [loaded[k].item() for k in ("a.b", "a/b", "__metadata__", "../x")] == [0, 2, 3, 4]
    assert loaded["a"]["b"].item() == 1


@pytest.mark.parametrize("mmap", [False, True])
def test_shared_storages_stay_shared(mmap, path):
    x = cf.arange(12.0).reshape(3, 4)
    given = {"all": x, "row": x[1], "turned": x.T, "again": x, "other": x.clone()}
    loaded = round_trip(given, path, mmap)
    for name, tensor in given.items():
        assert loaded[name].tolist() == tensor.tolist()
    shared = {id(loaded[k].storage) for k in ("all", "row", "turned", "again")}
    assert len(shared) == 1
    assert id(loaded["other"].storage) not in shared
    if not mmap:
        loaded["row"].fill_(-1.0)
        assert loaded["turned"][:, 1].tolist() == [-1.0] * 4


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize(
    ("name", "stored", "expected"),
    [
        ("F8_E4M3", bytes([0x38, 0xC0, 0x7E]), [1.0, -2.0, 448.0]),
        ("F8_E5M2", bytes([0x3C, 0xC0, 0x7B]), [1.0, -2.0, 57344.0]),
        ("U16", np.array([1, 2, 65535], np.uint16).tobytes(), [1, 2, 65535]),
        ("U32", np.array([1, 2, 2**32 - 1], np.uint32).tobytes(), [1, 2, 2**32 - 1]),
    ],
)
def test_elements_that_do_not_exist_here_become_wider(
    path: Path, name: str, stored: bytes, expected: list[float], mmap: bool
) -> None:
    header = {"a": {"dtype": name, "shape": [3], "data_offsets": [0, len(stored)]}}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + stored)
    with pytest.warns(UserWarning, match=r"load: tensors of \w+ become \w+\."):
        loaded = cf.load(path, mmap=mmap)
    assert loaded["a"].tolist() == expected


@pytest.mark.parametrize("mmap", [False, True])
def test_tied_weights_have_all_their_names_for_other_readers(mmap, path):
    weight, table = cf.arange(6.0).reshape(2, 3), cf.arange(8.0).reshape(2, 4)
    given = {
        "in": weight, "out": weight.detach(), "whole": table, "half": table[:, :2],
        "turned": table.T,
    }  # fmt: skip
    loaded = round_trip(given, path, mmap)
    assert loaded["in"].storage is loaded["out"].storage
    assert loaded["whole"].storage is loaded["half"].storage is loaded["turned"].storage
    library = pytest.importorskip("safetensors.numpy", reason="make test installs it")
    theirs = library.load_file(path)
    assert sorted(theirs.keys() - given.keys()) == ["whole.storage"]
    for name, tensor in given.items():
        assert np.array_equal(theirs[name], tensor.numpy())
        assert loaded[name].tolist() == tensor.tolist()


def test_a_part_of_a_storage_is_written_alone(path):
    large = cf.arange(100_000.0)
    cf.save([large[10:13], large[50_000:50_002]], path)
    assert [t.tolist() for t in cf.load(path)] == [[10, 11, 12], [50_000, 50_001]]
    cf.save(large.reshape(1000, 100)[:, 7], path)
    assert path.stat().st_size < 10_000
    cf.save(cf.zeros(1).expand(1_000_000), path)
    assert path.stat().st_size < 1000
    assert cf.load(path).shape == (1_000_000,)
    library = pytest.importorskip("safetensors.numpy", reason="make test installs it")
    assert list(library.load_file(path)) == ["tensor.storage"]  # one element is not the tensor


def test_mapped_tensors_refuse_writes(path):
    cf.save(nn.Linear(3, 2), path)
    loaded = cf.load(path, mmap=True)
    with refused(
        ValueError, "fill_: float32[2, 3] shares the memory of a read-only array. Clone it first."
    ):
        loaded["weight"].zero_()
    assert loaded["weight"].data_ptr() % 4 == 0
    model = nn.Linear(3, 2)
    model.load_state_dict(loaded)
    assert model(cf.ones(3)).shape == (2,)
    cf.save(nn.Linear(30, 20), path)
    assert (loaded["weight"] + 1).equal(model.weight.detach() + 1)


def test_training_state_goes_on(path):
    def steps(model, optimizer, scheduler, count):
        for _ in range(count):
            optimizer.zero_grad()
            model(cf.randn(5, 3)).square().sum().backward()
            optimizer.step()
            scheduler.step()

    def fresh():
        model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
        optimizer = cf.optim.Adam(model.parameters(), lr=0.1, amsgrad=True)
        return model, optimizer, cf.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4])

    names = ("model", "optimizer", "scheduler")
    cf.manual_seed(0)
    parts = fresh()
    steps(*parts, 3)
    cf.save({**dict(zip(names, parts)), "random": cf.get_rng_state(), "step": 3}, path)
    steps(*parts, 3)
    others = fresh()
    loaded = cf.load(path)
    for name, part in zip(names, others):
        part.load_state_dict(loaded[name])
    cf.set_rng_state(loaded["random"])
    steps(*others, 3)
    for a, b in zip(parts[0].state_dict().values(), others[0].state_dict().values()):
        assert a.equal(b)


# --- what is refused ---------------------------------------------------------------------------


def test_objects_that_are_no_data(path):
    with refused(
        TypeError,
        "save: 'a.1' is builtin_function_or_method. Files hold tensors, arrays, numbers, ",
        "strings, paths, None, dicts, lists, tuples, and what has a state_dict.",
    ):
        cf.save({"a": [1, print]}, path)
    with refused(
        TypeError,
        "save: the object has a key of type frozenset. Keys are strings, numbers, None and tuples ",
        "of these.",
    ):
        cf.save({frozenset(): 1}, path)
    loop: list[Any] = []
    loop.append(loop)
    with refused(
        ValueError, "save: '0.0.0'… is nested more than 100 deep; perhaps it contains itself."
    ):
        cf.save(loop, path)
    with refused(TypeError, "load: int is neither a path nor a file."):
        cf.load(3)
    assert list(path.parent.iterdir()) == []


F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
HOSTILE: dict[str, tuple[Any, bytes, str]] = {
    "not json": (b"{", b"", "its header is not JSON: "),
    "not utf-8": (b'{"\xff": 1}', b"", "its header is not JSON: 'utf-8' codec"),
    "no object": ([], b"", "its header is not a JSON object"),
    "nan": (b'{"a": NaN}', b"", "its header is not JSON: NaN is not a number"),
    "deep": (b"[" * 100_000, b"", "its header is not JSON: "),
    "long number": (b'{"a": ' + b"1" * 10_000 + b"}", b"", "its header is not JSON: "),
    "metadata": ({"__metadata__": 3}, b"", "its metadata are not an object"),
    "no entry": ({"a": 3}, b"", "tensor 'a' has no dtype, shape or data_offsets"),
    "duplicate": (
        b'{"a": %b, "a": %b}' % ((json.dumps(F32).encode(),) * 2),
        bytes(8),
        "its header holds the name 'a' twice",
    ),
    "dtype": ({"a": {**F32, "dtype": "C64"}}, bytes(8), "tensor 'a' has dtype 'C64'; "),
    "dtype object": ({"a": {**F32, "dtype": ["F32"]}}, bytes(8), "tensor 'a' has dtype ['F32']; "),
    "shape": ({"a": {**F32, "shape": [-2]}}, bytes(8), "tensor 'a' has the shape [-2]"),
    "shape of floats": ({"a": {**F32, "shape": [2.0]}}, bytes(8), "tensor 'a' has the shape [2.0]"),
    "shape of bools": ({"a": {**F32, "shape": [True]}}, bytes(4), "tensor 'a' has the shape"),
    "many dims": ({"a": {**F32, "shape": [1] * 64 + [2]}}, bytes(8), "tensor 'a' has the shape"),
    "huge shape": (
        {"a": {**F32, "shape": [1 << 40, 1 << 40]}}, bytes(8),
        "tensor 'a' has the shape [1099511627776, 1099511627776], too large for anything",
    ),
    "huge beside zero": (
        {"a": {"dtype": "F32", "shape": [0, 1 << 62, 1 << 62], "data_offsets": [0, 0]}}, b"",
        "tensor 'a' has the shape [0, 4611686018427387904, 4611686018427387904], too large",
    ),
    "other size": (
        {"a": {**F32, "shape": [3]}}, bytes(8),
        "tensor 'a' is float32[3], but its range 0 to 8 has 8 bytes",
    ),
    "backward": ({"a": {**F32, "data_offsets": [8, 0]}}, bytes(8), "tensor 'a' has the range"),
    "negative": ({"a": {**F32, "data_offsets": [-8, 0]}}, bytes(8), "tensor 'a' has the range"),
    "out of file": ({"a": F32}, bytes(7), "its tensors end at byte "),
    "behind the tensors": ({"a": F32}, bytes(9), "its tensors end at byte "),
    "overlap": (
        {"a": F32, "b": {**F32, "data_offsets": [4, 12]}}, bytes(12),
        "the range of tensor 'b' overlaps the one before",
    ),
    "gap": (
        {"a": {**F32, "data_offsets": [4, 12]}}, bytes(12),
        "the range of tensor 'a' leaves a gap before it",
    ),
    "path": ({"../a": F32}, bytes(8), "a tensor is called '../a', a path out of the file's folder"),
    "absolute path": ({"/etc/a": F32}, bytes(8), "a tensor is called '/etc/a', a path"),
    "other system's path": ({"a\\..\\b": F32}, bytes(8), r"a tensor is called 'a\\..\\b', a path"),
    "bool": (
        {"a": {"dtype": "BOOL", "shape": [2], "data_offsets": [0, 2]}}, b"\1\2",
        "tensor 'a' is bool, but has bytes other than 0 and 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize(("header", "data", "problem"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile(header, data, problem, mmap, path):
    written(path, header, data)
    beginning = f"load: {path} is not a whole safetensors file: {problem}"
    with pytest.raises(ValueError, match="^" + re.escape(beginning)):
        cf.load(path, mmap)


def test_header_longer_than_the_file_or_the_limit(path, monkeypatch):
    path.write_bytes(struct.pack("<Q", 1 << 62))
    with pytest.raises(ValueError, match="its header should have 4611686018427387904 bytes, but"):
        cf.load(path)
    monkeypatch.setattr(header, "HEADER_LIMIT", 100)
    written(path, b" " * 101)
    with pytest.raises(ValueError, match="its header has 101 bytes; the format allows 100"):
        cf.load(path)
    with pytest.raises(
        ValueError, match=r"save: names, numbers and strings take \d+ bytes; the for"
    ):
        cf.save(list(range(100)), path)
    assert list(path.parent.iterdir()) == [path]


STRUCTURE_PROBLEMS = {
    '{"tensor":"b"}': "its structure names a tensor 'b' that it does not hold",
    '{"tensor":["a"]}': "its structure names a tensor ['a'] that it does not hold",
    '{"tensor":"a","view":[[2],[1],1]}': "tensor 'a' has no view within its 2 elements",
    '{"tensor":"a","view":[[3],[1],0]}': "tensor 'a' has no view within its 2 elements",
    '{"tensor":"a","view":[[2],[-1],1]}': "tensor 'a' has no view within its 2 elements",
    '{"tensor":"a","view":[[1],[1,1],0]}': "tensor 'a' has no view within its 2 elements",
    '{"tensor":"a","view":7}': "tensor 'a' has no view within its 2 elements",
    '{"tensor":"a","requires_grad":1}': "tensor 'a' cannot require grad",
    '{"dict":[[[],1]]}': "its structure holds a key of type list",
    '{"dict":[[1,1],[1,2]]}': "its structure holds the key 1 twice",
    '{"dict":[[1]]}': "its structure holds a dict without keys",
    '{"os.system":"true"}': "its structure holds something unknown, 'os.system'",
    '{"dtype":"uint32"}': "its structure holds something unknown, 'dtype'",
    '{"float":"1"}': "its structure holds something unknown, 'float'",
    "{}": "its structure holds something unknown, 'nothing'",
    "[" * 200 + "]" * 200: "its structure is nested more than 100 deep",
}


@pytest.mark.parametrize(
    ("structure", "problem"), STRUCTURE_PROBLEMS.items(), ids=STRUCTURE_PROBLEMS.values()
)
def test_hostile_structure(structure, problem, path):
    regions = [("a", np.zeros(2, np.float32))]
    checksums = {"a": header.checksum_of(bytes(8))}
    path.write_bytes(header.header_bytes(json.loads(structure), regions, checksums, {}) + bytes(8))
    with refused(ValueError, f"load: {path} is not a whole safetensors file: {problem}."):
        cf.load(path)


def test_copies_of_tensors_that_are_not_there(path):
    checksums = {"a": header.checksum_of(bytes(8))}
    regions = [("a", np.zeros(2, np.float32))]
    path.write_bytes(header.header_bytes(None, regions, checksums, {"b": "a"}) + bytes(8))
    problem = "it has copies of tensors that are not there"
    with refused(ValueError, f"load: {path} is not a whole safetensors file: {problem}."):
        cf.load(path)


@pytest.mark.parametrize("devices", [{"b": "cpu"}, {"a": 3}])
def test_devices_of_tensors_that_are_not_there(path, devices):
    checksums = {"a": header.checksum_of(bytes(8))}
    regions = [("a", np.zeros(2, np.float32))]
    path.write_bytes(header.header_bytes(None, regions, checksums, {}, devices) + bytes(8))
    problem = "it has devices of tensors that are not there"
    with refused(ValueError, f"load: {path} is not a whole safetensors file: {problem}."):
        cf.load(path)


def test_loading_runs_nothing_and_writes_nothing(path):
    """A pickle is not a file of ours, whatever it would do."""
    path.write_bytes(b"cos\nsystem\n(S'touch hacked'\ntR." + bytes(100))
    with pytest.raises(ValueError, match="is not a whole safetensors file"):
        cf.load(path)
    assert list(path.parent.iterdir()) == [path]


# --- damage ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "file"
    cf.manual_seed(0)
    model = nn.Linear(5, 3)
    optimizer = cf.optim.Adam(model.parameters(), amsgrad=True)
    x = cf.arange(6).reshape(2, 3)
    rest = {"views": [x, x.T], "mask": x > 2, "step": 7, "name": "run", "inf": math.inf}
    cf.save({"model": model, "optimizer": optimizer, **rest}, path)
    return path.read_bytes()


def loaded_from(path: Path, data: bytes, mmap: bool) -> Any:
    """What `data` loads as, None where it is refused."""
    path.touch()
    with path.open("r+b") as file:  # in place: making a file is slow
        file.write(data)
        file.truncate()
    try:
        return cf.load(path, mmap)
    except ValueError as error:
        if not str(error).startswith(f"load: {path} is not a whole safetensors file: "):
            raise
        return None


@pytest.mark.parametrize("mmap", [False, True])
def test_truncated(mmap, whole, path):
    for length in range(len(whole)):
        assert loaded_from(path, whole[:length], mmap) is None, length
    assert loaded_from(path, whole + b"\0", mmap) is None
    assert loaded_from(path, whole, mmap)["step"] == 7


@pytest.mark.parametrize("count", [4000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_bits_flipped(count, whole, path):
    """One bit anywhere is noticed. A mapped tensor's own bytes are not looked at."""
    draw = random.Random(0)
    data_begins = 8 + int.from_bytes(whole[:8], "little")
    for bit in sorted(draw.sample(range(8 * len(whole)), min(count, 8 * len(whole)))):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        assert loaded_from(path, damaged, mmap=False) is None, bit
        if bit // 8 < data_begins:
            assert loaded_from(path, damaged, mmap=True) is None, bit


@pytest.mark.parametrize("count", [1000, pytest.param(50_000, marks=pytest.mark.slow)])
def test_bytes_overwritten_moved_and_cut_out(count, whole, path):
    draw = random.Random(1)
    for _ in range(count):
        damaged = bytearray(whole)
        begin = draw.randrange(len(whole))
        end = min(len(whole), begin + draw.choice((1, 2, 8, 64)))
        damaged[begin:end] = draw.choice(
            (b"", draw.randbytes(end - begin), bytes(end - begin), bytes(whole[:7]), b"9")
        )
        if damaged != whole:
            assert loaded_from(path, damaged, mmap=False) is None, (begin, end)


@pytest.mark.parametrize("count", [1500, pytest.param(100_000, marks=pytest.mark.slow)])
def test_damaged_files_without_checksums(count, path):
    """An error, or tensors that lie wholly in the file: never a crash."""
    header = {"a": F32, "mask": {"dtype": "BOOL", "shape": [2, 2], "data_offsets": [8, 12]}}
    whole = written(path, header, bytes(12)).read_bytes()
    draw = random.Random(2)
    for _ in range(count):
        damaged = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            damaged[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        for mmap in (False, True):
            loaded = loaded_from(path, damaged, mmap)
            assert loaded is None or sum(len(t.numpy().tobytes()) for t in loaded.values()) == 12


# --- crashes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_save_that_fails_leaves_the_old_file(function, path, monkeypatch):
    cf.save(1, path)

    def fail(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, function, fail)
    with pytest.raises(OSError, match="no space"):
        cf.save(2, path)
    assert cf.load(path) == 1
    assert list(path.parent.iterdir()) == [path]


def test_order_of_a_save(path, monkeypatch):
    """The bytes are on the disk before the new name is, and the new name before save returns."""
    calls = []
    fsync, replace = os.fsync, os.replace

    def traced_fsync(number: int) -> None:
        calls.append("folder" if stat.S_ISDIR(os.fstat(number).st_mode) else "file")
        fsync(number)

    def traced_replace(*args: Any, **options: Any) -> None:
        calls.append("rename")
        replace(*args, **options)

    monkeypatch.setattr(os, "fsync", traced_fsync)
    monkeypatch.setattr(os, "replace", traced_replace)
    cf.save(1, path)
    assert calls == ["file", "rename", "folder"]


def test_what_killed_saves_left_is_removed_in_time(path):
    old, new = (path.with_name(f".{path.name}.{c * 16}.unfinished") for c in "ab")
    for left in (old, new):
        left.write_bytes(b"half")
    os.utime(old, (time.time() - 2 * files.LEFT_OVER,) * 2)
    cf.save(1, path)
    assert sorted(path.parent.iterdir()) == sorted([new, path])


def test_a_link_still_leads_to_the_file(path):
    link = path.with_name("link")
    link.symlink_to(path)
    cf.save(1, link)
    assert link.is_symlink()
    assert cf.load(path) == 1


@pytest.mark.parametrize("kills", [4, pytest.param(60, marks=pytest.mark.slow)])
def test_a_killed_run_ends_alike(kills, tmp_path):
    steps = 12
    uninterrupted = run(tmp_path / "whole", steps)
    draw = random.Random(kills)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    for number in range(kills):
        file = tmp_path / f"run{number // 4}"  # a few kills for each run
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.killed_run", str(file), str(steps)],
            env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        for _ in range(draw.randint(1, 2)):
            process.stdout.readline()
        time.sleep(draw.uniform(0, 0.02))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        if number % 4 == 3 or number == kills - 1:
            assert cf.load(file)["step"] >= 1
            assert run(file, steps) == uninterrupted


# --- others' files -----------------------------------------------------------------------------


def test_the_library_reads_ours(path):
    library = pytest.importorskip("safetensors.numpy", reason="make test installs it")
    model = nn.Linear(3, 2)
    cf.save({"model": model, "step": 3}, path)
    loaded = library.load_file(path)
    assert sorted(loaded) == ["model.bias", "model.weight"]
    assert np.array_equal(loaded["model.weight"], model.weight.detach().numpy())


@pytest.mark.parametrize("mmap", [False, True])
def test_the_librarys_files_load(mmap, path):
    library = pytest.importorskip("safetensors.numpy", reason="make test installs it")
    given = {
        "w": np.arange(6, dtype=np.float32).reshape(2, 3),
        "n": np.int8([1, 2, 3]),
        "d": np.array(2.5),
        "mask": np.array([True, False]),
    }
    library.save_file(given, path, metadata={"format": "pt"})
    loaded = cf.load(path, mmap)
    assert loaded.keys() == given.keys()
    for name, array in given.items():
        assert np.array_equal(loaded[name].numpy(), array)
        assert loaded[name].shape == array.shape


@pytest.mark.peers
def test_pytorchs_checkpoints_load(path):
    torch = pytest.importorskip("torch")
    library = pytest.importorskip("safetensors.torch")
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).bfloat16()
    library.save_file(theirs.state_dict(), path)
    ours = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    ours.load_state_dict(cf.load(path))
    for name, tensor in theirs.state_dict().items():
        assert ours.state_dict()[name].tolist() == tensor.float().tolist()
    cf.save(ours.state_dict(), path)
    theirs.load_state_dict(library.load_file(path))


def test_metadata_that_another_program_wrote_in_our_order(path: Path) -> None:
    cf.save({"w": cf.ones(2), "deep": {"x": cf.zeros(3)}}, path)
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    text = whole[8 : 8 + length].rstrip() + b" " * 8
    text += b" " * (8 if (8 + len(text)) % 64 == 0 else 0)
    path.write_bytes(len(text).to_bytes(8, "little") + text + whole[8 + length :])
    with pytest.warns(UserWarning, match="another program has rewritten the metadata"):
        loaded = cf.load(path)
    assert {name: x.tolist() for name, x in loaded.items()} == {"w": [1, 1], "deep.x": [0, 0, 0]}
