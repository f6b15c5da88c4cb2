"""The answer that represents a solved task: sigma's choice, confirmed by the domain."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Hashable, Sequence
from typing import Any

from optimizers.attempt import Attempt
from optimizers.call_seeds import derive_seed
from optimizers.domain import Domain, Outputs
from optimizers.filtering import choose_answer
from optimizers.sampling import TaskExample

logger = logging.getLogger(__name__)


def representative(
    domain: Domain, place: tuple[int, int], task: TaskExample, correct: Sequence[Attempt]
) -> Attempt | None:
    """The right answer that sigma chooses, of those that the domain confirms.

    `place` is the run's seed and the iteration.
    """

    def key(attempt: Attempt) -> Hashable | None:
        return domain.grouping_key(attempt.outputs)

    def order(attempt: Attempt) -> tuple[float, Any]:
        return rank(domain, task, attempt.outputs)

    candidates = list(correct)
    while candidates:
        rng = random.Random(derive_seed("sigma", *place, task.key))
        answer = choose_answer(candidates, key, order, rng)
        if domain.confirm is None or domain.confirm(task.example, answer.outputs):
            return answer
        logger.warning("%s: an answer that had passed does not pass alone; another one is chosen", task.key)
        candidates.remove(answer)
    return None


def rank(domain: Domain, task: TaskExample, outputs: Outputs) -> tuple[float, Any]:
    """What decides between right answers, the smaller the better: the cost, if the domain has any, then the length."""
    cost = 0.0 if domain.cost is None else domain.cost(task.example, outputs)
    return math.inf if cost is None else cost, domain.length(outputs)
