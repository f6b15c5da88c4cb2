"""The algorithm's view of a domain; every part has a default that works for any domain."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import dspy

from optimizers.attempt import Attempt, to_jsonable

# --- answers judged once more at the end of a run ---------------------------------------------------------------------
# A solution is an answer that passed. It may have passed by chance, or because it fits its own data. A solution that
# fails this check is marked in the record: it still counts as solved, but is not shown as a demonstration.

Claims = Sequence[tuple[dspy.Example, Mapping[str, Any]]]
"""Examples, each with the fields of an answer to it."""


@dataclass(frozen=True, slots=True)
class HeldOutVerdict:
    """The verdict on an answer by data that chose no answer.

    Attributes:
        answer: `unknown` where it could not be judged.
        reason: Why it failed, or why nothing is known, in a line.
        details: Further details of the domain, for the record, as JSON data.
    """

    answer: Literal["passed", "failed", "unknown"]
    reason: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


HoldOut = Callable[[Claims, Claims], Sequence[HeldOutVerdict | None]]
"""Judges solutions and refused answers once more, and returns a verdict for each, None for one that was not judged."""


@dataclass(frozen=True, slots=True)
class Quadrants:
    """Answers by the run's verdict and by the held-out verdict.

    Attributes:
        both: Solutions that pass.
        run_only: Solutions that fall.
        gate_only: Tasks with a closest refused answer that would pass; None if none was judged.
        neither: Tasks with a closest refused answer that fails there too; None likewise.
        unknown: Solutions and refused answers with an unknown verdict.
        unjudged: Solutions that were not judged once more.
    """

    both: int
    run_only: int
    gate_only: int | None
    neither: int | None
    unknown: int
    unjudged: int

    @classmethod
    def of(cls, solutions: Sequence[HeldOutVerdict | None], refused: Sequence[HeldOutVerdict]) -> Quadrants:
        """The counts of verdicts on solutions, and on refused answers."""
        right, wrong = ([each.answer for each in own if each is not None] for own in (solutions, refused))
        return cls(
            both=right.count("passed"),
            run_only=right.count("failed"),
            gate_only=wrong.count("passed") if wrong else None,
            neither=wrong.count("failed") if wrong else None,
            unknown=[*right, *wrong].count("unknown"),
            unjudged=len(solutions) - len(right),
        )


# --- the view of a domain ---------------------------------------------------------------------------------------------

Outputs = Mapping[str, Any]

_WORD = re.compile(r"\w+|[^\w\s]")
LONGEST_WORDS = 24
"""Characters of the words in a task's name."""
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def input_name(example: dspy.Example) -> str:
    """The default name of a task: the first words of its inputs, and a short digest of them, the same in every run.

    Raises:
        ValueError: The text of a value contains a memory address, which differs from run to run.
    """
    inputs = to_jsonable(dict(example.inputs().items()), other=_stable_text)
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:8]
    said = " ".join(str(inputs[name]) for name in sorted(inputs) if isinstance(inputs[name], str | int | float))
    words = "-".join(re.findall(r"\w+", said[:200]))[:LONGEST_WORDS]
    return f"{words.strip('-')}-{digest}".strip("-")


def _stable_text(value: Any) -> str:
    text = str(value)
    if ADDRESS.search(text):
        hint = "names and seeds must be the same in every run; name the tasks yourself, with Domain(task_key=...)"
        raise ValueError(f"the text of the input {text:.80} contains a memory address, but {hint}")
    return text


def text_structures(inputs: Outputs, outputs: Outputs | None) -> frozenset[Hashable]:
    """The default structures: words, and pairs of neighboring words, of all fields' texts; signs count as words."""
    texts = [str(value) for fields in (inputs, outputs or {}) for value in fields.values()]
    words = [_WORD.findall(text.lower()) for text in texts]
    return frozenset(word for line in words for word in line) | {pair for line in words for pair in pairwise(line)}


def score_of(attempt: Attempt) -> float:
    """The default closeness: the score, 0 for none."""
    return attempt.score or 0.0


