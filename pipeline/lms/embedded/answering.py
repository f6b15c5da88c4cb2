"""From the text of a request to the text of its answer, without DSPy, so that a worker process starts fast."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import yaml

from pipeline.synthesis.chart import Chart, sample
from step_runtime.base.errors import StepError, TaskError
from step_runtime.language.canonical import canonical_key
from step_runtime.language.parser import parse
from step_runtime.program.printer import print_program
from step_runtime.tasks import yaml_format
from step_runtime.tasks.reader import task_of
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import SolvedTask, Task
from step_runtime.verification.check import check_affine, insert_copies

# --- parses a request's text: instructions, demonstrations, the task, the fields to answer ----------------------------
# Messages are sections under `[[ ## name ## ]]` markers where there are any. Tasks are found by their structure: a YAML
# block at one indentation with the keys `inputs` and `outputs`, in any surroundings.

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


# --- from the text of a request to the text of its answer, without DSPy, so that a worker process starts fast ---------

DEFAULT_TEMPERATURE = 0.7
OTHERWISE = 4
"""How often a new program is sampled if the last equals the rejected one."""
_CHARTS = 4
"""Charts that a process keeps: samples of one task and the same demonstrations mostly follow each other."""
_charts: OrderedDict[tuple[str, tuple[SolvedTask, ...]], Chart] = OrderedDict()


@dataclass(frozen=True)
class EmbeddedRequest:
    """The text of a request; a role and a text for each message, and None for the default temperature."""

    system: str
    messages: tuple[tuple[str, str], ...]
    seed: int
    temperature: float | None = None


def prepare_process() -> None:
    """One process a core: more threads in each would only be in each other's way."""
    import torch

    torch.set_num_threads(1)


def task_asked(candidates: int, asked: EmbeddedRequest) -> str:
    """Which task a request is about: only such requests share a process, as it runs the task's code."""
    task = question(asked.messages[-1][1]).task or ""
    return hashlib.sha256(task.encode("utf-8", "surrogatepass")).hexdigest()


def answer(candidates: int, asked: EmbeddedRequest) -> str:
    """The answer's text, for which the code of the task runs in this process; what can't be interpreted is told."""
    query = question(asked.messages[-1][1])
    if "next_tool_name" in query.fields:
        return "I call no tools: I can only write STeP programs at once."
    task = None if query.task is None else find_task(query.task)
    if query.task is None or task is None:
        return "I can only write STeP programs, and found no task (YAML with inputs and outputs) in this request."
    if query.program is not None:
        repaired = repair(task, query.program, query.diagnostics is None)
        if query.diagnostics is None or repaired is not None:
            # What cannot be parsed is returned unchanged: the checker's own message helps more than a guess.
            return _formatted(query, repaired or query.program, "every stream that is used again gets a Copy")
    shown = (*solved_examples(asked.system), *_demonstrations(asked.messages[:-1]))
    heat = DEFAULT_TEMPERATURE if asked.temperature is None else asked.temperature
    try:
        # the chart of a task and what is shown, made once
        key = query.task, shown
        if key not in _charts:
            _charts[key] = Chart(task, shown)
            if len(_charts) > _CHARTS:
                _charts.popitem(last=False)
        _charts.move_to_end(key)
        chart = _charts[key]
    except StepError as error:
        return f"I can't run the code of this task: {error}"
    program = _proposed(chart, candidates, (_mixed(asked.seed, asked.messages[-1][1]), heat), query.program)
    if program is None:
        return "I found no streams that types allow as the outputs of this task."
    return _formatted(query, program, "each function is applied where it makes a value that the reference computes")


def _proposed(chart: Chart, candidates: int, settings: tuple[int, float], rejected: str | None) -> str | None:
    """A program, if possible another than the rejected one; `settings` are seed and temperature."""
    seed, heat = settings
    program = sample(chart, candidates, heat, seed)
    for turn in range(OTHERWISE if rejected else 0):
        if program is not None and canonical_key(program) != canonical_key(rejected or ""):
            break
        program = sample(chart, candidates, heat, _mixed(seed, f"another, {turn}"))
    return program


def repair(task: Task, text: str, always: bool = True) -> str | None:
    """The program with missing Copies inserted; None if it cannot be parsed, or lacks none and `always` is not set."""
    program, wrong = parse(text, static_scope(task))
    return None if wrong or not (always or check_affine(program)) else print_program(insert_copies(program))


def _demonstrations(messages: Sequence[tuple[str, str]]) -> tuple[SolvedTask, ...]:
    pairs = [
        (user, assistant)
        for (role, user), (answerer, assistant) in itertools.pairwise(messages)
        if (role, answerer) == ("user", "assistant")
    ]
    found = (demonstration(*pair) for pair in pairs)
    return tuple(solved for solved in found if solved is not None)


def _mixed(seed: int, text: str) -> int:
    """A seed for this question: the same seed must not make the same choices in every task."""
    return int.from_bytes(hashlib.sha256(f"{seed}\n{text}".encode()).digest()[:8], "big")


def _formatted(query: Question, program: str, reason: str) -> str:
    """The answer under the markers that the request asks for; the program alone where it asks for none."""
    if not query.fields:
        return f"```python\n{program.rstrip()}\n```"
    *others, last = query.fields
    bodies = {**dict.fromkeys(others, reason), last: program.rstrip()}
    return "\n\n".join([*(f"[[ ## {name} ## ]]\n{body}" for name, body in bodies.items()), "[[ ## completed ## ]]"])
