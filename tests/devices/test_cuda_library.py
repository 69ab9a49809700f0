"""The library on a GPU: what holds on the walled device holds here. Skipped without a GPU."""

from __future__ import annotations

import pytest
from tests.devices import test_walled_engine, test_walled_library
from tests.helpers.cuda_device import opened_gpu

# A bias in front of a batch norm has no gradient but rounding errors, which Adam makes steps of:
# these compare devices that round alike.
ROUND_ALIKE = ("test_copies_of_modules_and_optimizers", "test_files")


@pytest.fixture(autouse=True, scope="module")
def device():
    with opened_gpu("walled") as found:
        yield found


for _module in (test_walled_engine, test_walled_library):
    for _name, _test in vars(_module).items():
        if _name.startswith("test_") and _name not in ROUND_ALIKE:
            globals()[_name] = _test
