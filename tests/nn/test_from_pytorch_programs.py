"""What PyTorch's programs ask of modules, files and errors, and what they are told."""

from __future__ import annotations

import io
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

import contraflow as cf
from contraflow.__main__ import main as command
from contraflow.dtypes import DType
from contraflow.nn.utils import parametrizations, parametrize
from contraflow.testing import assert_close

MISFITS = {
    "broadcasting": lambda: cf.ones(2) + cf.ones(3),
    "matmul": lambda: cf.ones(2, 3) @ cf.ones(2, 3),
    "bmm": lambda: cf.ones(1, 2, 3).bmm(cf.ones(2, 3, 4)),
    "linear": lambda: cf.nn.Linear(2, 3)(cf.ones(4)),
    "conv2d": lambda: cf.nn.Conv2d(1, 2, 3)(cf.ones(1, 2, 5, 5)),
    "view": lambda: cf.ones(4).view(3),
    "expand": lambda: cf.ones(2).expand(3),
    "cat": lambda: cf.cat([cf.ones(2, 3), cf.ones(2, 4)]),
    "stack": lambda: cf.stack([cf.ones(2), cf.ones(3)]),
    "einsum": lambda: cf.einsum("ij,jk->ik", cf.ones(2, 3), cf.ones(2, 3)),
    "einsum of other dims": lambda: cf.einsum("ij->i", cf.ones(2)),
    "tensordot": lambda: cf.tensordot(cf.ones(2, 3), cf.ones(2, 3), dims=1),
    "inner": lambda: cf.inner(cf.ones(2), cf.ones(3)),
    "samples of a batch": lambda: cf.utils.data.default_collate([cf.ones(2), cf.ones(3)]),
    "item": lambda: cf.ones(2).item(),
    "bool": lambda: bool(cf.ones(2)),
    "load_state_dict": lambda: cf.nn.Linear(2, 3).load_state_dict({}),
}


@pytest.mark.parametrize("name", MISFITS)
@pytest.mark.parametrize("kind", [RuntimeError, ValueError])
def test_shapes_that_do_not_fit_are_an_error_of_both_kinds(name: str, kind: type) -> None:
    with pytest.raises(kind) as caught:
        MISFITS[name]()
    assert isinstance(caught.value, cf.MismatchError)


def test_small_names_of_modules() -> None:
    layer = cf.nn.Linear(2, 2)
    assert layer._get_name() == "Linear"
    assert repr(layer.load_state_dict(layer.state_dict())) == "<All keys matched successfully>"
    keys = layer.load_state_dict({}, strict=False)
    assert repr(keys) == "IncompatibleKeys(missing_keys=['weight', 'bias'], unexpected_keys=[])"
    loader = cf.data.DataLoader(cf.data.TensorDataset(cf.ones(2)), pin_memory_device="")
    assert len(loader) == 2
    cf.compiler.config.suppress_errors = False


def test_parametrized_values_are_cached_in_a_block() -> None:
    layer = parametrizations.orthogonal(cf.nn.Linear(3, 3))
    assert layer.weight is not layer.weight
    with parametrize.cached():
        first = layer.weight
        with parametrize.cached():
            assert layer.weight is first
        with cf.no_grad():
            assert not layer.weight.requires_grad
        (layer(cf.ones(3)).sum() + layer.weight.sum()).backward()
        with pytest.raises(RuntimeError, match="assigned in a block of cached"):
            layer.weight = cf.eye(3)
        assert_close(cf.compile(layer)(cf.ones(3)), layer(cf.ones(3)))
    assert layer.weight is not first
    assert layer.parametrizations.weight.original.grad is not None


class Tensor:
    """A tensor of PyTorch's, by its names."""

    __module__ = "torch"


GIVEN_TO = {
    "an operator": lambda x: cf.ones(2) + x,
    "an op": lambda x: cf.relu(x),
    "a module": lambda x: cf.nn.Linear(2, 2)(x),
    "a convolution": lambda x: cf.nn.Conv2d(1, 1, 1)(x),
    "a sequence": lambda x: cf.cat([x, x]),
}


@pytest.mark.parametrize("name", GIVEN_TO)
def test_a_tensor_of_pytorchs_is_named(name: str) -> None:
    with pytest.raises(TypeError, match=r": a PyTorch tensor is not .* Use contraflow.from_dlpack"):
        GIVEN_TO[name](Tensor())


def test_files_that_are_none_of_ours(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "plain.pkl"
    file.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ValueError, match=r"load: .*plain\.pkl is .* but a pickle"):
        cf.load(file)
    with pytest.raises(IsADirectoryError, match=r"load: .* is a folder\. Name a file in it"):
        cf.load(tmp_path)
    assert command(["convert", str(tmp_path), "a.safetensors"]) == 1
    assert "is a folder" in capsys.readouterr().err


def test_a_whole_model_is_saved_with_a_warning_in_programs_of_pytorchs(monkeypatch: Any) -> None:
    layer = cf.nn.Linear(1, 1)
    cf.save(layer, io.BytesIO())
    monkeypatch.setattr(DType, "prefix", "torch.")
    cf.save(layer.state_dict(), io.BytesIO())
    with pytest.warns(UserWarning, match="save: of a Linear its state dict is saved"):
        cf.save(layer, io.BytesIO())


def test_a_check_of_a_file_that_is_not_there_says_so(monkeypatch: Any, capsys: Any) -> None:
    before = {name: sys.modules.get(name) for name in ("torch",)}
    from contraflow import as_torch

    try:
        assert as_torch.main(["--check", "nofile.py"]) == 2
    finally:
        as_torch.uninstall()
        sys.modules.update({name: module for name, module in before.items() if module})
    assert capsys.readouterr().err.startswith("--check: ")
