"""State: where Python's values are found, what was read and written there, and guards on it.

    trees.py      nested containers as a hashable structure and a flat list of leaves
    places.py     where a value is found at each call
    reads.py      what was found at a place, and whether it is found again
    written.py    reads as one function, which asks whether all are as they were
    graph_reads.py  where backward inside the function ended, and the hooks that ran there
    writes.py     what is written, done by every replay
    made.py       objects that a call makes and leaves behind, made anew by every call
    guards.py     what a program depends on beside its arguments
    effects.py    what a replay does beside computing

`observing` notes all of this while it records, and replays use it.
"""