def normalized_text(outputs: Outputs) -> str:
    """The default grouping key: the text of the output fields, with whitespace normalized."""
    return "\n".join(f"{name}: {' '.join(str(outputs[name]).split())}" for name in sorted(outputs))


def text_length(outputs: Outputs) -> tuple[int, int]:
    """The default length: non-empty lines, then their characters, over all output fields."""
    lines = [line.strip() for value in outputs.values() for line in str(value).splitlines()]
    return sum(map(bool, lines)), sum(map(len, lines))


@dataclass(frozen=True, slots=True)
class Division:
    """The parts of a task.

    Attributes:
        parts: Its sub-tasks by key; those of earlier divisions may be left out.
        answer: The right answer that is composed of answers to sub-tasks; None if there is none yet.
        origins: Keys of the sub-tasks that it is composed of.
    """

    parts: Mapping[str, dspy.Example]
    answer: Outputs | None = None
    origins: tuple[str, ...] = ()


Divide = Callable[[dspy.Example, Mapping[str, Outputs]], Division]
"""Divides a task, given the answers to sub-tasks that are solved so far. It is called after each iteration that leaves
the task unsolved, and the same answers give the same division, so that a run can be resumed."""


@dataclass(frozen=True, slots=True)
class Domain:
    """The algorithm's view of a domain.

    Attributes:
        grouping_key: Maps a prediction's fields to a key, equal for answers that mean the same; None for an answer
            that forms its own group.
        length: Maps a prediction's fields to a length; the shortest wins among answers that mean different things.
        task_key: The name of a task, which identifies it across runs.
        threshold: The lowest score of a right answer.
        demo_predictors: Names of the predictors that get the demonstrations; None for all.
        confirm: Judges the answer to an example once more, before it represents a solved task; an answer that fails is
            replaced by another right one. None if the metric's judgement of one answer serves no other answer.
        hold_out: Judges a run's solutions once more at its end, on held-out data; those that fall are marked, and no
            demonstrations. None: they are not judged.
        traced_demos: Whether a predictor is shown its own calls in the attempt that solved a task, nothing if it was
            not called; False: those of its fields that the program's inputs and outputs have.
        structures: Features of a task's inputs and of an answer to it, None for no answer: selections that choose per
            task compare tasks by them. An answer may be wrong or unreadable.
        cost: What a right answer to an example costs; lower is better. None for an answer without a cost, which is
            worse than any. With it the cheapest right answer represents a task, `length` decides among equals, and
            solved tasks are sampled on, so that a cheaper answer may replace theirs.
        closeness: How close an attempt came to being right, 1.0 for a right one: of a task's wrong answers the closest
            represents it.
        relevance: How relevant a solved task's inputs and answer are to a task's inputs, in [0, 1]; None: the share of
            structures that the inputs have in common.
        learn: Called before each iteration with the solved tasks by key and all attempts so far, for a program that
            learns from more than its demonstrations.
        divide: Divides a task that an iteration left unsolved into sub-tasks, which are sampled from then on until the
            task is solved; None: tasks are not divided.
    """

    grouping_key: Callable[[Outputs], Hashable | None] = normalized_text
    length: Callable[[Outputs], Any] = text_length
    task_key: Callable[[dspy.Example], str] = input_name
    threshold: float = 1.0
    confirm: Callable[[dspy.Example, Outputs], bool] | None = None
    hold_out: HoldOut | None = None
    cost: Callable[[dspy.Example, Outputs], float | None] | None = None
    demo_predictors: tuple[str, ...] | None = None
    traced_demos: bool = True
    structures: Callable[[Outputs, Outputs | None], frozenset[Hashable]] = text_structures
    closeness: Callable[[Attempt], float] = score_of
    relevance: Callable[[Outputs, Outputs, Outputs], float] | None = None
    learn: Callable[[Mapping[str, Any], Sequence[Attempt]], None] | None = None
    divide: Divide | None = None
