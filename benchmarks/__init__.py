"""What contraflow costs, next to PyTorch and JAX where they are installed.

`models.py` says what is computed, `peers.py` how each library does it, `overhead.py` what single
operations cost, `measure.py` how time is taken, and `run.py` prints and writes the results.
"""
