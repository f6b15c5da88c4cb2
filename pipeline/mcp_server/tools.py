"""The server's tools: the work of the commands, for one program of one task below the server's folder.

Programs, and a task's own code, run in isolated workers, as for `pipeline.verify`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent
from pydantic import AfterValidator, BaseModel, Field

from pipeline.base.errors import PipelineError, UsageError
from pipeline.base.text import redacted, visible, visible_json
from pipeline.mcp_server.workspace import Workspace
from pipeline.verification.judge import Request, judge, verdict_of
from pipeline.verification.limits import ProgramLimits
from pipeline.verification.pool import WorkerPool
from pipeline.verification.shown_programs import Program
from step_runtime.verification.verdict import Verdict


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


class NearExample(BaseModel):
    """A solved task."""

    source: str
    similarity: float = Field(description="To the task in question, from 0 to 1.")
    task: str = Field(description="The task as YAML.")
    program: str


class NearExamples(BaseModel):
    """Solved tasks, the most similar first."""

    examples: tuple[NearExample, ...]


@dataclass(frozen=True)
class Toolbox:
    """The tools.

    Attributes:
        workspace: The task files that may be named.
        pool: Gives the workers in which tasks' code runs and programs are checked.
        limits: Of programs, as the user set them.
        language: Of the programs; None for the default.
        learned: Gives the solved examples of a compiled program.
    """

    workspace: Workspace
    pool: Callable[[], WorkerPool]
    limits: ProgramLimits
    language: str | None = None
    learned: Callable[[], Sequence[Program]] = tuple

    def check(self, task: TaskName, program: ProgramText = None) -> Annotated[CallToolResult, Verdict]:
        """Check a program without running it, by all rules that its text shows; use it on each draft, before `verify`.

        Each finding has a place, a code and a hint. In STeP, the type of every stream is described.
        """
        found = self.checked(task, program, run=False)
        if found.passed:
            rules = "Every check passes; `verify` says whether it computes the outputs."
            found = found.model_copy(update={"feedback": rules})
        return _judged(found)

    def verify(self, task: TaskName, program: ProgramText = None) -> Annotated[CallToolResult, Verdict]:
        """Verify a program: all checks, then its outputs against the task's reference, at every set of sizes.

        Only a program that passes here is right. One that passes is also run on stress inputs. In STeP, a program with
        wrong values is told where these part from the reference's.
        """
        return _judged(self.checked(task, program))

    def examples(
        self,
        task: TaskName,
        count: Annotated[int, Field(ge=1, le=10, description="How many to show.")] = 3,
    ) -> Annotated[CallToolResult, NearExamples]:
        """Show the solved examples nearest to a task: what they compute, and a verified program for each.

        They come from the language, the folder's tasks whose `impl` passes, and what is learned.
        """
        imports()
        from pipeline.mcp_server.nearest import nearest, of_files, packaged
        from pipeline.verification.task_files import load_task_named

        with tool_errors():
            path = self.workspace.path(task)
            asked = load_task_named(str(path), self.language)
            others = [other for name in self.workspace.names() if (other := self.workspace.path(name)) != path]
            solved = [*packaged(self.language), *of_files(self.language, others), *self.learned()]
            ranked = nearest(self.language, asked, solved)
            found = list(islice((pair for pair in ranked if self._passes(pair[1])), count))
        near, texts = list[NearExample](), list[str]()
        for value, each in found:
            place, similarity = each.place, round(value, 3)
            near.append(NearExample(source=place, similarity=similarity, task=each.task.statement, program=each.text))
            texts.append(f"# {place}, similarity {similarity:.2f}\n{each.task.text_with(each.text)}")
        return answered("\n\n".join(texts) or "There is no solved example.", NearExamples(examples=tuple(near)))

    def checked(self, task: str, program: str | None, *, run: bool = True) -> Verdict:
        """A worker's verdict on a program, or on the task's own `impl`.

        Raises:
            ToolError: The task or the program can't be used.
        """
        imports()
        with tool_errors():
            path = self.workspace.path(task)
            name = None if program is None else "program"  # of places such as `program:2:6`
            request = Request(task=path.stem, path=str(path), text=program, program=name, language=self.language,
                              run=run, stress=True, explain=not run, values=True, limits=self.limits)  # fmt: skip
            found = verdict_of(request, self.pool().submit(judge, request))
            if found.error is not None:
                raise UsageError(found.error)
            return found

    def _passes(self, example: Program) -> bool:
        request = Request(task=example.task.name, statement=example.task.statement, text=example.text,
                          language=self.language, limits=self.limits)  # fmt: skip
        return verdict_of(request, self.pool().submit(judge, request)).passed


def _judged(found: Verdict) -> CallToolResult:
    warnings = [f"warning: {each.code}: {each.message}" for each in found.warnings]
    return answered("\n\n".join(filter(None, (found.streams, found.feedback, "\n".join(warnings)))), found)


_IMPORTING = threading.Lock()


def imports() -> None:
    """Imports what some tools need, which takes seconds: one thread at a time, as these modules need each other."""
    with _IMPORTING:
        import pipeline.mcp_server.nearest
        import pipeline.running.gate  # noqa: F401


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
