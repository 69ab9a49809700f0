"""How tensors print, under PyTorch's path, which is not public there but imported by packages."""

from __future__ import annotations

from typing import Any

from contraflow.tensors.printing import get_printoptions, tensor_text
from contraflow.tensors.tensor import Tensor


class CurrentOptions:
    """The options of printing as attributes, as they are when they are asked for."""

    def __getattr__(self, name: str) -> Any:
        options = get_printoptions()
        if name not in options:
            raise AttributeError(f"PRINT_OPTS has no attribute {name!r}.", name=name, obj=self)
        return options[name]


PRINT_OPTS = CurrentOptions()


def _tensor_str(x: Tensor, indent: int) -> str:
    """The elements of a tensor, without the word around them; lines after the first are indented.

    >>> import contraflow as cf
    >>> _tensor_str(cf.ones(2), 0)
    '[1., 1.]'
    """
    text = tensor_text(x.detach().numpy(), ()).removeprefix("tensor(").removesuffix(")")
    return text.replace("\n" + " " * len("tensor("), "\n" + " " * indent)
