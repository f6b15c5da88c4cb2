"""The reward: whether a program implements its task (paper, Section 4.3).

Two verifiers: the affine rule on the graph, and the simulated outputs against the task's PyTorch reference,
at every set of sizes and seed, in float64 on both sides. A program that passes is also run at one set of sizes beyond
the task's own, if its code allows one, and, if it computes with sizes, at two that are drawn for it (`tasks.sizes`) and
wherever it changes (`changes`).
"""

from __future__ import annotations

import gc
import logging
import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain, product
from random import Random

import torch

from step_runtime.base.errors import (
    STAGES,
    UNKNOWN,
    Diagnostic,
    RunError,
    TaskError,
    describe_error,
    out_of_memory,
)
from step_runtime.cost.chip import DEFAULT_CHIP
from step_runtime.cost.model import estimate
from step_runtime.cost.operations import OperationCounter
from step_runtime.execution.deadline import Deadline
from step_runtime.execution.invocation import BeforeRun, default_dtype
from step_runtime.language.canonical import Description
from step_runtime.language.parser import Source, evaluate, read
from step_runtime.program.limits import Limits, check_size
from step_runtime.program.printer import print_primitive
from step_runtime.tasks.scope import Scope
from step_runtime.tasks.sizes import completed, further_sets, step, varying
from step_runtime.tasks.task import Task
from step_runtime.verification.changes import Changes
from step_runtime.verification.check import TypedProgram, check_program, infer_types
from step_runtime.verification.compare import mismatch
from step_runtime.verification.exact.proof import Prover
from step_runtime.verification.explain import explain_values
from step_runtime.verification.instance import TaskInstance, instances
from step_runtime.verification.simulate import NodeError, simulate
from step_runtime.verification.stress import Case, Stress
from step_runtime.verification.task_costs import over_limits, parameter_bits
from step_runtime.verification.verdict import ExactVerdict, Verdict

SEEDS = (0, 1)
_TORCH = threading.RLock()
"""Held while an author's code runs, as torch's default dtype and random state are global."""
_RANDOM = "a function of the task uses random numbers"
_DRAWN = 2
"""Sets of sizes drawn for a program: of two dims of 24 sizes each, a formula meets the second at both in 1 of 576."""
_CHANGES = 32
"""Sets of sizes at which a program is tried because it changes there."""
_MOST_NUMBERS = 2**20
"""Numbers that the streams of a program carry at large sizes; a 32nd of that in the task's tensors."""
_BEYOND_SIZES = (128, 64, 32)
"""What programs slice by."""
_SHORT = 1.0
"""Seconds of processor time that a reference may take at a large size, at its first seed and at all of them."""
_AT_LARGE = (0, 1, 2)
"""Seeds at large sizes, where numbers are ranked or compared: the three largest of 129 numbers are among the first 64
once in eight draws. A sum shows at one seed which numbers it leaves out."""
_RANKS = re.compile(r"top|sort|arg|max|min|median|where|any|all|[<>]")
_COLLECTED = 2**19
"""Numbers of a task's tensors from which they are collected when they are dropped: instances are part of cycles."""
_BEYOND = "these sizes are beyond the task's own; a program has to be right at all sizes at which the reference runs"
_LOG = logging.getLogger(__name__)


