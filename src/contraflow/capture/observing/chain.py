"""The chain of the observer's classes: the methods that a link calls and a later one has.

The observer is one object, whose class is a chain with a file for each link. A link calls methods
of those before it, which are its bases, and the methods below.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from contraflow.capture.state.places import NestedPlace, Place
from contraflow.tensors.tensor import Tensor

SlotKey = tuple[Any, ...]  # of a slot: the address of what holds it, and its name there


class ObserverChain(Protocol):
    """The methods that links of the chain call before the link that has them."""

    @abstractmethod
    def show(self, x: Any) -> None:
        """Let user code that may run through this object run observed."""

    @abstractmethod
    def _show_component(self, x: Any) -> None:
        """A module or an optimizer, with all that it may call."""

    @abstractmethod
    def callee(self, f: Any) -> Any:
        """The function to call for `f`: itself if it is user code, which runs observed."""

    @abstractmethod
    def call(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call what is C's or the library's."""

    @abstractmethod
    def item(self, container: Any, key: Any) -> Any:
        """Read an item."""

    @abstractmethod
    def _dict_item(self, container: dict[Any, Any], place: Place, key: Any) -> Any:
        """Read an item of a dict from before."""

    @abstractmethod
    def _ask(self, x: Any, place: Place, question: Callable[[Any], Any]) -> Any:
        """Ask an object that keeps its state to itself."""

    @abstractmethod
    def _is_parameter(self, x: Tensor) -> bool:
        """Whether a module that the function has used holds a tensor as a parameter."""

    @abstractmethod
    def touch(self, x: Any) -> None:
        """Note that a container from before is read whole."""

    @abstractmethod
    def in_class(self, bases: Sequence[type], name: str) -> Any:
        """The attribute in the first of some classes that has it; MISSING if none has."""

    @abstractmethod
    def _stored(self, holder: Any, key: SlotKey, place: NestedPlace, value: Any) -> None:
        """A slot of something from before is about to hold a value."""

    @abstractmethod
    def _mutate(
        self, container: Any, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, ...]:
        """A method is about to change a container from before; the arguments to call it with."""
