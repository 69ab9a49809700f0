"""The kernels of the whole registry on GPUs: compiled, and run one by one against their meaning.

The ops that visit points in order are among the ordinary tests, the others are slow ones.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.helpers.gpu_programs import KernelRun, compare
from tests.helpers.registry_tapes import Recorded, first_sample, record

from contraflow.compiler.lower import KernelUse
from contraflow.dtypes import DType, bfloat16, float16, float64
from contraflow.errors import DeviceError
from contraflow.operation.op import REGISTRY
from contraflow.render.clike import cuda, wgsl

ORDERED = ("scatter", "scan", "sort")
COMPILED: set[str] = set()  # the names of kernels that the test of other dtypes has seen


# A case for each op, forward and backward.
RECORDINGS = [
    pytest.param(
        name,
        backward,
        marks=() if op.kind.lowering in ORDERED else (pytest.mark.slow,),
        id=f"{name}-{'backward' if backward else 'forward'}",
    )
    for name, op in sorted(REGISTRY.items())
    for backward in (False, True)
]


def recorded(name: str, backward: bool) -> Recorded:
    """The tape of an op, or a skip."""
    sample = first_sample(REGISTRY[name])
    found = None if sample is None else record(REGISTRY[name], sample, backward=backward)
    if found is None:
        pytest.skip("there is nothing to record")
    return found


@pytest.mark.parametrize(("name", "backward"), RECORDINGS)
def test_webgpu_agrees_with_the_interpreter(name: str, backward: bool, webgpu: Any) -> None:
    try:
        KernelRun(*recorded(name, backward), wgsl.LIMITS).run(webgpu.run_call, compare)
    except DeviceError as error:
        assert "float64" in str(error)  # noqa: PT017 (most samples have none)
        pytest.skip(str(error))


@pytest.mark.parametrize(("name", "backward"), RECORDINGS)
def test_nvrtc_compiles(name: str, backward: bool, nvrtc: Any) -> None:
    for use in KernelRun(*recorded(name, backward), cuda.LIMITS).uses:
        if isinstance(use, KernelUse):
            assert nvrtc.compile_call(use.call, cuda.index_bits(use.call))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [float16, bfloat16, float64], ids=str)
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_nvrtc_compiles_other_dtypes(name: str, dtype: DType, nvrtc: Any) -> None:
    sample = first_sample(REGISTRY[name])
    for backward in (False, True):
        try:
            found = sample and record(REGISTRY[name], sample, backward=backward, dtype=dtype)
        except TypeError as error:
            assert "Use float32 or float64" in str(error)  # noqa: PT017 (most ops take all dtypes)
            pytest.skip(str(error))
        for use in KernelRun(*found, cuda.LIMITS).uses if found else ():
            if isinstance(use, KernelUse) and use.call.kernel.name not in COMPILED:
                assert nvrtc.compile_call(use.call, cuda.index_bits(use.call), "sm_75")
                COMPILED.add(use.call.kernel.name)


@pytest.mark.parametrize(("name", "backward"), RECORDINGS)
def test_cuda_agrees_with_the_interpreter(name: str, backward: bool, gpu: Any) -> None:
    KernelRun(*recorded(name, backward), cuda.LIMITS).run(gpu.run_call, compare)
