"""STeP: programs are interpreted on symbolic and real streams, so that nothing of a completion runs."""

from __future__ import annotations

import ast
import hashlib
import platform
import re
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import torch

import step_runtime
from pipeline.agent.agent import composed
from pipeline.agent.domain import structures
from pipeline.base.files import DATA
from pipeline.base.settings import PromptKind
from pipeline.languages.language import Language
from pipeline.verification.limits import ProgramLimits
from signatures import extract_program
from step_runtime.base.errors import STAGES, Diagnostic
from step_runtime.base.syntax import parse_python
from step_runtime.language.canonical import canonical_key
from step_runtime.language.parser import evaluate, parse, read
from step_runtime.program.limits import Limits
from step_runtime.program.printer import print_program
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import Scope, static_scope
from step_runtime.tasks.task import SolvedTask, Task
from step_runtime.verification.check import check_affine, check_program, insert_copies, without_copies
from step_runtime.verification.verdict import Verdict
from step_runtime.verification.verify import Verifier

if TYPE_CHECKING:
    from pipeline.synthesis.line_grammar import LineGrammar
    from pipeline.synthesis.next_lines import NextLines

_ITEMSIZE = 8
"""Bytes of a number in the verifier's float64."""


class Step(Language):
    """The language of the paper; see `pipeline.languages.language` for the members."""

    name = "step"
    stages: Sequence[str] = STAGES
    executes = False
    folder = DATA
    guards = True

    @cached_property
    def version(self) -> str:
        """A digest of the language's code, and of Python's and torch's versions."""
        digest = hashlib.sha256(f"{platform.python_version()} {torch.__version__} {platform.machine()}".encode())
        root = Path(step_runtime.__file__).parent
        for path in sorted(root.rglob("*.py")):
            digest.update(f"{path.relative_to(root)}".encode() + path.read_bytes())
        return digest.hexdigest()[:16]

    def task(self, text: str, name: str, source: str) -> Task:
        """The task of a YAML text, without includes.

        Raises:
            TaskError: It is none.
        """
        return loads_task(text, name, source=source)

    def instructions(self, role: str, *, ir: bool, kind: PromptKind) -> str:
        """The base prompt of a role, composed of the YAML in `data/prompts`."""
        return composed(role, ir, kind)

    def extract(self, answer: str) -> str:
        """The program in an answer."""
        return extract_program(answer)

    def check(self, task: Task, text: str) -> Sequence[Diagnostic]:
        """Syntax, types, the outputs' types and the affine rule, at each set of sizes.

        Where the task's `global` computes sizes, or names that the text uses, only the last is checked.
        """
        source, computed = read(text), _computed(task)
        static = computed.isdisjoint(re.findall(r"\w+", text)) and not any(map(_is_size, computed))
        for index in range(len(task.size_sets())):
            scope = static_scope(task, index)
            if static:
                found = check_program(source, scope, Limits(), _ITEMSIZE).found
            else:
                sizes = {name: size for name, size in scope.sizes.items() if f"{name}_value" not in computed}
                lists = {name: fns for name, fns in scope.lists.items() if name not in computed}
                found = check_affine(evaluate(source, replace(scope, sizes=sizes, lists=lists))[0])
            if found:
                return found
        return []

    def judge(self, task: Task, text: str, limits: ProgramLimits | None) -> Verdict:
        """The verdict, for a worker process to find."""
        return Verifier(task, limits=limits.of_language() if limits else None).verify(text)

    def key(self, task: Task | None, text: str) -> str:
        """The syntax tree up to renaming."""
        return canonical_key(text, () if task is None else [spec.name for spec in task.inputs])

    def structures(self, task: Task, text: str | None) -> frozenset[str]:
        """Types, functions and references of the task, primitives and edges of the program."""
        return structures({"task": task}, None if text is None else {"impl": text})

    def repaired(self, task: Task, text: str) -> str | None:
        """The program with Copies where a stream is consumed twice; None where there is nothing to repair."""
        program, found = parse(text, _scope(task))
        return print_program(insert_copies(program)) if not found and check_affine(program) else None

    def next_lines(self, task: Task, text: str, repeats: int) -> Sequence[str]:
        """By types, see `pipeline.synthesis.next_lines`; none of the task's code runs."""
        return _lines(task).after(text, repeats)

    def line_bits(self, task: Task, text: str, lines: Sequence[str], solved: Sequence[tuple[Task, str]]) -> list[float]:
        """By a grammar that solved tasks teach, see `pipeline.synthesis.line_grammar`."""
        with _LEARNING:  # once, not in every thread that samples
            grammar = _line_grammar(task, tuple(SolvedTask(*each) for each in solved))
        return grammar.bits(text, lines)

    def repeats(self, task: Task, text: str) -> int:
        """How often functions are applied beyond once each."""
        applied = [fn for node in parse(text, _scope(task))[0].nodes if (fn := getattr(node.op, "fn", None))]
        return len(applied) - len({*applied})

    def relevance(self, task: Task, solved: Task, program: str) -> float:
        """By functions, references and streams, see `pipeline.synthesis.precedents`; 0 for a program without a plan."""
        from pipeline.synthesis.precedents import precedent_of, profile_of, relevance

        shown = precedent_of(SolvedTask(solved, program))
        return relevance(shown.profile, profile_of(task)) if shown else 0.0

    def as_lines(self, task: Task, text: str) -> str:
        """The program one primitive a line, without Copies, which a pass inserts."""
        program, found = parse(text, _scope(task))
        return text if found else print_program(without_copies(program))


@lru_cache(maxsize=64)
def _lines(task: Task) -> NextLines:
    from pipeline.synthesis.next_lines import NextLines
    from pipeline.synthesis.precedents import commutes

    return NextLines(static_scope(task), [spec.func_name for spec in task.fns if commutes(spec.apply)])


_LEARNING = Lock()


@lru_cache(maxsize=64)
def _line_grammar(task: Task, solved: tuple[SolvedTask, ...]) -> LineGrammar:
    from pipeline.synthesis.line_grammar import LineGrammar

    return LineGrammar(task, solved)


@lru_cache(maxsize=1024)
def _scope(task: Task) -> Scope:
    return static_scope(task)


STEP = Step()


def _is_size(name: str) -> bool:
    return name.endswith("_value")


def _computed(task: Task) -> frozenset[str]:
    """The names that `global` binds to what only running it tells, sizes as `E_value`."""
    known: set[str] = set()
    bound: set[str] = set()
    tree = parse_python(textwrap.dedent(task.global_ or ""))
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                bound.add(name)
            case ast.Subscript(value=ast.Name(id="ctx"), slice=ast.Name(id=name), ctx=ast.Store()):
                bound.add(f"{name}_value")
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int())):
                known.add(name)
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id="ctx"), slice=ast.Name(id=name))],
                value=ast.Constant(value=int()) | ast.Name(),
            ):
                known.add(f"{name}_value")
    return frozenset(bound - known - static_scope(task).lists.keys())
