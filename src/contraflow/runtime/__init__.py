"""The runtime: executables, the memory of their outputs, and eager execution."""
