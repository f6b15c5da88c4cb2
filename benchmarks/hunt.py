"""Wrong programs of many kinds against the prover: none may be proved.

Eight kinds are drawn: seven have templates by hand, which are filled at random; mutants change one number, name or
operator in a case of the table of operators, and count as wrong where torch shows a difference. The others stand in
`wrong.txt` beside the tests. The table has, by kind, how many were tried, proved (0), unknown and shown to be
different. `--seed` draws others of the eight.

How to run: python -m benchmarks.hunt
            python -m benchmarks.hunt --mutants 400 --seed 7
"""

from __future__ import annotations

import argparse
import ast
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import cast

import torch

from step_runtime.base.errors import StepError
from step_runtime.verification.exact import residues
from step_runtime.verification.exact.trace import prepare
from tests.step_runtime.verification.exact.test_hunt import by_hand, masked, pair, wrong
from tests.step_runtime.verification.exact.test_proof import MAP, proved
from tests.step_runtime.verification.exact.test_table import cases

Case = tuple[str, str]
VARIANTS = 20
PARTIAL = ["x.sqrt()", "x.log()", "(1 / x)", "x.rsqrt()", "x.log1p()", "(x ** 0.3)", "(x / y)", "(y / x.relu())"]
TELLS = [
    ("torch.nan_to_num({}, nan=2.0)", "torch.nan_to_num({}, nan=3.0)"),
    ("torch.isnan({}).double()", "x * 0"),
    ("({0} == {0}).double()", "x * 0 + 1"),
    ("({0} > 0).double() + ({0} <= 0).double()", "x * 0 + 1"),
    ("torch.fmax({}, x * 0 - 9)", "torch.maximum({}, x * 0 - 9)"),
    ("{}.argmax() + 0 * x", "torch.nan_to_num({}, nan=-9.0).argmax() + 0 * x"),
    ("{}.to(torch.int32).double()", "{}.trunc()"),
    ("{0}.sign() * {0}.sign()", "x * 0 + 1"),
    ("torch.where({0} < 1, 1.0, 2.0)", "torch.where({0} >= 1, 2.0, 1.0)"),
    ("{}.topk(4)[0]", "{}.sort(descending=True)[0]"),
    ("0 * {}", "x * 0"),
    ("{0} - {0}", "x * 0"),
    ("{0}.bool().double()", "x * 0 + 1"),
    ("{0} / {0}", "x * 0 + 1"),
    ("torch.isfinite({}).double()", "x * 0 + 1"),
    ("{0}.cummax(0)[0] - {0}.cummax(0)[0]", "x * 0"),
]
NARROW = ["torch.int8", "torch.int16", "torch.int32", "torch.uint8", "torch.bool"]
MASKED = [
    ("M({0}).softmax(0)", "M(-torch.inf).softmax(0)"),
    ("torch.nan_to_num(M(-torch.inf).softmax(0), nan={1})", "M({0}).softmax(0)"),
    ("M({0}).exp() / M({0}).exp().sum()", "M(-torch.inf).softmax(0)"),
    ("M({0}) - M({0})", "M(-torch.inf) - M(-torch.inf)"),
    ("(M({0}) - M({0}).amax()).exp()", "(M(-torch.inf) - M(-torch.inf).amax()).exp()"),
    ("(M({0}) == {0}).double()", "x * 0"),
    ("(M({0}) > {0}).double()", "x * 0 + 1"),
    ("(M({0}) == -torch.inf).double()", "(M(-torch.inf) == -torch.inf).double()"),
    ("M({0}) - ({0})", "x * 0 - ({0})"),
    ("M({0}).exp() * (-M({0})).exp()", "M(-torch.inf).exp() * (-M(-torch.inf)).exp()"),
    ("M({0}) * 0", "M(-torch.inf) * 0"),
    ("M({0}).clamp(min=-1e9).exp()", "M(-torch.inf).exp() + 1e-300"),
    ("M(-1e{1}).softmax(0)", "M(-torch.inf).softmax(0)"),
    ("M({0}).relu() + M({0}).softmax(0)", "M(-torch.inf).relu() + M(-torch.inf).softmax(0)"),
    ("M({0}).logsumexp(0) - M({0}).logsumexp(0) + y", "M(-torch.inf).logsumexp(0) - M(-torch.inf).logsumexp(0) + y"),
    ("M({0}).argmax() + 0 * y", "M(-torch.inf).softmax(0).argmax() + 0 * y"),
    ("(M({0}) + M({0}).flip(0)).softmax(0)", "(M(-torch.inf) + M(-torch.inf).flip(0)).softmax(0)"),
    ("1 / M({0}).exp().sum() + 0 * y", "1 / M(-torch.inf).exp().sum() + 0 * y"),
    ("(M({0}) * 0.5).exp() / M({0}).exp()", "(M(-torch.inf) * -0.5).exp()"),
    ("M({0}).log_softmax(0)", "M(-torch.inf).log_softmax(0)"),
]


