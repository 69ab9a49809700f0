"""Each public name of PyTorch's is there, or refused with a reason; docs/names.md says which."""

from __future__ import annotations

import functools
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.helpers import torch_names, torch_uses

import contraflow as cf
from contraflow import absent
from contraflow.errors import AbsentByChoice
from contraflow.names import OF_TENSORS


def test_each_name_is_decided() -> None:
    forgotten = [d.name for d in torch_names.decisions() if not d.state]
    assert not forgotten, f"neither there nor in absent.py: {', '.join(forgotten)}"


def test_the_page_is_fresh() -> None:
    assert torch_names.PAGE.read_text() == torch_names.page(), "run `make names`"


def test_the_list_of_absent_names_is_fresh() -> None:
    assert absent.LIST.read_text() == torch_names.absent_names(), "run `make names`"


def test_a_remark_is_on_a_name_that_is_there() -> None:
    assert not [path for path in absent.REMARKS if not torch_names.is_there(path)]


def test_a_refusal_that_is_listed_by_name_is_not_of_a_name_that_is_there() -> None:
    names = [name for group in absent.ABSENT for name in group.names.split() if "*" not in name]
    assert not [name for name in names if torch_names.is_there(name)]


def test_most_names_are_there() -> None:
    found = torch_names.decisions()
    there = sum(d.state in ("there", "remark") for d in found)
    assert there / len(found) > 0.55


def test_nearly_all_uses_in_public_code_are_of_names_that_are_there() -> None:
    found = torch_uses.shares(torch_names.is_there)
    assert sum(s.there for s in found) / sum(s.uses for s in found) >= 0.995


def test_uses_are_counted_in_archives(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(torch_uses, "PACKAGES", {"a-b": "1.0", "c": "2"})
    monkeypatch.setattr(torch_uses, "is_pytorchs", lambda path: not path.startswith("npu"))
    with zipfile.ZipFile(tmp_path / "a_b-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(
            "a/x.py", "import torch\ntorch.ones(torch.ones(2))\ntorch._C.f\ntorch.npu.f\n"
        )
        wheel.writestr("a/tests/y.py", "import torch\ntorch.zeros(2)\n")
        wheel.writestr("a/wrong.py", "import torch\nprint 'an older Python'\n")
    (tmp_path / "m.py").write_text("from torch import nn\nnn.Linear(1, 1)\n")
    with tarfile.open(tmp_path / "c-2.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "m.py", "c-2/c/m.py")
    found = torch_uses.count(tmp_path)
    assert found == {"ones": {"a-b": 2}, "nn": {"c": 1}, "nn.Linear": {"c": 1}}


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda: cf.sofmax, "Did you mean 'softmax'?"),
        (lambda: cf.nn.Linaer, "Did you mean 'Linear'?"),
        (lambda: cf.nn.functional.sofmax, "Did you mean 'softmax'?"),
        (lambda: cf.optim.Adma, "Did you mean 'Adam'?"),
        (lambda: cf.data.DataLoder, "Did you mean 'DataLoader'?"),
        (lambda: cf.ones(2).sofmax, "'Tensor' object has no attribute 'sofmax'"),
        (lambda: cf.Linear, "It is contraflow.nn.Linear."),
        (lambda: cf.DataLoader, "It is contraflow.utils.data.DataLoader."),
        (lambda: cf.Normal, "It is contraflow.distributions.Normal."),
        (lambda: cf.distributions.Normall, "Did you mean 'Normal'?"),
        (lambda: cf.distributions.Linear, "It is contraflow.nn.Linear."),
        (lambda: cf.stft, "stft: there are no Fourier transforms here."),
        (lambda: cf.histogram, "histogram: it is not there yet."),
        (lambda: cf.ones(2).to_sparse, "Tensor.to_sparse: there are no sparse tensors here."),
        (lambda: cf.special.exppit, "Did you mean 'expit'?"),
        (lambda: cf.nn.Relu, "Did you mean 'ReLU'?"),
        (lambda: cf.nn.Lstm, "Did you mean 'LSTM'?"),
        (lambda: cf.nn.Gru, "Did you mean 'GRU'?"),
        (lambda: cf.nn.functional.rellu, "Did you mean 'relu'?"),
        (lambda: cf.nn.functional.leakyrelu, "Did you mean 'leaky_relu'?"),
        (lambda: cf.optim.Adamw, "Did you mean 'AdamW'?"),
        (lambda: cf.cuda.is_avaliable, "Did you mean 'is_available'?"),
        (lambda: cf.profiler.recordfunction, "Did you mean 'record_function'?"),
        (lambda: cf.distributed.all_reduc, "Did you mean 'all_reduce'?"),
        (lambda: cf.distributed.nonsense, "no attribute 'nonsense'."),
        (lambda: cf.hub.set_dirr, "Did you mean 'set_dir'?"),
        (lambda: cf.lu, "lu: it is not there yet."),
        (lambda: cf.nn.NLLLoss2d, "NLLLoss takes images as well"),
        (lambda: cf.nonsense_of_no_kind, "no attribute 'nonsense_of_no_kind'."),
    ],
)
def test_a_missing_name_says_what_was_meant(ask, text: str) -> None:
    with pytest.raises(AttributeError) as caught:
        ask()
    assert text in str(caught.value)


def test_every_name_that_tensors_lack_says_why_and_is_not_listed() -> None:
    paths = [d.name.removeprefix("torch.") for d in torch_names.decisions()]
    names = [path.removeprefix("Tensor.") for path in paths if path.startswith("Tensor.")]
    x = cf.ones(2, 2)
    lacking = [name for name in names if not hasattr(x, name)]
    assert len(lacking) > 50
    for name in lacking:
        with pytest.raises(AbsentByChoice, match=f"^Tensor.{name}: "):
            getattr(x, name)
    assert set(dir(x)).isdisjoint(OF_TENSORS)
    assert set(lacking) <= set(OF_TENSORS)
    assert not [name for name in OF_TENSORS if hasattr(cf.Tensor, name)]


def test_python_itself_says_which_method_was_meant() -> None:
    """Reading attributes is faster without a `__getattr__`, which would say it in the message."""
    assert not hasattr(cf.Tensor, "__getattr__")
    program = "import contraflow; contraflow.ones(2).sofmax"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "'Tensor' object has no attribute 'sofmax'. Did you mean: 'softmax'?" in done.stderr


def test_names_with_underscores_are_refused_without_a_search() -> None:
    with pytest.raises(
        AttributeError, match=r"^module 'contraflow' has no attribute '__wrapped__'$"
    ):
        cf.__wrapped__  # noqa: B018
    assert not hasattr(cf.ones(2), "__cuda_array_interface__")


@pytest.mark.parametrize("place", ["linalg", "autograd", "func", "cuda", "nn.init", "nn.utils.rnn"])
def test_dir_lists_no_internals(place: str) -> None:
    module = functools.reduce(getattr, place.split("."), cf)
    listed = [name for name in dir(module) if not name.startswith("_")]
    assert {"Any", "NamedTuple", "Tensor", "describe", "getter", "public"}.isdisjoint(listed)
    assert not [name for name in listed if not hasattr(module, name)]
    assert "__name__" in dir(module)


def test_dir_lists_every_op_and_each_name_in_it_is_there() -> None:
    listed = dir(cf)
    assert {"tanh", "softmax", "add_", "nn", "FloatTensor", "pi", "hann_window"} <= set(listed)
    assert not [name for name in listed if not hasattr(cf, name)]
