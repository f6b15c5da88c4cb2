"""What the algorithm needs to know about a domain; every part has a default that works for any domain."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import dspy

from optimizers.filtering import normalized_text, text_length
from optimizers.jsonable import to_jsonable

Outputs = Mapping[str, Any]

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def input_digest(example: dspy.Example) -> str:
    """The default name of a task: a short digest of its input fields, the same in every run.

    Raises:
        ValueError: The text of a value contains a memory address, which differs from run to run.
    """
    text = json.dumps(to_jsonable(dict(example.inputs().items()), other=_stable_text), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _stable_text(value: Any) -> str:
    text = str(value)
    if ADDRESS.search(text):
        hint = "names and seeds must be the same in every run; name the tasks yourself, with Domain(task_key=...)"
        raise ValueError(f"the text of the input {text:.80} contains a memory address, but {hint}")
    return text


@dataclass(frozen=True, slots=True)
class Domain:
    """What the algorithm needs to know about a domain.

    Attributes:
        grouping_key: Maps a prediction's fields to a key, equal for answers that mean the same; None for an answer
            that forms its own group.
        length: Maps a prediction's fields to a length; the shortest wins among answers that mean different things.
        task_key: The name of a task, which identifies it across runs.
        threshold: The lowest score of a right answer.
        demo_predictors: Names of the predictors that get the demonstrations; None for all.
        confirm: Judges the answer to an example once more, before it represents a solved task; an answer that fails is
            replaced by another right one. None for metrics whose judgement of one answer serves no other.
        traced_demos: Whether a predictor is shown its own last call in the attempt that solved a task, nothing if it
            was not called; False: those of its fields that the program's inputs and outputs have.
    """

    grouping_key: Callable[[Outputs], Hashable | None] = normalized_text
    length: Callable[[Outputs], Any] = text_length
    task_key: Callable[[dspy.Example], str] = input_digest
    threshold: float = 1.0
    confirm: Callable[[dspy.Example, Outputs], bool] | None = None
    demo_predictors: tuple[str, ...] | None = None
    traced_demos: bool = True
