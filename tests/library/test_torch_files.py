"""Files of PyTorch's and others': read without running them, or refused by name."""

from __future__ import annotations

import base64
import io
import json
import pickle
import re
import subprocess
import sys
import warnings
import zipfile
import zlib
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

import contraflow as cf
from contraflow.testing import assert_close

_TEXT = (Path(__file__).parents[1] / "helpers" / "torch_saved.txt").read_text()
SAVED = {
    name: zlib.decompress(base64.b85decode("".join(lines.split())))
    for name, lines in re.findall(r"^===== (\w+)\n(.*?)(?=^=====|\Z)", _TEXT, re.M | re.S)
}


@pytest.mark.parametrize("form", ["new", "old"])
def test_pytorchs_files_load(form: str, tmp_path: Path) -> None:
    path = tmp_path / "saved.pt"
    path.write_bytes(SAVED[form])
    for loaded in (cf.load(path), cf.load(io.BytesIO(SAVED[form]), weights_only=False)):
        assert loaded["whole"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
        assert loaded["part"].tolist() == [[1.0, 2.0], [4.0, 5.0]]
        assert loaded["turned"].stride() == (1, 3)
        assert loaded["half"].dtype is cf.bfloat16
        assert loaded["half"].item() == 1.5
        assert loaded["order"] == OrderedDict(x=1, y=[1, (2, "s")])
        assert loaded["parameter"].requires_grad
        assert loaded["array"].tolist() == [0, 1, 2]
        assert loaded["number"] == 2.5
        assert loaded["size"] == (1, 2)
        assert loaded["dtype"] is cf.float16
        assert loaded["flag"].dtype is cf.bool
        assert loaded["empty"].shape == (0, 3)
        loaded["whole"][0, 1] = 9.0  # storages are shared as they were
        assert loaded["part"][0, 0].item() == 9.0


def test_what_is_not_data_is_refused_by_name_and_not_run(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for form, name in (("code", "posix.system"), ("module", "torch.nn.modules.linear.Linear")):
        with pytest.raises(ValueError, match=f"is a PyTorch file.*asks for {re.escape(name)}"):
            cf.load(io.BytesIO(SAVED[form]))
    assert not list(tmp_path.iterdir())


def test_small_floats_and_unsigned_integers_become_wider() -> None:
    with pytest.warns(UserWarning, match="tensors of (float8_e4m3fn become float32|uint16 become)"):
        loaded = cf.load(io.BytesIO(SAVED["float8"]))
    assert loaded["w"].tolist() == [1.0, -2.0]
    assert loaded["n"].tolist() == [65535]
    assert loaded["n"].dtype is cf.int32


def archive(pickled: bytes, storages: dict[str, bytes]) -> io.BytesIO:
    """A file in PyTorch's form."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("a/data.pkl", pickled)
        for key, data in storages.items():
            file.writestr(f"a/data/{key}", data)
    made.seek(0)
    return made


def tensor_pickle(offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> bytes:
    """The pickle of a tensor of float32 with this view of storage 0, written by hand."""
    numbers = pickle.dumps((offset, size, stride), 2)[2:-1]
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
        b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ" + _spread(numbers) + b"\x89NtR."
    )


def _spread(numbers: bytes) -> bytes:
    """The instructions for the three entries of a tuple, without the one that joins them."""
    assert numbers.endswith((b"\x87q\x00", b"\x87q\x01", b"\x87q\x02", b"\x87q\x03", b"\x87q\x04"))
    return numbers[:-3]


FOUR = np.arange(4, dtype=np.float32).tobytes()


def test_a_tensor_lies_within_its_storage() -> None:
    loaded = cf.load(archive(tensor_pickle(1, (3,), (1,)), {"0": FOUR}))
    assert loaded.tolist() == [1.0, 2.0, 3.0]
    for offset, size, stride in ((2, (3,), (1,)), (0, (2, 2), (3, 1)), (-1, (1,), (1,))):
        with pytest.raises(ValueError, match="does not lie within its storage"):
            cf.load(archive(tensor_pickle(offset, size, stride), {"0": FOUR}))
    with pytest.raises(ValueError, match="it has no storage '0'"):
        cf.load(archive(tensor_pickle(0, (1,), (1,)), {}))
    with pytest.raises(ValueError, match="does not hold float32 elements"):
        cf.load(archive(tensor_pickle(0, (0,), (1,)), {"0": b"123"}))


@pytest.mark.parametrize(
    "pickled",
    [
        b"\x80\x02ctorch._utils\n_rebuild_parameter\n}X\x08\x00\x00\x00__dict__K\x01sb.",
        b"\x80\x02ccollections\nOrderedDict\n}X\x04\x00\x00\x00moveK\x01sb.",
        b"\x80\x02cbuiltins\neval\nX\x01\x00\x00\x001\x85R.",
        b"\x80\x02cbuiltins\ngetattr\n.",
        b"\x80\x02cos\nsystem\n.",
        b"\x80\x02c__builtin__\nopen\n.",
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(K\x01K\x02K\x03K\x04K\x05tR.",
        b"",
        b"\x80\x02",
    ],
)
def test_hostile_pickles_are_refused(pickled: bytes) -> None:
    with pytest.raises(ValueError, match=r"load: the file object is a PyTorch file, but"):
        cf.load(archive(pickled, {}))


def outcome(data: bytes) -> str:
    """The beginning of the error of a load, if there is one."""
    try:
        cf.load(io.BytesIO(data))
    except ValueError as error:
        return str(error).split(",")[0]
    return ""


def test_damaged_files_of_pytorchs_are_refused_or_the_same() -> None:
    rng = np.random.default_rng(0)
    for form in ("new", "old"):
        for _ in range(60):
            data = bytearray(SAVED[form])
            data[rng.integers(4, len(data))] ^= 1 << int(rng.integers(8))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert outcome(bytes(data)) in ("", "load: the file object is a PyTorch file")
        for length in range(4, len(SAVED[form]), 97):
            with pytest.raises(ValueError, match="load: the file object is"):
                cf.load(io.BytesIO(SAVED[form][:length]))


def test_torchscript_is_refused() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("a/data.pkl", pickle.dumps(1, 2))
        file.writestr("a/code/__torch__.py", "")
    made.seek(0)
    with pytest.raises(ValueError, match="it is a TorchScript archive, which holds code"):
        cf.load(made)


# --- safetensors ---------------------------------------------------------------------------------


def test_file_objects_arrays_and_paths() -> None:
    file = io.BytesIO()
    given = {"w": cf.arange(3), "a": np.eye(2), "n": np.float32(1.5), "p": Path("x/y")}
    cf.save(given, file)
    file.seek(0)
    loaded = cf.load(file)
    assert loaded["w"].tolist() == [0, 1, 2]
    assert isinstance(loaded["a"], np.ndarray)
    assert loaded["a"].tolist() == np.eye(2).tolist()
    assert (loaded["n"], loaded["p"]) == (1.5, Path("x/y"))
    file.seek(0)
    with pytest.raises(ValueError, match="tensors cannot lie in a file object"):
        cf.load(file, mmap=True)


def test_pytorchs_files_are_read_to_where_they_are_told() -> None:
    asked = []

    def locate(memory, device):
        asked.append((memory.shape, device))
        return memory * 2 if memory.dtype is cf.float32 and memory.shape == (6,) else None

    loaded = cf.load(io.BytesIO(SAVED["new"]), map_location=locate)
    assert ((6,), "cpu") in asked
    assert loaded["part"].tolist() == [[2.0, 4.0], [8.0, 10.0]]
    with pytest.raises(TypeError, match="load: map_location is 3"):
        cf.load(io.BytesIO(SAVED["new"]), map_location=3)


def test_models_in_several_files(tmp_path: Path) -> None:
    for number, name in enumerate(("a", "b")):
        cf.save({name: cf.full((2,), number)}, tmp_path / f"part-{number}.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    parts = {"b": "part-1.safetensors", "a": "part-0.safetensors"}
    index.write_text(json.dumps({"metadata": {}, "weight_map": parts}))
    loaded = cf.load(index)
    assert list(loaded) == ["b", "a"]
    assert loaded["b"].tolist() == [1, 1]
    index.write_text(json.dumps({"weight_map": {"c": "part-0.safetensors"}}))
    with pytest.raises(ValueError, match=r"part-0.safetensors does not hold 'c'"):
        cf.load(index)
    index.write_text(json.dumps({"weight_map": {"c": "../part-0.safetensors"}}))
    with pytest.raises(ValueError, match="names files that do not lie beside it"):
        cf.load(index)
    index.write_text("[]")
    with pytest.raises(ValueError, match="is not an index of a model in several files"):
        cf.load(index)


def test_metadata_that_another_program_has_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    cf.save({"model": {"w": cf.ones(2)}, "step": 3}, path)
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"] = {"other": "program", **header["__metadata__"]}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    with pytest.warns(UserWarning, match="another program has rewritten the metadata"):
        loaded = cf.load(path)
    assert_close(loaded["model.w"], cf.ones(2))


def test_the_command_says_what_it_can_do() -> None:
    command = [sys.executable, "-m", "contraflow"]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)

    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "convert model.pt model.safetensors" in done.stdout
    assert "contraflow.as_torch --check PROGRAM" in done.stdout
    assert run("--version").stdout == f"contraflow {cf.__version__}\n"
    done = run("conver")
    assert (done.returncode, done.stderr) == (
        2,
        "usage: contraflow [--help | --version | convert SOURCE TARGET]\n",
    )


def test_the_command_converts(tmp_path: Path) -> None:
    source, target = tmp_path / "m.pt", tmp_path / "m.safetensors"
    source.write_bytes(SAVED["new"])
    command = [sys.executable, "-m", "contraflow", "convert", str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert cf.load(target)["part"].tolist() == [[1.0, 2.0], [4.0, 5.0]]
    source.write_bytes(SAVED["code"])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "asks for posix.system" in done.stderr


@pytest.mark.peers
def test_state_dicts_of_pytorchs_modules_load_as_they_are() -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Linear(3, 2)
    ours = cf.nn.Linear(3, 2)
    ours.load_state_dict(theirs.state_dict())
    assert_close(ours.weight.detach(), theirs.weight.detach().numpy())
