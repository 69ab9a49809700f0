"""The CUDA and WGSL renderers: golden texts, compilers, and numbers.

Texts are compiled by NVRTC, which needs no GPU, and validated by naga. They run on whatever
WebGPU adapter there is (Mesa's software one will do: apt-get install mesa-vulkan-drivers) and on a
GPU where there is one, and must agree with the interpreter.

`python -m tests.render.test_render_gpu` writes the golden texts anew; read the difference before it
is committed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from tests.helpers import gpu_attention, gpu_fused, gpu_ordered  # noqa: F401 (they declare cases)
from tests.helpers.gpu_case import CASES, GUARD, Case, check, load
from tests.helpers.gpu_functions import elementwise
from tests.helpers.gpu_kernels import gather_case

from contraflow.compiler.kernel import Kernel, KernelCall, Loops, Scatter
from contraflow.dtypes import bfloat16, float32, float64, int8, int64
from contraflow.errors import DeviceError
from contraflow.expressions import expression as s
from contraflow.render.clike import cuda, source, wgsl, wide

GOLDEN = Path(__file__).parent / "golden"
RENDERERS: dict[str, Callable[[Kernel], str]] = {"cu": cuda.render, "wgsl": wgsl.render}
PORTABLE = [name for name, build in CASES.items() if build().webgpu]


# WGSL for calls of certain sizes, beside that for any: the case, and the variant.
VARIANTS = {
    **{f"contraction_{t.tile}": ("contraction", wgsl.WgslVariant(t)) for t in wide.TILINGS},
    "contraction_of_float16_64": ("contraction_of_float16", wgsl.WgslVariant(wide.TILINGS[1])),
    "contraction_added": ("contraction", wgsl.WgslVariant(wide.TILINGS[1], adds=True)),
    "softmax_wide": ("softmax", wgsl.WgslVariant(wide=True)),
    "softmax_rows": ("softmax", wgsl.WgslVariant(rows=4)),
    "fused_map_wide": ("fused_map", wgsl.WgslVariant(wide=True)),
    "column_sum_shared": ("column_sum", wgsl.WgslVariant(columns=wgsl.COLUMNS)),
    "cut_columns_shared": ("cut_columns", wgsl.WgslVariant(columns=wgsl.COLUMNS, wide=True)),
}


def golden_texts() -> dict[Path, str]:
    """Each golden file and what the renderers write today."""
    plain = {
        GOLDEN / f"{name}.{suffix}": render(CASES[name]().call.kernel)
        for name in CASES
        if CASES[name]().golden
        for suffix, render in RENDERERS.items()
    }
    variants = {
        GOLDEN / f"{name}.wgsl": wgsl.render(CASES[case]().call.kernel, variant)
        for name, (case, variant) in VARIANTS.items()
    }
    products = {
        GOLDEN / f"{name}.wgsl": wgsl.render(kernel, wgsl.WgslVariant(wide.TILINGS[-1]))
        for name, kernel in gpu_fused.kernels().items()
    }
    return {**plain, **variants, **products}


def golden_files() -> list[Path]:
    """The files there are; the folder holds other renderers' texts too."""
    return sorted(path for path in GOLDEN.iterdir() if path.suffix[1:] in RENDERERS)


@pytest.mark.parametrize("path", golden_texts(), ids=lambda path: path.name)
def test_golden(path: Path) -> None:
    assert path.read_text() == golden_texts()[path]


def test_no_golden_is_left_over() -> None:
    assert golden_files() == sorted(golden_texts())


@pytest.mark.parametrize("index_bits", [64, 32])
@pytest.mark.parametrize("name", CASES)
def test_nvrtc_compiles(name: str, index_bits: int, nvrtc: Any) -> None:
    assert nvrtc.compile_call(CASES[name]().call, index_bits)


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_89", "sm_100", "sm_120"])
@pytest.mark.parametrize("name", ["layer_norm", "convolution", "added_rows", "narrow_types"])
def test_nvrtc_compiles_for_other_gpus(name: str, architecture: str, nvrtc: Any) -> None:
    assert nvrtc.compile_call(CASES[name]().call, 64, architecture)


@pytest.mark.parametrize("index_bits", [64, 32])
@pytest.mark.parametrize("name", CASES)
def test_cuda_agrees_with_numpy(name: str, index_bits: int, gpu: Any) -> None:
    check(name, partial(gpu.run_call, index_bits=index_bits))


@pytest.mark.parametrize("name", PORTABLE)
def test_webgpu_agrees_with_numpy(name: str, webgpu: Any) -> None:
    check(name, webgpu.run_call)


