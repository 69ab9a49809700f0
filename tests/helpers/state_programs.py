"""A seeded generator of Python programs that keep state everywhere, and change it between calls.

A program is a form (`state_worlds.py`): the text of a module that makes the state and a function of
a tensor, and changes to make between its calls. The same text runs with PyTorch in place of
contraflow where it is `common`.
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import NamedTuple

from tests.helpers.state_places import NAMES, PLAIN, Places, Slot
from tests.helpers.state_worlds import FOLDER, Form, code_of, remember

_prelude = FOLDER / "prelude.txt"
PRELUDE = code_of(_prelude.read_text(), str(_prelude))

REFUSED = (  # what the setup needs, and a statement that no replay could repeat
    ("import random", "y = y * random.random()"),
    ("import random", "y = y * random.choice([0.5, 1.5])"),
    ("", "y = y + float(np.random.rand())"),
    ("source = np.random.default_rng(0)", "y = y * float(source.standard_normal())"),
    ("import time", "y = y * (time.time() % 2)"),
    ("import time", "y = y * (time.perf_counter() % 2)"),
    ("source = iter(range(100))", "y = y * next(source)"),
    ("source = (n for n in range(100))", "y = y * (next(source) + 1)"),
    ("source = iter(range(100))", "for n in source: y = y * n"),
    ("", "y = y * len(open(os.devnull).read())"),
    ("", "y = y * os.urandom(1)[0]"),
    ("import uuid", "y = y * (uuid.uuid4().int % 3)"),
    ("import datetime", "y = y * datetime.datetime.now().microsecond"),
)


class Program(NamedTuple):
    """A form made from a seed, and what the generator knows about it."""

    seed: int
    form: Form
    source: str
    refused: bool
    steady: bool  # no structure depends on what the function writes
    common: bool  # PyTorch runs the same text
    may_be_refused: bool  # it keeps tensors where nobody looks


def is_target(slot: Slot) -> bool:
    """Whether a slot is written by an assignment to the expression that reads it."""
    return bool(slot.writes) and slot.writes[0] == f"{slot.plain} = {{}}"


class Writer(Places):
    """Writes one program."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.common = True
        self.steady = True
        self.written: list[Slot] = []
        self.blocks: list[str] = []  # functions that statements call
        self.outside: list[str] = []  # changes that concern no slot

    # --- choosing --------------------------------------------------------------------------------

    def slot(self, *kinds: str, structural: bool = False) -> Slot:
        """A slot of one of these kinds, old or new; structure follows what is not written."""
        fitting = [s for s in self.slots if s.kind in kinds]
        if structural:
            fitting = [s for s in fitting if not any(s is w for w in self.written)]
        if fitting and self.rng.random() < 0.6:
            return self.rng.choice(fitting)
        return self.declare(self.rng.choice(kinds))

    def structural(self, *kinds: str) -> str:
        """An expression on whose value the flow of control depends."""
        slot = self.slot(*kinds, structural=True)
        slot.writes.clear()
        return self.read(slot)

    def body(self, statements: int, depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(statements):
            choices = [self.compute, self.compute, self.branch, self.loop, self.write, self.write]
            choices += [self.optional, self.keep, self.module]
            if depth:
                choices += [self.call, self.call]
            lines += self.rng.choice(choices)(depth)
        return lines

    # --- statements ------------------------------------------------------------------------------

    def compute(self, depth: int) -> list[str]:
        kind = self.rng.choice(("number", "number", "count", "tensor", "tensor"))
        e = self.read(self.slot(kind))
        if kind == "tensor":
            return [self.rng.choice((f"y = y * 0.5 + {e}", f"y = (y * {e}).sin()", f"y = {e} - y"))]
        if kind == "count":
            return [f"y = y * 0.5 + {e} * 0.125"]
        other = self.read(self.slot("number"))
        forms = (f"y = y * {e}", f"y = y + {e}", f"y = y - {e} * 0.5", f"y = y * ({e} + {other})")
        return [self.rng.choice(forms)]

    def branch(self, depth: int) -> list[str]:
        rng = self.rng
        inner = [f"    {line}" for line in self.compute(depth)]
        kind = rng.choice(("flag", "name", "number", "count", "numbers", "match"))
        if kind == "flag":
            return [f"if {self.structural('flag')}:", *inner, "else:", "    y = y + 0.5"]
        if kind == "name":
            if rng.random() < 0.5:
                return [f"y = getattr(y, {self.structural('name')})()"]
            return [f"if {self.structural('name')} in ('relu', 'sin'):", *inner]
        if kind == "match":
            found = [f"match {self.structural('name')}:", f"    case '{rng.choice(NAMES)}':"]
            return [
                *found,
                *(f"    {line}" for line in inner),
                "    case other:",
                "        y = y * 0.75",
            ]
        if kind == "numbers":
            test = rng.choice(
                ("{}", "len({}) > 1", "0.5 in {}", "any(v > 0.5 for v in {})", "all({})")
            )
            return [f"if {test.format(self.structural('numbers'))}:", *inner]
        test = "{} > 0.5" if kind == "number" else "{} % 2"
        return [f"y = y * 0.5 if {test.format(self.structural(kind))} else y - 0.5"]

    def loop(self, depth: int) -> list[str]:
        rng = self.rng
        if rng.random() < 0.25:
            e = self.structural("tensors")
            forms = (
                [f"for t in {e}:", "    y = y * 0.5 + t"],
                [f"y = y + sum({e})"],
                [f"y = y + cf.stack(list({e})).sum(0)"],
                [f"y = y * len({e})"],
            )
            return rng.choice(forms)
        if rng.random() < 0.2:
            return [f"for n in range({self.structural('count')} % 3):", "    y = y * 0.5 + n"]
        e, f = self.structural("numbers"), self.structural("numbers")
        forms = (
            [f"for v in {e}:", "    y = y * 0.5 + v"],
            [f"for n, v in enumerate({e}):", "    y = y * 0.5 + v * n"],
            [f"for a, b in zip({e}, {f}):", "    y = y * a + b"],
            [f"y = y + sum({e})"],
            [f"y = y * len({e})"],
            [f"y = y + sum(v * 0.5 for v in {e} if v > 0)"],
            [f"y = y + max({e}, default=0.0)"],
            [f"y = y + sorted({e}, key=lambda v: -v)[:1].count(0.5)"],
            [f"y = y + sum(map(lambda v: v * 2, {e}))"],
            [f"head, *rest = [*{e}, 0.5]", "y = y * head + len(rest)"],
            [f"y = y + functools.reduce(operator.add, {e}, 0.0)"],
            [f"values = list({e})", "while values: y = y * 0.5 + values.pop()"],
            [f"y = sum([y * v for v in [*{e}, 1.0]])"],
        )
        return rng.choice(forms)

    def write(self, depth: int) -> list[str]:
        """A value that outlives the call, computed from the last one or from the tensor."""
        rng = self.rng
        fitting = [s for s in self.slots if s.writes and s.kind in ("number", "count", "tensor")]
        if not fitting or rng.random() < 0.4:
            fitting = [self.declare(rng.choice(("number", "count", "tensor")))]
        slot = rng.choice(fitting)
        if not slot.writes:
            return self.compute(depth)
        self.written.append(slot)
        made = self.unusual(slot)
        if made:
            return made
        if slot.kind == "number":
            value = f"{self.read(slot)} * 0.5 + {rng.choice(('1.0', '0.25'))}"
        elif slot.kind == "count":
            value = f"{self.read(slot)} + 1"
            if is_target(slot) and rng.random() < 0.5:
                return [f"{slot.plain} += 1"]
        else:
            value = rng.choice(
                (f"({self.read(slot)} * 0.5 + y.detach()).sin()", "y.detach().sin()")
            )
        after = [f"y = y * 0.5 + {self.read(slot)} * 0.25"] if rng.random() < 0.5 else []
        return [rng.choice(slot.writes).format(value), *after]

    def unusual(self, slot: Slot) -> list[str]:
        """A rare way to write a slot, or nothing."""
        rng, target = self.rng, is_target(slot)
        others = [s for s in self.slots if s.kind == slot.kind and s is not slot and is_target(s)]
        form = rng.randrange(14)
        if form == 0 and slot.kind == "tensor":
            return [f"{self.read(slot)}.mul_(0.5).add_(y.detach().sin())"]
        if form in (1, 2) and target and others:
            other = rng.choice(others)
            self.written.append(other)
            both = f"{slot.plain}, {other.plain}"
            if form == 1:
                return [f"{both} = {other.plain}, {slot.plain}"]
            self.steady = False  # one tensor in two places is another program
            return [f"{both} = ({other.plain},) * 2"]
        if form == 3:
            steps = {"number": "* 0.5 + 0.25", "count": "+ 1", "tensor": "* 0.5"}
            value = f"{slot.plain} {steps[slot.kind]}"
            return ["for _ in range(2):", f"    {rng.choice(slot.writes).format(value)}"]
        if form == 4:
            value = "y.detach().sin()" if slot.kind == "tensor" else f"{slot.plain} * 2 % 5"
            self.steady = self.steady and slot.kind == "tensor"  # a remainder needs the value
            lines = [
                "try:",
                f"    {rng.choice(slot.writes).format(value)}",
                "    raise ValueError(1)",
            ]
            return [*lines, "except ValueError as error:", "    y = y + len(error.args)"]
        if form == 5:
            flag = self.fresh("flag")
            self.globals.add(flag)
            self.setup.append(f"{flag} = {self.value('flag')}")
            self.steady = False
            return [f"{flag} = not {flag}", f"if {flag}:", "    y = y * 0.5"]
        if form == 6 and slot.holder in self.globals and slot.holder in self.dicts:
            self.steady = False
            key = slot.plain.partition("[")[2].rstrip("]")
            return [f"{slot.holder} = {{**{slot.holder}, {key}: {slot.plain} * 0.5}}"]
        return []

    def keep(self, depth: int) -> list[str]:
        """Containers that grow, caches that fill, objects that are made and kept."""
        rng = self.rng
        name = self.fresh("kept")
        form = rng.randrange(7)
        if form == 0:
            self.setup.append(f"{name} = []")
            self.steady = False  # its length is asked for
            return [f"{name}.append(y.detach())", f"if len({name}) > 2:", f"    {name}.pop(0)"]
        if form == 1:
            self.setup.append(f"{name} = deque(maxlen=2)")
            return [f"{name}.append((x.shape[0], y.detach()))"]
        if form == 2:
            self.setup.append(f"{name} = {{}}")
            lines = ["key = tuple(x.shape)", f"if key not in {name}:"]
            lines += [f"    {name}[key] = cf.ones(2, 3) * {self.value('number')}"]
            self.outside.append(f"{name}.clear()")
            return [*lines, f"y = y * {name}[key]"]
        if form == 3:
            self.setup.append(f"{name} = Box()")
            return [f"{name}.last = Kept(tuple(y.shape), y.detach())"]
        if form == 4:
            self.setup.append(f"{name} = {{'old': 1}}")
            self.outside.append(f"{name}['old'] = 2")
            return [f"{name}.update(y=y.detach(), n=x.shape[1])", f"{name}.pop('old', None)"]
        if form == 5:
            self.setup.append(f"{name} = set()")
            return [f"{name}.add(x.shape[0])", f"y = y * len({name})"]
        self.setup.append(f"{name} = Box(); {name}.stats = {{}}")
        return [f"{name}.stats = {{'mean': y.detach().mean(), 'shape': list(y.shape)}}"]

    def optional(self, depth: int) -> list[str]:
        """Something that is there at times."""
        rng = self.rng
        name = self.fresh("maybe")
        if rng.random() < 0.5:
            path = self.holder("d", ("{}",), self.dicts)
            self.whole.add(path)
            self.outside += [
                f'{path}["{name}"] = {self.value("number")}',
                f'{path}.pop("{name}", None)',
            ]
            forms = (
                ["try:", f'    y = y * {path}["{name}"]', "except KeyError:", "    y = y + 0.25"],
                [f'y = y * {path}.get("{name}", 0.5)'],
                [f'if "{name}" in {path}:', f'    y = y + {path}["{name}"]'],
                [f'y = y * (1 + ("{name}" in [*{path}]))'],
            )
            return rng.choice(forms)
        path = self.holder("o", ("Box()", "SimpleNamespace()", "Behind()"), self.objects)
        self.outside += [
            f"{path}.{name} = {self.value('number')}",
            f"vars({path}).pop('{name}', None)",
        ]
        forms = (
            ["try:", f"    y = y * {path}.{name}", "except AttributeError:", "    y = y + 0.25"],
            [f'y = y * getattr({path}, "{name}", 0.5)'],
            [f'if hasattr({path}, "{name}"):', f"    y = y + {path}.{name}"],
        )
        return rng.choice(forms)

    def module(self, depth: int) -> list[str]:
        rng = self.rng
        name = self.path("net", "Net()", [])
        self.outside += [
            f"{name}.layers.append(filled(nn.Linear(3, 3), 0.1))",
            f"{name}.layers = nn.ModuleList(list({name}.layers)[:1])",
            f"{name}.eval()",
            f"{name}.train()",
            f"{name}.gain = {self.value('number')}",
            f"{name}.layers[0].weight = nn.Parameter(cf.ones(3, 3) * 0.25)",
            f"kept.append({name}.layers[0]); {name}.layers[0] = filled(nn.Linear(3, 3), -0.1)",
        ]
        forms = (
            [f"y = {name}(y).sin()"],
            [f"y = {name}.encode(y)"],
            [f"y = y + sum(p.sum() for p in {name}.parameters()) * 0.1"],
            [f"for layer in {name}.layers:", "    y = layer(y).sin()"],
            [f"{name}.seen = {name}.seen * 0.5 + y.detach()", f"y = y + {name}.seen.sin()"],
            [f"y = y * len({name}.layers)", f"y = y if {name}.training else -y"],
        )
        return rng.choice(forms)

    def call(self, depth: int) -> list[str]:
        """Statements in a function of their own, called in some way."""
        rng = self.rng
        name = self.fresh("step")
        inner = self.body(rng.randint(1, 2), depth - 1)
        held = self.globals_of(inner)
        self.blocks += [
            f"def {name}(y, x):",
            *held,
            *(f"    {line}" for line in inner),
            "    return y",
        ]
        other = f"def {name}(y, x):\n    return y * {self.value('number')}"
        table = self.fresh("table")
        forms: list[list[str]] = [
            [f"y = {name}(y, x)"],
            [f"y = {name}(x=x, y=y)"],
            [f"y = list(map({name}, [y], [x]))[0]"],
            [f"y = functools.partial({name}, x=x)(y)"],
            [f"y = functools.reduce(lambda a, step: step(a, x), [{name}], y)"],
            [f"y = next({name}(t, x) for t in [y])"],
            ["def inner(t, x=x):", f"    return {name}(t, x)", "y = inner(y)"],
            ["with cf.no_grad():", f"    y = {name}(y, x)"],
            ["try:", f"    y = {name}(y, x)", "finally:", "    del x", "x = y"],
        ]
        self.blocks.append(f"{table} = {{'step': {name}, 'all': [{name}]}}")
        forms.append([f"y = {table}['step'](y, x)"])
        forms.append([f"for step in {table}['all']:", "    y = step(y, x)"])
        self.outside += [
            other,
            f"{other}\n{table}['step'] = {name}",
            f"{table}['all'].append({name})",
        ]
        if rng.random() < 0.2:
            self.common = False
            self.blocks.append(f"compiled{name} = cf.compile({name})")
            return [f"y = compiled{name}(y, x)"]
        return rng.choice(forms[:-4] if depth > 1 else forms)

    def train(self) -> list[str]:
        """A step of training on what was computed."""
        n = self.fresh("")
        self.setup += [f"model{n} = Net()", f"opt{n} = optim.SGD(model{n}.parameters(), lr=0.1)"]
        self.outside += [
            f"opt{n}.param_groups[0]['lr'] = 0.05",
            f"opt{n}.param_groups[0]['params'][1:] = []; opt{n}.state.clear()",
            f"opt{n} = optim.Adam(model{n}.parameters(), lr=0.1)",
            f"opt{n}.state.clear()",
            f"model{n}.layers[0].bias.requires_grad_(False)",
        ]
        return [
            f"opt{n}.zero_grad()",
            f"loss = model{n}(y.detach().sin()).square().mean()",
            "loss.backward()",
            f"opt{n}.step()",
            "y = y.detach() + loss.detach()",
        ]

    def is_steady(self) -> bool:
        """Whether no structure follows what the function writes."""
        read_whole = tuple(self.whole | self.library)
        return self.steady and not any(s.holder.startswith(read_whole) for s in self.written)

    def may_be_refused(self) -> bool:
        """Whether a tensor is kept by code that is not observed: that of the standard library."""
        return any(slot.holder in self.library for slot in self.written if slot.kind == "tensor")

    def globals_of(self, lines: list[str]) -> list[str]:
        """The declaration of the globals that some lines assign."""
        assigned = (re.split(r" \+?= ", line.strip())[0].split(", ") for line in lines)
        names = sorted({name for names in assigned for name in names} & self.globals)
        return [f"    global {', '.join(names)}"] if names else []

    # --- between calls ---------------------------------------------------------------------------

    def change(self) -> str:
        return f"{self.changed()}\n"

    def changed(self) -> str:
        rng = self.rng
        if self.outside and rng.random() < 0.3:
            return rng.choice(self.outside)
        slot = rng.choice(self.slots)
        value = self.value(slot.kind)
        if slot.kind == "tensor" and rng.random() < 0.3:
            inside = [f"{slot.plain}.mul_(0.5)", f"{slot.plain}[0, 0] = 0.125"]
            return rng.choice(inside) if "cf." not in slot.plain else slot.changes[0].format(value)
        if slot.kind in ("numbers", "tensors") and rng.random() < 0.6:
            item = self.value("number" if slot.kind == "numbers" else "tensor")
            e = slot.plain
            forms = (f"{e}.append({item})", f"{e}[0] = {item}", f"{e}.reverse()", f"{e}[1:] = []")
            return rng.choice(forms)
        keep = (
            f"kept.append({slot.plain}); " if slot.kind not in PLAIN and rng.random() < 0.5 else ""
        )
        return keep + rng.choice(slot.changes).format(value)


def program(seed: int) -> Program:
    """The program of a seed."""
    rng = random.Random(seed)
    writer = Writer(rng)
    body = writer.body(rng.randint(2, 6), depth=2)
    if rng.random() < 0.15:
        body += writer.train()
    refused = rng.random() < 0.06
    if refused:
        needed, statement = rng.choice(REFUSED)
        writer.setup.append(needed)
        body.append(statement)
    if not writer.slots:
        writer.declare("number")
    result = rng.choice(("y", "y", "(y, y * 2)", "{'y': y, 'n': 2}"))
    body = ["y = x * 1.0", *body, f"return {result}"]
    function = ["def f(x):", *writer.globals_of(body), *(f"    {line}" for line in body)]
    lines = ["kept = []", *writer.setup, *writer.helpers, *writer.blocks, *function]
    first = "".join(f"{line}\n" for line in lines)
    texts = [first, *("".join(writer.change() for _ in range(rng.randint(1, 3))) for _ in range(3))]
    form, source = formed(f"state_program_{seed}.py", texts)
    known = writer.is_steady(), writer.common, writer.may_be_refused()
    return Program(seed, form, source, refused, *known)


def formed(file: str, texts: list[str]) -> tuple[Form, str]:
    """The form of these parts, as one file, and its text."""
    source, parts = "", []
    for text in texts:
        parts.append((source.count("\n") + 1, text))
        source += f"{text}# --- the calls of a round\n"
    remember(file, source)
    return Form(file, (), Path(file), tuple(parts), PRELUDE), source
