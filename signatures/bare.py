"""Prompts without the structural IR (paper, Section 6.2): Python scripts in place of YAML.

A script is the one that the code generator writes (paper, Figure 19), its `body` left open. The tests it ends with are
the same for all tasks: the proposer's base prompt contains them, once.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import dspy

from signatures.prompts import BasePrompt, GuardianPrompt, ProposerPrompt, Strict, Taught
from step_runtime.base.formats import FORMATS
from step_runtime.codegen import generate_prompt, prompt_tests
from step_runtime.tasks.task import Task

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
