"""Places where a random program keeps a value: how it is made, read, written and changed there.

`declare` puts a value into a random place and gives its `Slot`; `read` writes an expression for it
that takes a random route, through C, helpers, methods and copies. What programs do with the values
is said in `state_programs.py`, and the classes and functions they use are in `state/prelude.txt`.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable

KINDS = ("number", "count", "flag", "name", "tensor", "numbers", "tensors")
PLAIN = ("number", "count", "flag", "name")  # values rather than objects
NAMES = ("relu", "tanh", "sin")


@dataclasses.dataclass
class Slot:
    """A value's place."""

    kind: str
    routes: list[str]  # expressions that read it; the first is the plain one
    writes: list[str]  # statements that write it, with {} for the value
    changes: list[str]  # statements that change it from outside
    holder: str = ""  # the container or object it is in
    names: frozenset[str] = frozenset()  # globals that writing it assigns
    whole: list[str] = dataclasses.field(
        default_factory=list
    )  # routes that read all its neighbours

    @property
    def plain(self) -> str:
        return self.routes[0]


class Places:
    """The state of one program: slots, and the lines that make them."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.setup: list[str] = []
        self.helpers: list[str] = []
        self.slots: list[Slot] = []
        self.dicts: list[str] = []
        self.objects: list[str] = []
        self.globals: set[str] = set()
        self.whole: set[str] = set()  # holders that were read as a whole
        self.library: set[str] = set()  # holders that are Python code of the standard library
        self.aliases: dict[str, str] = {}  # other names of holders
        self.count = 0

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def value(self, kind: str) -> str:
        """The text of a value."""
        rng = self.rng
        number = rng.choice((0.25, 0.5, 0.75, 1.25, 1.5, -0.5, -1.5))
        if kind == "number":
            return str(number)
        if kind == "count":
            return str(rng.randrange(6))
        if kind == "flag":
            return rng.choice(("True", "False"))
        if kind == "name":
            return repr(rng.choice(NAMES))
        if kind == "tensor":
            return rng.choice(
                (f"cf.ones(2, 3) * {number}", f"cf.tensor([[{number}, 1.0, -1.0]] * 2)")
            )
        item = "number" if kind == "numbers" else "tensor"
        return "[" + ", ".join(self.value(item) for _ in range(rng.randint(1, 3))) + "]"

    def declare(self, kind: str) -> Slot:
        """A new value of a kind somewhere."""
        places: list[Callable[[str, str], Slot]] = [self.in_global, self.in_cell, self.in_module]
        places += [self.in_dict, self.in_object] * 3 + [self.in_list, self.in_class] * 2
        places += [self.in_property, self.in_tuple, self.in_default, self.in_context]
        if kind == "number":
            places += [self.in_environment]
        if kind == "tensor":
            places += [self.in_array, self.in_buffer]
        slot = self.rng.choice(places)(kind, self.value(kind))
        self.slots.append(slot)
        return slot

    def path(self, stem: str, init: str, into: list[str]) -> str:
        """A new holder: a global, or a part of another holder."""
        self.count += 1
        rng = self.rng
        where = rng.random()
        if where < 0.2 and self.dicts:
            path = f'{rng.choice(self.dicts)}["{stem}{self.count}"]'
        elif where < 0.4 and self.objects:
            path = f"{rng.choice(self.objects)}.{stem}{self.count}"
        else:
            path = f"{stem}{self.count}"
            self.globals.add(path)
        self.setup.append(f"{path} = {init}")
        into.append(path)
        if rng.random() < 0.15:
            self.aliases[path] = self.fresh("alias")
            self.setup.append(f"{self.aliases[path]} = {path}")
        return path

    def holder(self, stem: str, inits: tuple[str, ...], known: list[str]) -> str:
        if known and self.rng.random() < 0.5:
            return self.rng.choice(known)
        init = self.rng.choice(inits)
        path = self.path(stem, init, known)
        if init.startswith(("UserDict", "ChainMap")):
            self.library.add(path)
        return path

    # --- places ----------------------------------------------------------------------------------

    def in_global(self, kind: str, init: str) -> Slot:
        name = self.fresh("g")
        self.globals.add(name)
        self.setup.append(f"{name} = {init}")
        write = f"{name} = {{}}"
        return Slot(kind, [name, f'globals()["{name}"]'], [write], [write], names=frozenset({name}))

    def in_dict(self, kind: str, init: str) -> Slot:
        kinds = (
            "{}",
            "{}",
            "OrderedDict()",
            "defaultdict(float)",
            "UserDict()",
            "ChainMap({}, {})",
        )
        path, key = self.holder("d", kinds, self.dicts), self.fresh("k")
        self.setup.append(f'{path}["{key}"] = {init}')
        item = f'{path}["{key}"]'
        routes = [
            item,
            f'{path}.get("{key}")',
            f'{path}.get("absent", {item})',
            f'pick({path}, "{key}")',
        ]
        routes += [f'operator.itemgetter("{key}")({path})', f'{path}[f"{key[0]}{{{key[1:]}}}"]']
        routes += [
            f'{path}.__getitem__("{key}")',
            f'({path} if "{key}" in {path} else None)["{key}"]',
        ]
        whole = [f'{{**{path}}}["{key}"]', f'dict({path})["{key}"]', f'copy.copy({path})["{key}"]']
        whole += [f'[v for k, v in {path}.items() if k == "{key}"][0]']
        whole += [f'dict(zip({path}.keys(), {path}.values()))["{key}"]']
        writes = [
            f"{item} = {{}}",
            f"{path}.update({key}={{}})",
            f'{path}.__setitem__("{key}", {{}})',
        ]
        changes = [writes[0], writes[0] + f"; {path} = copy.copy({path})"]
        return Slot(kind, routes, writes, changes, path, whole=whole)

    def in_list(self, kind: str, init: str) -> Slot:
        is_list, init = self.rng.random() < 0.7, f"[0.25, {init}, 'end']"
        path = self.path("l", init if is_list else f"deque({init})", [])
        item = f"{path}[1]"
        routes = [item, f"{path}[-2]", f"pick({path}, 1)", f"operator.getitem({path}, 1)"]
        routes += [f"{path}[len({path}) - 2]", f"{path}.__getitem__(1)"]
        whole = [f"[*{path}][1]", f"list({path})[1]", f"(lambda a, b, *c: b)(*{path})"]
        whole += [f"next(v for n, v in enumerate({path}) if n == 1)", f"tuple(reversed({path}))[1]"]
        if is_list:
            whole += [f"{path}[1:2][0]", f"{path}[::-1][1]"]
        changes = [f"{item} = {{}}", f"{item} = {{}}; {path} = copy.copy({path})"]
        return Slot(kind, routes, [f"{item} = {{}}"], changes, path, whole=whole)

    def in_object(self, kind: str, init: str) -> Slot:
        kinds = (
            "Box()",
            "Box()",
            "SimpleNamespace()",
            "Record()",
            "Net()",
            "Behind()",
            "Slotted()",
        )
        rng = self.rng
        if rng.random() < 0.15:
            made = self.path("slotted", "Slotted()", [])
            path, name, extra = made, f"a{rng.randrange(40)}", []
        else:
            path, name, extra = self.holder("o", kinds[:-1], self.objects), self.fresh("a"), []
        self.setup.append(f"{path}.{name} = {init}")
        attribute = f"{path}.{name}"
        routes = [attribute, f'getattr({path}, "{name}")', f'operator.attrgetter("{name}")({path})']
        routes += [f'getattr({path}, "{name[0]}" + "{name[1:]}", None)', *extra]
        routes += [f'Box.get({path}, "{name}")', f'functools.partial(Box.get, {path}, "{name}")()']
        if rng.random() < 0.3:
            method = self.fresh("m")
            self.setup.append(f"{method} = functools.partial(Box.get, {path})")
            routes.append(f'{method}("{name}")')
        if rng.random() < 0.2:
            ref = self.fresh("r")
            self.setup.append(
                f"{ref} = weakref.ref({path}) if type({path}) is Box else lambda: {path}"
            )
            routes.append(f"{ref}().{name}")
        writes = [
            f"{attribute} = {{}}",
            f'setattr({path}, "{name}", {{}})',
            f'Box.put({path}, "{name}", {{}})',
        ]
        return Slot(kind, routes, writes, [writes[0]], path)

    def in_class(self, kind: str, init: str) -> Slot:
        name = self.fresh("C")
        self.setup += [
            f"class {name}:",
            f"    a = {init}",
            "    @classmethod",
            "    def read(cls):",
        ]
        self.setup += ["        return cls.a", f"class D{name}({name}):", "    def up(self):"]
        self.setup += ["        return super().a", f"c{name} = D{name}()"]
        routes = [f"{name}.a", f"c{name}.a", f"D{name}.a", f"c{name}.up()", f"{name}.read()"]
        routes += [f"c{name}.read()", f"type(c{name}).a"]
        write, whole = f"{name}.a = {{}}", [f'vars({name})["a"]']
        return Slot(kind, routes, [write], [write], name, whole=whole)

    def in_property(self, kind: str, init: str) -> Slot:
        path = self.path("p", "Guarded()", [])
        self.setup.append(f"{path}.v = {init}")
        return Slot(
            kind, [f"{path}.v", f"{path}._v"], [f"{path}.v = {{}}"], [f"{path}._v = {{}}"], path
        )

    def in_cell(self, kind: str, init: str) -> Slot:
        n = self.fresh("")
        self.setup += [
            f"def make{n}():",
            f"    value = {init}",
            "    def read():",
            "        return value",
        ]
        self.setup += ["    def write(new):", "        nonlocal value", "        value = new"]
        self.setup += ["    return read, write", f"read{n}, write{n} = make{n}()"]
        return Slot(kind, [f"read{n}()"], [f"write{n}({{}})"], [f"write{n}({{}})"])

    def in_module(self, kind: str, init: str) -> Slot:
        name = self.fresh("i")
        self.setup += [f"{name} = imported(IMPORTED)", f"{name}.value = {init}"]
        writes = [f"{name}.value = {{}}", f"{name}.write({{}})"]
        return Slot(kind, [f"{name}.value", f"{name}.read()"], writes, list(writes))

    def in_tuple(self, kind: str, init: str) -> Slot:
        name = self.fresh("t")
        self.globals.add(name)
        self.setup.append(f"{name} = Point({init}, 0.5)")
        routes = [f"{name}.a", f"{name}[0]", f"[*{name}][0]", f"first(*{name})"]
        write = f"{name} = {name}._replace(a={{}})"
        return Slot(kind, routes, [write], [write], names=frozenset({name}))

    def in_default(self, kind: str, init: str) -> Slot:
        name = self.fresh("default")
        if self.rng.random() < 0.5:
            self.setup += [f"def {name}(value={init}):", "    return value"]
            return Slot(kind, [f"{name}()"], [], [f"{name}.__defaults__ = ({{}},)"])
        self.setup += [f"def {name}(*, value={init}):", "    return value"]
        changes = [
            f'{name}.__kwdefaults__ = {{{{"value": {{}}}}}}',
            f'{name}.__kwdefaults__["value"] = {{}}',
        ]
        return Slot(kind, [f"{name}()"], [], changes)

    def in_context(self, kind: str, init: str) -> Slot:
        name = self.fresh("v")
        self.setup += [f'{name} = ContextVar("{name}")', f"{name}.set({init})"]
        return Slot(kind, [f"{name}.get()", f"{name}.get(None)"], [], [f"{name}.set({{}})"])

    def in_environment(self, kind: str, init: str) -> Slot:
        name = self.fresh("STATE_PROGRAM_")
        self.setup.append(f'os.environ["{name}"] = "{init}"')
        routes = [f'float(os.environ["{name}"])', f'float(os.environ.get("{name}", "1"))']
        routes += [f'float(os.getenv("{name}"))']
        return Slot(kind, routes, [], [f'os.environ["{name}"] = str({{}})'])

    def in_array(self, kind: str, init: str) -> Slot:
        name = self.fresh("n")
        self.setup.append(f"{name} = np.full((2, 3), {self.value('number')}, np.float32)")
        changes = [f"{name}[:] = np.asarray({{}})", f"{name} *= 0.5", f"{name}[0, 1] = 2.0"]
        changes += [f"{name} = np.full((2, 3), 0.75, np.float32)"]
        return Slot(kind, [f"cf.from_numpy({name})", f"cf.as_tensor({name})"], [], changes)

    def in_buffer(self, kind: str, init: str) -> Slot:
        path = self.path("b", "Net()", [])
        self.setup.append(f"{path}.seen = {init}")
        routes = [f"{path}.seen", f"list({path}.buffers())[0]", f'getattr({path}, "seen")']
        return Slot(kind, routes, [f"{path}.seen = {{}}"], [f"{path}.seen = {{}}"], path)

    # --- reading ---------------------------------------------------------------------------------

    def read(self, slot: Slot) -> str:
        """An expression that reads a slot by a random route."""
        rng = self.rng
        if slot.whole and rng.random() < 0.2:
            self.whole.add(slot.holder)
            e = rng.choice(slot.whole)
        else:
            e = rng.choice(slot.routes)
        if slot.holder in self.aliases and rng.random() < 0.4:
            e = re.sub(rf"\b{re.escape(slot.holder)}(?!\w)", self.aliases[slot.holder], e)
        for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
            e = self.wrapped(e)
        return e

    def wrapped(self, e: str) -> str:
        """The same value by way of something else."""
        if self.rng.random() < 0.3:
            name = self.fresh("h")
            decorated = ["@cached"] if self.rng.random() < 0.3 else []
            self.helpers += [*decorated, f"def {name}():", f"    return {e}"]
            return f"{name}()"
        return self.rng.choice(
            (
                f"(lambda: {e})()",
                f"identity({e})",
                f"first({e}, 1)",
                f"keyword(value={e})",
                f"[{e} for _ in range(1)][0]",
                f"next(iter([{e}]))",
                f"next(produce(lambda: {e}))",
                f"list(map(lambda _: {e}, [0]))[0]",
                f"functools.reduce(lambda _, new: new, [{e}], None)",
                f"functools.partial(identity, {e})()",
                f"max([{e}], key=lambda _: 0)",
                f"dict(v={e})['v']",
                f"({e}, None)[0]",
                f"sorted([(0, {e})], key=lambda pair: pair[0])[0][1]",
            )
        )
