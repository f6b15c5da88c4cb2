"""The grammar of lines: what solved tasks say about a line of another program, as bits; no name or text matters.

A line has features: its primitives, what it takes again, how plausible types make it, and its bits as a production of
`Grammar`, which knows functions by what they do. Weights of the features are fitted to solved programs, each line of
which was chosen among those that might have followed (conditional logistic regression). So a solved task says something
about any other, also about one whose functions have nothing in common with its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import log
from typing import NamedTuple

import torch

from pipeline.synthesis.grammar import Grammar
from pipeline.synthesis.next_lines import NextLines
from pipeline.synthesis.precedents import (
    NotAPlan,
    Production,
    commutes,
    fingerprints_of,
    nearest,
    plan_of,
    productions_of,
    profile_of,
)
from step_runtime.language.parser import parse
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import SolvedTask, Task

_MOST = 8
"""Precedents that count for a function's production, the most relevant ones."""
_NO_PLAN = 20.0
_PENALTY = 0.1
"""Of squared weights: how far solved tasks move them from those of the bits alone."""
_BITS = "bits"
Features = Mapping[str, float]


class _Read(NamedTuple):
    """A program's beginning as a plan.

    Attributes:
        steps: What it applies to what, and returns, whatever streams are called, and in whichever order.
        last: The function that the last line applies, and how; None for a `return`.
        repeats: How often functions are applied beyond once each.
    """

    steps: frozenset[int]
    last: tuple[str, Production] | None
    repeats: int


class _Reader:
    """Reads the programs of one task, each beginning once."""

    def __init__(self, task: Task) -> None:
        self.scope = static_scope(task)
        self.fingerprints = fingerprints_of(task, self.scope.fns)
        self._next = NextLines(self.scope, [spec.func_name for spec in task.fns if commutes(spec.apply)])
        self._known: dict[str, _Read | None] = {}

    def after(self, text: str, repeats: int) -> tuple[str, ...]:
        """The lines that may follow; none where a program can't be finished."""
        try:
            return self._next.after(text, repeats)
        except ValueError:
            return ()

    def read(self, text: str) -> _Read | None:
        """The beginning of a program; None for one that no plan describes."""
        if text not in self._known:
            try:
                self._known[text] = self._read(text)
            except NotAPlan:
                self._known[text] = None
        return self._known[text]

    def _read(self, text: str) -> _Read:
        program, _ = parse(text, self.scope)
        plan, found = plan_of(program, self.scope)
        types = [type_ for type_ in found if type_ is not None]
        made = [*productions_of(plan, types, self.scope, self.fingerprints)]
        terms = [hash(("input", number)) for number in range(plan.inputs)]
        for step, each in zip(plan.steps, made, strict=True):
            labels = tuple(fn and fn.label for fn in step.fns)
            terms.append(hash((each.kind.__name__, labels, each.form, *(terms[source] for source in step.sources))))
        applied = [step.fn.label for step in plan.steps]
        if program.results:
            terms.append(hash(("return", *(terms[result] for result in plan.results))))
        last = None if program.results or not applied else (applied[-1], made[-1])
        return _Read(frozenset(terms), last, len(applied) - len({*applied}))


_reader = lru_cache(maxsize=256)(_Reader)


class LineGrammar:
    """Bits of the lines of one task's programs."""

    def __init__(self, task: Task, solved: Sequence[SolvedTask]) -> None:
        self._lines, self._weights = _Weighed(task, solved), _fitted(tuple(dict.fromkeys(solved)))

    def bits(self, text: str, lines: Sequence[str]) -> list[float]:
        """Bits of each line that may follow others, up to a constant."""
        found = self._lines.features(text, lines)
        return [-sum(self._weights.get(name, 0.0) * value for name, value in each.items()) / log(2) for each in found]


class _Weighed:
    """The features of one task's lines, given what the grammar of functions learned."""

    def __init__(self, task: Task, solved: Sequence[SolvedTask]) -> None:
        self.reader = _reader(task)
        precedents = nearest(solved, profile_of(task), _MOST)
        self._grammar = Grammar(self.reader.scope, self.reader.fingerprints, precedents)

    def features(self, text: str, lines: Sequence[str]) -> list[Features]:
        """Of each line; the first are the most plausible by types."""
        return [self._of(text, line) | {"place": place / len(lines)} for place, line in enumerate(lines)]

    def _of(self, text: str, line: str) -> dict[str, float]:
        found: dict[str, float] = dict(Counter(re.findall(r"step\.(\w+)", line)))
        found["twice"] = float(bool(re.search(r"\(\((\w+), \1\b", line)))
        if (known := self.reader.read(f"{text}{line}\n")) is None or known.last is None:
            return found | {_BITS: float(line.count("\n")) if known else _NO_PLAN}
        label, made = known.last
        bits = self._grammar.line(label, made, line.count("\n"))
        deep, inputs = made.form.folded > 1, sum(isinstance(maker, tuple) for maker in made.makers)
        return found | {_BITS: bits, "reused": sum(made.reused), "deep": deep, "inputs": inputs}


@lru_cache(maxsize=32)
def _fitted(solved: tuple[SolvedTask, ...]) -> dict[str, float]:
    """Weights of features, near those of the bits alone where few tasks are solved."""
    choices = [choice for each in solved for choice in _choices(each, tuple(o for o in solved if o != each))]
    names = sorted({_BITS, *(name for found, _ in choices for features in found for name in features)})
    prior = torch.tensor([-log(2) if name == _BITS else 0.0 for name in names], dtype=torch.float64)
    data = [
        (torch.tensor([[each.get(name, 0.0) for name in names] for each in found], dtype=torch.float64), right)
        for found, right in choices
    ]
    weights = prior.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([weights], max_iter=100)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        total = _PENALTY * ((weights - prior) ** 2).sum()
        for values, right in data:
            scores = values @ weights
            total = total + torch.logsumexp(scores, 0) - torch.logsumexp(scores[right], 0)
        total.backward()  # type: ignore[no-untyped-call]
        return total

    if data:
        optimizer.step(loss)  # type: ignore[no-untyped-call]
    return dict(zip(names, weights.tolist(), strict=True))


@lru_cache(maxsize=512)
def _choices(solved: SolvedTask, others: tuple[SolvedTask, ...]) -> list[tuple[list[Features], list[int]]]:
    """The choices on the way to a solved program, with as many repeats as it needs, and one more.

    Each has the features of the lines, and the places of those that lead to the program.
    """
    lines, found = _Weighed(solved.task, others), list[tuple[list[Features], list[int]]]()
    whole = lines.reader.read(solved.program)
    for repeats in (whole.repeats, whole.repeats + 1) if whole else ():
        text = ""
        while following := lines.reader.after(text, repeats):
            reads = [lines.reader.read(f"{text}{line}\n") for line in following]
            right = [place for place, each in enumerate(reads) if whole and each and each.steps <= whole.steps]
            if not right:
                break
            if len(right) < len(following):
                found.append((lines.features(text, following), right))
            text += f"{following[right[0]]}\n"
    return found
