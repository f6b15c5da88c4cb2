"""Demonstrations: from experience to the `demos` of a program's predictors.

Invariants: only the chosen predictors' demonstrations are replaced; they stand hardest first; a demonstration
holds fields of the predictor's signature and nothing else; those left out for want of room are the easiest.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial

import dspy

from optimizers.experience import Entry
from optimizers.metering import estimate_tokens


def fresh_copy(student: dspy.Module) -> dspy.Module:
    """A deep copy of the student that shares its LMs, whose engines may be neither cheap nor safe to copy."""
    lms = [predictor.lm for predictor in student.predictors()]
    shared = {id(lm): lm for lm in lms if lm is not None}
    try:
        return copy.deepcopy(student, shared)
    except (TypeError, ValueError, AttributeError, copy.Error):
        return student.deepcopy()  # part by part, sharing what cannot be copied


def taught_predictors(program: dspy.Module, inputs: Sequence[str], names: Sequence[str] | None) -> list[str]:
    """The names of the predictors that get the demonstrations.

    Args:
        program: The program.
        inputs: Names of the examples' input fields.
        names: The choice, or None for all predictors whose input fields are among `inputs`.

    Raises:
        ValueError: The program has no such predictor, or no predictor fits the examples.
    """
    fields = {name: set(predictor.signature.input_fields) for name, predictor in program.named_predictors()}
    if names is None:
        names = [name for name, needed in fields.items() if needed <= set(inputs)]
        if not names:
            raise ValueError(
                f"no predictor takes its inputs from the examples' alone ({', '.join(inputs)}): "
                f"name those that get the demonstrations, among {', '.join(fields) or 'none'}"
            )
    if unknown := [name for name in names if name not in fields]:
        raise ValueError(f"the program has no predictor {', '.join(unknown)}; it has {', '.join(fields)}")
    return list(names)


def set_demos(program: dspy.Module, names: Sequence[str], entries: Sequence[Entry]) -> None:
    """Gives the predictors `names` of `program` the `entries` as their demonstrations, in order."""
    for name, predictor in program.named_predictors():
        if name in names:
            predictor.demos = [_demo(predictor, entry) for entry in entries]


def fitting(
    program: dspy.Module,
    names: Sequence[str],
    entries: Sequence[Entry],
    examples: Sequence[dspy.Example],
    context: int,
) -> int:
    """How many of `entries`, hardest first, fit into `context` tokens with the longest of `examples`.

    Sizes are those of the prompts as the adapter renders them, at the rate of `estimate_tokens`.
    """
    fits = len(entries)
    for predictor in (predictor for name, predictor in program.named_predictors() if name in names):
        longest = max(examples, key=partial(_prompt_tokens, predictor, ()))
        while fits and _prompt_tokens(predictor, entries[:fits], longest) > context:
            fits -= 1
    return fits


def _prompt_tokens(predictor: dspy.Predict, entries: Sequence[Entry], example: dspy.Example) -> int:
    adapter = dspy.settings.adapter or dspy.ChatAdapter()
    demos = [_demo(predictor, entry) for entry in entries]
    messages = adapter.format(predictor.signature, demos, dict(example.inputs().items()))
    return sum(estimate_tokens(str(message["content"])) for message in messages)


def _demo(predictor: dspy.Predict, entry: Entry) -> dspy.Example:
    known = {**entry.inputs, **entry.outputs}
    fields = {name: known[name] for name in predictor.signature.fields if name in known}
    return dspy.Example(augmented=True, **fields)
