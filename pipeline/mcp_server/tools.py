"""The server's tools: the work of the commands, for one program of one task below the server's folder.

A program is text that is parsed and never run. A task's own code runs in isolated workers, as for `pipeline.verify`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel, Field

from pipeline.base.errors import PipelineError, UsageError
from pipeline.base.outputs import ProgramVerdict
from pipeline.mcp_server.outputs import (
    CheckedProgram,
    NearExample,
    NearExamples,
    ProgramCost,
    safe_content,
    safe_text,
)
from pipeline.mcp_server.workspace import Workspace
from pipeline.verification.judge import Request, judge, verdict_of
from pipeline.verification.limits import ProgramLimits
from pipeline.verification.pool import WorkerPool

if TYPE_CHECKING:
    from pipeline.mcp_server.nearest import Example

PROGRAM = "program"
"""What a client's program is called in places such as `program:2:6`."""
MOST_EXAMPLES = 10

TaskName = Annotated[
    str, Field(description="The task's file: its path below the server's folder, with or without suffix.")
]
ProgramText = Annotated[
    str | None, Field(description="The program's text. Default: the `impl` that the task file holds.")
]
Result = CallToolResult


@dataclass(frozen=True)
class Toolbox:
    """The tools that answer at once.

    Attributes:
        workspace: The task files that may be named.
        pool: Gives the workers in which tasks' code runs and programs are checked.
        limits: Of programs, as the user set them.
        learned: Gives the solved examples of a compiled program.
    """

    workspace: Workspace
    pool: Callable[[], WorkerPool]
    limits: ProgramLimits
    learned: Callable[[], Sequence[Example]] = tuple

    def check(self, task: TaskName, program: ProgramText = None) -> Annotated[Result, CheckedProgram]:
        """Check a program without running it: syntax, rules, the affine rule, and the type and dims of every stream.

        Use it on each draft, before `verify`. Each finding has a place, a code, the types involved and a hint.
        """
        verdict = self.checked(task, program, explain=True, run=False)
        rules = (
            "Every check passes; `verify` says whether it computes the outputs." if verdict.passed else verdict.feedback
        )
        result = CheckedProgram(
            passed=verdict.passed,
            stage=verdict.stage,
            findings=(*verdict.diagnostics, *verdict.warnings),
            streams=verdict.streams,
        )
        return answered(f"{verdict.streams}\n\n{rules}", result)

    def verify(self, task: TaskName, program: ProgramText = None) -> Annotated[Result, ProgramVerdict]:
        """Verify a program: all checks, then its outputs against the PyTorch reference at every set of sizes.

        Only a program that passes here is right. One that passes is also run on stress inputs in float32.
        """
        return self._verdict(self.checked(task, program))

    def explain(self, task: TaskName, program: ProgramText = None) -> Annotated[Result, ProgramVerdict]:
        """Explain a program: the type of every stream, and the first stream whose values match none of the reference's.

        Use it when `verify` fails at stage `value`.
        """
        return self._verdict(self.checked(task, program, explain=True, values=True))

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

    def _verdict(self, found: ProgramVerdict) -> Result:
        warnings = [f"warning: {each.code}: {each.message}" for each in found.warnings]
        text = "\n\n".join(part for part in (found.streams, found.feedback, "\n".join(warnings)) if part)
        return answered(text, found)


_IMPORTING = threading.Lock()


def language() -> None:
    """Imports what some tools need, which takes seconds: one thread at a time, as these modules need each other."""
    with _IMPORTING:
        import pipeline.actions.price_program
        import pipeline.mcp_server.nearest
        import pipeline.running.learned  # noqa: F401


def answered(text: str, result: BaseModel) -> CallToolResult:
    """A tool's answer: a text for the model, and the same as data."""
    content = [TextContent(type="text", text=safe_text(text))]
    return CallToolResult(content=list(content), structured_content=safe_content(result))


@contextmanager
def tool_errors() -> Iterator[None]:
    """Within the context, an error of the pipeline is one of the tool, whose message the client is shown."""
    try:
        yield
    except PipelineError as error:
        raise ToolError(safe_text(str(error))) from None
