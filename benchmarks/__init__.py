"""What contraflow costs, next to PyTorch, JAX and tinygrad where they are installed.

- what is computed: `models.py` and `loops.py`
- by whom: `contender.py` and a `with_*.py` for each library
- in processes of their own: `channel.py`, `worker.py` (steps), `overhead.py` (single operations)
- measuring: `compare.py` (a step, all contenders), `probes.py` (the rest), `machine.py`
- showing: `targets.py`, `report.py`, `figure.py`; `run.py` does everything
"""
