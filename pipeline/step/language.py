"""STeP: programs are interpreted on symbolic and real streams, so that nothing of a completion runs."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import step_runtime
from pipeline.actions.advice import Advice, advise
from pipeline.actions.price_program import cost_of, draw_program, pytest_script
from pipeline.actions.write_skill import Skill, make_skill
from pipeline.agent.agent import composed
from pipeline.agent.compiled import broken_rules
from pipeline.agent.domain import structures
from pipeline.agent.proposer import TOOLS
from pipeline.base.choices import EMBEDDED, FloatType, PromptKind, ProposerKind
from pipeline.base.paths import DATA
from pipeline.cli.program_arguments import Item
from pipeline.rewriting.simplification import annotated, same_graph, simplified
from pipeline.splitting.division import Divider, dividing
from pipeline.step.classes import task_class
from pipeline.verification import checking, worker
from pipeline.verification.limits import ProgramLimits
from pipeline.verification.pricing import Pricing, answer_cost
from pipeline.verification.workers import Workers
from signatures import extract_program, holds_program
from step_runtime.base.errors import STAGES, Diagnostic
from step_runtime.cost.chip import DEFAULT_CHIP, Chip
from step_runtime.language.equivalence import canonical_key
from step_runtime.language.parser import parse
from step_runtime.program.printer import print_program
from step_runtime.rewriting.optimizing import Explored
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import Scope, static_scope
from step_runtime.tasks.task import SolvedTask, Task
from step_runtime.verification.check import check_affine, check_outputs, infer_types, insert_copies, without_copies
from step_runtime.verification.exact.proof import ExactVerdict
from step_runtime.verification.explain import explain
from step_runtime.verification.mutation import MutationScore
from step_runtime.verification.verify import Verdict

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from pipeline.mcp_server.server import LazyPool
    from pipeline.mcp_server.workspace import Workspace
    from pipeline.synthesis.next_lines import NextLines


class Step:
    """The language of the paper; see `pipeline.languages.language` for the members."""

    name = "step"
    stages: Sequence[str] = STAGES
    executes = False
    folder = DATA
    tools = TOOLS
    refused: Sequence[str] = ("parse", "limits", "type")
    offline_models: Sequence[str] = (EMBEDDED,)
    calls: Mapping[str, Callable[..., Any]] = {
        "judge": worker.judge, "stress": worker.stress, "check": checking.check, "hold_out": worker.hold_out,
    }  # fmt: skip

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

    def holds_program(self, text: str) -> bool:
        """Whether there is a statement at the beginning of a line."""
        return holds_program(text)

    def extract(self, answer: str) -> str:
        """The program in an answer."""
        return extract_program(answer)

    def check(self, task: Task, text: str) -> Sequence[Diagnostic]:
        """Syntax, types, the affine rule and the outputs' types."""
        scope = static_scope(task)
        program, found = parse(text, scope)
        types, typed = infer_types(program, scope)
        return [*found, *typed, *check_affine(program)] or check_outputs(program, types, scope)

    def judge(self, task: Task, text: str, limits: ProgramLimits | None) -> Verdict:
        """The verdict, for a worker process to find."""
        return worker.judge(task.name, task.statement, text, limits=limits)

    def key(self, task: Task | None, text: str) -> str:
        """The syntax tree up to renaming."""
        return canonical_key(text, () if task is None else [spec.name for spec in task.inputs])

    def structures(self, task: Task, text: str | None) -> frozenset[str]:
        """Types, functions and references of the task, primitives and edges of the program."""
        return structures({"task": task}, None if text is None else {"impl": text})

    # --- what it offers beside it ---

    def unrun(self, task: Task, text: str) -> Sequence[Diagnostic]:
        """The rules of the graph, at each set of sizes that the task's text gives."""
        return broken_rules(task, text)

    def restored(self, content: Mapping[str, Any], name: str) -> Task:
        """A task of an experience's JSON."""
        return Task.model_validate(content).named(name)

    def repaired(self, task: Task, text: str) -> str | None:
        """The program with Copies where a stream is consumed twice; None where there is nothing to repair."""
        program, found = parse(text, _scope(task))
        return print_program(insert_copies(program)) if not found and check_affine(program) else None

    def next_lines(self, task: Task, text: str, repeats: int) -> Sequence[str]:
        """By types, see `pipeline.synthesis.next_lines`; none of the task's code runs."""
        return _lines(task).after(text, repeats)

    def as_lines(self, task: Task, text: str) -> str:
        """The program one primitive a line, without Copies, which a pass inserts."""
        program, found = parse(text, _scope(task))
        return text if found else print_program(without_copies(program))

    def explained(self, task: Task, text: str) -> str:
        """Every stream with its type."""
        return explain(text, static_scope(task)).table()

    def explained_values(self, task: Task, text: str) -> str | None:
        """The first stream unlike any in the reference, for a worker process to find."""
        return worker.explain_values(task.name, task.statement, text, "float64", None)

    def drawn(self, item: Item, path: str) -> None:
        """Draws the dataflow."""
        draw_program(str(item.task), item.text, path)

    def cost_of(self, item: Item) -> tuple[str, dict[str, Any]]:
        """The cost on the default chip."""
        return cost_of(item)

    def priced(self, executor: Executor, objective: str) -> Callable[[Any, Mapping[str, Any]], float | None]:
        """The cost of an answer by a figure of `step_runtime.base.units`."""
        return answer_cost(executor, objective)  # type: ignore[arg-type] # an option has checked it

    def explored(
        self, task: Task, text: str, executor: Executor, figure: str, most: int, chip: Chip | None = None
    ) -> Explored | tuple[Diagnostic, ...]:
        """What rewrites that keep the results lead to."""
        return Pricing(task, chip or DEFAULT_CHIP, executor).explored(text, figure, most)  # type: ignore[arg-type]

    def dividing(self, workers: Workers) -> AbstractContextManager[Divider]:
        """Divides tasks along their references; see `pipeline.splitting.division`."""
        return dividing(workers)

    def annotated(self, task: Task, text: str) -> str:
        """The text with names and comments."""
        return annotated(task, text)

    def mutated(self, task: Task, text: str, limits: ProgramLimits | None) -> MutationScore:
        """What becomes of the mutants of a program that passes, for a worker process to find."""
        return worker.mutation(task.name, task.statement, text, limits)

    def proved(self, task: Task, text: str, limits: ProgramLimits | None) -> ExactVerdict | None:
        """What exact arithmetic says, for a worker process to find."""
        return worker.exact(task.name, task.statement, text, limits)

    def test_script(self, task: Task, text: str, dtype: FloatType) -> str:
        """The script, which holds no text of the program as code."""
        return pytest_script(task, text, dtype)

    def skill(self, learned: Mapping[str, SolvedTask]) -> Skill:
        """The prompt, the cookbook and what was learned."""
        return make_skill(learned)

    def tool_server(
        self, workspace: Workspace, pool: LazyPool, limits: ProgramLimits, minutes: float, program: str | None
    ) -> MCPServer[Any]:
        """The checks, the cost, examples and `generate` as tools; the language and the cookbook as resources."""
        from pipeline.mcp_server.server import make_server

        return make_server(workspace, pool, limits, minutes, program)

    def class_of(self, name: str) -> str | None:
        """A benchmark task's class in the paper's Table 2."""
        return task_class(name)

    def advice(self, task: Task, attempts: Sequence[Any], proposer: ProposerKind | None = None) -> Advice:
        """The parts that drafts never used or reached, and advice."""
        return advise(task, attempts, proposer=proposer)

    def simplified(self, task: Task, text: str, accepts: Callable[[str], bool]) -> str:
        """A text with less structure that means the same."""
        return simplified(task, text, accepts)

    def same_graph(self, task: Task, text: str, other: str) -> bool:
        """Whether two programs differ in their texts only."""
        return same_graph(task, text, other)


@lru_cache(maxsize=64)
def _lines(task: Task) -> NextLines:
    from pipeline.synthesis.fingerprints import commutes
    from pipeline.synthesis.next_lines import NextLines

    return NextLines(static_scope(task), [spec.func_name for spec in task.fns if commutes(spec.apply)])


@lru_cache(maxsize=1024)
def _scope(task: Task) -> Scope:
    return static_scope(task)


STEP = Step()
