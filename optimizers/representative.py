"""The answer that represents a solved task: sigma's choice, confirmed by the domain."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from optimizers.attempt import Attempt
from optimizers.call_seeds import derive_seed
from optimizers.domain import Domain
from optimizers.filtering import choose_answer
from optimizers.sampling import TaskExample

logger = logging.getLogger(__name__)


def representative(
    domain: Domain, place: tuple[int, int], task: TaskExample, correct: Sequence[Attempt]
) -> Attempt | None:
    """The right answer that sigma chooses, of those that the domain confirms.

    Args:
        domain: What makes answers equal, which is shorter, and what confirms one.
        place: The run's seed, and the iteration.
        task: The task.
        correct: Its answers that passed.
    """
    key, length = _of_outputs(domain.grouping_key), _of_outputs(domain.length)
    candidates = list(correct)
    while candidates:
        rng = random.Random(derive_seed("sigma", *place, task.key))
        answer = choose_answer(candidates, key, length, rng)
        if domain.confirm is None or domain.confirm(task.example, answer.outputs):
            return answer
        logger.warning("%s: an answer that had passed does not pass alone; another one is chosen", task.key)
        candidates.remove(answer)
    return None


def _of_outputs(function: Callable[[Mapping[str, Any]], Any]) -> Callable[[Attempt], Any]:
    return lambda attempt: function(attempt.outputs)
