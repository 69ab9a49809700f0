"""A seeded generator of random training steps: for differential tests.

A program is Python source. Each statement is run while it is generated, so that shapes are known
and what would fail, overflow or make NaN is left out.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

import contraflow as cf

LIMIT = 50.0  # elements beyond this would only test how errors grow


@dataclasses.dataclass
class Program:
    """A step as source: the state it closes over, its arguments, its statements."""

    seed: int
    state: list[str]
    arguments: list[str]
    body: list[str]
    results: list[str]

    @property
    def source(self) -> str:
        """What can be pasted into a file and run."""
        names = ", ".join(line.split(" = ")[0] for line in self.arguments)
        lines = ["import contraflow as cf", "F = cf.nn.functional", *self.state]
        lines += ["def arguments():", *(f"    {line}" for line in self.arguments)]
        lines += [f"    return {names},", f"def step({names}):"]
        lines += [f"    {line}" for line in self.body]
        lines += [f"    return ({', '.join(self.results)},)"]
        return "\n".join(lines)


class Generator:
    """Grows a program by statements that run."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.scope: dict[str, Any] = {"cf": cf, "F": cf.nn.functional}
        self.program = Program(seed, [], [], [], [])
        self.count = 0
        self.exact: set[str] = set()  # the same bits in every mode: comparisons may use them
        self.frozen: set[str] = set()  # not to be written to

    # --- pieces ---------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def tensors(self, *categories: int, exact: bool = False, least: int = 0) -> list[str]:
        return [
            name
            for name, x in self.scope.items()
            if isinstance(x, cf.Tensor)
            and x.dtype.category in categories
            and x.ndim >= least
            and (not exact or name in self.exact)
        ]

    def pick(self, names: Sequence[str]) -> str:
        # Late names first: long chains fuse.
        return names[max(self.random.randrange(len(names)), self.random.randrange(len(names)))]

    def real(self, least: int = 0) -> str:
        return self.pick(self.tensors(2, least=least))

    def shape(self) -> tuple[int, ...]:
        rank = self.random.choice((0, 1, 1, 2, 2, 2, 2, 3, 3, 4))
        shape = [self.random.choice((1, 2, 3, 3, 4, 5, 7)) for _ in range(rank)]
        if 0 < rank < 3 and self.chance(0.15):
            # Several vectors and a rest.
            shape[self.random.randrange(rank)] = self.random.choice((17, 40, 129))
        return tuple(shape)

    def number(self) -> str:
        return self.random.choice(("0.5", "-1.25", "2", "0.1", "1.0", "-0.75"))

    def partner(self, name: str) -> str:
        """Another operand that broadcasts with one, by making it fit if need be."""
        x = self.scope[name]
        fitting = [n for n in self.tensors(2) if self._broadcasts(x, self.scope[n])]
        if fitting and self.chance(0.8):
            return self.pick(fitting)
        return self.number()

    @staticmethod
    def _broadcasts(a: Any, b: Any) -> bool:
        pairs = zip(reversed(a.shape), reversed(b.shape))
        return all(n == m or 1 in (n, m) for n, m in pairs) and a.numel() * b.numel() < 20000

    def dims(self, rank: int) -> Any:
        chosen = sorted(self.random.sample(range(rank), self.random.randint(1, rank)))
        return self.random.choice((None, chosen[0], chosen[-1] - rank, tuple(chosen)))

    def key(self, shape: Sequence[int]) -> str:
        """A basic index."""
        parts = []
        for n in shape:
            start = self.random.randrange(n) if n else 0
            step = self.random.choice((":", ":", f"{start}:", f"::{self.random.choice((1, 2, 3))}"))
            parts.append(self.random.choice((step, str(start), str(start - n), step)))
        if self.chance(0.2):
            parts.insert(self.random.randrange(len(parts) + 1), "None")
        if self.chance(0.2) and parts:
            cut = self.random.randrange(len(parts))
            parts[cut:] = ["..."]
        return ", ".join(parts) or "..."

    # --- statements -----------------------------------------------------------------------

    def run(self, line: str) -> bool:
        """Keep a statement if it runs and gives ordinary numbers."""
        name = line.split(" = ")[0] if " = " in line and line[0] == "v" else ""
        before = dict(self.scope)
        try:
            exec(line, self.scope)
        except (ValueError, TypeError, IndexError, RuntimeError, NotImplementedError):
            self.scope = before
            return False
        made = self.scope.get(name)
        if isinstance(made, cf.Tensor) and not ordinary(made):
            self.scope = before
            return False
        self.program.body.append(line)
        return True

    def define(self, expression: str, exact: bool = False) -> str | None:
        name = f"v{self.count}"
        self.count += 1
        if self.run(f"{name} = {expression}"):
            if exact:
                self.exact.add(name)
            return name
        return None

    def state(self) -> None:
        rng = self.random
        lines = [f"cf.manual_seed({rng.randrange(100)})"]
        dtype = rng.choice(("float32", "float32", "float32", "float64", "bfloat16"))
        for i in range(rng.randint(1, 3)):
            lines.append(f"p{i} = cf.randn({self.shape()}, dtype=cf.{dtype}).requires_grad_()")
        for i in range(rng.randint(1, 2)):
            lines.append(f"b{i} = cf.randn({self.shape()}, dtype=cf.{dtype})")
        rows = rng.randint(2, 5)
        table = f"cf.randn({rows}, {rng.randint(1, 4)}, dtype=cf.{dtype})"
        lines.append(f"e0 = {table}.requires_grad_()")
        arguments = []
        for i in range(rng.randint(1, 3)):
            other = rng.choice((dtype, dtype, dtype, "float32", "float64"))
            arguments.append(f"a{i} = cf.randn({self.shape()}, dtype=cf.{other})")
        n = rng.randint(1, 4)
        arguments.append(f"i0 = (cf.rand({n}, {rng.randint(1, 3)}) * {rows}).to(cf.int64)")
        if self.chance(0.2) and len(arguments) > 1:
            # Two arguments over one storage.
            arguments.append("x0 = a0.reshape((-1,))[: max(1, a0.numel() // 2)]")
        self.program.state, self.program.arguments = lines, arguments
        for line in lines + arguments:
            exec(line, self.scope)
        self.exact |= {n for n in self.scope if n[0] in "ai"}

    def elementwise(self) -> None:
        x = self.real()
        form = self.random.choice(
            ("{x} + {y}", "{x} - {y}", "{x} * {y}", "{y} - {x}", "{x} / ({x} * {x} + 1.5)",
             "{x}.tanh()", "{x}.sigmoid()", "{x}.relu()", "{x}.exp()", "({x}.abs() + 0.5).log()",
             "({x} * {x} + 0.25).sqrt()", "{x}.sin()", "{x}.cos() * {y}", "-{x}", "{x}.erf()",
             "{x} ** 2", "F.gelu({x})", "F.silu({x})", "{x}.clone()", "cf.where({m}, {x}, {y})",
             "({x} * {y}).tanh() + {y}", "{x}.detach() * {x}", "{x}.abs()"),
        )  # fmt: skip
        mask = ""
        if "{m}" in form:
            shape = self.scope[x].shape
            masks = [n for n in self.tensors(0) if self._broadcasts(self.scope[n], self.scope[x])]
            mask = self.pick(masks) if masks else f"(cf.rand({shape}) < 0.5)"
        self.define(form.format(x=x, y=self.partner(x), m=mask))

    def cast(self) -> None:
        target = self.random.choice(("float32", "float64", "float32", "bfloat16", "float16"))
        self.define(f"{self.real()}.to(cf.{target})")

    def view(self) -> None:
        x = self.real(1)
        shape = self.scope[x].shape
        dims = list(range(len(shape)))
        self.random.shuffle(dims)
        grown = [self.random.choice((1, 2, 3))]
        grown += [n if n != 1 or self.chance(0.5) else 3 for n in shape]
        forms = [
            f"{x}.permute({tuple(dims)})", f"{x}.transpose(0, -1)", f"{x}.reshape((-1,))",
            f"{x}[{self.key(shape)}]", f"{x}[{self.key(shape)}]", f"{x}.expand({grown})",
            f"{x}.select({dims[0]}, {self.random.randrange(max(1, shape[dims[0]]))})",
            f"{x}.unsqueeze({self.random.randrange(len(shape) + 1)})", f"{x}.squeeze()",
            f"{x}.flatten()", f"{x}.contiguous()", f"{x}.detach()",
        ]  # fmt: skip
        exact = x in self.exact
        self.define(self.random.choice(forms), exact)

    def reduction(self) -> None:
        x = self.real(1)
        dims = self.dims(self.scope[x].ndim)
        keep = self.random.choice((True, False))
        op = self.random.choice(("sum", "sum", "mean", "amax", "amin", "var"))
        if op in ("amax", "amin") and self.chance(0.5) and isinstance(dims, int):
            op = op[1:]
            self.define(f"{x}.{op}({dims}, {keep})[0]")
            return
        extra = ", correction=0" if op == "var" else ""
        self.define(f"{x}.{op}(dim={dims}, keepdim={keep}{extra})")

    def composite(self) -> None:
        x = self.real(1)
        shape = self.scope[x].shape
        dim = self.random.randrange(len(shape))
        # One element has no variance, and two become -1 and 1 whatever they are, so gradients are
        # rounding errors times powers of 1/eps.
        eps = 1e-5 if math.prod(shape[dim:]) > 2 else 0.1
        forms = [
            f"F.softmax({x}, {dim})", f"F.log_softmax({x}, {dim})",
            f"F.layer_norm({x}, {shape[dim:]}, eps={eps})",
            f"({x} - {x}.mean(dim={dim}, keepdim=True)) / ({x}.var(dim={dim}, keepdim=True,"
            f" correction=0) + 0.1).sqrt()",
            f"F.softmax({x}, {dim}) * {self.partner(x)}",
            f"F.mse_loss({x}, {x}.detach() * 0.5)",
        ]  # fmt: skip
        if len(shape) == 2:
            labels = f"(cf.rand({shape[0]}) * {shape[1]}).to(cf.int64)"
            forms += [f"F.cross_entropy({x}, {labels})"] * 3
        self.define(self.random.choice(forms))

    def rearrange(self) -> None:
        x = self.real(1)
        shape = self.scope[x].shape
        dim = self.random.randrange(len(shape))
        like = [n for n in self.tensors(2) if self.scope[n].shape == shape]
        y = self.pick(like)
        forms = [
            f"cf.cat([{x}, {y}, {x} * 2], {dim})", f"cf.stack([{x}, {y}], {dim})",
            f"{x}.flip({dim})", f"{x}.roll({self.random.randint(-3, 3)}, {dim})",
            f"{x}.clamp(-0.8, 1.1)", f"{x}.clamp(min=0.1) * {y}", f"{x}.prod({dim})",
            f"{x}.logsumexp({dim})", f"{x}.tril()", f"{x}.repeat({[2] * len(shape)})",
            f"({x} * {x} + 0.1).rsqrt()", f"F.softplus({x})", f"{x}.cumprod({dim}) * 0.5",
            f"F.pad({x}, (1, 2), value=0.5)", f"{x}.split(2, {dim})[0] * 1.5",
            f"{x}.chunk(2, {dim})[-1]", f"{x}.std(dim={dim}, correction=0) * 0.1",
            f"{x}.norm()", f"cf.einsum('...i,...j->...ij', {x}, {y}) * 0.5",
        ]  # fmt: skip
        masks = [n for n in self.tensors(0) if self._broadcasts(self.scope[n], self.scope[x])]
        if masks:
            forms += [f"{x}.masked_fill({self.pick(masks)}, 0.5)"] * 3
        self.define(self.random.choice(forms))

    def matmul(self) -> None:
        x = self.real(1)
        names = self.tensors(2, least=1)
        self.random.shuffle(names)
        for y in names:
            a, b = self.scope[x], self.scope[y]
            if a.dtype is not b.dtype or a.numel() * b.numel() > 4000:
                continue
            turned = f"{y}.transpose(0, -1)"
            for form in (f"{x} @ {y}", f"{x} @ {turned}", f"{turned} @ {x}"):
                if self.define(f"({form}) * 0.5"):
                    return

    def host(self) -> None:
        x = self.real(1)
        dim = self.random.randrange(self.scope[x].ndim)
        exact = self.tensors(2, exact=True, least=1)
        forms = [f"{x}.cumsum({dim})", f"{x}.cumsum({dim}) * 0.5 + {self.number()}"]
        if exact and self.chance(0.5):
            y = self.pick(exact)
            name = self.define(f"{y}.argsort({self.random.randrange(self.scope[y].ndim)})", True)
            if name is not None and self.chance(0.7):
                self.define(f"{y}.gather({self.random.randrange(self.scope[y].ndim)}, {name})")
            return
        self.define(self.random.choice(forms))

    def index(self) -> None:
        if self.chance(0.5):
            self.define("F.embedding(i0, e0)")
            return
        x = self.real(1)
        n = self.scope[x].shape[0]
        size = f"{self.random.randint(1, 4)}, {self.random.randint(1, 3)}"
        at = f"(cf.rand({size}) * {n}).to(cf.int64)"
        name = self.define(at, True)
        if name is not None:
            self.define(f"{x}[{name}]" if self.chance(0.5) else f"{x}.gather(0, {name})")

    def truth(self) -> None:
        exact = self.tensors(2, exact=True)
        if not exact:
            return
        x = self.pick(exact)
        forms = [f"{x} > {self.number()}", f"{x} <= 0", f"cf.rand({self.scope[x].shape}) < 0.3"]
        masks = self.tensors(0)
        if masks and self.chance(0.5):
            m = self.pick(masks)
            forms = [f"~{m}", f"{m}.logical_not()", f"{m}.to(cf.float32)", f"{m}.to(cf.int64) + 1"]
        self.define(self.random.choice(forms), True)

    def whole(self) -> None:
        integers = self.tensors(1)
        x = self.pick(integers)
        forms = [
            f"{x} * 2 - 1", f"{x}.abs()", f"{x}.sum()", f"{x}.to(cf.float64) * 0.25", f"{x} / 3",
            f"{x}.to(cf.int32)", f"{x}.maximum({x} * 0 + 1)", f"{x}.cumsum(0)", f"-{x}",
        ]  # fmt: skip
        self.define(self.random.choice(forms))

    def draw(self) -> None:
        x = self.real()
        forms = [
            f"F.dropout({x}, {self.random.choice((0.0, 0.3, 0.5, 1.0))})",
            f"cf.rand({self.scope[x].shape}) * {x}",
            f"{x} + 0.1 * cf.randn({self.shape()}, dtype={self.dtype_of(x)})",
            f"cf.rand({self.shape()}, dtype={self.dtype_of(x)})",
        ]
        self.define(self.random.choice(forms))

    def dtype_of(self, name: str) -> str:
        return f"cf.{self.scope[name].dtype}"

    def create(self) -> None:
        shape = self.shape()
        forms = [
            f"cf.zeros({shape})", f"cf.ones({shape}) * {self.number()}", "cf.arange(5) * 0.5",
            f"cf.full({shape}, 0.3)", f"cf.zeros_like({self.real()})",
            "cf.tensor([0.5, -1.0, 2.0])",
        ]  # fmt: skip
        self.define(self.random.choice(forms))

    def pool(self) -> None:
        """Reads at positions that may lie outside, of values that may be constants."""
        x = self.real(2)
        shape = self.scope[x].shape
        flat = f"{x}.reshape((1, {shape[0]}, -1))"
        size = self.random.choice((1, 2, 3))
        forms = [
            f"F.max_pool1d({flat}, {size}, padding={size // 2})",
            f"F.avg_pool1d({flat}, {size}, padding={size // 2})",
            f"{x}.unfold(-1, {size}, {self.random.choice((1, 2))})",
            f"F.unfold({x}.reshape((1, 1, {shape[0]}, -1)), {size}, padding={size // 2})",
            f"F.pad({x}, (1, 1))",
            f"cf.full({shape}, 0.5, dtype={self.dtype_of(x)}) * {x}.roll(1, 0)",
        ]
        self.define(self.random.choice(forms))

    def in_place(self) -> None:
        owned = [n for n in self.tensors(2) if n[0] in "vabx" and n not in self.frozen]
        x = self.pick(owned)
        target = self.scope[x]
        region = f"{x}[{self.key(target.shape)}]" if target.ndim and self.chance(0.6) else x
        y = self.real() if self.chance(0.6) else self.number()
        persistent = self.is_persistent(target)
        if persistent and not y[0].isdigit() and y[0] != "-":
            y = f"{y}.detach()"
        whole = f"{region}.copy_({y})" if y[0] in "vabxpe" else f"{region}.fill_({y})"
        forms = [f"{region}.mul_({self.number()})", f"{region}.add_({y})", f"{region}.sub_({y})"]
        forms.append(whole)
        if region != x:
            forms += [f"{region} = {y}"] * 3
        line = self.random.choice(forms)
        if persistent or self.chance(0.2):
            line = f"with cf.no_grad(): {line}"
        before = target.detach().clone() if ordinary(target) else None
        if self.run(line):
            self.exact -= {
                n for n, t in self.scope.items()
                if isinstance(t, cf.Tensor) and t.storage is target.storage
            }  # fmt: skip
            if not ordinary(target) and before is not None:
                self.run(f"with cf.no_grad(): {x}.fill_(0.25)")

    def is_persistent(self, x: Any) -> bool:
        roots = [t for n, t in self.scope.items() if n[0] in "abpxe" and isinstance(t, cf.Tensor)]
        return any(x.storage is t.storage for t in roots)

    def hook(self) -> None:
        # Not on a leaf, which would gather one more at every eager call.
        wanted = [n for n in self.tensors(2) if self.scope[n].grad_fn is not None]
        if wanted:
            x = self.pick(wanted)
            body = self.random.choice(("g * 0.5", "None", "g.tanh()", "g + 0.1"))
            self.run(f"{x}.register_hook(lambda g: {body})")

    def checkpoint(self) -> None:
        x = self.real()
        body = self.random.choice(
            ("(x * 1.5).tanh().exp() * x", "F.dropout(x.sigmoid(), 0.4) * x.tanh()",
             "(x.sin() * x.cos()).exp()", "cf.checkpoint(lambda z: z.tanh().sin(), x * 0.5).exp()"),
        )  # fmt: skip
        self.define(f"cf.checkpoint(lambda x: {body}, {x})")

    def quiet(self) -> None:
        x = self.real()
        name = f"v{self.count}"
        self.count += 1
        self.run(f"with cf.no_grad(): {name} = {x}.tanh() * {self.partner(x)}")

    def backward(self) -> bool:
        wanted = [n for n in self.tensors(2) if self.scope[n].requires_grad and n[0] == "v"]
        if not wanted:
            return False
        chosen = self.random.sample(wanted, min(len(wanted), self.random.randint(1, 3)))
        # The cotangent of a sum or a mean is a constant.
        forms = ("({n} * {w}).sum()", "{n}.sum()", "{n}.mean()", "({n} * {n}).mean()")
        losses = [
            self.random.choice(forms).format(n=n, w=self.number()) + ".to(cf.float64)"
            for n in chosen
        ]
        loss = " + ".join(losses)
        if not self.run(f"loss = {loss}"):
            return False
        leaves = [n for n in self.scope if n[0] in "pe"]
        if self.chance(0.2):
            reached = [n for n in leaves if self.reaches(n)]
            if reached:
                one = self.random.choice(reached)
                if self.run(f"(penalty,) = cf.autograd.grad(loss, [{one}], create_graph=True)"):
                    self.run("loss = loss + (penalty.double() * penalty.double()).sum() * 0.1")
        if self.chance(0.2) and not self.run("loss.backward(retain_graph=True)"):
            return False
        if not self.run("loss.backward()"):
            return False
        for n in leaves:
            grad = self.scope[n].grad
            if grad is None:
                continue
            if not ordinary(grad, 1e4):
                return False
            if self.chance(0.4):
                self.run(f"with cf.no_grad(): {n}.sub_({n}.grad * 0.05)")
            if self.chance(0.3):
                name = self.define(f"{n}.grad.clone()")
                if name is not None:
                    self.program.results.append(name)
            if self.chance(0.4):
                self.run(f"{n}.grad = None" if self.chance(0.7) else f"{n}.grad.zero_()")
        return True

    def reaches(self, name: str) -> bool:
        (found,) = cf.autograd.grad(
            self.scope["loss"], [self.scope[name]], retain_graph=True, allow_unused=True
        )
        return found is not None

    def build(self) -> Program | None:
        """A whole program, or None if this seed leads nowhere."""
        self.state()
        steps = (
            [self.elementwise] * 10 + [self.view] * 6 + [self.reduction] * 4 + [self.composite] * 3
            + [self.matmul] * 2 + [self.host, self.index, self.truth, self.whole, self.create]
            + [self.draw] * 2 + [self.in_place] * 4 + [self.hook, self.checkpoint, self.quiet]
            + [self.cast] + [self.rearrange] * 4 + [self.pool] * 2
        )  # fmt: skip
        try:
            for leaf in ("p0", "e0"):
                self.define(f"{leaf} * 1.0")
            for _ in range(self.random.randint(4, 22)):
                self.random.choice(steps)()
            if not self.backward():
                return None
        except (ValueError, TypeError, IndexError, RuntimeError, NotImplementedError):
            return None
        made = [n for n in self.scope if n[0] == "v" and isinstance(self.scope[n], cf.Tensor)]
        for n in self.random.sample(made, min(len(made), self.random.randint(1, 4))):
            self.program.results.append(
                f"{n}.detach()" if self.scope[n].dtype.is_floating_point else n
            )
        return self.program


def ordinary(x: Any, limit: float = LIMIT) -> bool:
    array = x.detach().array.astype(np.float64)
    return not array.size or bool(np.isfinite(array).all() and np.abs(array).max() <= limit)


def generate(seed: int) -> Program:
    """The program of a seed."""
    for attempt in range(100):
        with cf.enable_grad():
            program = Generator(seed * 1000 + attempt).build()
        if program is not None:
            program.seed = seed
            return program
    raise AssertionError(f"seed {seed} gives no program")
