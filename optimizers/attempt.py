"""One sample of the program and its outcome: a frozen value, for records and listeners.

Invariants: an attempt is scored, with the metric's verdict, or unscored, because there was no answer; an unscored
attempt never counts as a wrong answer and enters no success rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from optimizers.jsonable import to_jsonable
from optimizers.ledger import TokenCount


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
        error: Class and message of the exception in the program; None if there was none.
        calls: For a right answer, by predictor that gets demonstrations: the fields of its last call, empty if it was
            not called. A predictor whose call has the same fields as the task's inputs and `outputs` is omitted.
        left_out: Demonstrations that the sample went without, from the end, as the LM refused longer prompts.
        refused: Characters of the shortest prompt that was refused as too long; 0 if none was.
        window: The limit in tokens that such a refusal stated; 0 if none did.
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
    left_out: int = 0
    refused: int = 0
    window: int = 0

    @property
    def scored(self) -> bool:
        """Whether there was an answer that could be judged."""
        return self.score is not None

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        data: dict[str, Any] = to_jsonable(self)
        absent = [name for name in ("calls", "left_out", "refused", "window") if not data[name]]
        return {name: value for name, value in data.items() if name not in absent}

    @property
    def too_long(self) -> bool:
        """Whether there is no answer because the prompt is too long for the LM, even without demonstrations."""
        return not self.scored and (self.error or "").startswith("ContextWindowExceededError")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Attempt:
        """The attempt that `to_dict` wrote; outputs and feedback stay as JSON has them."""
        tokens = {name: TokenCount.from_dict(count) for name, count in data["tokens"].items()}
        return cls(**{**data, "tokens": tokens})
