"""The base prompts of both agents (paper, Section 4.1): YAML data, validated and composed into instructions.

The instructions of an agent are the same text in every request, as providers cache the common beginnings of requests.
"""

from __future__ import annotations

import functools
import hashlib
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import dspy
import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from step_runtime.base.errors import TaskError
from step_runtime.base.formats import FORMATS
from step_runtime.base.mistakes import mistake
from step_runtime.codegen import generate_prompt, prompt_tests
from step_runtime.primitives import PRIMITIVES
from step_runtime.tasks import yaml_format
from step_runtime.tasks.reader import task_of
from step_runtime.tasks.task import SolvedTask, Task

Location = tuple[str | int, ...]
M = TypeVar("M", bound=BaseModel)
P = TypeVar("P", bound="BasePrompt")


class PromptError(ValueError):
    """A base prompt's file cannot be used; the message names the file, the line, the place and what was expected."""


Taught = Annotated[str, AfterValidator(lambda text: text.replace("{primitives}", ", ".join(PRIMITIVES)))]
"""A text in which the names of all primitives stand for `{primitives}`."""


class Strict(BaseModel):
    """Frozen, and without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Correction(Task):
    """A task with a program before and after the guardian, and why (paper, Figure 20)."""

    input_impl: str
    output_impl: str
    explanation: str


class Reference(Strict):
    """A primitive, or a pattern of usage, with examples that have an `impl` (paper, Figures 14 and 17)."""

    name: str
    desc: str
    examples: list[Task]

    @property
    def solved(self) -> list[SolvedTask]:
        """The examples, each with its task and its program separately."""
        return [solved for each in self.examples if (solved := each.solved())]


class BasePrompt(Strict):
    """The instructions of an agent in every request, for every task."""

    desc: Taught

    def located_examples(self) -> Iterator[tuple[Location, Task]]:
        """Every example with its place in the file."""
        yield from _examples(self, ())


def _examples(part: Any, place: Location) -> Iterator[tuple[Location, Task]]:
    if isinstance(part, Task):
        yield place, part
    elif isinstance(part, list | BaseModel):
        for name, inner in enumerate(part) if isinstance(part, list) else part:
            yield from _examples(inner, (*place, name))


class ProposerPrompt(BasePrompt):
    """The language, its primitives, and patterns of their usage."""

    syntax: Taught
    primitives: list[Reference]
    patterns: list[Reference]


class GuardianPrompt(BasePrompt):
    """The affine rule, and programs before and after correction."""

    examples: list[Correction]


class RefinerPrompt(BasePrompt):
    """How to repair; the proposer's prompt, which precedes it, explains programs."""


def read_yaml(model: type[M], path: Path) -> M:
    """The content of a YAML file.

    Raises:
        PromptError: The file cannot be read, or has other content.
    """
    return _read(model, path)[1]


def load_prompt(model: type[P], path: Path) -> P:
    """Reads the base prompt of the agent that `model` belongs to.

    Raises:
        PromptError: The file cannot be read, or does not hold such a prompt.
    """
    node, prompt = _read(model, path)
    try:
        for location, example in prompt.located_examples():
            if example.impl is None and not isinstance(example, Correction):
                raise PromptError(f"{_places(path, node, (*location, 'impl'))(())}: this key is missing")
            # The types of an example's fields are already checked; this checks dtypes, dims, code and names.
            plain = example.model_dump(by_alias=True, exclude_defaults=True, include=set(Task.model_fields))
            task_of(plain, path.stem, _places(path, node, location))
    except TaskError as error:
        raise PromptError(str(error)) from None
    return prompt


