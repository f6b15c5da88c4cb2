"""The sizes of a program's prompts, rendered as its requests are, and programs with fewer demonstrations.

Invariant: a program is only read; one with fewer demonstrations is a copy that shares everything else with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import dspy

from optimizers.context_window import Window
from optimizers.metering import replace_lms
from optimizers.usage import message_text


def demo_count(program: dspy.Module) -> int:
    """The number of demonstrations of the predictor that has the most."""
    return max((len(predictor.demos) for predictor in program.predictors()), default=0)


def with_fewer_demos(program: dspy.Module, count: int) -> dspy.Module:
    """A copy of a program whose predictors have `count` demonstrations at most, the first ones."""
    twin = replace_lms(program, lambda lm: lm)
    for predictor in twin.predictors():
        predictor.demos = predictor.demos[:count]
    return twin


def prompt_size(
    predictor: dspy.Predict, demos: Sequence[Any], example: dspy.Example, measure: Callable[[str], int] = len
) -> int:
    """Characters of a request, or another measure of its messages.

    An input that the program itself makes counts as the longest one shown.
    """
    adapter = dspy.settings.adapter or dspy.ChatAdapter()
    inputs = dict(example.inputs().items())
    for field in predictor.signature.input_fields:
        if shown := [demo[field] for demo in demos if field in demo and field not in inputs]:
            inputs[field] = max(shown, key=lambda value: len(str(value)))
    return sum(measure(message_text(message)) for message in adapter.format(predictor.signature, list(demos), inputs))


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
