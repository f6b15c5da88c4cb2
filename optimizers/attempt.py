"""A task, and one sample of the program at it with its outcome: frozen values, for records and listeners.

Invariants: an attempt is scored, with the metric's verdict, or unscored, because there was no answer, no verdict, or an
unknown verdict; an unscored attempt never counts as a wrong answer and enters no success rate. Only a user's
`failure_score` scores it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dspy

from optimizers.jsonable import to_jsonable
from optimizers.ledger import TokenCount


@dataclass(frozen=True, slots=True)
class TaskExample:
    """One example to solve: its index in its set, its name, and the example itself."""

    index: int
    key: str
    example: dspy.Example = field(compare=False)


Calls = Mapping[str, tuple[Mapping[str, Any], ...]]
"""The fields of calls, by predictor."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One sample.

    Attributes:
        iteration: Index of the iteration, from 0; negative for one on the validation set.
        task: Index of the task in its set.
        task_key: The task's name.
        temperature: Sampling temperature.
        sample: Index among the samples of this task at this temperature, from 0.
        seed: Seed of the sample's first call, from which those of further calls derive; unique to the sample, the same
            in every run of one seed.
        outputs: Fields of the prediction; empty where there is none.
        text: The LM's answer, if it could not be parsed into a prediction; else None.
        score: The metric's score, 0.0 for an answer that could not be parsed; None if unscored.
        passed: Whether the score reached the threshold.
        feedback: Everything else that the metric returned (verdict stage, diagnostics, …).
        tokens: Tokens per predictor.
        seconds: Wall time of the program.
        metric_seconds: Wall time of the metric.
        error: Class and message of the exception in the program, or after `metric: ` in the metric; None if there was
            none.
        calls: For a right answer, by predictor that gets demonstrations: the fields of its chosen calls, in order of
            completion; none if it was not called. A predictor with one call that has the same fields as the task's
            inputs and `outputs` is omitted.
        left_out: Number of demonstrations omitted from the end, because the LM rejected longer prompts.
    """

    iteration: int
    task: int
    task_key: str
    temperature: float
    sample: int
    seed: int
    outputs: Mapping[str, Any] = field(default_factory=dict)
    text: str | None = None
    score: float | None = None
    passed: bool = False
    feedback: Mapping[str, Any] = field(default_factory=dict)
    tokens: Mapping[str, TokenCount] = field(default_factory=dict)
    seconds: float = 0.0
    metric_seconds: float = 0.0
    error: str | None = None
    calls: Calls = field(default_factory=dict)
    left_out: int = 0

    @property
    def scored(self) -> bool:
        """Whether it has a score, which enters success rates."""
        return self.score is not None

    @property
    def failed(self) -> bool:
        """Whether the program or the metric failed; an answer that could not be parsed is a wrong one."""
        return not self.unknown and (self.score is None or (self.error is not None and self.text is None))

    @property
    def unknown(self) -> bool:
        """Whether the metric could not say if the answer is right: its verdict is `unscored`."""
        return self.score is None and bool(self.feedback.get("unscored"))

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {**to_jsonable(self), "calls": calls_to_data(self.calls)}

    @property
    def too_long(self) -> bool:
        """Whether the LM rejected the prompt as too long even without demonstrations."""
        return self.failed and (self.error or "").startswith("ContextWindowExceededError")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Attempt:
        """The attempt that `to_dict` wrote; outputs and feedback stay as JSON has them."""
        tokens = {name: TokenCount.from_dict(count) for name, count in data["tokens"].items()}
        return cls(**{**data, "tokens": tokens, "calls": calls_from_data(data["calls"])})


def calls_to_data(calls: Calls, encode: Callable[[Mapping[str, Any]], Any] = to_jsonable) -> dict[str, Any]:
    """Calls as data: one call as its fields, none as no fields, several as a list."""
    encoded = {name: [encode(call) for call in own] for name, own in calls.items()}
    return {name: own if len(own) > 1 else (own[0] if own else {}) for name, own in encoded.items()}


def calls_from_data(data: Mapping[str, Any], decode: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict) -> Calls:
    """The calls that `calls_to_data` wrote."""
    several = {name: own if isinstance(own, Sequence) else ([own] if own else []) for name, own in data.items()}
    return {name: tuple(decode(call) for call in own) for name, own in several.items()}
