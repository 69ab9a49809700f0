"""Observing: the observer of a recording, which hears of every read, store and call.

    session.py    the observer of a thread, and the functions that run rewritten code meanwhile
    observe.py    the hooks
    objects.py    questions about an object: its kind and what it holds
    chain.py      the methods that links of the chain call before the link that has them
    sight.py      the observer, base: what comes into sight
    showing.py    the observer: code that runs through an object runs observed
    attributes.py the observer: reads of variables and attributes
    containers.py the observer: reads of containers
    changes.py    the observer: changes, noted to be undone and repeated
    stores.py     the observer: what is written
    carried.py    the observer: what is read and then written is an input
    observer.py   the observer: calls
    builtin.py    functions of Python's own that stand for reads and writes
    impure.py     functions whose answer a replay could not give
    settings.py   settings that a function may change, but not leave changed
    copies.py     copies of what modules and optimizers hold, put back when a recording fails
    unheard.py    the stand-in for a recorder where a recorded function runs once more, eagerly
    alarm.py      functions that ran and were not observed
    ahead.py      what is noticed on a Python whose code is not known

The observer is one object, whose class is a chain with a file for each link.
"""
