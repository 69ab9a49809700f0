"""Capture: how a function is recorded, when a recording still holds, and how it is replayed.

    rewriting/       code objects that report every read, store and call
    state/           where Python's values are found, what was read and written there, and guards
    observing/       the observer of a recording, which hears of every read, store and call

    call.py          one call: its owner, and its arguments, taken apart
    key.py           what a program depends on that is compared as one tuple: specs, modes, settings
    parts.py         arguments that are parts of larger tensors, as memory of their own
    trace.py         one call, recorded
    restart.py       what a recording starts from, and why it starts again
    findings.py      what was recorded as a program: results and effects
    backward.py      the backward of what was recorded, recorded too
    results.py       how a replay finds or makes each value that is returned or kept
    replay.py        a recorded call: where its inputs come from, and what becomes of its outputs
    hit.py           the call that hits, written out
    backward_tape.py the backward's part of a tape, and what it needs of the forward's
    pullback.py      the backward of a recorded call, and its node in the graph
    rerun.py         a recorded call run again, for gradients of gradients
    verify.py        one call, eagerly too
    explain.py       what was captured, for people to read

`compile.py` is the decorator; `compiled.py` has the programs of a function, by key.
"""
