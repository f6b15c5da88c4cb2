"""The interface of a language: a protocol that every language has, and optional protocols.

A language is an object that an entry point of the group `adaptive_step.languages` names; see `registry`. The core asks
`isinstance` whether it offers more, and never what it is called. A command that needs an offer which a language lacks
ends with exit code 2 (`registry.require`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

if TYPE_CHECKING:
    from step_runtime.base.errors import Diagnostic
    from step_runtime.verification.verify import Verdict


@runtime_checkable
class Task(Protocol):
    """An operator to implement, frozen and picklable; `TextTask` is one for any language.

    Attributes:
        name: It identifies the task across runs.
        statement: The task's text without its solution, as a proposer reads it. `Language.task` reads it back.
        impl: The author's solution, None for none.
    """

    @property
    def name(self) -> str:
        """See above."""

    @property
    def statement(self) -> str:
        """See above."""

    @property
    def impl(self) -> str | None:
        """See above."""

    def without_impl(self) -> Self:
        """The task alone, which an LM may see."""

    def text_with(self, impl: str) -> str:
        """The text of a task file that holds the task with this solution."""


@runtime_checkable
class Language(Protocol):
    """A language that an agent learns to write.

    Attributes:
        name: As `--language` names it: lower-case letters, digits and hyphens.
        stages: Where a program may fail, in the order of checking; 2 or more. A lost worker counts as the last
            but for a stage `run`, where there is one.
        executes: Whether `judge` runs the program as code of the host, which is a weaker promise than interpreting it.
        folder: The language's data: `prompts/` with `proposer.md` and `refiner.md`, or what `WritesPrompts` reads,
            `tasks/`, `oracles/` and `near-misses/`, in which a program has the path of its task.
    """

    name: str
    stages: Sequence[str]
    executes: bool
    folder: Path

    def task(self, text: str, name: str, source: str) -> Task:
        """Reads a task from the text of its file, which `source` names in messages; runs none of its code.

        Raises:
            TaskError: The text is no task; the message names the source, the line and what was expected.
        """

    def extract(self, answer: str) -> str:
        """The program in an LM's answer; the answer itself where nothing resembles one. Never raises."""

    def check(self, task: Any, text: str) -> Sequence[Diagnostic]:
        """The errors of a program that its text shows, found in this process without running any of it."""

    def judge(self, task: Any, text: str, limits: Any) -> Verdict:
        """The verdict on a program, reached in a worker process, so that it may run what it must.

        `limits` are those of `pipeline.verification.limits.ProgramLimits`, None for the language's own. The worker
        keeps those of time, memory and characters for every language; the others are for one that `KeepsLimits`.

        Returns:
            A verdict that passed, or failed at one of `stages`. It is unknown, neither right nor wrong, where its first
            diagnostic has a code of `step_runtime.base.errors.UNKNOWN`, such as `internal`.
        """

    def key(self, task: Any, text: str) -> str:
        """A text that is equal for programs that mean the same, and never for others. Never raises, runs nothing.

        The task is None where only the program is known, such as when right answers are grouped.
        """

    def structures(self, task: Any, text: str | None) -> frozenset[str]:
        """The structures of a task, and of a program for it if there is one, by which demonstrations are chosen."""


# --- what a language may offer beside it ------------------------------------------------------------------------------


@runtime_checkable
class Versioned(Protocol):
    """A version in the language's own words, in place of a digest of its package's code; see `registry.version`.

    Attributes:
        version: Changes whenever a verdict may change.
    """

    version: str


@runtime_checkable
class KeepsLimits(Protocol):
    """Further options `--limit-...`, which `judge` keeps.

    Attributes:
        limits: Their fields of `pipeline.verification.limits.ProgramLimits`, such as `limit_steps`.
    """

    limits: Sequence[str]


@runtime_checkable
class Repairs(Protocol):
    """A guardian's exact check and repair: `--guardian gated` and `compiler`."""

    def repaired(self, task: Any, text: str) -> str | None:
        """The program with the rule kept; None for one that keeps it or can't be read."""


