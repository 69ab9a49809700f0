"""PyTorch's type of results that come later, for annotations and `isinstance`: there are none."""

from contraflow.names import getter, without_objects

Future = without_objects("Future", "a result of PyTorch's that comes later")


def collect_all(futures: list[object]) -> list[object]:
    """A list of results that come later: there are none to collect."""
    if futures:
        raise TypeError("collect_all: there are no results that come later here.")
    return []


__all__ = ["Future", "collect_all"]

globals()["__getattr__"] = getter(__name__)
