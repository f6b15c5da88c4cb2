"""A program judged once more, on held-out data: a gate behind the verdict that selects programs.

A program that was chosen because it passes may pass for another reason than being right: literals that fit the sizes, a
rule that holds for one parity, for inputs that are not negative, or for dims that differ. Here it is run at sizes and
seeds that are drawn anew, on stress inputs, and compared in exact arithmetic.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from math import prod
from random import Random
from typing import Any

import torch

from step_runtime.base.errors import UNKNOWN, Diagnostic, RunError, TaskError
from step_runtime.execution.invocation import BeforeRun
from step_runtime.execution.number_formats import exact
from step_runtime.program.limits import Limits
from step_runtime.tasks.sizes import KINDS, held_out_sets
from step_runtime.tasks.task import Task
from step_runtime.verification.instance import TaskInstance
from step_runtime.verification.verdict import Verdict
from step_runtime.verification.verify import SEEDS, Verifier

_FALLS = ("stress-value", "stress-run", "stress-undefined", "stress-sizes")
"""Stress findings after which a program falls; the others say how precisely it computes what is right."""
_NOT_OF_PROGRAMS = UNKNOWN | {"task-function"}


class _AtItsSizes(Verifier):
    """Runs programs at its task's sizes alone: the run's verdict was reached at further ones too."""

    def _beyond(self, *_: object) -> list[Diagnostic]:
        return []


class HeldOutTask:
    """A task at held-out sizes and seeds, both drawn from one seed; its references are computed once.

    Args:
        seed: A run's; the same one draws the same sizes and inputs.
        before_run: As for `Verifier`.

    Raises:
        TaskError: The task cannot be used.
    """

    def __init__(
        self, task: Task, seed: int, *, limits: Limits | None = None, before_run: BeforeRun | None = None
    ) -> None:
        random = Random(f"{seed}\n{task.statement}")
        self._data_seed = random.randrange(2**16, 2**31)
        assert self._data_seed not in SEEDS
        # Its limits of cost hold at the sizes that they were written for, and stress is judged apart.
        self._task = task.model_copy(update={"limits": {}, "stress": False})
        self._limits, self._before_run = limits, before_run
        self._random = random
        self._own = self._verifier(self._task)

    @cached_property
    def _held(self) -> Mapping[str, Verifier]:
        """By kind and sizes; drawn for the first program that does not fail before."""
        held: dict[str, Verifier] = {}
        for kind in KINDS:
            for sizes in held_out_sets(self._task, kind, self._random):
                place = self._defined_at(sizes)
                if place is not None:
                    at = self._task.model_copy(update={"sizes": {name: [size] for name, size in sizes.items()}})
                    held[f"{kind}: {place}"] = self._verifier(at)
                    break
        return held

    @property
    def _smallest(self) -> Verifier:
        """At the smallest sizes, as the time of a proof grows with them."""
        verifiers = (self._own, *self._held.values())
        return min(verifiers, key=lambda each: max(prod(sizes.values()) for sizes in each.task.size_sets()))

    def judge(self, text: str) -> Verdict:
        """The verdict on a program text; never raises for a bad program."""
        start, tried = time.process_time(), list[str]()
        try:
            found = self._judged(text, tried)
        except RunError as error:
            found = _verdict(Diagnostic.of("run", error, None), unknown=True)
        return found.model_copy(update={"held_out": tuple(tried), "seconds": time.process_time() - start})

    def _places(self, tried: list[str]) -> Iterator[Verifier]:
        """Where a program is run, one place after the other; held-out sets are noted."""
        yield self._own
        for place, verifier in self._held.items():
            tried.append(place)
            yield verifier

    def _judged(self, text: str, tried: list[str]) -> Verdict:
        unknown: Diagnostic | None = None
        for verifier in self._places(tried):
            # A limit that is reached at other sizes says nothing of a program; nor does a task's function there.
            verdict = verifier.verify(text)
            if verdict.passed or (verdict.stage == "limits" and verifier is not self._own):
                continue
            if verdict.diagnostics[0].code not in _NOT_OF_PROGRAMS:
                return _verdict(verdict.diagnostics[0])
            if verifier is self._own or verdict.unknown:
                unknown = unknown or verdict.diagnostics[0]
        return _verdict(unknown, unknown=True) if unknown else self._beyond_values(text)

    def _beyond_values(self, text: str) -> Verdict:
        """On stress inputs, and in exact arithmetic at the smallest sizes."""
        stressed = tuple(self._own.stress(text))
        fallen = [each for each in stressed if each.code in _FALLS]
        proof = None if fallen else self._smallest.exact(text)
        if proof is not None and proof.answer == "different":
            message = f"differs from the reference in exact arithmetic: {proof.reason}"
            found = Diagnostic("value", "exact-different", message, None, proof.sizes)
            return _verdict(found, warnings=stressed, exact=proof)
        if fallen:
            return _verdict(fallen[0])
        return Verdict(passed=True, warnings=stressed, exact=proof)

    def _verifier(self, task: Task) -> Verifier:
        return _AtItsSizes(
            task, seeds=(self._data_seed,), limits=self._limits, dtype=torch.float64, before_run=self._before_run
        )

    def _defined_at(self, sizes: Mapping[str, int]) -> str | None:
        """The place in words; None where the task's code does not run, or gives no numbers."""
        try:
            instance = TaskInstance(self._task, sizes, before_run=self._before_run)
            instance.sample_inputs(self._data_seed)
            results = [exact(part) for output in instance.reference() for part in output]
        except (TaskError, RunError):
            return None
        return instance.place if all(bool(part.isfinite().all()) for part in results) else None


def _verdict(found: Diagnostic, **more: Any) -> Verdict:
    return Verdict(passed=False, stage=found.stage, diagnostics=(found,), **more)
