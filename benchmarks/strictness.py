"""How many wrong programs pass `verify --strict`: mutants of the oracles of all sets, in graphs and in functions.

A mutant counts if it passes the checks that need no run, and differs from the reference: at the task's own inputs and
sizes, or, as found here with other random numbers than those of verification, on large, small, whole, sparse and
shifted inputs, or at sizes up to 200. Of those, the hunt counts the ones that pass `--strict`.

How to run: python -m benchmarks.strictness                     # 2,000 mutants that differ, about half an hour
            python -m benchmarks.strictness --only softmax --most 50 --show
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch

from step_runtime.language.parser import parse
from step_runtime.program.limits import Limits
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.sizes import completed, varying
from step_runtime.tasks.task import Task, dump_task
from step_runtime.verification import stress
from step_runtime.verification.instance import TaskInstance, instances
from step_runtime.verification.verify import Verifier
from tests.support.edits import mutants
from tests.support.oracles import SETS, programs

LIMITS = Limits(seconds=2)
_DRAWS = 24
"""Random kinds of numbers, each for every tensor alone and for all together."""
_SIZES = 8
"""Sets of sizes up to 200."""
_TURNED: dict[type, Any] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div,
}  # fmt: skip
_NAMES = {"amax": "amin", "argmax": "argmin", "maximum": "minimum", "max": "min", "amin": "amax", "minimum": "maximum",
          "round": "floor", "floor": "trunc", "ceil": "round", "log1p": "log", "expm1": "exp"}  # fmt: skip
_STARTS = {float("-inf"): (-1e6, -1e3, 0.0), float("inf"): (1e6, 1e3, 0.0), 0: (1e-3, 1.0), 1: (0.0,)}


class Found(NamedTuple):
    """A mutant: the task with its functions, its text, and its kind."""

    task: Task
    text: str
    kind: str


def function_mutants(task: Task) -> Iterator[Found]:
    """The task with one function changed in one place of its code, or in one initial value."""
    for index, fn in enumerate(task.fns):
        made: list[tuple[dict[str, Any], str]] = []
        made += [({"apply": code}, kind) for code, kind in _edited(textwrap.dedent(fn.apply))]
        starts = [*(fn.init or ())]
        for place, start in enumerate(starts):
            for other in _STARTS.get(start, ()):
                made.append(({"init": [*starts[:place], other, *starts[place + 1 :]]}, "another start"))
        for update, kind in made:
            fns = [*task.fns[:index], fn.model_copy(update=update), *task.fns[index + 1 :]]
            try:
                yield Found(loads_task(dump_task(task.model_copy(update={"fns": fns})), task.name), "", kind)
            except Exception:
                continue


def _edited(code: str) -> Iterator[tuple[str, str]]:
    count = sum(1 for _ in ast.walk(ast.parse(_whole(code))))
    for at in range(count):
        for turn in range(4):
            tree = ast.parse(_whole(code))
            node = list(ast.walk(tree))[at]
            kind = _edit(node, turn)
            function: Any = tree.body[0]
            if kind:
                yield "\n".join(ast.unparse(part) for part in function.body), kind


def _whole(code: str) -> str:
    return "def f():\n" + textwrap.indent(code, "    ")


def _edit(node: Any, turn: int) -> str:
    """Changes a node in place, if it is of a kind that a turn changes; the kind of edit."""
    match node:
        case ast.Compare(ops=[op]) if turn == 0 and type(op) in _TURNED:
            node.ops = [_TURNED[type(op)]()]
            return "another comparison"
        case ast.BinOp(op=op) if turn == 0 and type(op) in _TURNED:
            node.op = _TURNED[type(op)]()
            return "another operator"
        case ast.BinOp(op=ast.Sub() | ast.Add()) if turn == 1:
            node.op, node.right = ast.Mult(), ast.Constant(1)
            return "a term left out"
        case ast.Constant(value=int() | float() as value) if turn in (0, 1) and not isinstance(value, bool):
            if isinstance(value, int) and turn == 0:
                return ""
            node.value = value + 1 if turn else value * 1.03
            return "another constant"
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if turn == 0 and attr in _NAMES:
            node.func = ast.Attribute(value, _NAMES[attr], ast.Load())
            return "another function of torch"
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if turn == 1 and attr in _DROPPED:
            inner = node.args[0] if isinstance(value, ast.Name) and value.id == "torch" and node.args else value
            clone = ast.Attribute(ast.Name("torch", ast.Load()), "clone", ast.Load())
            node.func, node.args, node.keywords = clone, [inner], []
            return "a function of torch left out"
        case ast.Subscript(value=ast.Name(id="input")) if turn in (2, 3) and isinstance(node.ctx, ast.Load):
            inner = ast.Subscript(node.value, node.slice, ast.Load())
            node.value, node.slice = inner, ast.Slice(upper=ast.Constant(16 if turn == 2 else 64))
            return "the first 16 or 64 alone"
    return ""


_DROPPED = {"abs", "relu", "clamp", "clamp_min", "nan_to_num", "sqrt", "square", "round", "floor", "exp", "log", "tanh"}


def candidates(task: Task, text: str, random: Random, most: int) -> list[Found]:
    """Half of the mutants in the functions, half in the graph; those that pass the checks that need no run."""
    scope = instances(task)[0].scope
    program, _ = parse(text, scope)
    verifier = Verifier(task, limits=LIMITS)
    graphs = [Found(task, each.text, each.kind) for each in mutants(program, scope)]
    found: list[Found] = []
    for each in random.sample(graphs, len(graphs)):
        if verifier.check(each.text).passed:
            found.append(each)
        if len(found) == most // 2:
            break
    codes = [each._replace(text=text) for each in function_mutants(task)]
    return [*found, *random.sample(codes, min(len(codes), most - len(found)))]


def differs(mutant: Found, right: Task, text: str) -> str:
    """Where a mutant that passes the plain verdict differs from the reference, and the oracle does not; or nothing."""
    random = Random(mutant.text + dump_task(mutant.task))
    before, stress.KINDS = stress.KINDS, {str(number): _kind(random) for number in range(_DRAWS)}
    try:
        found = _falls(mutant.task, mutant.text)
        if found and not _falls(right, text):
            return found
    finally:
        stress.KINDS = before
    for _ in range(_SIZES):
        names = varying(right)
        if not names:
            break
        sizes = completed(right, {random.choice(names): random.randint(2, 200)})
        if sizes is None:
            continue
        at = {"sizes": dict(sizes), "limits": {}}
        try:
            place = TaskInstance(right, sizes)
            if sum(part.numel() for data in place.sampled(0).values() for part in data) > 2**14:
                continue
            verdicts = [Verifier(each.model_copy(update=at), limits=LIMITS, seeds=(5,)).verify(program)
                        for each, program in ((mutant.task, mutant.text), (right, text))]  # fmt: skip
        except Exception:
            continue
        if not verdicts[0].passed and not verdicts[0].unknown and verdicts[1].passed:
            return f"at {place.place}: {verdicts[0].diagnostics[0].message}"
    return ""


def _falls(task: Task, text: str) -> str:
    verifier = Verifier(task, limits=LIMITS)
    verifier._larger = dict.fromkeys(product(varying(task), (128, 64, 32)))
    codes = ("stress-value", "stress-undefined", "stress-overflow")
    found = [each for each in verifier.stress(text) if each.code in codes]
    return f"{found[0].code} {found[0].details[0]}: {found[0].message}" if found else ""


def _kind(random: Random) -> stress.Kind:
    """Numbers of another magnitude, whole or not, some of them zero or equal, shifted or not."""
    scale, shift = 10 ** random.uniform(-4, 4), random.choice([0, 0, 0, 1, -1]) * 10 ** random.uniform(0, 5)
    whole, seed = random.random() < 0.5, random.randrange(10**6)
    zeros = random.choice([0.0, 0.0, 0.5, 0.9, 1.0])

    def change(part: torch.Tensor) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randn(part.shape, generator=generator, dtype=torch.float64) * scale
        drawn = drawn * (torch.rand(part.shape, generator=generator) >= zeros) + shift
        return (drawn.round() if whole else drawn).to(part.dtype)

    return stress.Kind(change, rounds=True, alone=True)


def main(arguments: list[str] | None = None) -> int:
    """Prints the share of mutants that pass, and with `--show` each of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=(), help="tasks")
    parser.add_argument("--most", type=int, default=16, help="mutants of an oracle")
    parser.add_argument("--mutants", type=int, default=2000, help="that differ, after which the hunt ends")
    parser.add_argument("--show", action="store_true", help="print those that pass")
    parser.add_argument("--save", type=Path, help="write those that pass the plain verdict as JSON lines")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    start, counts = time.process_time(), Counter[str]()
    passed: list[tuple[Found, str]] = []
    every = [one for folder in SETS for one in programs(folder, "oracles")]
    Random(1).shuffle(every)
    for name, task, text in every:
        if (options.only and name not in options.only) or Verifier(task).stress(text):
            continue  # `--strict` refuses an oracle with findings, and so all that is made of it
        for mutant in candidates(task, text, Random(name), options.most):
            counts["made"] += 1
            try:
                verifier = Verifier(mutant.task, limits=LIMITS)
                verdict = verifier.verify(mutant.text)
                if verdict.unknown or verdict.stage == "run":
                    counts["unknown" if verdict.unknown else "refused while it ran"] += 1
                    continue
                if not verdict.passed:
                    counts["refused"] += 1
                    continue
                where = differs(mutant, task, text)
                strict = verifier.stress(mutant.text)
            except Exception as error:
                counts[f"error {type(error).__name__}"] += 1
                continue
            if options.save:
                with options.save.open("a") as out:
                    line = {"name": name, "task": dump_task(mutant.task), "text": mutant.text, "kind": mutant.kind}
                    print(json.dumps({**line, "where": where, "strict": [each.code for each in strict]}), file=out)
            counts["the same" if not where and not strict else "refused by --strict" if strict else "pass"] += 1
            if where and not strict:
                passed.append((mutant, where))
                if options.show:
                    shown = mutant.text if mutant.task == task else _changed(task, mutant.task)
                    print(f"{name}: {mutant.kind}: {where}\n{shown}\n", flush=True)
        differing = counts["refused"] + counts["refused by --strict"] + counts["pass"]
        if differing >= options.mutants:
            break
    print(dict(counts))
    share = counts["pass"] / max(differing, 1)
    plainly = counts["pass"] + counts["refused by --strict"]
    print(f"{counts['pass']} of {differing} mutants that differ pass --strict, {share:.2%}; {plainly} pass without it")
    print(f"{time.process_time() - start:.0f} s of processor time")
    return 0


def _changed(task: Task, other: Task) -> str:
    pairs = zip(task.fns, other.fns, strict=True)
    return "\n".join(f"{b.func_name}: {b.apply} {b.init}\nwas: {a.apply} {a.init}" for a, b in pairs if a != b)


if __name__ == "__main__":
    sys.exit(main())
