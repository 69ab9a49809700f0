"""Metal's device under PyTorch's name: it is reached through the device `webgpu` here."""


def is_available() -> bool:
    """Whether there is a device called `mps`: no. Apple's GPUs are the device `webgpu`."""
    return False


def is_built() -> bool:
    """Whether this installation has code for a device called `mps`: no."""
    return False
