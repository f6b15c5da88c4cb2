"""How often a program is right and how varied its answers are, counted from the attempts.

- pass@k is the paper's (Equation 1), with c and n of each task's best temperature; an unsolved task counts 0. The best
  of several temperatures is optimistic for few samples: curves take c and n over all temperatures, which is unbiased.
- A request without an answer enters no figure.
- Diversity is computed per task, then averaged over the tasks that have such answers (paper, Table 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from optimizers import Attempt, TaskCount, pass_at_k
from optimizers.attempt import counted
from pipeline.agent.domain import task_class
from pipeline.base.languages import DEFAULT
from pipeline.languages import registry
from step_runtime.base.errors import STAGES

GROUPS = ("attn", "gemm", "bmm", "norm", "rope", "index", "expert", "etoe")
"""The benchmark's groups in the order of the paper's Table 4."""

Label = Callable[[str], str | None]
"""From a task's name to the set that it is counted in; None leaves it out."""

RIGHT = "right"
OUTCOMES = (RIGHT, *reversed(STAGES))
"""What becomes of an answer that is scored: it is right, or fails at a stage, the furthest first."""
UNKNOWN = "unknown"
"""What becomes of the other answers: it is not known whether they are right."""


@dataclass(frozen=True, slots=True)
class PassRates:
    """The result on a set of tasks; pass@k from 0 to 1, of all samples if there are fewer than k."""

    tasks: int
    solved: int
    pass_at_1: float
    pass_at_8: float
    pass_at_n: float


def counts_of(attempts: Iterable[Attempt], stop_after: int | None = None) -> dict[str, list[TaskCount]]:
    """Each task's counts by temperature in an iteration's attempts, the best one first, the first of equals.

    Attempts are in the algorithm's order; tasks without a scored one are omitted. `stop_after` is as for a run.
    """
    results: dict[str, dict[float, list[bool]]] = {}
    for attempt in attempts:
        if attempt.scored:
            results.setdefault(attempt.task_key, {}).setdefault(attempt.temperature, []).append(attempt.passed)
    found = {
        key: [TaskCount(key, temperature, *counted(passed, stop_after)) for temperature, passed in own.items()]
        for key, own in results.items()
    }
    return {key: sorted(own, key=lambda count: -count.successes / count.samples) for key, own in found.items()}


def best_counts(attempts: Iterable[Attempt], stop_after: int | None = None) -> dict[str, TaskCount]:
    """Each task's count at its best temperature."""
    return {key: best for key, (best, *_) in counts_of(attempts, stop_after).items()}


def pooled_counts(attempts: Iterable[Attempt], stop_after: int | None = None) -> dict[str, TaskCount]:
    """Each task's count over all temperatures together; it names the best temperature."""
    return {
        key: replace(own[0], successes=sum(c.successes for c in own), samples=sum(c.samples for c in own))
        for key, own in counts_of(attempts, stop_after).items()
    }


def score(names: Sequence[str], counts: Mapping[str, TaskCount]) -> PassRates:
    """The score of the tasks `names`, at least one of them; a task without a count is unsolved."""
    known = [counts[name] for name in names if name in counts]

    def at(k: int) -> float:
        return sum(pass_at_k(c.samples, c.successes, min(k, c.samples)) for c in known) / len(names)

    solved = sum(count.successes > 0 for count in known)
    return PassRates(len(names), solved, at(1), at(8), solved / len(names))


def scores_by(label: Label, names: Iterable[str], counts: Mapping[str, TaskCount]) -> dict[str, PassRates]:
    """The score of each set of tasks with one label, in order of appearance; tasks labelled None are omitted."""
    sets: dict[str, list[str]] = {}
    for name in names:
        if (key := label(name)) is not None:
            sets.setdefault(key, []).append(name)
    return {key: score(members, counts) for key, members in sets.items()}


def group_of(name: str) -> str:
    """A task's group, the folder in its name; `own` for a file elsewhere, whose name has none."""
    folder, slash, _ = name.rpartition("/")
    return folder if slash else "own"


def in_group_order(names: Iterable[str]) -> list[str]:
    """The names by group, the benchmark's groups first; otherwise as they came."""
    names = list(names)
    groups = dict.fromkeys([*GROUPS, *map(group_of, names)])
    place = {group: index for index, group in enumerate(groups)}
    return sorted(names, key=lambda name: place[group_of(name)])


def classes_in(language: str | None) -> Label:
    """The classes of the benchmark's tasks in STeP; none in another language."""
    return task_class if language in (None, DEFAULT) else lambda name: None


def diversity(
    attempts: Iterable[Attempt], tasks: Mapping[str, Any], language: str | None = None
) -> dict[str, float | None]:
    """Distinct programs among right answers (`success`), wrong ones (`failure`) and all (`overall`), by their number.

    From 0 to 1; None where no task has such answers. Programs are told apart by the key of the language; `tasks` are
    those of the attempts, by name.
    """
    key_of = registry.find(language).key
    known: dict[tuple[str, str], str] = {}
    trees: dict[str, list[tuple[bool, str]]] = {}
    for attempt in attempts:
        text = answer(attempt)
        if attempt.scored and text is not None:
            place = (attempt.task_key, text)
            key = known.get(place) or known.setdefault(place, key_of(tasks.get(attempt.task_key), text))
            trees.setdefault(attempt.task_key, []).append((attempt.passed, key))

    def mean(kinds: tuple[bool, ...]) -> float | None:
        groups = ([key for passed, key in answers if passed in kinds] for answers in trees.values())
        shares = [len(set(group)) / len(group) for group in groups if group]
        return fmean(shares) if shares else None

    return {"success": mean((True,)), "failure": mean((False,)), "overall": mean((True, False))}


def answer(attempt: Attempt) -> str | None:
    """The program that an attempt proposed, or the text that could not be parsed as one; None without an answer."""
    impl = attempt.outputs.get("impl", attempt.text)
    return None if impl is None else str(impl)


def answer_text(attempt: Attempt) -> str:
    """The program, or the text, of an attempt with an answer."""
    return str(answer(attempt))
