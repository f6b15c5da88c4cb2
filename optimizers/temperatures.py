"""Which temperatures an LM takes: models that reason often take 1 alone, and a predictor's own LM may have its own.

Invariant: a request carries the sample's temperature, unless its LM is known to refuse it or the user has set another
temperature on that predictor's LM.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

import dspy
from dspy.utils.exceptions import LMConfigurationError, LMInvalidRequestError, LMUnsupportedFeatureError

logger = logging.getLogger(__name__)

ONLY = 1.0
"""The temperature of models that take one only."""


@cache
def takes_one(model: str) -> bool:
    """Whether DSPy knows a model by this name to refuse every temperature but `ONLY`."""
    try:
        dspy.LM(model, temperature=0.5)
    except LMConfigurationError:
        return True
    except (TypeError, ValueError):
        return False
    return False


def fixed(lm: Any) -> bool:
    """Whether the LM takes `ONLY` alone: by its name, or as its settings have it think before it answers."""
    if not isinstance(lm, dspy.LM):
        return False
    thinking = getattr(lm, "kwargs", {}).get("thinking")
    return takes_one(lm.model) or (isinstance(thinking, dict) and thinking.get("type") not in (None, "disabled"))


def temperature_of(lm: Any, sampled: float, own: bool) -> float:
    """The temperature of an LM's requests in a sample at `sampled`; `own` says that predictors hold the LM."""
    if fixed(lm):
        return ONLY
    set_by_user = _own(lm) if own else None
    return sampled if set_by_user is None else set_by_user


def _own(lm: Any) -> float | None:
    """The temperature that is set on an LM."""
    temperature = getattr(lm, "kwargs", {}).get("temperature")
    return None if temperature is None else float(temperature)


def taken(program: dspy.Module, temperatures: Sequence[float]) -> tuple[float, ...]:
    """The temperatures at which samples of a program differ: those given, or `ONLY` if no LM takes another.

    Says so in a warning, also if every predictor has an LM with a temperature of its own.
    """
    lms = [predictor.lm or dspy.settings.lm for predictor in program.predictors()] or [dspy.settings.lm]
    free = [lm for lm in lms if lm is dspy.settings.lm or _own(lm) is None]
    given = ", ".join(f"{temperature:g}" for temperature in temperatures)
    if not free and not all(map(fixed, lms)):
        own = ", ".join(sorted({f"{_own(lm):g}" for lm in lms}))
        logger.warning("every LM of the program has a temperature of its own (%s): %s change nothing", own, given)
        return tuple(temperatures)
    if all(map(fixed, free or lms)) and tuple(temperatures) != (ONLY,):
        models = ", ".join(sorted({lm.model for lm in free or lms}))
        logger.warning("%s takes no temperature but %g: samples are drawn at it, not at %s", models, ONLY, given)
        return (ONLY,)
    return tuple(temperatures)


def refused(error: BaseException | None) -> bool:
    """Whether an LM's error says that it takes no such temperature."""
    kinds = (LMInvalidRequestError, LMUnsupportedFeatureError, LMConfigurationError)
    return isinstance(error, kinds) and "temperature" in str(error).lower()
