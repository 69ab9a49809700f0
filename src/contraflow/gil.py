"""Refuses an interpreter that runs without its global interpreter lock (GIL).

Memory is reused once `sys.getrefcount` shows that nothing else refers to it. Without the lock
another thread could take a reference between the count and the reuse, and see its values change. A
free-threaded build whose lock is on (`PYTHON_GIL=1`) is accepted: a lock that is on stays on.
"""

import sys

# Python has this function, and builds without the lock, from 3.13 on.
if not getattr(sys, "_is_gil_enabled", lambda: True)():
    raise ImportError(
        "contraflow: this Python runs without its global interpreter lock, and contraflow reuses "
        "memory by reference counts, which other threads could change meanwhile. "
        "Start Python with PYTHON_GIL=1 or -X gil=1, or use a build that is not free-threaded."
    )
