"""Sampling: the samples of an iteration, and how one of them is made.

Invariants: a sample's requests to the LM depend only on the run's seed and on the sample, not on threads or timing;
an answer that cannot be parsed is a wrong answer, an LM that fails gives no answer, and a metric that fails gives no
verdict; the program is only read; samples with an answer in the journal of an interrupted run are not
requested again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import dspy
from dspy.utils.exceptions import (
    AdapterParseError,
    ContextWindowExceededError,
    LMAuthError,
    LMBillingError,
    LMConfigurationError,
    LMUnsupportedModelError,
)

from optimizers.arguments import checked_count, checked_temperatures, checked_type
from optimizers.attempt import Attempt
from optimizers.call_metric import Metric, checked_metric, read_verdict, recording_judge, resolved
from optimizers.call_seeds import CallSeeds, derive_seed
from optimizers.call_trace import TRACE_CALLS, CallTrace, copied_fields, recorded_calls
from optimizers.completion_batches import BatchMember, CompletionBatches
from optimizers.context_window import Window, stated
from optimizers.deadline import Deadline
from optimizers.errors import MetricError, UnavailableError, one_line
from optimizers.ledger import Ledger
from optimizers.metering import (
    RequestSlots,
    held_lms,
    innermost_predictor,
    metered,
    metered_adapter,
    predictor_names,
    replace_lms,
)
from optimizers.missing_fields import fields_of, lacks_fields, last_answer
from optimizers.prompt_sizes import demo_count, longest_prompt, with_fewer_demos
from optimizers.temperatures import temperature_of
from optimizers.typed_fields import ProgramTypes

logger = logging.getLogger(__name__)

LONGEST_TRACE = 10_000
"""The number of latest calls of one sample that are kept for demonstrations."""

FATAL = (LMAuthError, LMBillingError, LMConfigurationError, LMUnsupportedModelError, UnavailableError)
"""Errors after which every further request would fail too."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How many samples of each task, at which temperatures.

    Attributes:
        num_samples: Samples per task and temperature.
        temperatures: Sampling temperatures.
        threads: Requests in flight at a time.
        seed: Determines, together with a sample's place in the run, the seed that the LM gets.

    Raises:
        TypeError: An argument is not a whole number, or temperatures are not a sequence of numbers.
        ValueError: There are no samples, or a temperature is negative or given twice.
    """

    num_samples: int = 64
    temperatures: tuple[float, ...] = (0.4, 0.7, 1.0)
    threads: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        checked_count("num_samples", self.num_samples)
        checked_count("threads", self.threads)
        checked_type("seed", self.seed, int, "a whole number")
        object.__setattr__(self, "temperatures", checked_temperatures(self.temperatures))


@dataclass(frozen=True, slots=True)
class TaskExample:
    """One example to solve: its index in its set, its name, and the example itself."""

    index: int
    key: str
    example: dspy.Example = field(compare=False)


@dataclass(frozen=True, slots=True)
class SampleSpec:
    """One sample to make; its `seed` is that of its first call, from which those of further calls derive."""

    iteration: int
    task: TaskExample
    temperature: float
    sample: int
    seed: int


@dataclass(frozen=True, slots=True)
class SampleResult:
    """A sample's attempt, and the exception that left it without an answer, if any."""

    attempt: Attempt
    failure: Exception | None = None


@dataclass(frozen=True, slots=True)
class _Terms:
    """How a sample's requests are made and recorded; without `batches` it makes all of them itself."""

    ledger: Ledger
    slots: RequestSlots
    batches: CompletionBatches | None
    deadline: Deadline | None


