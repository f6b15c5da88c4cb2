"""Cut points: numbers of long recurrences as new free symbols, so that formulas stay small.

The degree of a recurrence may double with each step, until Schwartz and Zippel's bound says nothing, and exponentials
of exponentials need more levels than there are. So a program is run with cut points: numbers that its functions give,
as the state of a fold, are replaced by free symbols of themselves, of degree 1. The reference then runs with the same
cuts: a number that has the fingerprint of a cut number is replaced by its symbol, wherever it is met.

Lemma. Let each symbol be drawn from the fingerprint of the number that it stands for, which is a function of the inputs
and of symbols drawn before, of degree `d` at most. Then equal symbols stand for equal functions of the inputs, and
results that are equal as functions of inputs and symbols are equal as functions of the inputs, but for an error of
`(d / p)` to the number of worlds for each pair of numbers whose fingerprints are compared. By induction: two numbers of
one fingerprint are one function of what was drawn before, and stay so when each symbol is replaced by the function that
it stands for; so do results. The converse does not hold: a symbol forgets how its number depends on others. So whatever
is cut, on one side or on both, nothing is proved that is not equal. Where to cut is a guess that may only fail.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from step_runtime.verification.exact import facts
from step_runtime.verification.exact.residues import fingerprint, symbols
from step_runtime.verification.exact.value import NONE, Value

CHOICES = ((1 << 4, False), (1 << 10, True), (1 << 5, True))
"""Where numbers are cut that have a larger degree: in the states that folds read, and in all results of functions."""
_EMPTY = torch.empty(0, dtype=torch.int64)


class Cuts:
    """The cuts of one run of operators.

    Attributes:
        chosen: The first words of the fingerprints of the numbers that are cut.
        least: What numbers are chosen for has a larger degree; infinite for the side that chooses none.
        every: Whether all results of functions are points, or the states that folds read.
        count: The numbers whose fingerprints were compared.
    """

    def __init__(self, least: float, *, every: bool = False, chosen: Tensor = _EMPTY) -> None:
        self.chosen, self.least, self.every = chosen, least, every
        self.count = 0
        self._made = _EMPTY

    def met(self, value: Value, *, point: bool) -> Value:
        """A result with symbols in the place of numbers that are cut; at a point, large formulas are chosen.

        What depends on no data or is a symbol of a cut stays, as do truth values and logarithms.
        """
        if not value.dtype.is_floating_point or value.bits or value.masks is not None:
            return value
        self.count += value.known.numel()
        chooses = point and sum(value.degree) > self.least
        if not chooses and not len(self.chosen):
            return value
        words = fingerprint(value.data)
        here = value.known.isnan() & ~torch.isin(words[:1], self._made)
        if value.logs is not None:
            here = here & (value.logs[:1] == NONE)
        if chooses:
            self.chosen = torch.unique(torch.cat((self.chosen, words[:1][here])))
        here = here & torch.isin(words[:1], self.chosen)
        return self._replaced(value, words, here) if bool(here.any()) else value

    def _replaced(self, value: Value, words: Tensor, here: Tensor) -> Value:
        data = torch.where(here, symbols("cut", words), value.data)
        made = fingerprint(data)[:1]
        self._made = torch.unique(torch.cat((self._made, made[here])))
        above = here & facts.positive(words[:1])
        if bool(above.any()):
            facts.set_positive(data[:, above[0]])
        small = bool((torch.isin(made, self._made) | ~value.known.isnan()).all())
        roots, extremes = (
            None if part is None else torch.where(here, NONE, part) for part in (value.roots, value.extremes)
        )
        degree = (1.0, 0.0) if small else value.degree
        # What a number is modulo a period has a formula that is not cut.
        return replace(value, data=data, degree=degree, roots=roots, extremes=extremes, turned=None, period=None)
