"""Compiled functions as bundles that a browser runs by its own WebGPU, without Python."""
