"""What the algorithm has to be told about a domain; every part has a default that does for any."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import dspy

from optimizers.filtering import normalized_text, text_length
from optimizers.plain import plain

Outputs = Mapping[str, Any]

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def input_digest(example: dspy.Example) -> str:
    """The default name of a task: a short digest of its input fields, the same in every run.

    Raises:
        ValueError: The text of a value differs from run to run, as it holds an address in memory.
    """
    text = json.dumps(plain(dict(example.inputs().items()), other=_lasting), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _lasting(value: Any) -> str:
    text = str(value)
    if ADDRESS.search(text):
        told = "names and seeds must be the same in every run; name the tasks yourself, with Domain(task_key=...)"
        raise ValueError(f"the input {text:.80} has an address in memory for a text, but {told}")
    return text


@dataclass(frozen=True, slots=True)
class Domain:
    """What the algorithm has to be told about a domain.

    Attributes:
        grouping_key: Of a prediction's fields; equal for answers that mean the same, None for one that stands
            alone.
        length: Of a prediction's fields; the least one wins among answers that mean different things.
        task_key: The name of a task, by which the tasks of several runs are told apart.
        threshold: The score from which on an answer is right.
        demo_predictors: Names of the predictors that get the demonstrations; None for all.
        traced_demos: Whether a predictor is shown its own last call in the attempt that solved a task, none if it was
            not called; False: as many of its fields as the program's inputs and outputs have.
    """

    grouping_key: Callable[[Outputs], Hashable | None] = normalized_text
    length: Callable[[Outputs], Any] = text_length
    task_key: Callable[[dspy.Example], str] = input_digest
    threshold: float = 1.0
    demo_predictors: tuple[str, ...] | None = None
    traced_demos: bool = True
