"""Capture: how a function is recorded, when a recording still holds, and how it is replayed.

    trees.py      nested containers as a hashable structure and a flat list of leaves
    attributes.py the attributes that a function's code reads
    guards.py     what a program depends on beside its arguments
    replay.py     a recorded call: where its inputs come from, and what becomes of its outputs
    pullback.py   the backward of a recorded call, and its node in the graph
    trace.py      one call, recorded
    verify.py     one call, eagerly too
    explain.py    what was captured, for people to read

`compile.py` is the decorator: the key, the cache, and which program serves a call.
"""