def logarithms(rng: random.Random) -> Iterator[Case]:
    """Signs that powers, roots and logarithms forget."""
    while True:
        odd, half = 2 * rng.randrange(1, 120) + 1, rng.choice([0.3, 0.7, 1.3, 2.6])
        yield from rng.sample(
            [
                (f"(-x) ** {odd}", f"x ** {odd}"),
                (f"(x * x) ** {odd / 2}", f"x ** {odd}"),
                (f"torch.exp({odd} * torch.log(-x))", f"x ** {odd}"),
                (f"torch.log((-x) ** {odd})", f"{odd} * torch.log(x)"),
                (f"torch.log(x ** {odd + 1})", f"{odd + 1} * torch.log(x)"),
                (f"torch.sqrt(x ** {2 * odd})", f"x ** {odd}"),
                (f"(x * x) ** {half}", f"x ** {2 * half}"),
                (f"(x * y) ** {half}", f"x ** {half} * y ** {half}"),
                (f"torch.sqrt(x) ** {2 * odd}", f"x ** {odd}"),
                (f"torch.rsqrt(x * x) * x ** {odd + 1}", f"x ** {odd}"),
                (f"torch.exp({half} * torch.log(x * x))", f"(-x) ** {2 * half}"),
                (f"torch.exp(torch.log(x) + torch.log(y)) * {odd}", f"x * y * {odd}"),
                (f"torch.softmax(torch.log(x * x) / 2, 0) * {odd}", f"x / x.sum() * {odd}"),
            ],
            4,
        )


def undefined(rng: random.Random) -> Iterator[Case]:
    """Operators that tell what is undefined, on what may be."""
    while True:
        one, other = rng.choice(TELLS)
        form = rng.choice(PARTIAL)
        yield one.format(form), other.format(form)


def constants(rng: random.Random) -> Iterator[Case]:
    """Numbers that are alike modulo primes such as those of the worlds, and what counts up to one."""
    while True:
        chain = residues._chain(rng.randrange(1 << 58))
        if chain is None:
            continue
        prime, bits = rng.choice(chain), rng.randrange(61, 64)
        doubled = "functools.reduce(lambda s, _: s + s, range({}), {})".replace("functools", "__import__('functools')")
        yield from rng.sample(
            [
                (f"x.clamp(max={1 + prime})", "x.clamp(max=1)"),
                (f"x + 1 / {10**10 + prime}", "x + 1e-10"),
                (f"(x > {2 + prime}).double()", "(x > 2).double()"),
                (f"x * {1 + prime} + y", "x + y"),
                (f"x ** 2 + {prime}", "x ** 2"),
                (f"x + y * ({prime} * 1e-18)", "x"),
                (f"torch.where(y > 0, x * {prime}, x)", "torch.where(y > 0, 0.0, x)"),
                (doubled.format(bits, f"x * 2.0 ** -{bits}") + " + 1e-9", "x"),
                (doubled.format(bits + 3, "x") + f" - {2 ** (bits + 3) % prime} * x", "x * 0"),
            ],
            3,
        )