class _Sampled:
    """A program and the settings shared by all its samples."""

    def __init__(self, program: dspy.Module, window: Window) -> None:
        self.program, self.names, self.has_own_lms = program, predictor_names(program), bool(held_lms(program))
        self.demos = demo_count(program)
        self._window, self._fewer = window, dict[int, _Sampled]()

    def fewer(self, refusal: Exception, example: dspy.Example) -> _Sampled:
        """The same with fewer demonstrations: as few as a refusal's numbers require, else three quarters of them."""
        limit, excess = stated(refusal)
        longest = partial(longest_prompt, self.program, [example])
        goal = (limit - self._window.reserve) / self._window.per_character
        if excess:
            goal = longest(self.demos) - excess / self._window.per_character
        exact = bool(limit) and longest(0) <= goal  # else the numbers mean something else, or nothing fits
        count = self.demos - (1 if exact else max(1, self.demos // 4))
        while exact and longest(count) > goal:
            count -= 1
        if count not in self._fewer:
            self._fewer[count] = _Sampled(with_fewer_demos(self.program, count), self._window)
        return self._fewer[count]


class Sampler:
    """Makes samples of programs and scores them.

    Args:
        journal: Attempts of an interrupted run. Those with an answer replace the samples of the same seed, iteration,
            task, temperature and index. So do those without one if a later iteration was built on them; in the
            interrupted iteration they are sampled again, and their tokens count.
        trace_calls: Which of a predictor's calls are recorded for demonstrations: a name in `TRACE_CALLS`.
        failure_score: The score of a sample at which the program or the metric failed; None: such a sample is in no
            success rate.
    """

    def __init__(
        self,
        metric: Metric,
        sampling: Sampling,
        threshold: float = 1.0,
        journal: Sequence[Attempt] = (),
        trace_calls: str = "all",
        failure_score: float | None = None,
    ) -> None:
        self.metric, self.sampling, self.threshold = metric, sampling, threshold
        # Where a threshold is given, it is about how good answers are.
        self.failure_score, self.judged = failure_score, checked_metric(metric, traced=threshold == 1.0)
        self._choose_calls = TRACE_CALLS[trace_calls]
        self._journal, self._last, self._warned_of_none = journal, 0, False
        self._kept: dict[Any, Attempt] = {}
        self._places: dict[int, int] = {}  # by hash of the sample's place: even a long journal takes little memory
        for number, attempt in enumerate(journal):
            checked_type(f"resume[{number}]", attempt, Attempt, "an optimizers.Attempt")
            self._places[hash(_place(attempt, attempt.task_key))] = number
            self._last = max(self._last, attempt.iteration)

    @property
    def batch_size(self) -> int:
        """Samples of a task and temperature in one request: the `n` of the LM."""
        lm = dspy.settings.lm
        return min(getattr(lm, "kwargs", {}).get("n") or 1, self.sampling.num_samples)

    @property
    def in_flight(self) -> int:
        """Samples running at a time, enough for `threads` requests in flight although a batch shares one."""
        return self.sampling.threads * self.batch_size

    def samples(self, iteration: int, tasks: Sequence[TaskExample]) -> Iterator[SampleSpec]:
        """An iteration's samples, turn by turn over all tasks, so that an interrupted one treats all tasks alike.

        A turn is a batch, or as many samples as an LM says that share its cache: its attribute `in_a_row`.
        """
        together = self.batch_size if self.batch_size > 1 else getattr(dspy.settings.lm, "in_a_row", 1)
        return self._samples(iteration, tasks, together)

    def _samples(self, iteration: int, tasks: Sequence[TaskExample], size: int) -> Iterator[SampleSpec]:
        for start in range(0, self.sampling.num_samples, size):
            for task in tasks:
                for temperature in self.sampling.temperatures:
                    for sample in range(start, min(start + size, self.sampling.num_samples)):
                        yield self._spec(iteration, task, temperature, sample)

    def _spec(self, iteration: int, task: TaskExample, temperature: float, sample: int) -> SampleSpec:
        seed = derive_seed(self.sampling.seed, iteration, task.key, temperature, sample)
        return SampleSpec(iteration, task, temperature, sample, seed)

    def worker(
        self,
        program: dspy.Module,
        taught: Sequence[str] = (),
        own_programs: Mapping[str, dspy.Module] | None = None,
        deadline: Deadline | None = None,
        window: Window | None = None,
        *,
        batched: bool = True,
    ) -> Callable[[SampleSpec], SampleResult]:
        """The function that makes a sample; safe to call from several threads.

        Args:
            program: The program.
            taught: Names of the predictors with recorded calls, which become demonstrations.
            own_programs: Copies of the program for tasks that are shown demonstrations of their own, by task key.
            deadline: When requests end, answered or not.
            window: Known facts about the LM's context window.
            batched: Whether samples share requests, if the LM is set to give several completions.
        """
        window = window or Window.of(dspy.settings.lm, None)
        slots, batches = RequestSlots(self.sampling.threads), CompletionBatches(self.batch_size if batched else 1)
        shared, types = _Sampled(program, window), ProgramTypes(program)
        own = {key: _Sampled(each, window) for key, each in (own_programs or {}).items()}

        def work(spec: SampleSpec) -> SampleResult:
            earlier = self._earlier(spec)
            if earlier is not None and self._stands(earlier):
                return SampleResult(types.attempt(replace(earlier, task=spec.task.index)))
            ledger = Ledger()
            ledger.merge(earlier.tokens if earlier else {})
            terms = _Terms(ledger, slots, batches, deadline)
            return self._fitting(own.get(spec.task.key, shared), spec, terms, taught)

        return work

    def keep(self, attempt: Attempt) -> None:
        """Makes an attempt that of its sample, which is not requested again."""
        self._kept[_place(attempt, attempt.task_key)] = attempt

    def _fitting(self, sampled: _Sampled, spec: SampleSpec, terms: _Terms, taught: Sequence[str]) -> SampleResult:
        """A sample; made again with fewer demonstrations as long as the LM refuses its prompt as too long."""
        most, refusals = sampled.demos, list[Exception]()
        result = self._sample(sampled, spec, terms, taught)
        while isinstance(result.failure, ContextWindowExceededError):
            refusals.append(result.failure)
            if not sampled.demos:
                break
            sampled, terms = sampled.fewer(result.failure, spec.task.example), replace(terms, batches=None)
            result = self._sample(sampled, spec, terms, taught)
        if not refusals:
            return result
        refused = [size for each in refusals if (size := getattr(each, "characters", 0))]
        windows = [limit for each in refusals if (limit := stated(each)[0])]
        shortest, window = min(refused, default=0), min(windows, default=0)
        left_out = most - sampled.demos
        return replace(result, attempt=replace(result.attempt, left_out=left_out, refused=shortest, window=window))

    def _sample(self, sampled: _Sampled, spec: SampleSpec, terms: _Terms, taught: Sequence[str]) -> SampleResult:
        twin_names: dict[Any, str] = {}
        named = partial(innermost_predictor, names=twin_names)
        seeds = CallSeeds(spec.seed)

        def meter(lm: Any, member: BatchMember | None = None, **config: Any) -> Any:
            own = lm is not dspy.settings.lm
            config = _lm_config(spec, temperature_of(lm, spec.temperature, own)) | config
            return metered(lm, terms.ledger, named, terms.slots, member, seeds, terms.deadline, **config)

        twin = replace_lms(sampled.program, meter) if sampled.has_own_lms else sampled.program
        twin_names.update(predictor_names(twin) if sampled.has_own_lms else sampled.names)
        lm, trace = dspy.settings.lm, CallTrace()
        adapter = metered_adapter(lambda own: metered(own, terms.ledger, named, terms.slots, deadline=terms.deadline))
        with (
            self._membership(terms.batches, spec) as member,
            # Even if a user has switched off DSPy's own traces.
            dspy.context(
                lm=lm and meter(lm, member, n=None),
                adapter=adapter,
                trace=trace,
                max_trace_size=LONGEST_TRACE,
                allow_tool_async_sync_conversion=True,  # else an agent sees every call of an async tool fail
            ),
        ):
            result, prediction = self._ask(twin, spec, trace)
        # A metric may change the prediction that it judges.
        made = [(caller, inputs, dict(each.items())) for caller, inputs, each in trace] if taught else []
        if prediction is not None:
            with recording_judge(terms.ledger):
                result = self._judge(result.attempt, twin, spec, prediction, trace)
        attempt = replace(result.attempt, tokens=terms.ledger.counts)
        if result.failure is not None:
            return replace(result, attempt=replace(attempt, score=self.failure_score))
        if taught and attempt.passed:
            known = {**dict(spec.task.example.inputs().items()), **attempt.outputs}
            choose = partial(self._choose_calls, seed=spec.seed)
            attempt = replace(attempt, calls=recorded_calls(made, twin_names, sampled.program, taught, known, choose))
        return SampleResult(attempt)

    def _earlier(self, spec: SampleSpec) -> Attempt | None:
        place = _place(spec, spec.task.key)
        if place in self._kept:
            return self._kept[place]
        number = self._places.get(hash(place))
        earlier = None if number is None else self._journal[number]
        return earlier if earlier and _place(earlier, earlier.task_key) == place else None

    def _stands(self, earlier: Attempt) -> bool:
        return not earlier.failed or 0 <= earlier.iteration < self._last

    @contextmanager
    def _membership(self, batches: CompletionBatches | None, spec: SampleSpec) -> Iterator[BatchMember | None]:
        """A sample's membership in its batch, whose members are those without an answer in the journal."""
        if batches is None:
            yield None
            return
        start = spec.sample - spec.sample % batches.size
        places = range(start, min(start + batches.size, self.sampling.num_samples))
        specs = [self._spec(spec.iteration, spec.task, spec.temperature, sample) for sample in places]
        known = map(self._earlier, specs)
        members = [place for place, earlier in enumerate(known) if earlier is None or not self._stands(earlier)]
        # A resumed run requests whole batches, with the same text: the response cache may have them.
        rollout = _lm_config(specs[0], spec.temperature).get("rollout_id")
        settings = {"n": len(specs), "seed": None, "rollout_id": rollout}
        member = batches.join((spec.task.key, spec.temperature, start), members, spec.sample - start, settings)
        try:
            yield member
        finally:
            if member:
                member.leave()

    def _ask(self, program: dspy.Module, spec: SampleSpec, trace: CallTrace) -> tuple[SampleResult, Any]:
        """Runs the program; the prediction is None where there is none to judge."""
        task, start = spec.task, time.perf_counter()
        place = (spec.iteration, task.index, task.key, spec.temperature, spec.sample, spec.seed)
        try:
            prediction = resolved(call_of(program)(**copied_fields(task.example.inputs())))
            outputs = fields_of(prediction)
        except AdapterParseError as error:
            seconds, text = time.perf_counter() - start, str(error.lm_response)
            attempt = Attempt(*place, text=text, score=0.0, seconds=seconds, error="AdapterParseError")
            return SampleResult(attempt), None
        except Exception as error:  # data; too many of them end the run, and the last is the reason
            failed = Attempt(*place, seconds=time.perf_counter() - start, error=one_line(error))
            if lacks_fields(error, program, trace):
                return SampleResult(replace(failed, text=last_answer(trace), score=0.0)), None
            return SampleResult(failed, error), None
        return SampleResult(Attempt(*place, outputs=outputs, seconds=time.perf_counter() - start)), prediction

    def _judge(
        self, attempt: Attempt, program: dspy.Module, spec: SampleSpec, prediction: Any, trace: CallTrace
    ) -> SampleResult:
        start = time.perf_counter()
        place = f" on task {spec.task.key}, temperature {spec.temperature}, sample {spec.sample}"
        try:
            verdict = self.judged(spec.task.example, prediction, trace)
            score, feedback = read_verdict(verdict)
        except Exception as error:  # as with the program: data
            failed = replace(attempt, error=f"metric: {one_line(error)}", metric_seconds=time.perf_counter() - start)
            if lacks_fields(error, program, trace, prediction):
                return SampleResult(replace(failed, text=last_answer(trace), score=0.0))
            return SampleResult(failed, MetricError.of(error, place))
        if verdict is None and not self._warned_of_none:
            self._warned_of_none = True
            logger.warning("the metric gave None%s, which counts as wrong; expected a score", place)
        seconds = time.perf_counter() - start
        passed = score is not None and score >= self.threshold
        return SampleResult(replace(attempt, score=score, feedback=feedback, passed=passed, metric_seconds=seconds))


def call_of(program: dspy.Module) -> Callable[..., Any]:
    """The method that runs a program: its `forward`, or its `aforward` if it has no other."""
    synchronous = hasattr(type(program), "forward") or not hasattr(type(program), "aforward")
    return program if synchronous else program.acall  # type: ignore[no-any-return]


def _place(sample: SampleSpec | Attempt, task_key: str) -> tuple[int, str, float, int, int]:
    return sample.iteration, task_key, sample.temperature, sample.sample, sample.seed


def _lm_config(spec: SampleSpec, temperature: float) -> dict[str, Any]:
    """Settings of a sample's LM; the rollout id keeps equal prompts apart in the response cache."""
    config: dict[str, Any] = {"temperature": temperature, "seed": spec.seed}
    if temperature > 0:  # at 0, DSPy accepts no rollout id
        config["rollout_id"] = derive_seed("rollout", spec.seed, spec.iteration, spec.task.key, spec.sample)
    return config
