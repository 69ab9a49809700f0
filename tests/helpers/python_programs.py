"""Small Python programs that between them use every form of the language, for test_rewrite.py.

Each prints what it finds, or raises. `PROGRAMS` maps names to texts: those of python_programs.txt
that this Python can read, and some that are written here because they are long.
"""

import re
import sys
from pathlib import Path

_HEADING = re.compile(r"^## (.*?)(?: \(from 3\.(\d+) on\))?\n", re.MULTILINE)


def _read() -> dict[str, str]:
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    parts = iter(_HEADING.split(text)[1:])
    return {
        name: body
        for name, version, body in zip(parts, parts, parts)
        if sys.version_info >= (3, int(version or 0))
    }


def _branches(count: int, indent: str) -> str:
    return "".join(
        f"{indent}if x == {i}:\n"
        f"{indent}    y = y + {i} if x else y - 1\n"
        f"{indent}    total.append(a.b[{i}])\n"
        for i in range(count)
    )


PROGRAMS = _read()

# So long that jumps need prefixes, forward and back, in a loop, a handler and outside.
PROGRAMS["long jumps"] = f"""\
class A:
    b = range(900)
a, total = A(), []
def f(x, y):
    while y < 5:
        y += 1
        try:
            y = int(y)
{_branches(60, " " * 12)}
        except KeyError:
            return None
        else:
            continue
{_branches(900, " " * 4)}
    return y
print(f(1, 2), f(300, 9), f(30, 1), f(899, 7), sum(total))
"""

PROGRAMS["many names"] = f"""\
{"".join(f"v{i} = {i}.5; " for i in range(700))}
def f():
    return [{", ".join(f"v{i} + {i}.25" for i in range(700))}]
class A:
    pass
a = A()
{"".join(f"a.w{i} = v{i}; " for i in range(300))}
print(sum(f()), len(vars(a)), a.w299, globals()["v699"])
"""

PROGRAMS["many cells"] = f"""\
def f():
    {"".join(f"c{i} = {i}; " for i in range(300))}
    def g():
        nonlocal c299
        c299 = 1
        return {" + ".join(f"c{i}" for i in range(300))}
    return g() + c299
print(f())
"""