# Fewer groups than a call has work for: each must take several turns.
SEVERAL_GROUPS = (
    "softmax_of_short_rows", "layer_norm", "fused_map", "column_norm", "contraction", "convolution",
    "running_sum", "added_rows",
)  # fmt: skip


@pytest.mark.parametrize("name", SEVERAL_GROUPS)
def test_webgpu_launch_in_two_dimensions(name: str, webgpu: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(wgsl, "GROUPS_PER_AXIS", 3)
    check(name, webgpu.run_call)


@pytest.mark.parametrize("name", SEVERAL_GROUPS)
def test_cuda_launch_with_few_blocks(name: str, gpu: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(cuda, "MOST_BLOCKS", 3)
    check(name, gpu.run_call)


def check_failure(run: Callable[..., np.ndarray]) -> None:
    found = gather_case([3, 11, 5, -4])
    mark, index = run(found.call, found.arrays, line=41)
    assert mark == 42
    assert index in (11, -4)
    rows = found.arrays[2][0][-4 * 30 :].reshape(4, 30)
    assert [bool((row == 99).all()) for row in rows] == [False, True, False, True]
    intact = gather_case([3, 0])
    assert not run(intact.call, intact.arrays, line=41).any()


def check_scattered_failure(run: Callable[..., np.ndarray]) -> None:
    found = CASES["added_rows"]()
    kernel = found.call.kernel
    assert isinstance(kernel, Scatter)
    index, target = found.arrays[0][0], found.arrays[kernel.target][0]
    assert index is not None
    assert target is not None
    before = target.copy()
    index[GUARD:] = 7  # of 7 rows
    index[GUARD + 5] = 2
    mark, wrong = run(found.call, found.arrays, found.scalars, line=41)
    assert (mark, wrong) == (42, 7)
    rows = (target != before)[GUARD:].reshape(7, -1)
    assert rows.any(1).tolist() == [False, False, True, False, False, False, False]


def test_webgpu_leaves_out_values_of_wrong_indices(webgpu: Any) -> None:
    check_scattered_failure(webgpu.run_call)


def test_cuda_leaves_out_values_of_wrong_indices(gpu: Any) -> None:
    check_scattered_failure(gpu.run_call)


def test_webgpu_records_a_failed_check(webgpu: Any) -> None:
    check_failure(webgpu.run_call)


def test_cuda_records_a_failed_check(gpu: Any) -> None:
    check_failure(gpu.run_call)


# --- interfaces --------------------------------------------------------------------------------


def test_every_kind_of_kernel_has_a_case() -> None:
    assert {type(build().call.kernel) for build in CASES.values()} == {*get_args(Kernel)}


def test_order_of_integers() -> None:
    call = CASES["fused_map"]().call
    names = source.integer_names(call.kernel)
    expected = "size0 size1 offset0 offset1 offset3 offset4 stride0_1 stride3_0 stride4_0"
    assert names == expected.split()
    values = source.integer_values(call, [1, 2, 0, 3, 4])
    assert dict(zip(names, values, strict=True)) == {
        "size0": 37, "size1": 53, "offset0": 1, "offset1": 2, "offset3": 3, "offset4": 4,
        "stride0_1": 37, "stride3_0": 53, "stride4_0": 53,
    }  # fmt: skip
    assert source.integer_names(CASES["gather"]().call.kernel)[-1] == "line"


def test_cuda_arguments_are_words_of_eight_bytes() -> None:
    call = CASES["gather"]().call
    words = np.frombuffer(cuda.pack(call, [10, 20, 30], [1, 2, 3], line=4, failure=40), np.int64)
    assert words.tolist() == [10, 20, 30, 40, *source.integer_values(call, [1, 2, 3], 4)]
    call = CASES["momentum"]().call
    words = np.frombuffer(cuda.pack(call, [10, 20, 30, 0.5], [0] * 4), np.int64)
    assert words[3:4].view(np.float64) == 0.5


def test_webgpu_arguments() -> None:
    call = CASES["layer_norm"]().call
    words = np.frombuffer(wgsl.pack_arguments(call, [7] * 8), np.int32)
    assert words.tolist() == [0, *source.integer_values(call, [7] * 8)]
    scalars = wgsl.pack_scalars(call.kernel, [0, 0, 0, 391.0, 1e300, 0, 0, 0])
    assert np.frombuffer(scalars, np.float32).tolist() == [391.0, np.inf]
    kinds = ["uniform"] * 2 + ["read-only-storage"] * 3 + ["storage"] * 3
    assert wgsl.bindings(call.kernel) == dict(enumerate(kinds))


def resized(case: Case, *sizes: int) -> KernelCall:
    return case.call._replace(sizes=sizes)


def test_launches() -> None:
    rows, flat, product = CASES["softmax"](), CASES["random_words"](), CASES["contraction"]()
    assert cuda.launch(resized(rows, 1000, 10)) == ((1000, 1, 1), (32, 1, 1))
    assert cuda.launch(resized(rows, 1000, 129)) == ((1000, 1, 1), (256, 1, 1))
    assert cuda.launch(resized(rows, 0, 129)).grid == (0, 1, 1)
    assert cuda.launch(resized(flat, 257)) == ((2, 1, 1), (256, 1, 1))
    assert cuda.launch(resized(flat, 1 << 30)).grid == (65536, 1, 1)
    assert cuda.launch(resized(product, 3, 2, 65, 64, 9)).grid == (12, 1, 1)
    assert wgsl.launch(resized(rows, 65535, 5000)) == (65535, 1, 1)
    assert wgsl.launch(resized(rows, 65536, 5000)) == (32768, 2, 1)
    assert wgsl.launch(resized(rows, 0, 10)) == (0, 1, 1)


def test_index_bits() -> None:
    rows, product = CASES["softmax"](), CASES["contraction"]()
    assert cuda.index_bits(rows.call) == cuda.index_bits(product.call) == 32
    assert cuda.index_bits(resized(rows, 1 << 31, 2)) == 64
    # Few points, but far apart.
    assert cuda.index_bits(rows.call._replace(strides=((1 << 30, 1), (1, 1)))) == 64
    assert cuda.index_bits(resized(product, 1 << 10, 1 << 10, 64, 64, 3)) == 64
    text = cuda.render(rows.call.kernel, cuda.TextVariant(32))
    assert "int size0, int size1" in text
    assert "long long offset0, long long offset1" in text
    assert "const int i1 = element;" in text


def test_text_does_not_depend_on_order_of_rendering() -> None:
    kernel = CASES["layer_norm"]().call.kernel
    first = cuda.render(kernel)
    wgsl.render(kernel)
    assert cuda.render(kernel) == first


# --- what WebGPU cannot do ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [float64, bfloat16, int8])
def test_webgpu_refuses_to_store(dtype: Any) -> None:
    kernel = elementwise([np.zeros(3, dtype.numpy)], [load(0, dtype)]).call.kernel
    remedy = "float32" if dtype.is_floating_point else "int32"
    with pytest.raises(DeviceError) as error:
        wgsl.render(kernel)
    assert str(error.value) == (
        f"{kernel.name}: operand 0 is {dtype}, which webgpu cannot store. "
        f"Convert it first: x.to(contraflow.{remedy}), or move it: x.to('cpu')."
    )


def test_webgpu_refuses_too_many_buffers() -> None:
    total = load(0, float32)
    for i in range(1, 8):
        total = total + load(i, float32)
    kernel = elementwise([np.zeros(3, np.float32)] * 8, [total]).call.kernel
    with pytest.raises(DeviceError, match=r"binds 9 storage buffers, but webgpu guarantees only 8"):
        wgsl.render(kernel)


def test_webgpu_refuses_wide_constants() -> None:
    kernel = elementwise([np.zeros(3, np.int64)], [load(0, int64) + (1 << 40)]).call.kernel
    with pytest.raises(DeviceError, match=r"1099511627776 does not fit"):
        wgsl.render(kernel)


def test_webgpu_refuses_too_many_shared_bytes() -> None:
    case = CASES["empty_rows"]()
    kernel = case.call.kernel
    assert isinstance(kernel, Loops)
    many = dataclasses.replace(kernel, reductions=kernel.reductions * 9)
    with pytest.raises(DeviceError, match=r"shares 18432 bytes within a workgroup"):
        wgsl.render(many)


def test_what_is_seldom_needed_is_in_a_branch() -> None:
    text = wgsl.render(
        elementwise([np.zeros(3, np.float32)], [s.sin(load(0, float32))]).call.kernel
    )
    before, branch = text.split("        if (v")
    assert "4294967295u" in branch, "the words of the reduction"
    assert "4294967295u" not in before


def test_missing_text_is_named() -> None:
    value = s.call("quotient", load(0, float32), 2.0)
    kernel = elementwise([np.zeros(3, np.float32)], [value]).call.kernel
    with pytest.raises(NotImplementedError, match=r"^quotient: cuda has no text for float32\.$"):
        cuda.render(kernel)


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for old in golden_files():
        old.unlink()
    for path, text in golden_texts().items():
        path.write_text(text)