@runtime_checkable
class WritesPrompts(Protocol):
    """Base prompts composed by the language: `--prompt short` and `--no-ir`."""

    def instructions(self, role: str, *, ir: bool, kind: str) -> str:
        """The instructions of `proposer`, `guardian` or `refiner`.

        Raises:
            UsageError: A file of them can't be used.
        """


@runtime_checkable
class RecognizesPrograms(Protocol):
    """Whether a text has a program in it, for answers that may say that nothing is to be changed."""

    def holds_program(self, text: str) -> bool:
        """Whether a statement of the language is in the text."""


@runtime_checkable
class OffersTools(Protocol):
    """The tools of an LM that proposes: `--proposer react`."""

    tools: Sequence[Callable[..., Any]]


@runtime_checkable
class ChecksClaims(Protocol):
    """Programs of files from elsewhere, whose tasks may compute what `check` would have to run.

    Attributes:
        refused: The stages at which a file is refused for a program; a program that fails at another is left out.
    """

    refused: Sequence[str]

    def unrun(self, task: Any, text: str) -> Sequence[Diagnostic]:
        """The rules that a text breaks for certain, of those that are checked without running the task's code."""


@runtime_checkable
class RestoresTasks(Protocol):
    """Tasks in JSON of a form of their own, as an experience holds them."""

    def restored(self, content: Any, name: str) -> Any:
        """The task that `optimizers.jsonable` made JSON of.

        Raises:
            ValueError: It is none.
        """


@runtime_checkable
class RunsOwnCalls(Protocol):
    """Functions of modules that workers call in the place of the general ones of `pipeline.verification`.

    Attributes:
        calls: `judge` and `stress` take a task's name, its statement and a program; `check` takes a `CheckRequest`;
            `hold_out` takes a seed too, and gives a `step_runtime.verification.held_out.HeldOut`.
    """

    calls: Mapping[str, Callable[..., Any]]


@runtime_checkable
class Preloads(Protocol):
    """What takes long to import and `judge` needs: workers find it imported.

    Attributes:
        preload: The modules.
    """

    preload: Sequence[str]


@runtime_checkable
class Explains(Protocol):
    """A table of a program's parts and their types: `pipeline.verify --explain`."""

    def explained(self, task: Any, text: str) -> str:
        """The table, made without running the program."""


@runtime_checkable
class ExplainsValues(Protocol):
    """Where a wrong program's values part from the reference's: `pipeline.verify --values`."""

    def explained_values(self, task: Any, text: str) -> str | None:
        """The table, for a worker process to make; None for a program without wrong values."""


@runtime_checkable
class Draws(Protocol):
    """A picture of a program: `pipeline.verify --graph`."""

    def drawn(self, item: Any, path: str) -> None:
        """Writes the picture of a `pipeline.cli.program_arguments.Item`.

        Raises:
            UsageError: The task can't be read, or the picture can't be drawn.
        """


@runtime_checkable
class Prices(Protocol):
    """The cost of a program: `--objective`, `pipeline.verify --cost`."""

    def cost_of(self, item: Any) -> tuple[str, dict[str, Any]]:
        """The cost of a `pipeline.cli.program_arguments.Item`, as tables and as JSON.

        Raises:
            UsageError: The task's code fails, or the program is wrong.
        """

    def priced(self, executor: Any, objective: str) -> Any:
        """A function of an example and its outputs: the figure of a right program's cost, None if there is none."""


@runtime_checkable
class Rewrites(Protocol):
    """Right programs rewritten so that they cost less: `pipeline.optimize`, and the offers of `pipeline.generate`."""

    def explored(self, task: Any, text: str, executor: Any, figure: str, most: int, chip: Any = None) -> Any:
        """A `step_runtime.rewriting.optimizing.Explored`, or the diagnostics of a program that fails a check.

        `executor` is where programs are priced, `figure` what to make small, `most` how many programs to price; a chip
        of None is the language's default.

        Raises:
            UsageError: The task's code fails.
        """

    def annotated(self, task: Any, text: str) -> str:
        """A rewritten program as people read it; the text itself where nothing is to be added."""


