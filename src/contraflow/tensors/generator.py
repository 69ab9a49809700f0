"""Random generators: a seed and an offset, host integers, one generator for all devices.

The numbers themselves are ops (`ops/creation/random.py`) of these two integers and the element's
position (`philox.py`), so they are the same on every device, eager and compiled.
"""

from __future__ import annotations

import itertools
import os
from typing import NamedTuple

from contraflow import threads
from contraflow.devices.names import CPU, Device
from contraflow.errors import describe, plain_number
from contraflow.operation.context import state

serials = itertools.count()


def _as_int64(seed: object) -> int:
    """A seed reduced to what kernels take."""
    seed = plain_number(seed)
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise TypeError(f"manual_seed: {seed!r} is not an integer.")
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63)


class GeneratorState(NamedTuple):
    """The state of a generator: PyTorch's is a tensor, and programs move and copy it as one.

    >>> import contraflow as cf
    >>> state = cf.get_rng_state()
    >>> state.cpu() == state
    True
    """

    seed: int
    offset: int

    def cpu(self) -> GeneratorState:
        """Itself."""
        return self

    def to(self, *args: object, **kwargs: object) -> GeneratorState:
        """Itself: it is two integers."""
        return self

    def clone(self) -> GeneratorState:
        """Itself: it cannot be written to."""
        return self


class Generator:
    """A stream of random numbers. A draw of n words advances it by ceil(n / 4) blocks.

    One generator serves all devices: a `device`, which PyTorch takes here, has no effect.

    >>> Generator(device="cpu").manual_seed(3).initial_seed()
    3
    """

    def __init__(self, seed: object = 0, *, device: object = None) -> None:
        named = isinstance(seed, str) or (hasattr(seed, "index") and hasattr(seed, "type"))
        self.seed = 0 if named else _as_int64(seed)
        self.offset = 0
        self.serial = next(serials)  # later generators have higher numbers
        self._lock = threads.lock()

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed` from its beginning."""
        self.set_state((_as_int64(seed), 0))
        return self

    def take(self, blocks: int) -> tuple[int, int]:
        """The seed and offset of a draw that uses `blocks` counters."""
        with self._lock:
            offset = self.offset
            self.offset += blocks
            return self.seed, offset

    def draw(self, words: int) -> tuple[int, int]:
        """The seed and offset for a draw of `words` words, as inputs of a random op."""
        return state().context.draw(self, -(-words // 4))

    def put_back(self, words: int, drawn: tuple[object, object]) -> None:
        """Go back before a draw that was not used, unless there was another one since."""
        seed, offset = drawn
        with self._lock:
            before = self.offset + -words // 4
            if isinstance(offset, int) and (seed, offset) == (self.seed, before):
                self.offset = before

    @property
    def device(self) -> Device:
        """The cpu: a generator is two numbers there, and serves all devices."""
        return CPU

    def initial_seed(self) -> int:
        """The seed of the stream."""
        return self.get_state()[0]

    def get_state(self) -> GeneratorState:
        """Seed and offset."""
        state().context.read_generator(self)
        return GeneratorState(self.seed, self.offset)

    def set_state(self, saved: tuple[int, int]) -> None:
        """Go back to a state from `get_state`."""
        two = isinstance(saved, (tuple, list)) and len(saved) == 2
        if not (two and all(isinstance(x, int) for x in saved)):
            raise TypeError(
                f"set_rng_state: {describe(saved)} is not a state from get_rng_state, which is "
                f"two integers. The state of PyTorch's generator cannot be used, since other "
                f"numbers are drawn here. Use manual_seed."
            )
        state().context.write_generator(self, saved)
        self.seed, self.offset = saved


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Seed the default generator. Without this its seed is 0: runs repeat by default.

    >>> import contraflow as cf
    >>> generator = cf.manual_seed(0)
    >>> first = cf.rand(2)
    >>> generator = cf.manual_seed(0)
    >>> cf.equal(first, cf.rand(2))
    True
    """
    return default_generator.manual_seed(seed)


def get_rng_state() -> GeneratorState:
    """The state of the default generator.

    >>> import contraflow as cf
    >>> state = cf.get_rng_state()
    >>> first = cf.rand(2)
    >>> cf.set_rng_state(state)
    >>> cf.equal(first, cf.rand(2))
    True
    """
    return default_generator.get_state()


def set_rng_state(saved: tuple[int, int]) -> None:
    """Put the default generator back into a state from `get_rng_state`.

    >>> import contraflow as cf
    >>> state = cf.get_rng_state()
    >>> first = cf.rand(2)
    >>> cf.set_rng_state(state)
    >>> cf.equal(first, cf.rand(2))
    True
    """
    default_generator.set_state(saved)


def initial_seed() -> int:
    """The seed of the default generator.

    >>> import contraflow as cf
    >>> cf.manual_seed(7).initial_seed(), cf.initial_seed()
    (7, 7)
    """
    return default_generator.initial_seed()


def seed() -> int:
    """Seed the default generator with an unpredictable number, and return it.

    >>> import contraflow as cf
    >>> cf.seed() == cf.initial_seed()
    True
    """
    drawn = int.from_bytes(os.urandom(8), "little") >> 1
    default_generator.manual_seed(drawn)
    return drawn
