"""Rewriting: code objects that report reads, stores and calls, and which code is rewritten.

    bytecode.py   code objects, taken apart and put together
    rewrite.py    code in which every read, store and call goes through hooks
    library.py    whose code is whose

`observing` installs the hooks that are called.
"""
