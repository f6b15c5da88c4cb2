"""The server's tools: the work of the commands, for one program of one task below the server's folder.

A program is text that is parsed and never run. A task's own code runs in isolated workers, as for `pipeline.verify`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import anyio
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent
from pydantic import AfterValidator, BaseModel, Field

from pipeline.base.errors import PipelineError, UsageError
from pipeline.base.outputs import ProgramVerdict
from pipeline.base.redaction import redacted
from pipeline.base.text import visible, visible_json
from pipeline.mcp_server.workspace import Workspace
from pipeline.verification.judge import Request, judge, verdict_of
from pipeline.verification.limits import ProgramLimits
from pipeline.verification.pool import LocalWorkers, PoolSettings, WorkerPool, Workers

if TYPE_CHECKING:
    from pipeline.mcp_server.nearest import Example

PROGRAM = "program"
"""What a client's program is called in places such as `program:2:6`."""
MOST_EXAMPLES = 10

_BEAT = 2.0
"""Seconds between two reports of progress."""


def _text(text: str) -> str:
    """A text that can be written: JSON can name halves of a character, which no file or message holds."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"expected text, found half of a character at {error.start}") from None
    return text


Text = Annotated[str, AfterValidator(_text)]
TaskName = Annotated[
    Text, Field(description="The task's file: its path below the server's folder, with or without suffix.")
]
ProgramText = Annotated[
    Text | None, Field(description="The program's text. Default: the `impl` that the task file holds.")
]
Result = CallToolResult


class ProgramCost(BaseModel):
    """The cost of a program on a chip."""

    cost: Mapping[str, Any] = Field(description="As `pipeline.cost --json` prints it.")


class NearExample(BaseModel):
    """A solved task."""

    source: str
    similarity: float = Field(description="To the task in question, from 0 to 1.")
    task: str = Field(description="The task as YAML.")
    program: str


class NearExamples(BaseModel):
    """Solved tasks, the most similar first."""

    examples: tuple[NearExample, ...]


class GeneratedProgram(BaseModel):
    """The result of a search."""

    passed: bool
    program: str | None = Field(description="The verified program; null if none was found.")
    warnings: tuple[str, ...] = Field((), description="Warnings of the program's verdict.")


@dataclass(frozen=True)
class Toolbox:
    """The tools.

    Attributes:
        workspace: The task files that may be named.
        pool: Gives the workers in which tasks' code runs and programs are checked.
        limits: Of programs, as the user set them.
        minutes: The most that a search may take.
        learned: Gives the solved examples of a compiled program.
        searching: Searches run one after the other, as each takes all cores.
    """

    workspace: Workspace
    pool: Callable[[], WorkerPool]
    limits: ProgramLimits
    minutes: float
    learned: Callable[[], Sequence[Example]] = tuple
    searching: anyio.Lock = field(default_factory=anyio.Lock)

    def check(self, task: TaskName, program: ProgramText = None) -> Annotated[Result, ProgramVerdict]:
        """Check a program without running it: syntax, rules, the affine rule, and the type and dims of every stream.

        Use it on each draft, before `verify`. Each finding has a place, a code, the types involved and a hint.
        """
        found = self.checked(task, program, explain=True, run=False)
        if found.passed:
            rules = "Every check passes; `verify` says whether it computes the outputs."
            found = found.model_copy(update={"feedback": rules})
        return _judged(found)

    def verify(self, task: TaskName, program: ProgramText = None) -> Annotated[Result, ProgramVerdict]:
        """Verify a program: all checks, then its outputs against the PyTorch reference at every set of sizes.

        Only a program that passes here is right. One that passes is also run on stress inputs in float32.
        """
        return _judged(self.checked(task, program))

    def explain(self, task: TaskName, program: ProgramText = None) -> Annotated[Result, ProgramVerdict]:
        """Explain a program: the type of every stream, and the first stream whose values match none of the reference's.

        Use it when `verify` fails at stage `value`.
        """
        return _judged(self.checked(task, program, explain=True, values=True))

    def cost(
        self,
        task: TaskName,
        program: ProgramText = None,
        sizes: Annotated[
            dict[str, Annotated[int, Field(ge=1)]] | None,
            Field(description="Sizes of dims, such as {'M': 64}; other dims keep the sizes of the task's first set."),
        ] = None,
    ) -> Annotated[Result, ProgramCost]:
        """Say what a program costs the default chip: memory, off-chip traffic, operations, time and queues."""
        language()
        from pipeline.actions.price_program import price_programs
        from pipeline.cli.cost_tables import cost_json, cost_table
        from pipeline.verification.task_files import load_task_named
        from step_runtime.cost.chip import DEFAULT_CHIP

        with tool_errors():
            found = load_task_named(str(self.workspace.path(task)))
            text = found.impl if program is None else program
            if text is None:
                raise UsageError(f"{task}: this task has no `impl`; give the program")
            [subject] = price_programs(found, [(PROGRAM, text)], DEFAULT_CHIP, sizes or {})
            if isinstance(subject.priced, tuple):
                raise UsageError("\n".join(each.render(text, PROGRAM) for each in subject.priced))
        table = cost_table(subject.priced, PROGRAM, DEFAULT_CHIP.name)
        priced = cost_json(subject.priced, PROGRAM, DEFAULT_CHIP.name)
        return answered(table, ProgramCost(cost=priced))

    def examples(
        self,
        task: TaskName,
        count: Annotated[int, Field(ge=1, le=MOST_EXAMPLES, description="How many to show.")] = 3,
    ) -> Annotated[Result, NearExamples]:
        """Show the solved examples nearest to a task: what they compute, and a verified program for each.

        They come from the language's prompt, the cookbook, the folder's tasks whose `impl` passes, and what is learned.
        """
        language()
        from pipeline.mcp_server.nearest import nearest, of_files, packaged
        from pipeline.verification.task_files import load_task_named

        with tool_errors():
            path = self.workspace.path(task)
            asked = load_task_named(str(path))
            others = [other for name in self.workspace.names() if (other := self.workspace.path(name)) != path]
            ranked = nearest(asked, [*packaged(), *of_files(others), *self.learned()])
            right = (each for each in ranked if each.path is None or self._passes(each.path))
            found = list(islice(right, count))
        near = [
            NearExample(
                source=each.source,
                similarity=round(each.similarity, 3),
                task=each.solved.task.statement,
                program=each.solved.program,
            )
            for each in found
        ]
        text = "\n\n".join(each.text() for each in found) or "There is no solved example."
        return answered(text, NearExamples(examples=tuple(near)))

    def checked(
        self, task: str, program: str | None, *, explain: bool = False, values: bool = False, run: bool = True
    ) -> ProgramVerdict:
        """A worker's verdict on a program, or on the task's own `impl`.

        Raises:
            ToolError: The task or the program can't be used.
        """
        language()
        with tool_errors():
            path = self.workspace.path(task)
            name = None if program is None else PROGRAM
            request = Request(task=path.stem, path=str(path), text=program, program=name, run=run, stress=True,
                              explain=explain, values=values, limits=self.limits)  # fmt: skip
            found = verdict_of(request, self.pool().submit(judge, request))
            if found.error is not None:
                raise UsageError(found.error)
            return found

    def _passes(self, path: Path) -> bool:
        """Whether a task file's own program is right."""
        request = Request(task=path.stem, path=str(path), limits=self.limits)
        return verdict_of(request, self.pool().submit(judge, request)).passed

    async def generate(
        self,
        task: TaskName,
        context: Context,
        minutes: Annotated[
            float | None, Field(gt=0, description="How long to search at most; the server has a limit, too.")
        ] = None,
    ) -> Annotated[Result, GeneratedProgram]:
        """Search for a verified program by classical synthesis.

        It takes seconds to minutes and reports progress. Nothing is written; a program is returned if one passes.
        """
        limit, start, workers = 60 * min(minutes or self.minutes, self.minutes), time.monotonic(), _Killable()

        async def report() -> None:
            while True:
                await context.report_progress(time.monotonic() - start, limit, "searching")
                await anyio.sleep(_BEAT)

        program: str | ToolError | None = None
        async with self.searching, anyio.create_task_group() as group:
            group.start_soon(report)
            try:
                program = await anyio.to_thread.run_sync(self._found, task, limit, workers, abandon_on_cancel=True)
            except ToolError as error:  # raised here, it would come in a group
                program = error
            finally:
                workers.kill()
            group.cancel_scope.cancel()
        if isinstance(program, ToolError):
            raise program
        if program is None:
            text = f"No program was found within {limit / 60:g} minutes."
            return answered(text, GeneratedProgram(passed=False, program=None))
        verdict = await anyio.to_thread.run_sync(self.checked, task, program)
        warnings = tuple(f"{each.code}: {each.message}" for each in verdict.warnings)
        notes = ["# found by a search, and verified", *(f"# warning: {line}" for line in warnings)]
        result = GeneratedProgram(passed=verdict.passed, program=program, warnings=warnings)
        return answered("\n".join([program.strip(), "", *notes]), result)

    def _found(self, task: str, seconds: float, workers: Workers) -> str | None:
        """The program of a task that a search finds."""
        language()
        from pipeline.synthesis import SearchBudget
        from pipeline.synthesis.parallel_search import search_all
        from pipeline.verification.task_files import load_task_named
        from step_runtime.base.errors import TaskError

        with tool_errors():
            found: Any = load_task_named(str(self.workspace.path(task)))
            try:
                [(_, outcome)] = search_all([found], SearchBudget(seconds), workers)
            except TaskError as error:
                raise UsageError(str(error)) from None
        return outcome.impl