def types(rng: random.Random) -> Iterator[Case]:
    """Formats that cut numbers off, and results of other types."""
    while True:
        one, other = rng.sample(NARROW, 2)
        scale = rng.choice([1, 2.5, 40, 300])
        yield from rng.sample(
            [
                (f"(x * {scale}).to({one}).double()", f"(x * {scale}).to({other}).double()"),
                (f"(x * {scale}).to({one}).double()", f"x * {scale}"),
                (f"(x * {scale}).to({one}).double()", f"(x * {scale}).round()"),
                (
                    f"((x > {scale / 9}) + (x > {scale})).double()",
                    f"(x > {scale / 9}).double() + (x > {scale}).double()",
                ),
                (f"(x * {scale}).sum(dtype={one}).double() + y", f"(x * {scale}).sum().to({one}).double() + y"),
                (f"x.to({one}).cumsum(0, dtype={one}).double()", f"x.cumsum(0).to({one}).double()"),
                (f"(x * {scale}).view(torch.int64).double()", f"x * {scale}"),
                (f"torch.full_like(x, {scale + 0.3}, dtype={one}).double()", f"x * 0 + {scale + 0.3}"),
            ],
            3,
        )


def whole(rng: random.Random) -> Iterator[Case]:
    """Whole numbers that pass their width within the task's range."""
    while True:
        large, count = rng.randrange(46_341, 2**31), rng.randrange(2, 7)
        yield from rng.sample(
            [
                (f"(x * {large}).double()", f"x.double() * {large}"),
                (f"(x + {2**31 - 1 - large % 40_000}).double()", f"x.double() + {2**31 - 1 - large % 40_000}"),
                ("(" + " * ".join("x" * count) + f" * {count}).double()", f"x.double() ** {count} * {count}"),
                (f"(x * x - {large}).double()", f"x.double() ** 2 - {large}"),
                (f"((x * {large}) // {count}).double()", f"(x.double() * {large} / {count}).floor()"),
                (f"(-x * {large}).double().abs()", f"x.double() * {large}"),
                (f"(x.long() ** {count + 3}).double()", f"x.double() ** {count + 3}"),
                (f"(x * {large} % {count}).double()", f"(x.double() * {large}) % {count}"),
                (f"(x * x).sum(dtype=torch.int32).double() * {count} + y", f"x.double().square().sum() * {count} + y"),
                (f"torch.maximum(x * {large}, x).double()", f"x.double() * {large}"),
            ],
            3,
        )


def points(rng: random.Random) -> Iterator[Case]:
    """Differences that are 0 or tiny at many points: whole numbers, the data's range, the falsifier's."""
    while True:
        zeros = rng.sample(range(-9, 10), rng.randrange(3, 8))
        product = " * ".join(f"(x - ({zero}))" for zero in zeros)
        far, tiny = rng.randrange(10, 10**7), rng.choice([1e-3, 1e-9, 1e-20, 1e-30])
        yield from rng.sample(
            [
                (f"x + {tiny} * {product}", "x"),
                (f"torch.where(x == {zeros[0] + 0.125}, x + 1, x)", "x"),
                (f"x.clamp(-{far}, {far})", "x"),
                (f"torch.where(x > {far}, y, x)", "x"),
                (f"x + {tiny} * (x * y).sin() * (x > {far}).double()", "x"),
                (f"torch.relu(x - {far}) + y", "y"),
                (f"x + {tiny} * torch.sin(torch.pi * x * {zeros[0]})", "x"),
                (f"torch.exp(x) + {tiny} * (x - {far}).relu()", "torch.exp(x)"),
                (f"torch.maximum(x, x * 0 - {far})", "x"),
                (f"x * (1 + {tiny} * (torch.floor(x) - x + 0.5))", "x"),
            ],
            3,
        )


