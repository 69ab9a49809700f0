"""The first step of a new process, in seconds: `python -m benchmarks.first_call STEP CONTENDER`.

Imports, weights and batches are not counted; recording, compiling and the step itself are.
"""

from __future__ import annotations

import sys
import time

from benchmarks import models, peers


def main() -> None:
    """Print the seconds."""
    step, name = sys.argv[1:]
    contender = peers.make(models.STEPS[step](), name)
    start = time.perf_counter()
    contender.turn(0)
    print(time.perf_counter() - start)


if __name__ == "__main__":
    main()
