"""Optimizers by name, as on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dspy.teleprompt import Teleprompter

from optimizers.adaptive import AdaptiveFewShot
from optimizers.baselines import GEPA, MIPRO, SIMBA, Bootstrap, RandomSearch, SinglePass
from optimizers.errors import UnknownOptimizerError

OPTIMIZERS: Mapping[str, type[Teleprompter]] = MappingProxyType(
    {
        "adaptive": AdaptiveFewShot,
        "none": SinglePass,
        "bootstrap": Bootstrap,
        "random-search": RandomSearch,
        "mipro": MIPRO,
        "simba": SIMBA,
        "gepa": GEPA,
    }
)


def get(name: str) -> type[Teleprompter]:
    """The optimizer called `name`.

    Raises:
        UnknownOptimizerError: No optimizer has that name; the message lists the known ones.
    """
    if name not in OPTIMIZERS:
        known = ", ".join(sorted(OPTIMIZERS))
        raise UnknownOptimizerError(f"unknown optimizer {name!r}; expected one of {known}")
    return OPTIMIZERS[name]
