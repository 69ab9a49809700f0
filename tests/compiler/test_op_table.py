"""docs/ops.md says how each device runs each op: it is made of the registry, and it is true."""

from __future__ import annotations

import pytest
from tests.helpers import op_table

from contraflow.operation.op import REGISTRY


def test_the_page_is_fresh() -> None:
    assert op_table.PAGE.read_text() == op_table.page(), "run `make ops`"


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("matmul", ("kernel", "kernel", "kernel")),
        ("sort", ("kernel", "kernel", "kernel")),
        ("svd", ("NumPy", "cuSOLVER", "refused")),
        ("logdet", ("NumPy", "cuSOLVER", "refused")),
        ("pinv", ("NumPy", "refused", "refused")),
        ("masked_select", ("NumPy", "refused", "refused")),
        ("float_power", ("kernel", "kernel", "refused: float64")),
    ],
)
def test_cells(name: str, cells: tuple[str, ...]) -> None:
    found = tuple(op_table.cell(REGISTRY[name], device) for device in op_table.LIMITS)
    assert found == cells
