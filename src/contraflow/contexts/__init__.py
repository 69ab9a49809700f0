"""What applying an op does: eagerly, recorded, in forward mode, in a batch."""
