"""What a language is: an abstract class of ten methods, of which two have no default.

A language is an object that an entry point of the group `adaptive_step.languages` names; see `registry`. What STeP has
beside it (costs, rewrites, proofs, the search) is no interface: those commands import STeP, and refuse any other
language with `pipeline.base.languages.step_only`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from pipeline.base.errors import UsageError
from pipeline.base.files import shown

if TYPE_CHECKING:
    from pipeline.base.settings import PromptKind
    from step_runtime.base.errors import Diagnostic
    from step_runtime.verification.verdict import Verdict


def fenced_blocks(answer: str) -> list[str]:
    """The texts between fences of three backquotes, in linear time; the last may lack its end."""
    blocks, start = list[str](), 0
    while (opened := answer.find("```", start)) >= 0 and (line := answer.find("\n", opened)) >= 0:
        closed = answer.find("```", line)
        end = len(answer) if closed < 0 else closed
        blocks.append(answer[line + 1 : end])
        start = end + 3
    return blocks


@runtime_checkable
class Task(Protocol):
    """An operator to implement, frozen and picklable; `TextTask` is one for any language.

    Attributes:
        name: It identifies the task across runs.
        statement: The task's text without its solution, as a proposer reads it. `Language.task` reads it back.
        impl: The author's solution, None for none.
    """

    @property
    def name(self) -> str: ...

    @property
    def statement(self) -> str: ...

    @property
    def impl(self) -> str | None: ...

    def without_impl(self) -> Self:
        """The task alone, which an LM may see."""

    def text_with(self, impl: str) -> str:
        """The text of a task file that holds the task with this solution."""


class Language(ABC):
    """A language that an agent learns to write.

    Attributes:
        name: As `--language` names it: lower-case letters, digits and hyphens.
        stages: Where a program may fail, in the order of checking; 2 or more. A lost worker counts as the last
            but for a stage `run`, where there is one.
        executes: Whether `judge` runs the program as code of the host, which is a weaker promise than interpreting it.
        confined: Whether that happens in confined cells alone; not where the user names a device that they can't reach.
        environment: Variables that workers have before they import a module of `preload`.
        holds_out: Whether `hold_out` is implemented.
        suffix: Of files with a program, such as `.py`; empty for the language's name.
        folder: The language's data: `prompts/` with `proposer.md` and `refiner.md`, `tasks/`, `oracles/` and
            `near-misses/`, in which a program has the path of its task.
        version: Changes whenever a verdict may change; None: a digest of the package's code, see `registry.version`.
        preload: Modules that take long to import and that `judge` needs: workers find them imported.
        guards: Whether `repaired` is implemented: `--guardian gated` and `compiler`.
    """

    name: str
    stages: Sequence[str]
    executes: bool = False
    confined: bool = True
    environment: Mapping[str, str] = MappingProxyType({})
    holds_out: bool = False
    suffix: str = ""
    folder: Path
    preload: Sequence[str] = ()
    guards: bool = False

    @property
    def version(self) -> str | None:
        """See above."""
        return None

    @abstractmethod
    def task(self, text: str, name: str, source: str) -> Any:
        """Reads a task from the text of its file, which `source` names in messages; runs none of its code.

        Raises:
            TaskError: The text is no task; the message names the source, the line and what was expected.
        """

    @abstractmethod
    def judge(self, task: Any, text: str, limits: Any) -> Verdict:
        """The verdict on a program, reached in a worker process, so that it may run what it must.

        `limits` are those of `pipeline.verification.limits.ProgramLimits`, None for the language's own.

        Returns:
            A verdict that passed, or failed at one of `stages`. It is unknown, neither right nor wrong, where its first
            diagnostic has a code of `step_runtime.base.errors.UNKNOWN`, such as `internal`.
        """

    def stress(self, task: Any, text: str) -> Sequence[Diagnostic]:
        """Warnings about a program that passes, on inputs unlike the task's; in a worker."""
        return ()

    def hold_out(self, task: Any, text: str, seed: int) -> Verdict:
        """The verdict on a program that passes, at sizes and inputs drawn from a seed; in a worker."""
        raise NotImplementedError

    def extract(self, answer: str) -> str:
        """The program in an LM's answer: the last fenced block, else the whole answer. Never raises."""
        answer = answer.replace("\r\n", "\n")
        return next(reversed(fenced_blocks(answer)), answer).strip() + "\n"

    def check(self, task: Any, text: str) -> Sequence[Diagnostic]:
        """The errors of a program that its text shows, found in this process; runs neither it nor the task's code."""
        return ()

    def key(self, task: Any, text: str) -> str:
        """A text that is equal for programs that mean the same, and never for others. Never raises, runs nothing.

        The task is None where only the program is known, such as when right answers are grouped.
        """
        return " ".join(text.split())

    def structures(self, task: Any, text: str | None) -> frozenset[str]:
        """The structures of a task, and of a program for it if there is one, by which demonstrations are chosen."""
        return frozenset(re.findall(r"\w+", f"{task.statement} {text or ''}"))

    def instructions(self, role: str, *, ir: bool, kind: PromptKind) -> str:
        """The base prompt of `proposer`, `guardian` or `refiner`; `ir` and `kind` vary the prompts of STeP.

        Raises:
            UsageError: A file of them can't be used.
        """
        path = self.folder / "prompts" / f"{role}.md"
        try:
            return path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise UsageError(f"{shown(path)}: cannot read the prompt: {reason}") from None

    def repaired(self, task: Any, text: str) -> str | None:
        """The program with the guardian's rule kept; None for one that keeps it or can't be read."""
        return None

    def next_lines(self, task: Any, text: str, repeats: int) -> Sequence[str]:
        """The lines that may legally follow in a program, the most plausible first; none after a whole program.

        `repeats` bounds how often functions are applied again over the whole program, if it can be finished so. A line
        has no end of line. A language without this method has no `--proposer typed`.

        Raises:
            ValueError: The text is not the beginning of a program, or of none that can be finished.
        """
        raise NotImplementedError

    def line_bits(
        self, task: Any, text: str, lines: Sequence[str], solved: Sequence[tuple[Any, str]]
    ) -> Sequence[float]:
        """How surprising each line that may follow in a program is, in bits, after solved tasks and their programs.

        Only their differences count. By default no line is more surprising than another.
        """
        return [0.0] * len(lines)

    def repeats(self, task: Any, text: str) -> int:
        """How often a program applies functions again, as `next_lines` bounds it."""
        return 0

    def relevance(self, task: Any, solved: Any, program: str) -> float:
        """How relevant a solved task is to another one, in [0, 1]."""
        one, other = self.structures(task, None), self.structures(solved, None)
        return len(one & other) / max(1, len(one | other))

    def as_lines(self, task: Any, text: str) -> str:
        """A program in the form of such lines, as demonstrations show it; another text as it is."""
        return text