class Verifier:
    """Verifies programs against one task, whose code is compiled and whose references are computed once.

    Safe to call from several threads; calls run one at a time.

    Args:
        seeds: One random input each, at every set of sizes.
        dtype: The floating type both sides compute in.
        remember: Whether the result for a graph is reused for other programs of the same graph.
        before_run: Called before each piece of the author's code runs; it may raise `RunError`, which becomes a
            verdict while a program runs, and passes through otherwise.

    Raises:
        TaskError: The task cannot be used.
    """

    def __init__(
        self,
        task: Task,
        *,
        seeds: Sequence[int] = SEEDS,
        limits: Limits | None = None,
        dtype: torch.dtype = torch.float64,
        remember: bool = True,
        before_run: BeforeRun | None = None,
    ) -> None:
        self.task = task
        self.limits = limits or Limits()
        self._seeds = tuple(seeds)
        self._dtype = dtype
        self._before_run = before_run
        self._input = ""
        with _TORCH:
            self._instances = instances(task, dtype=dtype, before_run=before_run and self._announce)
        self._counters: dict[int, OperationCounter] = {}
        self._remember = remember
        self._results: dict[tuple[str, ...], Diagnostic | None] = {}
        self._provers: dict[int, Prover] = {}
        self._larger: dict[tuple[str, int], tuple[TaskInstance, Sequence[int]] | None] = {}

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The names that programs may use, at each set of sizes, as the task's `global` left them.

        The last are those of the sizes beyond the task's own, if there are such.
        """
        with _TORCH:
            return tuple(instance.scope for instance in (*self._instances, *self._further))

    def verify(self, text: str) -> Verdict:
        """The verdict on a program text; never raises for a bad program.

        Any other failure between text and verdict is a diagnostic of code `internal`, with a traceback in the log.

        Raises:
            TaskError: The task's reference code fails.
        """
        start = time.perf_counter()
        try:
            found = self._found(text)
        except (TaskError, RunError, MemoryError):
            raise
        except Exception as error:
            _LOG.exception("verification of a program of %s failed", self.task.name)
            hint = "this is a fault of the verifier; the log has its traceback"
            found = [Diagnostic("run", "internal", f"verification failed: {describe_error(error)}", hint=hint)]
        return _verdict(found, start)

    def check(self, text: str) -> Verdict:
        """The verdict of the checks that need no run: syntax, types, affine use, sizes and outputs."""
        start = time.perf_counter()
        source = read(text, self.limits)
        return _verdict(next((each.found for each in self._checked(source, self._instances) if each.found), []), start)

    def explain_values(self, text: str) -> str | None:
        """The first difference between the values of a wrong program and the reference's; None for other programs.

        See `explain.explain_values`.

        Raises:
            TaskError: The task's reference code fails.
        """
        source = read(text, self.limits)
        with _TORCH:
            own = list(self._checked(source, self._instances))
            if any(each.found for each in own):
                return None
            beyond = self._places_beyond(source, own, Changes(self.task, self._instances[0].sizes))
            for place, checked in chain(zip(self._instances, own, strict=True), beyond):
                if checked.found:
                    return None
                for seed in self._seeds:
                    if self._run_all([place], [checked], [seed]) is not None:
                        return explain_values(checked.program, checked.types, place, seed, f"at {place.place}")
        return None

    def _found(self, text: str) -> list[Diagnostic]:
        source = read(text, self.limits)
        checked = []
        for result in self._checked(source, self._instances):
            if result.found:
                return result.found
            checked.append(result)
        found = self._result(self._instances, checked, self._seeds)
        if found is not None:
            return [found]
        found_beyond = self._over_limits(checked) or self._beyond(source, checked)
        return found_beyond or (self._stress(source, checked[0]) if self.task.stress else [])

    @cached_property
    def _further(self) -> list[TaskInstance]:
        """The task at a set of sizes beyond its own; empty if its code runs at none."""
        return self._defined(further_sets(self.task))

    def _places_beyond(
        self, source: Source, own: Sequence[TypedProgram], changes: Changes
    ) -> Iterator[tuple[TaskInstance, TypedProgram]]:
        """Where a program that passes at the task's own sizes is tried next, and the program checked there.

        The first is a set beside the own ones. A program that computes with sizes is also tried at sets that are drawn
        for it, and at those at which it changes, as far as the conditions of its graphs up to there show them.
        """
        places, known = [*self._further], [*own]
        computes = any(changes.concern(one.conditions) for one in own)
        if computes:
            random = Random("\n".join([self.task.statement, *(one.key for one in own)]))
            places += chain(*(self._defined(further_sets(self.task, random)) for _ in range(_DRAWN)))
        for place, one in zip(self._instances, own, strict=True):
            changes.tried(place.sizes, one.conditions)
        for place in chain(places, self._changed(changes) if computes else ()):
            (checked,) = self._checked(source, [place], known)
            known += [] if any(checked is one for one in known) else [checked]
            yield place, checked
            changes.tried(place.sizes, checked.conditions)

    def _changed(self, changes: Changes) -> Iterator[TaskInstance]:
        """The task at the sizes at which a program changes."""
        for _ in range(_CHANGES):
            sizes = changes.next()
            if sizes is None:
                return
            yield from self._defined(iter([sizes]))
            if changes.numbers(sizes) > _COLLECTED:
                gc.collect()
        changes.untried = f"the program changes at more than {_CHANGES} sets of sizes"

    def _defined(self, sets: Iterator[dict[str, int]]) -> list[TaskInstance]:
        """The task at the first of the sets at which its code runs; empty if there is none."""
        for sizes in sets:
            self._input = f"sizes {sizes}"
            try:
                before_run = self._before_run and self._announce
                instance = TaskInstance(self.task, sizes, dtype=self._dtype, before_run=before_run)
                instance.sampled_reference(self._seeds[0])
            except (TaskError, RunError):
                continue
            return [instance]
        return []

    def _beyond(self, source: Source, own: Sequence[TypedProgram]) -> list[Diagnostic]:
        """What is wrong with a program that passes at the task's own sizes, at those beyond them."""
        changes = Changes(self.task, self._instances[0].sizes)
        with _TORCH:
            for number, (place, checked) in enumerate(self._places_beyond(source, own, changes)):
                found = checked.found
                if not found:
                    failure = self._result([place], [checked], self._seeds[:1])
                    found = [] if failure is None or failure.code == "task-function" else [failure]
                if found and (found[0].stage == "limits" or found[0].code in UNKNOWN):
                    if number < len(self._further) + _DRAWN:
                        continue  # these sizes were not chosen for what the program does there
                    return [_untried(f"the program changes at {place.place}, where it {found[0].message}")]
                if found:
                    where = f"at {place.place}"
                    details = [(*each.details, *([] if each.stage in ("run", "value") else [where])) for each in found]
                    return [replace(each, details=(*d, _BEYOND)) for each, d in zip(found, details, strict=True)]
        return [_untried(changes.untried)] if changes.untried else []

    def exact(self, text: str) -> ExactVerdict | None:
        """The answer of exact arithmetic for a passing program, at the task's own sizes; None for a failing program.

        Raises:
            TaskError: The task's reference code fails.
        """
        if not self.verify(text).passed:
            return None
        source, verdicts = read(text, self.limits), []
        with _TORCH:
            self._input = "exact"
            for index, instance in enumerate(self._instances):
                checked = self._check(source, instance)
                if checked.found:
                    return None
                prover = self._provers.setdefault(index, Prover(instance, self.limits))
                verdicts.append(prover.prove(checked.program, checked.types))
        return ExactVerdict.joined(verdicts)

    def stress(self, text: str) -> list[Diagnostic]:
        """The failures of a passing program on stress inputs in float32; see `stress`.

        Raises:
            TaskError: The task's code fails in float32.
        """
        source = read(text, self.limits)
        checked = self._check(source, self._instances[0])
        return [] if checked.found else self._stress(source, checked)

    def _stress(self, source: Source, checked: TypedProgram) -> list[Diagnostic]:
        with _TORCH:
            self._input = "stress"
            inputs = self._stress_inputs
            program, _ = evaluate(source, inputs.narrow.scope, self.limits)
            types, _ = infer_types(program, inputs.narrow.scope)
            cases = Case(checked.program, checked.types, inputs.wide), Case(program, types, inputs.narrow)
            return [*inputs.findings(*cases, self.limits), *self._at_large_sizes(source)]

    def _at_large_sizes(self, source: Source) -> Iterator[Diagnostic]:
        """The first difference where one dim is large: at the largest of some sizes that a second suffices for."""
        limits, tried = self.limits, set[str]()
        self.limits = replace(limits, seconds=min(1.0, limits.seconds), numbers=min(_MOST_NUMBERS, limits.numbers))
        try:
            for name, beyond in product(varying(self.task), _BEYOND_SIZES):
                large = None if name in tried else self._large(name, beyond)
                if large is None:
                    continue
                place, seeds = large
                (checked,) = self._checked(source, [place])
                found = checked.found[:1] or [*filter(None, [self._result([place], [checked], seeds)])]
                if found and (found[0].stage == "limits" or found[0].code in UNKNOWN):
                    continue
                if found:
                    details = (*found[0].details, *([f"at {place.place}"] if checked.found else []), _BEYOND)
                    yield replace(found[0], stage="stress", code="stress-sizes", details=details)
                    return
                tried |= {name} | {other for other, size in place.sizes.items() if size > _BEYOND_SIZES[0]}
        finally:
            self.limits = limits

    def _large(self, name: str, beyond: int) -> tuple[TaskInstance, Sequence[int]] | None:
        """The task with one dim beyond a size, and the others small, and its seeds; None where that takes too long."""
        if (name, beyond) not in self._larger:
            own, self._larger[name, beyond] = self._instances[0], None
            size = step(self.task, name) * (beyond // step(self.task, name) + 1)
            sizes = completed(self.task, {name: size})
            few = sizes and Changes(self.task, own.sizes).numbers(sizes) < _MOST_NUMBERS / 32
            # A reference that loops over pairs takes the square of its time.
            if sizes and few and self._seconds * (size / own.sizes[name]) ** 2 < _SHORT:
                start = time.process_time()
                for place in self._defined(iter([sizes])):
                    runs = _SHORT / max(time.process_time() - start, 1e-3)
                    ranks = any(_RANKS.search(fn.apply) for fn in self.task.fns)
                    self._larger[name, beyond] = place, _AT_LARGE[: max(1, int(runs)) if ranks else 1]
        return self._larger[name, beyond]

    @cached_property
    def _seconds(self) -> float:
        """Of processor time that the references take at the first sizes."""
        start = time.process_time()
        self._instances[0].reference()
        return time.process_time() - start

    @cached_property
    def _stress_inputs(self) -> Stress:
        before_run = self._before_run and self._announce
        narrow = TaskInstance(self.task, self.task.size_sets()[0], dtype=torch.float32, before_run=before_run)
        return Stress(self._instances[0], narrow)

    def _over_limits(self, checked: Sequence[TypedProgram]) -> list[Diagnostic]:
        """What a program costs beyond the task's limits, at the first set of sizes where it does."""
        if not self.task.cost_limits:
            return []
        with _TORCH:
            for index, (instance, one) in enumerate(zip(self._instances, checked, strict=True)):
                if index not in self._counters:
                    instance.sample_inputs(self._seeds[0])
                    self._counters[index] = OperationCounter(instance.sizes, DEFAULT_CHIP.weights, self._dtype)
                read = parameter_bits(self.task, one.program, instance.sizes, DEFAULT_CHIP)
                cost = estimate(one.program, one.types, instance.sizes, self._counters[index], parameters=read)
                found = over_limits(self.task, one.program, cost)
                if found:
                    return found
        return []

    def _result(
        self, places: Sequence[TaskInstance], checked: Sequence[TypedProgram], seeds: Sequence[int]
    ) -> Diagnostic | None:
        """The result of running at some sets of sizes; remembered for programs with one graph at each of them."""
        key = (*(place.place for place in places), *(one.key for one in checked))
        if key not in self._results:
            found = self._run_all(places, checked, seeds)
            if not self._remember or (found is not None and found.stage == "run"):
                # It names a place in this text, and another text may reach a different failure first.
                return found
            self._results[key] = found
        known = self._results[key]
        return known and replace(known, span=checked[0].program.result_span)

    def _run_all(
        self, places: Sequence[TaskInstance], checked: Sequence[TypedProgram], seeds: Sequence[int]
    ) -> Diagnostic | None:
        # Only the CPU's generator: torch.manual_seed records a stack trace for every other device, each time.
        with _TORCH, default_dtype(self._dtype), torch.random.fork_rng(devices=[]):
            for instance, one in zip(places, checked, strict=True):
                for seed in seeds:
                    self._input = f"{instance.place}, seed {seed}"
                    found = self._run(instance, one, seed)
                    if found is not None:
                        return found
        return None

    def _checked(
        self, source: Source, places: Iterable[TaskInstance], known: Iterable[TypedProgram] = ()
    ) -> Iterator[TypedProgram]:
        """The program checked at each set of sizes; only once where its graph and its types are the same at others."""
        before = list(known)
        for place in places:
            found = next((one for one in before if not one.found and one.holds(place.scope)), None)
            if found is None:
                found = self._check(source, place)
                before.append(found)
            elif beyond := check_size(found.program, found.types, place.sizes, self.limits, self._dtype.itemsize):
                found = replace(found, found=beyond)
            yield found

    def _check(self, source: Source, place: TaskInstance) -> TypedProgram:
        return check_program(source, place.scope, self.limits, self._dtype.itemsize)

    def _run(self, instance: TaskInstance, checked: TypedProgram, seed: int) -> Diagnostic | None:
        inputs, reference = instance.sampled_reference(seed)
        where = f"at {instance.place}, seed {seed}"
        instance.applier.deadline = Deadline.after(self.limits.seconds)
        try:
            torch.default_generator.manual_seed(seed)
            enter = partial(self._enter, checked.described) if self._before_run is not None else None
            results = simulate(checked.program, checked.types, inputs, instance.sizes, instance.applier, enter)
            found = mismatch(self.task, results, reference, checked.program.result_span, where)
            # Nothing else uses this generator.
            random = found and not torch.equal(
                torch.default_generator.get_state(), torch.Generator().manual_seed(seed).get_state()
            )
        except NodeError as error:
            return error.diagnostic(where)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            return Diagnostic("run", "memory-limit", "the run exceeded the memory limit", None, (where,))
        return replace(found, details=(*found.details, _RANDOM)) if found and random else found

    def _announce(self, what: str, key: str) -> None:
        if self._before_run is not None:
            self._before_run(what, f"{self._input}: {key}")

    def _enter(self, described: Description, index: int) -> None:
        """Announces a primitive that runs a function."""
        op = described.program.nodes[index].op
        if op.functions():
            self._announce(print_primitive(op), described.nodes[index])


def _untried(message: str) -> Diagnostic:
    hint = "write it without sizes, or so that it is the same for all of them"
    return Diagnostic("run", "untried-sizes", message, None, (_BEYOND,), hint)


def verify(
    task: Task,
    impl: str | None = None,
    *,
    seeds: Sequence[int] = SEEDS,
    limits: Limits | None = None,
    exact: bool = False,
) -> Verdict:
    """The verdict on `impl`, or on the task's own `impl` where none is given; never raises for a bad program.

    To judge many programs of one task, make one `Verifier`. With `exact`, a program that passes is compared in exact
    arithmetic too: `Verdict.exact`.

    Raises:
        TaskError: The task cannot be used.
        ValueError: Neither `impl` nor the task holds a program.
    """
    text = impl if impl is not None else task.impl
    if text is None:
        raise ValueError(f"task {task.name} has no impl; give the program to verify")
    verifier = Verifier(task, seeds=seeds, limits=limits)
    verdict = verifier.verify(text)
    return verdict.model_copy(update={"exact": verifier.exact(text)}) if exact and verdict.passed else verdict


def _verdict(found: Sequence[Diagnostic], start: float) -> Verdict:
    """The verdict that findings give; `start` is when their search began, on `time.perf_counter`."""
    seconds = time.perf_counter() - start
    stage = min((diagnostic.stage for diagnostic in found), key=STAGES.index) if found else None
    return Verdict(passed=not found, stage=stage, diagnostics=tuple(found), seconds=seconds)
