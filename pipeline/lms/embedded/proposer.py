"""One sample: draws several programs, scores them by what was read, and picks one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pipeline.lms.embedded.choice import Choice
from pipeline.lms.embedded.moves import lower, tidy
from pipeline.lms.embedded.precedents import precedents_for
from pipeline.lms.embedded.reading import Read, Solved, as_graph, find_task
from pipeline.lms.embedded.reference import Reading
from pipeline.lms.embedded.scoring import Context, Habits
from pipeline.lms.embedded.search import Learned, Search
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.language.parser import parse
from step_runtime.program.graph import Program
from step_runtime.program.printer import print_program
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import Task
from step_runtime.verification.check import check_affine, insert_copies

_PER_NODE = 0.3
_READ = 12.0
"""For a draft that computes what was read: a longer program is less likely otherwise."""
_SUPPORTED = 8.0
"""For a draft each of whose moves has a precedent that could not be better."""


@dataclass(frozen=True)
class Effort:
    """How much goes into one sample; bounds are numbers, not seconds, so that a seed decides everything.

    `draws` finished drafts are there to choose from, or `enough` that compute what was read, out of at most `tries`;
    `following` is the share of samples that follow the reading of the reference, which may be wrong.
    """

    draws: int = 8
    enough: int = 3
    tries: int = 40
    following: float = 0.9


@lru_cache(maxsize=256)
def view_of(text: str) -> TaskView | None:
    """The view of the task in a text, shared by its samples; None where the text holds no task."""
    task = find_task(text)
    return None if task is None else TaskView(task)


@lru_cache(maxsize=128)
def learned_for(view: TaskView, read: Read) -> Learned:
    """What instructions and demonstrations teach about a task; of the demonstrations, those that bear on it."""
    precedents = precedents_for(view, read)
    return Learned(habits_of(precedents.weights(read)), precedents)


def habits_of(weights: Mapping[Solved, float]) -> Habits:
    """What solved tasks make likely, each counted so many times."""
    habits = Habits()
    for solved, weight in weights.items():
        if (found := as_graph(solved)) is not None:
            program, types, _ = found
            habits.learn(program, types, _context_of(solved), weight)
    return habits


@lru_cache(maxsize=1024)
def _context_of(solved: Solved) -> Context:
    scope = static_scope(solved.task)
    reading = Reading(solved.task, scope)
    return Context.of(scope.outputs, frozenset(name for name, fn in scope.fns.items() if reading.emits(fn)))


class Strong:
    """The strong proposer."""

    name = "4"
    """Changes whenever a request may get another answer under the same seed, as it is part of the LM's name."""
    how = (
        "I read the PyTorch code as text, draw programs function by function along that reading, with the structural"
        " primitives that types ask for, and choose among a few by the examples; nothing is run."
    )

    def __init__(self, effort: Effort | None = None) -> None:
        self._effort = effort or Effort()

    def propose(self, view: TaskView, read: Read, seed: int, temperature: float) -> str | None:
        """A program's text; None if no proposal came to an end."""
        return propose(view, learned_for(view, read), seed, temperature, self._effort)


def propose(view: TaskView, learned: Learned, seed: int, temperature: float, effort: Effort) -> str | None:
    """As `Strong.propose`, by what was learned."""
    choice = Choice(seed, 1.0 / (0.3 + temperature))
    readings: Sequence[Reading | None] = view.readings if choice.happens(effort.following) else (None,)
    searches = [Search(view, learned, choice, reading) for reading in readings]
    habits, sure = learned.habits, 0
    found: list[tuple[float, Program]] = []
    for _ in range(effort.tries):
        draft = choice.any_of(searches).draw()
        if draft is None:
            continue
        program, types = lower(view.space, draft, lambda: choice.happens(habits.reference_share()))
        score = habits.score(program, types, view.context) - _PER_NODE * len(program.nodes)
        score += _READ * draft.read + _SUPPORTED * sum(draft.support) / len(draft.support)
        found.append((score, program))
        sure += draft.read
        if len(found) == effort.draws or sure == effort.enough:
            break
    if not found:
        return None
    chosen = choice.pick([program for _, program in found], [score for score, _ in found])
    return print_program(tidy(chosen))


def repair(task: Task, text: str, whatever: bool = True) -> str | None:
    """The program with the Copies it lacks; None where it cannot be read, or lacks none, unless `whatever` is set."""
    program, wrong = parse(text, static_scope(task))
    return None if wrong or not (whatever or check_affine(program)) else print_program(insert_copies(program))
