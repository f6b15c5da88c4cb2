"""The filter function sigma (paper, Section 3.1): it chooses the answer that represents a solved task.

Invariants: the choice is one of the candidates; the same candidates, keys, lengths and random state give the same
choice; how often an answer is sampled affects only which answer represents its group, not which group wins.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def choose_answer(
    candidates: Sequence[T],
    key: Callable[[T], Hashable],
    length: Callable[[T], Any],
    rng: random.Random,
) -> T:
    """One answer at random from each group of `key`; the shortest of these; among equals the first sampled.

    Args:
        candidates: Correct answers to one task, in the order of sampling; at least one.
        key: Equal for answers that mean the same; a candidate with the key None forms its own group.
        length: The length of a candidate, compared by `<`.
        rng: Chooses the representatives.

    Raises:
        ValueError: There are no candidates.
    """
    if not candidates:
        raise ValueError("no answers to choose from")
    groups: dict[Hashable, list[int]] = {}
    for index, candidate in enumerate(candidates):
        name = key(candidate)
        groups.setdefault(("alone", index) if name is None else ("group", name), []).append(index)
    chosen = [rng.choice(group) for group in groups.values()]
    return candidates[min(chosen, key=lambda index: (length(candidates[index]), index))]


def normalized_text(outputs: Mapping[str, Any]) -> str:
    """The default grouping key: the text of the output fields, with whitespace normalized."""
    return "\n".join(f"{name}: {' '.join(str(outputs[name]).split())}" for name in sorted(outputs))


def text_length(outputs: Mapping[str, Any]) -> tuple[int, int]:
    """The default length: non-empty lines, then their characters, over all output fields."""
    lines = [line.strip() for value in outputs.values() for line in str(value).splitlines()]
    return sum(map(bool, lines)), sum(map(len, lines))