def masks(rng: random.Random) -> Iterator[Case]:
    """Large constants and infinity beside each other, and rows that are masked as a whole."""
    while True:
        least, other = rng.choice(["-1e30", "-2e35", "-3e38", "-1e29"]), rng.randrange(2, 20)
        test = rng.choice(["y > 0", "y > x", "(y > 0) & (x > y)", "y < 0.5"])
        one, reference = (side.format(least, other) for side in rng.choice(MASKED))
        yield tuple(masked(side, test) for side in (one, reference))  # type: ignore[misc]


SWAPS = {
    "exp": ["expm1", "exp2", "sinh"], "sqrt": ["rsqrt", "square"], "log": ["log1p", "log2"], "sin": ["cos", "tanh"],
    "maximum": ["minimum", "add"], "minimum": ["maximum"], "amax": ["amin", "sum"], "amin": ["amax"],
    "sum": ["mean", "prod"], "mean": ["sum", "amax"], "var": ["std"], "std": ["var"], "cumsum": ["cumprod"],
    "floor": ["ceil", "trunc", "round"], "ceil": ["floor"], "round": ["trunc"], "trunc": ["floor"], "relu": ["abs"],
    "abs": ["relu", "sign"], "sigmoid": ["tanh"], "tanh": ["sigmoid", "erf"], "softmax": ["log_softmax"],
    "logsumexp": ["sum"], "fmod": ["remainder"], "cummax": ["cummin"], "cummin": ["cummax"], "argmax": ["argmin"],
    "topk": ["topk"], "tril": ["triu"], "all": ["any"], "any": ["all"], "logical_and": ["logical_or"],
    "logical_or": ["logical_xor"], "zeros_like": ["ones_like"], "erf": ["tanh"], "atan": ["sin"], "silu": ["gelu"],
    "gelu": ["silu"], "softplus": ["relu"], "addcmul": ["addcdiv"], "flip": ["roll"], "lerp": ["add"],
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.Mod: ast.Div, ast.Pow: ast.Mult,
    ast.Gt: ast.GtE, ast.Lt: ast.LtE, ast.GtE: ast.Gt, ast.LtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitXor, ast.BitXor: ast.BitAnd, ast.FloorDiv: ast.Div,
}  # fmt: skip


class Change(ast.NodeTransformer):
    """Changes the node of a number."""

    def __init__(self, rng: random.Random, place: int) -> None:
        self.rng, self.place, self.count = rng, place, 0

    def generic_visit(self, node: ast.AST) -> ast.AST:
        node = super().generic_visit(node)
        kinds = (ast.Constant, ast.Attribute, ast.BinOp, ast.Compare, ast.Name)
        if not isinstance(node, kinds):
            return node
        self.count += 1
        if self.count - 1 != self.place:
            return node
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            return ast.Constant(node.value + self.rng.choice([1, -1] if isinstance(node.value, int) else [1e-7, 0.5]))
        if isinstance(node, ast.Attribute) and node.attr in SWAPS:
            node.attr = self.rng.choice(SWAPS[node.attr])
        elif isinstance(node, ast.BinOp):
            if self.rng.random() < 0.5:
                node.left, node.right = node.right, node.left
            elif new := OPERATORS.get(type(node.op)):
                node.op = cast(ast.operator, new())
        elif isinstance(node, ast.Compare) and (new := OPERATORS.get(type(node.ops[0]))):
            node.ops = [cast(ast.cmpop, new())]
        elif isinstance(node, ast.Name) and node.id in "xy":
            node.id = {"x": "y", "y": "x"}[node.id]
        return node


