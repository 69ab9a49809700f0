"""The library on the webgpu device: modules, optimizers and tools do there what they do elsewhere.

The tests are those of the walled device, under whose name this one is opened.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.devices import test_walled_engine, test_walled_library
from tests.helpers.walled import opened
from tests.helpers.webgpu_counting import CountingDevice

# Those that need float64 or half precision, and (the last two) devices that round alike: a bias in
# front of a batch norm has no gradient but rounding errors, which Adam makes steps of.
ELSEWHERE = (
    "test_arrays_meet_tensors_where_those_lie",
    "test_gradcheck",
    "test_a_model_on_two_devices",
    "test_scaled_gradients",
    "test_copies_of_modules_and_optimizers",
    "test_files",
)
# Of the others, these cases.
REFUSED = (
    "test_initial_values_with_arguments",
    "test_optimizer[Muon-eager]",
    "test_optimizer[Muon-compiled]",
)


@pytest.fixture(autouse=True)
def possible(request: Any) -> None:
    if request.node.name in REFUSED:
        pytest.skip("needs float64 or bfloat16, which webgpu does not have")


@pytest.fixture(autouse=True, scope="module")
def device(webgpu: Any) -> Any:
    with opened(CountingDevice) as found:  # type: ignore[arg-type]
        yield found


for _module in (test_walled_engine, test_walled_library):
    for _name, _test in vars(_module).items():
        if _name.startswith("test_") and _name not in ELSEWHERE:
            globals()[_name] = _test
