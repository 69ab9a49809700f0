"""The page that shows what a compiled step runs: `python -m benchmarks.explained`.

Times are left out: they are one machine's. Everything else is a function of the step alone.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks import models, with_contraflow

PAGE = Path(__file__).resolve().parents[1] / "docs" / "gpt_explained.md"

TEXT = """\
# What a compiled step runs

This is `print(step.explain())` of the benchmark `gpt`, without its times:
{description}.
`make explain` writes this page anew.

A row is a kernel with the sizes of its loops and the ops that made its results, at the lines that
called them or their gradients, in the order in which they run. `map` kernels
compute element by element, `row` kernels fold along what lies side by side (norms, softmax, losses
and their gradients), `column` kernels across it (gradients of biases), and a `contraction` over
[g, b, m, n, k] is C[g, b, m, n] = A[g, b, m, k] B[g, b, k, n]. Rows that compute the same share
their machine code, so these {steps} steps need {kernels} kernels, however many layers there are:
`step.kernels` lists the kernel of each step by a name that ends with a digest of what it computes.

```text
{explained}
```
"""


def main() -> None:
    """Run the step once and write what it says."""
    step = models.STEPS["gpt"]()
    contender = with_contraflow.make(step, "compiled")
    contender.values(0)
    rows = contender.run.explain().splitlines()
    explained = "\n".join(row for row in rows if not row.lstrip().startswith("time"))
    kernels = contender.run.kernels
    counts = {"steps": len(kernels), "kernels": len(set(kernels))}
    PAGE.write_text(TEXT.format(description=step.description, explained=explained, **counts))


if __name__ == "__main__":
    main()
