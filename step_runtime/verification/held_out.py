"""A program judged once more, on held-out data: a gate behind the verdict that selects programs.

A program that was chosen because it passes may pass for another reason than being right: literals that fit the sizes, a
rule that holds for one parity, for inputs that are not negative, or for dims that differ. Here it is run at sizes and
seeds that are drawn anew, on stress inputs, and compared in exact arithmetic.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from random import Random
from typing import Literal

import torch

from step_runtime.base.errors import UNKNOWN, Diagnostic, RunError, TaskError
from step_runtime.execution.invocation import BeforeRun
from step_runtime.execution.number_formats import exact
from step_runtime.program.limits import Limits
from step_runtime.tasks.sizes import KINDS, held_out_sets
from step_runtime.tasks.task import Task
from step_runtime.verification.exact.proof import ExactVerdict
from step_runtime.verification.instance import TaskInstance
from step_runtime.verification.verify import SEEDS, Verifier

Answer = Literal["passed", "failed", "unknown"]

ANOTHER_INPUT, STRESS, EXACT = "another input", "stress inputs", "exact arithmetic"
"""Where a program may fail, beside held-out sizes."""
_FALLS = ("stress-value", "stress-run", "stress-undefined", "stress-sizes")
"""Stress findings after which a program falls; the others say how precisely it computes what is right."""
_NOT_OF_PROGRAMS = UNKNOWN | {"task-function"}


@dataclass(frozen=True)
class HeldOut:
    """The verdict on a program by held-out inputs.

    Attributes:
        answer: `passed`, `failed`, or `unknown` where a limit ended a run before anything was found wrong.
        findings: Why it failed, or why nothing is known; the first that was found.
        warnings: Stress findings about precision, with which a program passes.
        exact: What exact arithmetic says, of a program that passed up to there.
        found_at: What showed that it fails: `another input` at the task's own sizes, a held-out set of sizes with its
            kind, `stress inputs` or `exact arithmetic`; empty for a program that did not.
        sizes: The held-out sets of sizes at which it was run, each with its kind.
        seconds: Processor time.
    """

    answer: Answer
    findings: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    exact: ExactVerdict | None = None
    found_at: str = ""
    sizes: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    @property
    def reason(self) -> str:
        """The finding in a line; empty for a program that passes."""
        if not self.findings:
            return ""
        first = self.findings[0]
        return ": ".join([first.code, ", ".join([first.message, *first.details])])


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

    def judge(self, text: str) -> HeldOut:
        """The verdict on a program text; never raises for a bad program."""
        start, tried = time.process_time(), list[str]()
        try:
            found = self._judged(text, tried)
        except RunError as error:
            found = HeldOut("unknown", (Diagnostic.of("run", error, None),))
        return replace(found, sizes=tuple(tried), seconds=time.process_time() - start)

    def _places(self, tried: list[str]) -> Iterator[tuple[str, Verifier]]:
        """Where a program is run, one place after the other; held-out sets are noted."""
        yield ANOTHER_INPUT, self._own
        for place, verifier in self._held.items():
            tried.append(place)
            yield place, verifier

    def _judged(self, text: str, tried: list[str]) -> HeldOut:
        unknown: tuple[Diagnostic, ...] = ()
        for place, verifier in self._places(tried):
            # A limit that is reached at other sizes says nothing of a program; nor does a task's function there.
            verdict = verifier.verify(text)
            if verdict.passed or (verdict.stage == "limits" and verifier is not self._own):
                continue
            if verdict.diagnostics[0].code not in _NOT_OF_PROGRAMS:
                return HeldOut("failed", verdict.diagnostics[:1], found_at=place)
            if verifier is self._own or verdict.unknown:
                unknown = unknown or verdict.diagnostics[:1]
        return HeldOut("unknown", unknown) if unknown else self._beyond_values(text)

    def _beyond_values(self, text: str) -> HeldOut:
        """On stress inputs, and in exact arithmetic at the smallest sizes."""
        stressed = tuple(self._own.stress(text))
        fallen = [each for each in stressed if each.code in _FALLS]
        proof = None if fallen else self._smallest.exact(text)
        if proof is not None and proof.answer == "different":
            message = f"differs from the reference in exact arithmetic: {proof.reason}"
            found = Diagnostic("value", "exact-different", message, None, proof.sizes)
            return HeldOut("failed", (found,), stressed, proof, EXACT)
        if fallen:
            return HeldOut("failed", tuple(fallen[:1]), found_at=STRESS)
        return HeldOut("passed", (), stressed, proof)

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