@runtime_checkable
class Divides(Protocol):
    """Sub-tasks of unsolved tasks: `pipeline.compile --split`."""

    def dividing(self, workers: Any) -> Any:
        """A context with an object whose `divided(task, programs)` gives sub-tasks by name, given programs for some.

        What it gives has `parts`, and `impl` and `origins`: a verified program of the task that is composed of programs
        for sub-tasks, and their names.
        """


@runtime_checkable
class Proves(Protocol):
    """Programs proved equal to their references: `pipeline.verify --exact`."""

    def proved(self, task: Any, text: str, limits: Any) -> Any | None:
        """The answer of exact arithmetic for a passing program, found in a worker process."""


@runtime_checkable
class Mutates(Protocol):
    """How sharply a task tells a right program from its mutants: `pipeline.verify --mutants`."""

    def mutated(self, task: Any, text: str, limits: Any) -> Any:
        """A `step_runtime.verification.mutation.MutationScore`, for a worker process to find."""


@runtime_checkable
class WritesTests(Protocol):
    """A self-contained test of a program: `pipeline.codegen`."""

    def test_script(self, task: Any, text: str, dtype: str) -> str:
        """A pytest script that passes or fails as the verifier does, computing in `dtype`."""


@runtime_checkable
class WritesSkills(Protocol):
    """The language as an Agent Skill: `pipeline.skill`."""

    def skill(self, learned: Mapping[str, Any]) -> Any:
        """A `pipeline.actions.write_skill.Skill` that shows these solved tasks, by name."""


@runtime_checkable
class ServesTools(Protocol):
    """Tools for coding agents: `pipeline.mcp`."""

    def tool_server(self, workspace: Any, pool: Any, limits: Any, minutes: float, program: str | None) -> Any:
        """An MCP server of a workspace's tasks; see `pipeline.mcp_server.server.make_server`."""


@runtime_checkable
class ListsNextLines(Protocol):
    """The lines that may legally follow in a program: typed proposers."""

    def next_lines(self, task: Any, text: str, repeats: int) -> Sequence[str]:
        """The next lines, the most plausible first, each without an end of line at its end; none after a whole program.

        `repeats` bounds how often functions are applied again over the whole program, if it can be finished so.

        Raises:
            ValueError: The text is not the beginning of a program, or of none that can be finished.
        """

    def as_lines(self, task: Any, text: str) -> str:
        """A program in the form of such lines, as demonstrations show it; another text as it is."""


@runtime_checkable
class ProposesOffline(Protocol):
    """Programs without an LM: `--lm embedded`, and `--proposer search` and `all` of `pipeline.generate`.

    Attributes:
        offline_models: The project's own engines that know the language.
    """

    offline_models: Sequence[str]


@runtime_checkable
class Simplifies(Protocol):
    """Right programs made more readable for people."""

    def simplified(self, task: Any, text: str, accepts: Any) -> str:
        """A simpler text that `accepts`."""

    def same_graph(self, task: Any, text: str, other: str) -> bool:
        """Whether two right programs differ in their texts only, so that a verdict on one is a verdict on both."""


@runtime_checkable
class Advises(Protocol):
    """Advice for the author of an unsolved task."""

    def advice(self, task: Any, attempts: Sequence[Any], proposer: Any = None) -> Any:
        """Advice with `to_dict`, `lines` and `render`.

        Args:
            task: The task.
            attempts: The `optimizers.Attempt`s at it.
            proposer: How an LM was asked for them, as `--proposer` names it; None for the embedded LM.
        """


@runtime_checkable
class Classifies(Protocol):
    """Classes of tasks in figures, by the needs of a right program."""

    def class_of(self, name: str) -> str | None:
        """The class of one of the language's own tasks; None for another."""
