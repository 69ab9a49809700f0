"""A webgpu device that counts what is asked of it, as the walled device does."""

from __future__ import annotations

from typing import Any

from contraflow.capture.rewriting import library
from contraflow.devices.webgpu.device import WebgpuDevice

# This stands for a part of the library: a function that is recorded is not asked about it.
library._files[__file__] = True


class CountingDevice(WebgpuDevice):
    """Counts transfers, and how often something is queued."""

    name = "walled"
    uploads = downloads = runs = 0

    def upload(self, array: Any, non_blocking: bool = False) -> Any:
        self.uploads += 1
        return super().upload(array)

    def download(self, buffer: Any) -> Any:
        self.downloads += 1
        return super().download(buffer)

    def enqueue(self, items: Any, scalars: int = 0, work: int = 0) -> None:
        self.runs += 1
        super().enqueue(items, scalars, work)
