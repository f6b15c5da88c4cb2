"""One sample of the program and what became of it: a frozen value, for records and listeners.

Invariants: an attempt is scored, with the metric's word on it, or it is unscored, because no answer came; an
unscored attempt is never a wrong answer and enters no success rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from optimizers.ledger import TokenCount
from optimizers.plain import plain


@dataclass(frozen=True, slots=True)
class Attempt:
    """One sample.

    Attributes:
        iteration: Index of the iteration, from 0; -1 when drawn on the validation set.
        task: Index of the task in its set.
        task_key: The task's name.
        temperature: Sampling temperature.
        sample: Index among the samples of this task at this temperature, from 0.
        seed: Seed handed to the LM; unique to the sample, the same in every run of one seed.
        outputs: Fields of the prediction; empty where there is none.
        text: What the LM wrote, where it could not be parsed into a prediction; else None.
        score: The metric's score, 0.0 for an answer that could not be parsed; None if unscored.
        passed: Whether the score reached the threshold.
        feedback: Whatever else the metric returned (verdict stage, diagnostics, …).
        tokens: Tokens per predictor.
        seconds: Wall time of the program.
        metric_seconds: Wall time of the metric.
        error: Class and message of what went wrong in the program; None if nothing did.
        calls: Of a right answer, by predictor that gets demonstrations: the fields of its last call, none if it was
            not called. A predictor is missing whose call the task's inputs and `outputs` tell as well.
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
    calls: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def scored(self) -> bool:
        """Whether an answer came that could be judged."""
        return self.score is not None

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        data = {name: plain(getattr(self, name)) for name in self.__slots__}
        data["tokens"] = {name: count.to_dict() for name, count in self.tokens.items()}
        if not self.calls:
            del data["calls"]
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Attempt:
        """The attempt that `to_dict` wrote; outputs and feedback stay plain."""
        tokens = {name: TokenCount.from_dict(count) for name, count in data["tokens"].items()}
        return cls(**{**data, "tokens": tokens})
