"""From the text of a request to the text of its answer, without DSPy, so that a worker process starts fast."""

from __future__ import annotations

import hashlib
import itertools
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.lms.embedded.parsing import Question, demonstration, find_task, question, solved_examples
from pipeline.synthesis.chart import Chart, sample
from step_runtime.base.errors import StepError
from step_runtime.language.canonical import canonical_key
from step_runtime.language.parser import parse
from step_runtime.program.printer import print_program
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import SolvedTask, Task
from step_runtime.verification.check import check_affine, insert_copies

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
        chart = _chart(query.task, task, shown)
    except StepError as error:
        return f"I can't run the code of this task: {error}"
    program = _proposed(chart, candidates, (_mixed(asked.seed, asked.messages[-1][1]), heat), query.program)
    if program is None:
        return "I found no streams that types allow as the outputs of this task."
    return _formatted(query, program, "each function is applied where it makes a value that the reference computes")


def _chart(text: str, task: Task, shown: tuple[SolvedTask, ...]) -> Chart:
    """The chart of a task and what is shown, made once."""
    key = text, shown
    if key not in _charts:
        _charts[key] = Chart(task, shown)
        if len(_charts) > _CHARTS:
            _charts.popitem(last=False)
    _charts.move_to_end(key)
    return _charts[key]


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
