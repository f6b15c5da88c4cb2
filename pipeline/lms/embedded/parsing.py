"""Parses a request's text: instructions, demonstrations, the task, the fields to answer.

Messages are sections under `[[ ## name ## ]]` markers where there are any. Tasks are found by their structure: a YAML
block at one indentation with the keys `inputs` and `outputs`, in any surroundings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import yaml

from step_runtime.base.errors import TaskError
from step_runtime.tasks import yaml_format
from step_runtime.tasks.reader import task_of
from step_runtime.tasks.task import SolvedTask, Task

_MARKER = re.compile(r"^\[\[ ## (\w+) ## \]\][ \t]*$", re.MULTILINE)
_ASKED = re.compile(r"`\[\[ ## (\w+) ## \]\]`")
_KEY = re.compile(r"^(?P<indent> *)(?P<dash>- )?(?P<key>[a-z_]+):(\s|$)")
_TASK_KEYS = {"test_name", "global", "inputs", "parameters", "fns", "outputs", "impl", "sizes", "limits"}
_EXTRA_KEYS = {"input_impl", "output_impl", "explanation"}
_END = "completed"


@dataclass(frozen=True)
class Question:
    """The question in the last message.

    Attributes:
        task: Its text, if there is one.
        program: The program to repair, if there is one.
        fields: The fields of the answer.
        diagnostics: A checker's findings about the program, if shown.
    """

    task: str | None
    program: str | None
    fields: tuple[str, ...]
    diagnostics: str | None = None


def sections(text: str) -> dict[str, str]:
    """A message's sections by name; the text before the first marker is the section ``""``."""
    parts = _MARKER.split(text)
    named = {"": parts[0].strip("\n")}
    return named | {name: body.strip("\n") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


@lru_cache(maxsize=64)
def solved_examples(text: str) -> tuple[SolvedTask, ...]:
    """The tasks in a text that have a solution there, in order."""
    found: list[SolvedTask] = []
    for content in map(_load, _task_blocks(text)):
        program, task = content.get("output_impl", content.get("impl")), _task(content)
        if task is not None and isinstance(program, str):
            found.append(SolvedTask(task, program))
    return tuple(found)


@lru_cache(maxsize=512)
def find_task(text: str) -> Task | None:
    """The first task in a text, without its solution."""
    tasks = map(_task, map(_load, _task_blocks(text)))
    return next((task for task in tasks if task is not None), None)


@lru_cache(maxsize=512)
def demonstration(user: str, assistant: str) -> SolvedTask | None:
    """A question and its answer as a solved task."""
    task = find_task(user)
    answered = [body for name, body in sections(assistant).items() if "return" in body and name != _END]
    return SolvedTask(task, answered[-1]) if task is not None and answered else None


def question(text: str) -> Question:
    """The question in the last message."""
    *parts, last = re.split(r"\n\s*\n", text.rstrip()) or [""]
    fields = tuple(name for name in _ASKED.findall(last) if name != _END)
    if fields:
        text = "\n\n".join(parts)
    named = sections(text)
    task_section = next((name for name, body in named.items() if find_task(body) is not None), None)
    task = None if task_section is None else named[task_section]
    diagnostics = named.pop("diagnostics", None)
    rest = [body for name, body in named.items() if name not in ("", task_section, _END)]
    # A guardian is shown every proposal, whether or not it is a program.
    programs = rest if "input_impl" in named else [body for body in rest if "return" in body]
    return Question(task, programs[-1] if programs else None, fields, diagnostics)


def _task_blocks(text: str) -> Iterator[str]:
    """Runs of lines that look like one task: keys of a task at one indentation, and what is indented below them."""
    block: list[str] = []
    keys: set[str] = set()
    base = 0
    for line in [*text.splitlines(), "."]:
        match = _KEY.match(line)
        indent = len(line) - len(line.lstrip())
        column = len(match["indent"]) + len(match["dash"] or "") if match else -1
        known = match is not None and match["key"] in _TASK_KEYS | _EXTRA_KEYS
        if block:
            opens = match is not None and (match["dash"] is not None or match["key"] in keys)
            if known and column == base and match is not None and not (opens and not _nested(match, base)):
                keys.add(match["key"])
                block.append(line)
                continue
            if not line.strip() or indent > base or (indent == base and line.lstrip().startswith("- ")):
                block.append(line)
                continue
            if {"inputs", "outputs"} <= keys:
                yield _dedent(block, base)
            block, keys = [], set()
        if known and match is not None:
            block, keys, base = [line], {match["key"]}, column
    return


def _nested(match: re.Match[str], base: int) -> bool:
    return match["dash"] is not None and len(match["indent"]) >= base


def _dedent(block: list[str], base: int) -> str:
    first = " " * base + block[0][base:]
    return "\n".join(line[base:] if not line[:base].strip() else line for line in [first, *block[1:]])


def _load(block: str) -> Mapping[str, object]:
    try:
        content = yaml_format.load(block, "request")[1]
    except (TaskError, yaml.YAMLError):
        return {}
    return content if isinstance(content, dict) else {}


def _task(content: Mapping[str, object]) -> Task | None:
    own = {key: value for key, value in content.items() if key in _TASK_KEYS and key != "impl"}
    try:
        return task_of(own, "request", lambda location: "request") if own else None
    except TaskError:
        return None
