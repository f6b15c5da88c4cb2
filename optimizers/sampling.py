"""Drawing samples: the jobs of an iteration, and what one job does.

Invariants: what a job asks of the LM depends on the run's seed and on the job alone, not on threads or
timing; answers that cannot be parsed are wrong answers, LMs that do not answer are no answers, and a metric
that fails is neither: it ends the run; the program is only read; what the journal of a run that broke off
holds an answer to is not asked again.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, SupportsFloat

import dspy
from dspy.utils.exceptions import (
    AdapterParseError,
    LMAuthError,
    LMBillingError,
    LMConfigurationError,
    LMUnsupportedModelError,
)

from optimizers.arguments import checked_count, checked_temperatures, checked_type
from optimizers.attempt import Attempt
from optimizers.batching import Batches, Share
from optimizers.calls import Calls, own_calls
from optimizers.errors import MetricError, in_short
from optimizers.ledger import Ledger
from optimizers.metering import Slots, innermost, metered, own_lms, predictor_names, rebind

__all__ = ["FATAL", "Attempt", "Job", "Outcome", "Sampler", "Sampling", "Task", "derive_seed"]

Metric = Callable[..., Any]

LONGEST_TRACE = 10_000
"""Calls of one sample that are kept for demonstrations, from the last on."""

# After these, asking again is of no use to any sample.
FATAL = (LMAuthError, LMBillingError, LMConfigurationError, LMUnsupportedModelError)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How samples are drawn.

    Attributes:
        num_samples: Samples per task and temperature.
        temperatures: Sampling temperatures.
        threads: Requests in flight at a time.
        seed: Decides, together with a sample's place in the run, the seed that the LM is handed.

    Raises:
        TypeError: An argument is no whole number, or temperatures are no sequence of numbers.
        ValueError: There is nothing to draw, or a temperature is negative or given twice.
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
class Task:
    """One example to solve: its place in its set, its name, and the example itself."""

    index: int
    key: str
    example: dspy.Example = field(compare=False)


@dataclass(frozen=True, slots=True)
class Job:
    """One sample to draw, `seed` being what the LM is handed."""

    iteration: int
    task: Task
    temperature: float
    sample: int
    seed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job: the attempt, and the exception that left it without an answer, if one did."""

    attempt: Attempt
    failure: Exception | None = None