def _read(model: type[M], path: Path) -> tuple[yaml.Node | None, M]:
    try:
        node, content = yaml_format.load(path.read_text(encoding="utf-8"), str(path))
        return node, model.model_validate(content)
    except ValidationError as error:
        raise PromptError(
            "\n".join(_message(item, _places(path, node, item["loc"])) for item in error.errors())
        ) from None
    except TaskError as error:
        raise PromptError(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PromptError(f"{path}: cannot read the prompt: {reason}") from None


def compose(prompt: BasePrompt) -> str:
    """The instructions that a prompt gives: YAML, in the order of the file, without its comments."""
    content = prompt.model_dump(by_alias=True, exclude_defaults=True)
    return "\n".join(_section(key, value) for key, value in content.items()).rstrip()


def digest(instructions: str) -> str:
    """A short digest that identifies a prompt."""
    return hashlib.sha256(instructions.encode()).hexdigest()[:16]


def _section(key: str, value: Any) -> str:
    if isinstance(value, str):
        return f"{key}: |\n{textwrap.indent(value.rstrip(), '  ')}\n"
    return yaml_format.dump({key: value})


def _places(path: Path, node: yaml.Node | None, prefix: Location) -> Callable[[Location], str]:
    """Names a place below `prefix`, for messages."""

    def place(location: Location) -> str:
        return f"{path}:{yaml_format.line_of(node, (*prefix, *location))}: {yaml_format.format_location(prefix)}"

    return place


def _message(item: Any, place: Callable[[Location], str]) -> str:
    return f"{place(())}: {mistake(item)}"


# --- prompts without the structural IR (paper, Section 6.2): Python scripts in place of YAML --------------------------
# A script is the one that the code generator writes (paper, Figure 19), its `body` left open. The tests it ends with
# are the same for all tasks: the proposer's base prompt contains them, once.

FORM = "form"
SCRIPT = "script"
_DESC = "the operator as a test script, whose `body` is the program"


class BareWords(Strict):
    """The parts of the proposer's instructions that replace those naming keys of the structural IR.

    `closing` introduces the tests that every script ends with.
    """

    desc: str
    syntax: Taught
    closing: str


def without_ir(signature: type[dspy.Signature]) -> type[dspy.Signature]:
    """The signature with a task in the form of a script."""
    bare: type[dspy.Signature] = signature.with_updated_fields("task", desc=_DESC, **{FORM: SCRIPT})
    return bare


@functools.lru_cache(maxsize=1024)
def render_script(task: Task) -> str:
    """A task as such prompts show it: its script, without its solution, with a note on formats as in YAML."""
    return format_note(task) + generate_prompt(task)


def format_note(task: Task) -> str:
    """A note on number formats for proposers, as comments; empty for a task that names only fp32."""
    if not task.names_formats:
        return ""
    names = ", ".join(format_.name for format_ in FORMATS.values() if format_ in task.formats)
    return (
        f"# Number formats: {names}. Types of different formats differ, and no primitive converts: Map a\n"
        "# function that does. What a function returns is rounded to the format of its output, as is the state of an\n"
        "# Accum, Scan or Merge after every element.\n"
    )


def compose_bare(prompt: BasePrompt, words: BareWords) -> str:
    """The instructions that a prompt gives without the structural IR."""
    if isinstance(prompt, ProposerPrompt):
        return "\n\n".join(_proposer(prompt, words))
    if isinstance(prompt, GuardianPrompt):
        return "\n\n".join(_guardian(prompt))
    return prompt.desc.strip()


def _proposer(prompt: ProposerPrompt, words: BareWords) -> Iterator[str]:
    yield words.desc.strip()
    yield words.syntax.strip()
    yield words.closing.strip()
    yield _code(prompt_tests())
    for reference in (*prompt.primitives, *prompt.patterns):
        yield f"## {reference.name}"
        yield reference.desc.strip()
        for example in reference.examples:
            yield _code(generate_prompt(example, example.impl))


def _guardian(prompt: GuardianPrompt) -> Iterator[str]:
    yield prompt.desc.strip()
    for number, example in enumerate(prompt.examples, start=1):
        yield f"## Example {number}"
        yield _code(generate_prompt(example, example.input_impl))
        yield "The program after correction:"
        yield _code(example.output_impl.strip())
        yield example.explanation.strip()


def _code(text: str) -> str:
    return f"```python\n{text}\n```"
