"""oneDNN's switches: it is not used."""

enabled = False


def is_available() -> bool:
    """Whether oneDNN is used: no."""
    return False
