"""The sizes of a program's prompts, rendered as its requests are, and programs with fewer demonstrations.

Invariants: a program is only read; one with fewer demonstrations is a copy that shares everything else with it; no
callback hears of a prompt that is only measured; a prompt that the adapter cannot render is estimated.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from typing import Any

import dspy

from optimizers.context_window import Window
from optimizers.metering import replace_lms
from optimizers.usage import message_text

logger = logging.getLogger(__name__)


def demo_count(program: dspy.Module) -> int:
    """The number of demonstrations of the predictor that has the most."""
    return max((len(predictor.demos) for predictor in program.predictors()), default=0)


def with_fewer_demos(program: dspy.Module, count: int) -> dspy.Module:
    """A copy of a program whose predictors have `count` demonstrations at most, the first ones."""
    twin = replace_lms(program, lambda lm: lm)
    for predictor in twin.predictors():
        predictor.demos = _whole(predictor.demos, count)
    return twin


def _whole(demos: Sequence[Any], count: int) -> list[Any]:
    """The first `count` demonstrations at most, without a solution that is cut in its middle."""
    kept = list(demos[:count])
    if kept and count < len(demos) and (cut := solution_of(demos[count])) is not None:
        while kept and solution_of(kept[-1]) == cut:
            kept.pop()
    return kept


def solution_of(demo: Any) -> str | None:
    """The key of the task whose solution a demonstration is a call of; None if unknown."""
    return getattr(demo, "_solution", None) if isinstance(demo, dspy.Example) else None


def prompt_size(
    predictor: dspy.Predict, demos: Sequence[Any], example: dspy.Example, measure: Callable[[str], int] = len
) -> int:
    """Characters of a request, or another measure of its messages.

    An input that the program itself makes counts as the longest one shown.
    """
    inputs = dict(example.inputs().items())
    for field in predictor.signature.input_fields:
        if shown := [demo[field] for demo in demos if field in demo and field not in inputs]:
            inputs[field] = max(shown, key=lambda value: len(str(value)))
    return sum(measure(text) for text in _rendered(predictor.signature, list(demos), inputs))


def _rendered(signature: Any, demos: list[Any], inputs: dict[str, Any]) -> list[str]:
    """The texts of a request's messages."""
    adapter = copy.copy(dspy.settings.adapter or dspy.ChatAdapter())
    adapter.callbacks = []
    try:
        with dspy.context(callbacks=[]):
            return [message_text(message) for message in adapter.format(signature, demos, inputs)]
    except Exception as error:  # such as an input of another type than its field's
        logger.debug("the size of a prompt is estimated: %s", error)
        shown = [value for fields in (*demos, inputs) for value in dict(fields).values()]
        return [signature.instructions, *signature.fields, *map(str, shown)]


def longest_prompt(program: dspy.Module, examples: Sequence[dspy.Example], count: int | None = None) -> int:
    """Characters of the longest request that shows demonstrations, or of the longest if none does.

    `count` limits the demonstrations shown to the first ones; None: all.
    """
    predictors = program.predictors()
    shown = [predictor for predictor in predictors if predictor.demos] or predictors
    return max((prompt_size(each, each.demos[:count], example) for each in shown for example in examples), default=0)


def longest_task(program: dspy.Module, examples: Sequence[dspy.Example]) -> int:
    """The index of the example with the longest prompt; the first of equals."""
    sizes = [longest_prompt(program, [example]) for example in examples]
    return sizes.index(max(sizes))


def trimmed(
    program: dspy.Module, examples: Sequence[dspy.Example], window: Window, most: int | None = None
) -> dspy.Module:
    """A program with as many of its demonstrations, from the first, as fit with every example; itself if all do.

    At most `most` are kept; None: any number.
    """
    count = known = demo_count(program)
    count = count if most is None else min(count, most)
    while count and not window.holds(longest_prompt(program, examples, count)):
        count -= 1
    return program if count == known else with_fewer_demos(program, count)
