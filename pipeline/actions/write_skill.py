"""An Agent Skill (agentskills.io) of the language: SKILL.md, and references that an agent reads when it needs them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.agent.proposer import packaged_prompt
from pipeline.base.errors import UsageError
from pipeline.base.files import write_text
from pipeline.base.paths import DOCS
from pipeline.base.text import cell
from signatures import render_task
from signatures.prompts import Reference
from step_runtime.tasks.reader import read_task
from step_runtime.tasks.task import SolvedTask, Task

NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
UNMEASURED = "Not measured. `python -m pipeline.skill -o DIR --measure --lm MODEL` measures its gain.\n"
_MAIN = """\
---
name: {name}
description: >-
  Write and repair machine-learning operators in STeP (Streaming Tensor Programs), a language for streaming dataflow
  hardware. Use it when a task file (YAML with inputs, fns and outputs) asks for an `impl`, or a STeP program fails.
---

# Writing STeP operators

A task file describes an operator: inputs, the functions that the hardware offers, and the outputs in PyTorch. You write
`impl`, a program of primitives that moves data through these functions.

1. Read the task. Note each stream's element type and dims, innermost first.
2. Read [the language](references/language.md) once, and [primitives](references/primitives.md) when you need one.
3. Find a similar example in [patterns](references/patterns.md){solutions}.
4. Write a draft. Give each stream's type and dims as a comment, and compare them with what the next step requires.
5. Check it: `python -m pipeline.verify TASK.yaml PROGRAM.step --explain`. Repair the first finding, and check again.
6. Stop only when it says `passed`. If values are wrong, `--values` names the first stream that is unlike the reference.

Rules that are broken most often: a stream may be consumed once, so Copy what is needed twice; Zip needs equal dims; a
function's `input_dtype` must equal the stream's element type exactly; dims are the reverse of torch's.

## Measured

{measured}"""


@dataclass(frozen=True)
class Skill:
    """A skill's content.

    Attributes:
        prompt: The language as the proposer's prompt explains it.
        primitives: Each primitive, with solved examples.
        patterns: Patterns of usage and recipes, with solved examples.
        learned: Solved tasks of a compiled program, by name.
        contained: The tasks of all examples, learned ones included.
    """

    prompt: str
    primitives: str
    patterns: str
    learned: Mapping[str, SolvedTask]
    contained: frozenset[Task]

    def contains(self, task: Task) -> bool:
        """Whether the skill shows a solution of a task, whatever the task's name is."""
        return task.without_impl() in self.contained

    def files(self, name: str, measured: str = UNMEASURED) -> dict[str, str]:
        """The texts of the files by their paths below the skill's folder, whose name a skill has to bear."""
        solutions = " and [solved tasks](references/solutions.md)" if self.learned else ""
        files = {
            "SKILL.md": _MAIN.format(name=name, solutions=solutions, measured=measured),
            "references/language.md": f"# The language\n\n{self.prompt}",
            "references/primitives.md": f"# Primitives\n\n{self.primitives}",
            "references/patterns.md": f"# Patterns\n\n{self.patterns}",
        }
        if self.learned:
            examples = "\n".join(_example(cell(name), solved) for name, solved in self.learned.items())
            files["references/solutions.md"] = f"# Solved tasks\n\nEach program passes verification.\n\n{examples}"
        return files

    def instructions(self) -> str:
        """All that the skill says, in one text, but for the learned solutions."""
        files = self.files("step")
        return "\n\n".join(text for path, text in files.items() if path != "references/solutions.md")


def make_skill(learned: Mapping[str, SolvedTask]) -> Skill:
    """The skill of the language, with the solutions of a compiled program."""
    prompt = packaged_prompt()
    paths = sorted((DOCS / "cookbook").glob("*.yaml"))
    recipes = {path.stem: solved for path in paths if (solved := read_task(path).solved()) is not None}
    shown = [example.task for part in (*prompt.primitives, *prompt.patterns) for example in part.solved]
    contained = [*shown, *(each.task for each in (*recipes.values(), *learned.values()))]
    patterns = [*_references(prompt.patterns), *(_recipe(*recipe) for recipe in recipes.items())]
    return Skill(
        f"{prompt.desc.strip()}\n\n```text\n{prompt.syntax.strip()}\n```\n",
        "\n".join(_references(prompt.primitives)),
        "\n".join(patterns),
        learned,
        frozenset(contained),
    )


def skill_name(folder: Path) -> str:
    """The name of the skill in a folder: the folder's own, as agents require it.

    Raises:
        UsageError: It is no name of a skill.
    """
    name = folder.absolute().name
    if not NAME.fullmatch(name) or len(name) > 64:
        raise UsageError(f"-o: a skill is named as its folder: lower-case letters, digits and hyphens, not {name!r}")
    return name


def check_folder(folder: Path, *, force: bool) -> None:
    """Raises `UsageError` if a skill's files would be overwritten without leave."""
    if (folder / "SKILL.md").exists() and not force:
        raise UsageError(f"{folder / 'SKILL.md'} exists; use --force to overwrite, or another folder for -o")


def write_skill(skill: Skill, folder: Path, measured: str = UNMEASURED) -> list[Path]:
    """Writes the skill's files, and returns their paths; references of an earlier skill that it lacks are removed."""
    files = {folder / path: text for path, text in skill.files(skill_name(folder), measured).items()}
    for path, text in files.items():
        write_text(path, text)
    stale = folder / "references" / "solutions.md"
    if stale not in files:
        stale.unlink(missing_ok=True)
    return list(files)


def _references(parts: Iterable[Reference]) -> Iterator[str]:
    for part in parts:
        examples = [_example(f"Example {number}", each) for number, each in enumerate(part.solved, start=1)]
        yield "\n".join([f"## {part.name}\n\n{part.desc.strip()}\n", *examples])


def _recipe(name: str, solved: SolvedTask) -> str:
    return f"## {name.replace('_', ' ')}\n\n{_example('Example', solved)}"


def _example(title: str, solved: SolvedTask) -> str:
    """A task and its program in Markdown, of which nothing could steer a reader or end a block of code."""
    program = textwrap.dedent(solved.program).strip()
    return f"### {title}\n\n```yaml\n{render_task(solved.task)}\n```\n\n```python\n{program}\n```\n"
