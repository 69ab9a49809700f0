"""Memory that a GPU shares with other libraries, by DLPack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from contraflow.devices.cuda.memory import CudaBuffer
from contraflow.dtypes import DType

if TYPE_CHECKING:
    from contraflow.devices.cuda.device import CudaDevice

CUDA = 2  # as DLPack has it
_LEGACY, _NO_STREAM = 1, -1  # streams, as DLPack has them


class CudaExchange:
    """The exchange of one GPU."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self.kind = CUDA, device.driver.index
        self.stream = int(device.stream)

    def adopt(self, address: int, count: int, dtype: DType, owner: object) -> CudaBuffer:
        """A buffer over memory of another library, which is kept until kernels that use it have
        run."""
        buffer = CudaBuffer((count,), dtype, self._device, address)
        with self._device.lock:
            self._device.memory.adopt(buffer, owner)
        return buffer

    def hand_over(self, stream: Any) -> None:
        """Have a stream wait for everything that was asked for."""
        if stream is None:
            stream = _LEGACY
        if type(stream) is not int or stream == 0 or stream < _NO_STREAM:
            raise ValueError(
                f"dlpack: stream is {stream!r}. It is the address of a CUDA stream, 1 for the "
                f"legacy default stream, 2 for that of the thread, or -1 for none."
            )
        if stream == _NO_STREAM:
            self._device.latest = None
            return
        driver = self._device.driver
        with self._device.lock:
            self._device.latest = None  # the other library may write
            event = driver("cuEventCreate", 2)
            driver("cuEventRecord", event, self._device.stream)
            driver("cuStreamWaitEvent", stream, event, 0)
            driver("cuEventDestroy", event)  # when it was recorded