def mutants(rng: random.Random) -> Iterator[Case]:
    """Single changes of the cases of the table of operators that torch shows to be others."""
    forms = [ast.unparse(_named(ast.parse(case, mode="eval"))) for case in cases() if "conv" not in case]
    while True:
        rng.shuffle(forms)
        for form in forms:
            right = f"({form}) * 1.0 + 0 * x.sum()"
            changed = Change(rng, rng.randrange(12)).visit(ast.parse(form, mode="eval"))
            wrong = f"({ast.unparse(changed)}) * 1.0 + 0 * x.sum()"
            if wrong != right and _differ(wrong, right):
                yield _whole_row(wrong), _whole_row(right)


def _named(tree: ast.AST) -> ast.AST:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = {"a": "x", "b": "y", "F": "torch.nn.functional"}.get(node.id, node.id)
    return tree


def _whole_row(form: str) -> str:
    """Rows of four numbers, whatever the shape of the result is."""
    return f"torch.nn.functional.pad(({form}).double().reshape(-1), (0, 16))[:4]"


def _differ(one: str, other: str) -> bool:
    """Whether torch gives other numbers, or numbers elsewhere, within the first four, beyond rounding."""
    for seed in range(8):
        generator = torch.Generator().manual_seed(seed)
        x, y = (torch.randn(4, dtype=torch.float64, generator=generator) * 3 for _ in range(2))
        try:
            found = [eval(_whole_row(form), {"torch": torch, "x": x, "y": y}) for form in (one, other)]
        except (RuntimeError, TypeError, AttributeError, IndexError, ValueError):
            return False
        gap = (found[0] - found[1]).abs().nan_to_num(0.0)
        if bool((gap > 1e-8 * (1 + found[1].abs())).any()) or not torch.equal(*(one.isnan() for one in found)):
            return True
    return False


KINDS = {
    "a logarithm forgets a sign": logarithms,
    "the undefined is swallowed": undefined,
    "constants alike modulo a prime": constants,
    "types of results": types,
    "whole numbers pass their width": whole,
    "the points are known": points,
    "masks by data": masks,
    "mutants of the table's cases": mutants,
}


def main(arguments: list[str] | None = None) -> int:
    """Prints the table by kind, and every wrong program that is proved."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variants", type=int, default=VARIANTS, help="of each kind by hand")
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--kinds", nargs="*", help="words of the kinds to try, of all without")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    prepare()
    holes: list[tuple[str, ...]] = []
    totals = Counter[str]()
    wanted_kinds = options.kinds or [""]
    for kind, generate in KINDS.items():
        if not any(word in kind for word in wanted_kinds):
            continue
        found, seen = Counter[str](), set[Case]()
        start, wanted = time.process_time(), options.mutants if generate is mutants else options.variants
        data = ("int32", "integers(0, 46400)") if generate is whole else ()
        for case in generate(random.Random(options.seed)):
            if case in seen:
                continue
            seen.add(case)
            try:
                answer = proved(pair(*case, *data), MAP).answer
            except (StepError, AssertionError):
                continue  # no program of the language
            found[answer] += 1
            holes += [(kind, *case)] if answer == "proved" else []
            if sum(found.values()) == wanted:
                break
        totals += found
        print(f"{kind:45} {dict(found)} {time.process_time() - start:.0f} s", flush=True)
    for kind, lines in wrong().items():
        if any(word in kind for word in wanted_kinds):
            start = time.process_time()
            answers = [(proved(*by_hand(line)).answer, line) for line in lines]
            holes += [(kind, line) for answer, line in answers if answer == "proved"]
            found = Counter(answer for answer, _ in answers)
            totals += found
            print(f"{kind:45} {dict(found)} {time.process_time() - start:.0f} s", flush=True)
    print(f"{sum(totals.values())} wrong programs: {dict(totals)}", *(f"PROVED {hole}" for hole in holes), sep="\n")
    return int(bool(holes))


if __name__ == "__main__":
    sys.exit(main())