def derive_seed(*parts: Any) -> int:
    """A seed in [0, 2**31), the range that every provider takes, by hashing the parts' JSON."""
    digest = hashlib.sha256(json.dumps(parts).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


class Sampler:
    """Draws samples of programs and has them judged.

    Args:
        metric: `metric(example, prediction)`, returning a bool, a float, or a prediction with a `score` and
            whatever else is worth recording. Called in several threads at once.
        sampling: How many samples, at which temperatures.
        threshold: The score from which on an answer is right.
        journal: Attempts of a run that broke off. Those with an answer stand for the samples of the same seed,
            iteration, task, temperature and index. So do the others, where a later iteration was built on what they
            left; in the one that broke off they were paid for, and are tried again.
    """

    def __init__(
        self, metric: Metric, sampling: Sampling, threshold: float = 1.0, journal: Sequence[Attempt] = ()
    ) -> None:
        self.metric, self.sampling, self.threshold = metric, sampling, threshold
        self._journal, self._last = journal, 0
        self._places: dict[int, int] = {}  # of a sample's place its hash: a journal of any length takes little memory
        for number, attempt in enumerate(journal):
            checked_type(f"resume[{number}]", attempt, Attempt, "an optimizers.Attempt")
            self._places[hash(_place(attempt, attempt.task_key))] = number
            self._last = max(self._last, attempt.iteration)

    @property
    def batch_size(self) -> int:
        """Samples of a task and temperature that one request answers: the `n` that the LM is set to."""
        lm = dspy.settings.lm
        return min(getattr(lm, "kwargs", {}).get("n") or 1, self.sampling.num_samples)

    @property
    def in_hand(self) -> int:
        """Samples at work at a time, so that `threads` requests are under way though a batch waits for one."""
        return self.sampling.threads * self.batch_size

    def jobs(self, iteration: int, tasks: Sequence[Task]) -> Iterator[Job]:
        """An iteration's jobs, batch by batch over all tasks, so that one cut short treats all alike."""
        return self._jobs(iteration, tasks, self.batch_size)

    def _jobs(self, iteration: int, tasks: Sequence[Task], size: int) -> Iterator[Job]:
        for start in range(0, self.sampling.num_samples, size):
            for task in tasks:
                for temperature in self.sampling.temperatures:
                    for sample in range(start, min(start + size, self.sampling.num_samples)):
                        yield self._job(iteration, task, temperature, sample)

    def _job(self, iteration: int, task: Task, temperature: float, sample: int) -> Job:
        seed = derive_seed(self.sampling.seed, iteration, task.key, temperature, sample)
        return Job(iteration, task, temperature, sample, seed)

    def worker(self, program: dspy.Module, taught: Sequence[str] = ()) -> Callable[[Job], Outcome]:
        """The function that does a job with `program`; safe to call from several threads.

        Args:
            program: The program.
            taught: Names of the predictors whose calls become demonstrations, and so go on record.
        """
        names, rebound = predictor_names(program), own_lms(program)
        slots, batches = Slots(self.sampling.threads), Batches(self.batch_size)

        def work(job: Job) -> Outcome:
            earlier = self._earlier(job)
            if earlier is not None and self._stands(earlier):
                return Outcome(replace(earlier, task=job.task.index))
            ledger = Ledger()
            ledger.merge(earlier.tokens if earlier else {})

            def meter(lm: Any, share: Share | None = None, **config: Any) -> Any:
                config = _lm_config(job) | config
                return metered(lm, ledger, lambda callers: innermost(callers, twin_names), slots, share, **config)

            twin, twin_names = program, names
            if rebound:
                twin_names = {}  # filled once the twin exists, whose LMs hold it already
                twin = rebind(program, meter)
                twin_names.update(predictor_names(twin))
            lm, trace = dspy.settings.lm, Calls()
            with (
                self._share(batches, job) as share,
                # Also where a user has switched DSPy's own traces off.
                dspy.context(lm=lm and meter(lm, share, n=None), trace=trace, max_trace_size=LONGEST_TRACE),
            ):
                outcome, prediction = self._ask(twin, job)
            attempt = replace(outcome.attempt, tokens=ledger.counts)
            if prediction is None:
                return replace(outcome, attempt=attempt)
            attempt = self._judge(attempt, job, prediction)
            if taught and attempt.passed:
                known = {**dict(job.task.example.inputs().items()), **attempt.outputs}
                attempt = replace(attempt, calls=own_calls(trace, twin_names, program, taught, known))
            return Outcome(attempt)

        return work

    def _earlier(self, job: Job) -> Attempt | None:
        place = _place(job, job.task.key)
        number = self._places.get(hash(place))
        earlier = None if number is None else self._journal[number]
        return earlier if earlier and _place(earlier, earlier.task_key) == place else None

    def _stands(self, earlier: Attempt) -> bool:
        return earlier.scored or 0 <= earlier.iteration < self._last

    @contextmanager
    def _share(self, batches: Batches, job: Job) -> Iterator[Share | None]:
        """A sample's share in its batch, whose members are those without an answer in the journal."""
        start = job.sample - job.sample % batches.size
        places = range(start, min(start + batches.size, self.sampling.num_samples))
        jobs = [self._job(job.iteration, job.task, job.temperature, sample) for sample in places]
        known = map(self._earlier, jobs)
        members = [place for place, earlier in enumerate(known) if earlier is None or not self._stands(earlier)]
        # A run that goes on asks for whole batches, in the same words: the response cache may have them.
        request = {"n": len(jobs), "seed": None, "rollout_id": _lm_config(jobs[0]).get("rollout_id")}
        share = batches.share((job.task.key, job.temperature, start), members, job.sample - start, request)
        try:
            yield share
        finally:
            if share:
                share.leave()

    def _ask(self, program: dspy.Module, job: Job) -> tuple[Outcome, Any]:
        """Runs the program; the prediction is None where there is none to judge."""
        task, start = job.task, time.perf_counter()
        place = (job.iteration, task.index, task.key, job.temperature, job.sample, job.seed)
        try:
            prediction = program(**dict(task.example.inputs().items()))
            if not isinstance(prediction, dspy.Prediction):
                raise TypeError(f"the program gave {prediction!r:.80}, expected a dspy.Prediction")
            outputs = dict(prediction.items())
        except AdapterParseError as error:
            seconds, text = time.perf_counter() - start, str(error.lm_response)
            attempt = Attempt(*place, text=text, score=0.0, seconds=seconds, error="AdapterParseError")
            return Outcome(attempt), None
        except Exception as error:  # data; too many of them end the run, with the last as the reason
            seconds = time.perf_counter() - start
            return Outcome(Attempt(*place, seconds=seconds, error=in_short(error)), error), None
        return Outcome(Attempt(*place, outputs=outputs, seconds=time.perf_counter() - start)), prediction

    def _judge(self, attempt: Attempt, job: Job, prediction: Any) -> Attempt:
        start = time.perf_counter()
        try:
            score, feedback = read_verdict(self.metric(job.task.example, prediction))
        except Exception as error:
            place = f"task {job.task.key}, temperature {job.temperature}, sample {job.sample}"
            raise MetricError(f"the metric failed on {place}: {type(error).__name__}: {error}") from error
        seconds = time.perf_counter() - start
        verdict: Mapping[str, Any] = {"score": score, "feedback": feedback, "metric_seconds": seconds}
        return replace(attempt, passed=score >= self.threshold, **verdict)


def _place(sample: Job | Attempt, task_key: str) -> tuple[int, str, float, int, int]:
    return sample.iteration, task_key, sample.temperature, sample.sample, sample.seed


def _lm_config(job: Job) -> dict[str, Any]:
    """What a sample's LM is set to; the rollout id keeps equal prompts apart in the response cache."""
    config: dict[str, Any] = {"temperature": job.temperature, "seed": job.seed}
    if job.temperature > 0:  # at 0, DSPy takes no rollout id
        config["rollout_id"] = derive_seed("rollout", job.seed, job.iteration, job.task.key, job.sample)
    return config


def read_verdict(verdict: Any) -> tuple[float, dict[str, Any]]:
    """The score, and what else a metric returned along with it.

    Raises:
        TypeError: It returned no score.
        ValueError: The score is no finite number.
    """
    feedback = dict(verdict.items()) if hasattr(verdict, "items") else {}
    score = feedback.pop("score", None) if feedback else verdict
    if not isinstance(score, SupportsFloat):
        raise TypeError(f"it gave {verdict!r:.80}, expected a number, a bool, or a prediction with a score")
    if not math.isfinite(score):
        raise ValueError(f"it gave a score of {score}, expected a finite number")
    return float(score), feedback
