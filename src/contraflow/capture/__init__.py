"""Capture: how a function is recorded, when a recording still holds, and how it is replayed.

A recording and its replay:

    trees.py      nested containers as a hashable structure and a flat list of leaves
    key.py        what a program depends on that is compared as one tuple: specs, modes, settings
    trace.py      one call, recorded
    guards.py     what a program depends on beside its arguments
    replay.py     a recorded call: where its inputs come from, and what becomes of its outputs
    effects.py    what a replay does beside computing
    hit.py        the call that hits, written out
    pullback.py   the backward of a recorded call, and its node in the graph
    verify.py     one call, eagerly too
    explain.py    what was captured, for people to read

Observing Python's state while a function is recorded:

    bytecode.py   code objects, taken apart and put together
    rewrite.py    code in which every read, store and call goes through hooks
    session.py    the observer of a thread, and the functions that run rewritten code meanwhile
    observe.py    the hooks
    places.py     where a value is found at each call
    reads.py      what was found at a place, and whether it is found again
    writes.py     what is written, done by every replay
    library.py    whose code is whose
    impure.py     functions whose answer a replay could not give
    sight.py      the observer, base: what comes into sight
    attributes.py the observer: reads of variables and attributes
    containers.py the observer: reads of containers
    stores.py     the observer: what is written
    carried.py    the observer: what is read and then written is an input
    observer.py   the observer: calls
    made.py       objects that a call makes and leaves behind, made anew by every call
    settings.py   settings that a function may change, but not leave changed
    structures.py copies of what modules and optimizers hold, put back when a recording fails
    alarm.py      functions that ran and were not observed
    ahead.py      what is noticed on a Python whose code is not known

`compile.py` is the decorator; `compiled.py` has the programs of a function, by key.
"""
