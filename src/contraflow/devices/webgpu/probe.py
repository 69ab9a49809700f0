"""Questions to an adapter: WGSL leaves open what becomes of NaN, infinities and small numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from contraflow.devices.webgpu.calls import STORAGE, Dispatch

if TYPE_CHECKING:
    from contraflow.devices.webgpu.device import WebgpuDevice

# A product whose last digits are lost where it is rounded before the sum: 1 + 2**-12 + 2**-26.
_FACTOR, _SUM = 1 + 2.0**-13, -(1 + 2.0**-12)
_GIVEN = np.array([np.nan, np.inf, 0.0, 1e-40, 1e-20, _FACTOR, _SUM, 1.0], np.float32)

# Each question, the expression that asks it, and the test of a result that means yes.
_QUESTIONS: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("NaN differs from itself", "select(0.0, 1.0, nan != nan)", lambda x: x == 1),
    ("max(NaN, 1) is NaN", "max(nan, one)", np.isnan),
    ("inf - inf is NaN", "inf - inf", np.isnan),
    ("NaN * 0 is NaN", "nan * zero", np.isnan),
    ("1 / 0 is infinite", "one / zero", np.isinf),
    ("NaN is loaded and stored as it is", "nan", np.isnan),
    ("numbers below 1e-38 are loaded and stored as they are", "tiny", lambda x: x != 0),
    ("numbers below 1e-38 stay in products", "tiny * one", lambda x: x != 0),
    ("products may lie below 1e-38", "small * small", lambda x: x != 0),
    ("a product and a sum are fused", "factor * factor + rest", lambda x: x != 0),
    ("fma rounds once", "fma(factor, factor, rest)", lambda x: x == np.float32(2.0**-26)),
)

_NAMES = ("nan", "inf", "zero", "tiny", "small", "factor", "rest", "one")


def answers(device: WebgpuDevice) -> dict[str, bool]:
    """The behaviour of the adapter, by question."""
    lines = [f"    let {name} = given[{i}];" for i, name in enumerate(_NAMES)]
    lines += [f"    found[{i}] = {text};" for i, (_, text, _) in enumerate(_QUESTIONS)]
    code = "\n".join((
        "@group(0) @binding(0) var<storage, read> given: array<f32>;",
        "@group(0) @binding(1) var<storage, read_write> found: array<f32>;",
        "@compute @workgroup_size(1) fn main() {", *lines, "}",
    ))  # fmt: skip
    calls = device.calls
    with device.undisturbed:
        layout = calls.layout({0: "read-only-storage", 1: "storage"}, dynamic=-1)
        pipeline = calls.pipeline(code, "main", layout)
        given, found = calls.buffer(256, STORAGE), calls.buffer(256, STORAGE)
        calls.write(given, 0, _GIVEN)
        group = calls.bind_group(layout, [(0, given, 0, 256), (1, found, 0, 256)])
        device.enqueue([Dispatch(pipeline, group, 1, 1)])
        results = np.empty(4 * len(_QUESTIONS), np.uint8)
        device.fetch(found, 0, results)
    values = results.view(np.float32)
    return {name: bool(test(x)) for (name, _, test), x in zip(_QUESTIONS, values)}