class _Killable(LocalWorkers):
    """Workers of one search, which end when the search is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self._pools: list[WorkerPool] = []
        self._killed = False

    def pool(self, settings: PoolSettings, most: int | None = None) -> WorkerPool:
        if self._killed:
            raise UsageError("the search was cancelled")
        self._pools.append(super().pool(settings, most))
        return self._pools[-1]

    def kill(self) -> None:
        self._killed = True
        for pool in self._pools:
            pool.kill_workers()


def _judged(found: ProgramVerdict) -> Result:
    warnings = [f"warning: {each.code}: {each.message}" for each in found.warnings]
    return answered("\n\n".join(filter(None, (found.streams, found.feedback, "\n".join(warnings)))), found)


_IMPORTING = threading.Lock()


def language() -> None:
    """Imports what some tools need, which takes seconds: one thread at a time, as these modules need each other."""
    with _IMPORTING:
        import pipeline.actions.price_program
        import pipeline.mcp_server.nearest
        import pipeline.running.learned  # noqa: F401


def answered(text: str, result: BaseModel) -> CallToolResult:
    """A tool's answer: a text for the model, and the same as data."""
    content: list[Any] = [TextContent(type="text", text=safe_text(text))]
    data = json.loads(redacted(visible_json(result.model_dump(mode="json"))))
    return CallToolResult(content=content, structured_content=data)


def safe_text(text: str) -> str:
    """A text without secrets, in which characters that would not be seen are written out."""
    return visible(redacted(text))


@contextmanager
def tool_errors() -> Iterator[None]:
    """Within the context, an error of the pipeline is one of the tool, whose message the client is shown."""
    try:
        yield
    except PipelineError as error:
        raise ToolError(safe_text(str(error))) from None
