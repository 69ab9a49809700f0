"""The structure epoch: the count of changes that compiled functions notice."""

from __future__ import annotations

from typing import ClassVar


class Structure:
    """Counts changes that a compiled function must notice: parameters, hooks, modules.

    First comes the change, then the count: a call in between would see the new count and the old
    state, and never look again.
    """

    epoch = 0

    @classmethod
    def changed(cls) -> None:
        """Raise the epoch."""
        cls.epoch += 1


class Every:
    """The hooks of all modules, or of all optimizers; a recording treats it as a module it used."""

    known: ClassVar[list[Every]] = []
    _structure = 0

    def __init__(self) -> None:
        Every.known.append(self)

    def _restructured(self) -> None:
        self._structure += 1
        Structure.changed()
