"""Sampling: the samples of an iteration, and how one of them is made.

Invariants: a sample's requests to the LM depend only on the run's seed and on the sample, not on threads or timing;
an answer that cannot be parsed is a wrong answer, an LM that fails gives no answer, and a metric that fails gives no
verdict; the program is only read; samples with an answer in the journal of an interrupted run are not
requested again.
"""

from __future__ import annotations

import copy
import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import dspy
from dspy.utils.exceptions import (
    AdapterParseError,
    ContextWindowExceededError,
    LMAuthError,
    LMBillingError,
    LMConfigurationError,
    LMUnsupportedModelError,
)
from pydantic import Field

from optimizers.arguments import Temperatures, validated
from optimizers.attempt import JUDGE, Attempt, Metric, TaskExample, checked_metric, read_verdict, resolved, to_jsonable
from optimizers.errors import MetricError, UnavailableError, one_line
from optimizers.ledger import Ledger, metered_all
from optimizers.predictors import ProgramTypes, held, innermost_predictor, name_of, predictor_names, replace_lms
from optimizers.requests import Batch, CallSeeds, Deadline, derive_seed, sampled, sampled_adapter, temperature_of

# --- the calls of a sample, from which demonstrations are made --------------------------------------------------------
# Invariants: a predictor is shown its own inputs and its own answer, as in DSPy's BootstrapFewShot; a call keeps the
# inputs that it was made with, even if the program changes them later; calls are in order of completion; of calls with
# equal inputs, such as votes, one is kept; fields that equal the program's own inputs and outputs are not recorded
# again.

Fields = dict[str, Any]
Chosen = tuple[Fields, ...]


class CallTrace(list[Any]):
    """A trace for `dspy.settings.trace`: (predictor, inputs, prediction) of every answered call."""

    def append(self, call: Any) -> None:
        """Adds a call; its inputs are copied where possible, since programs may change them afterwards."""
        predictor, inputs, prediction = call
        super().append((predictor, copied_fields(inputs), prediction))


def copied_fields(fields: Mapping[str, Any]) -> Fields:
    """A copy of fields with values that programs may change, such as an agent's history."""
    return {name: _copied(value) for name, value in fields.items()}


def _copied(value: Any) -> Any:
    if isinstance(value, str | int | float):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # its class may raise anything; a value that cannot be copied is kept unchanged
        return value


def recorded_calls(
    trace: Iterable[Any],
    names: Mapping[int, str],
    program: dspy.Module,
    taught: Sequence[str],
    known: Mapping[str, Any],
) -> dict[str, Chosen]:
    """The fields of each taught predictor's calls, where they differ from the program's own fields.

    Args:
        trace: The calls of a sample, as predictors, inputs and outputs.
        names: Names of the predictors that made them, as `requests.predictor_names` gives them.
        program: The program.
        taught: Names of the predictors that get demonstrations.
        known: The program's inputs and outputs.

    Returns:
        Calls by predictor, none for one that was not called. A predictor is omitted if its one call has the fields of
        `known`, or if a call of the same signature could not be attributed: programs may create predictors as they run.
    """
    predictors = dict(program.named_predictors())
    made: dict[str, list[Fields]] = {}
    unattributed = []
    for predictor, inputs, outputs in trace:
        if (name := name_of(predictor, names)) is None:
            unattributed.append(predictor.signature)
        else:
            made.setdefault(name, []).append({**inputs, **outputs})
    calls: dict[str, Chosen] = {}
    for name in taught:
        fields = predictors[name].signature.fields
        if name in made:
            inputs = predictors[name].signature.input_fields
            chosen = _distinct([{f: call[f] for f in fields if f in call} for call in made[name]], inputs, known)
            if to_jsonable(chosen) != to_jsonable([{field: known[field] for field in fields if field in known}]):
                calls[name] = chosen
        elif not any(signature.fields.keys() == fields.keys() for signature in unattributed):
            calls[name] = ()
    return calls


def _distinct(calls: Iterable[Fields], inputs: Iterable[str], known: Mapping[str, Any]) -> Chosen:
    """One call for each set of inputs, at the place of the last: the last that agrees with the program's fields.

    A program that votes, or tries again until it is satisfied, asks the same more than once, and rejects answers.
    """
    kept: dict[str, Fields] = {}
    names = set(inputs)
    for call in calls:
        key = json.dumps(to_jsonable({name: call[name] for name in call if name in names}), sort_keys=True)
        before = kept.pop(key, None)
        answers = [name for name in call if name in known and name not in names]
        rejected = any(to_jsonable(call[name]) != to_jsonable(known[name]) for name in answers)
        agreed = before and all(to_jsonable(before.get(name)) == to_jsonable(known[name]) for name in answers)
        kept[key] = before if before and agreed and rejected else call
    return tuple(kept.values())


# --- the samples ------------------------------------------------------------------------------------------------------

logger = logging.getLogger(__name__)

LONGEST_TRACE = 10_000
"""The number of latest calls of one sample that are kept for demonstrations."""

FATAL = (LMAuthError, LMBillingError, LMConfigurationError, LMUnsupportedModelError, UnavailableError)
"""Errors after which every further request would fail too."""


@validated
class Sampling:
    """How many samples of each task, at which temperatures.

    Attributes:
        num_samples: Samples per task and temperature.
        temperatures: Sampling temperatures.
        threads: Samples in flight at a time.
        seed: Determines, together with a sample's place in the run, the seed that the LM gets.
        stop_after: Right answers to a task at a temperature after which an iteration samples no further ones; None: it
            takes all samples. Those in flight are in the record, and in no success rate (`pass_at_k.counted`).

    Raises:
        TypeError: An argument is not a whole number, or temperatures are not a sequence of numbers.
        ValueError: There are no samples, or a temperature is negative or given twice.
    """

    num_samples: Annotated[int, Field(ge=1)] = 64
    temperatures: Temperatures = (0.4, 0.7, 1.0)
    threads: Annotated[int, Field(ge=1)] = 8
    seed: int = 0
    stop_after: Annotated[int, Field(ge=2)] | None = None


@dataclass(frozen=True, slots=True)
class SampleSpec:
    """One sample to make; its `seed` is that of its first call, from which those of further calls derive."""

    iteration: int
    task: TaskExample
    temperature: float
    sample: int
    seed: int


Job = tuple[SampleSpec, ...]
"""Samples of one task and temperature that share their first request; a single one where an LM gives one answer."""


@dataclass(frozen=True, slots=True)
class SampleResult:
    """A sample's attempt, and the exception that left it without an answer, if any."""

    attempt: Attempt
    failure: Exception | None = None


@dataclass(frozen=True, slots=True)
class _Terms:
    """How a sample's requests are made and counted."""

    ledger: Ledger
    deadline: Deadline | None
    batch: Batch | None


class _Prepared:
    """A program, and what all its samples share."""

    def __init__(self, program: dspy.Module) -> None:
        self.program, self.names, self.has_own_lms = program, predictor_names(program), bool(held(program))
        self.demos = demo_count(program)
        self._half: _Prepared | None = None

    def half(self) -> _Prepared:
        """The same with half of the demonstrations, the first ones."""
        if self._half is None:
            self._half = _Prepared(with_fewer_demos(self.program, self.demos // 2))
        return self._half


def demo_count(program: dspy.Module) -> int:
    """The number of demonstrations of the predictor that has the most."""
    return max((len(predictor.demos) for predictor in program.predictors()), default=0)


def with_fewer_demos(program: dspy.Module, most: int) -> dspy.Module:
    """A copy of a program whose predictors have `most` demonstrations, the first ones, and no part of a solution."""
    twin = replace_lms(program, lambda lm: lm)
    for predictor in twin.predictors():
        demos = list(predictor.demos)
        predictor.demos = demos[:most]
        cut = getattr(demos[most], "_solution", None) if len(demos) > most else None
        while cut is not None and predictor.demos and getattr(predictor.demos[-1], "_solution", None) == cut:
            predictor.demos.pop()
    return twin


class Sampler:
    """Makes samples of programs and scores them.

    Args:
        journal: Attempts of an interrupted run. Those with an answer replace the samples of the same seed, iteration,
            task, temperature and index. So do those without one if a later iteration was built on them; in the
            interrupted iteration they are sampled again, and their tokens count.
        failure_score: The score of a sample at which the program or the metric failed; None: such a sample is in no
            success rate.
    """

    def __init__(
        self,
        metric: Metric,
        sampling: Sampling,
        threshold: float = 1.0,
        journal: Sequence[Attempt] = (),
        failure_score: float | None = None,
    ) -> None:
        self.metric, self.sampling, self.threshold = metric, sampling, threshold
        # Where a threshold is given, it is about how good answers are.
        self.failure_score, self.judged = failure_score, checked_metric(metric, traced=threshold == 1.0)
        self._journal, self._last, self._warned_of_none = journal, 0, False
        self._batched = True
        self._places: dict[int, int] = {}  # by hash of the sample's place: even a long journal takes little memory
        for number, attempt in enumerate(journal):
            if not isinstance(attempt, Attempt):
                raise TypeError(f"resume[{number}]: expected an optimizers.Attempt, found {type(attempt).__name__}")
            self._places[hash(_place(attempt, attempt.task_key))] = number
            self._last = max(self._last, attempt.iteration)

    def jobs(self, iteration: int, tasks: Sequence[TaskExample]) -> Iterator[Job]:
        """An iteration's samples, turn by turn over all tasks, so that an interrupted one treats all tasks alike.

        A turn is a batch, the `n` of the LM, or as many samples as an LM says that share its cache: its `in_a_row`.
        """
        lm, most = dspy.settings.lm, self.sampling.num_samples
        several = isinstance(getattr(lm, "engine", None), str) and getattr(lm, "kwargs", {}).get("n")
        batch = min(several or 1, most)
        turn = batch if batch > 1 else getattr(lm, "in_a_row", 1)
        specs = (
            tuple(self._spec(iteration, task, temperature, sample) for sample in range(start, min(start + turn, most)))
            for start in range(0, most, turn)
            for task in tasks
            for temperature in self.sampling.temperatures
        )
        return specs if batch > 1 else ((spec,) for job in specs for spec in job)

    def _spec(self, iteration: int, task: TaskExample, temperature: float, sample: int) -> SampleSpec:
        seed = derive_seed(self.sampling.seed, iteration, task.key, temperature, sample)
        return SampleSpec(iteration, task, temperature, sample, seed)

    def worker(
        self,
        program: dspy.Module,
        taught: Sequence[str] = (),
        own_programs: Mapping[str, dspy.Module] | None = None,
        deadline: Deadline | None = None,
    ) -> Callable[[Job], list[SampleResult]]:
        """The function that makes the samples of a job; safe to call from several threads.

        Args:
            program: The program.
            taught: Names of the predictors with recorded calls, which become demonstrations.
            own_programs: Copies of the program for tasks that are shown demonstrations of their own, by task key.
            deadline: When requests end, answered or not.
        """
        shared, types = _Prepared(program), ProgramTypes(program)
        own = {key: _Prepared(each) for key, each in (own_programs or {}).items()}

        def work(job: Job) -> list[SampleResult]:
            batch, results = self._batch(job), list[SampleResult]()
            for place, spec in enumerate(job):
                earlier = self._earlier(spec)
                if earlier is not None and (not earlier.failed or 0 <= earlier.iteration < self._last):
                    results.append(SampleResult(types.attempt(replace(earlier, task=spec.task.index))))
                    continue
                ledger = Ledger()
                ledger.merge(earlier.tokens if earlier else {})
                if batch:
                    batch.begin(place)
                prepared = own.get(spec.task.key, shared)
                results.append(self._fitting(prepared, spec, _Terms(ledger, deadline, batch), taught))
            return results

        return work

    def _batch(self, job: Job) -> Batch | None:
        if len(job) == 1 or not self._batched:
            return None
        # A resumed run requests whole batches, with the same text: the response cache may have them.
        rollout = _lm_config(job[0], job[0].temperature).get("rollout_id")
        return Batch({"n": len(job), "seed": None, "rollout_id": rollout}, partial(self._refuse_batches, len(job)))

    def _refuse_batches(self, n: int, error: Exception) -> None:
        known, self._batched = not self._batched, False
        if not known:
            logger.warning("the LM does not accept n=%d; every sample now makes its own request: %s", n, error)

    def _fitting(self, prepared: _Prepared, spec: SampleSpec, terms: _Terms, taught: Sequence[str]) -> SampleResult:
        """A sample; made again with half of the demonstrations as long as the LM refuses its prompt as too long."""
        most, result = prepared.demos, self._sample(prepared, spec, terms, taught)
        while isinstance(result.failure, ContextWindowExceededError) and prepared.demos:
            prepared, terms = prepared.half(), replace(terms, batch=None)
            result = self._sample(prepared, spec, terms, taught)
        return replace(result, attempt=replace(result.attempt, left_out=most - prepared.demos))

    def _sample(self, prepared: _Prepared, spec: SampleSpec, terms: _Terms, taught: Sequence[str]) -> SampleResult:
        names: dict[Any, str] = {}
        counted = partial(
            sampled, ledger=terms.ledger, name=partial(innermost_predictor, names=names), deadline=terms.deadline
        )
        seeds = CallSeeds(spec.seed)

        def own(lm: Any, **options: Any) -> Any:
            temperature = temperature_of(lm, spec.temperature, lm is not dspy.settings.lm)
            made = counted(lm, seeds=seeds, **_lm_config(spec, temperature), **options)
            made.sample = spec.sample
            return made

        twin = replace_lms(prepared.program, own) if prepared.has_own_lms else prepared.program
        names.update(predictor_names(twin) if prepared.has_own_lms else prepared.names)
        lm, trace = dspy.settings.lm, CallTrace()
        # Even if a user has switched off DSPy's own traces.
        with dspy.context(
            lm=lm and own(lm, batch=terms.batch, n=None),
            adapter=sampled_adapter(counted),
            trace=trace,
            max_trace_size=LONGEST_TRACE,
            allow_tool_async_sync_conversion=True,  # else an agent sees every call of an async tool fail
        ):
            result, prediction = self._ask(twin, spec, trace)
        # A metric may change the prediction that it judges.
        made = [(caller, inputs, dict(each.items())) for caller, inputs, each in trace] if taught else []
        if prediction is not None:
            with metered_all(terms.ledger, JUDGE), dspy.context(caller_modules=[], trace=[]):
                result = self._judge(result.attempt, twin, spec, prediction, trace)
        attempt = replace(result.attempt, tokens=terms.ledger.counts)
        if result.failure is not None:
            return replace(result, attempt=replace(attempt, score=self.failure_score))
        if taught and attempt.passed:
            known = {**dict(spec.task.example.inputs().items()), **attempt.outputs}
            attempt = replace(attempt, calls=recorded_calls(made, names, prepared.program, taught, known))
        return SampleResult(attempt)

    def _earlier(self, spec: SampleSpec) -> Attempt | None:
        place = _place(spec, spec.task.key)
        number = self._places.get(hash(place))
        earlier = None if number is None else self._journal[number]
        return earlier if earlier and _place(earlier, earlier.task_key) == place else None

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
            if _lacks_fields(error, program, trace):
                return SampleResult(replace(failed, text=_last_answer(trace), score=0.0)), None
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
            if _lacks_fields(error, program, trace, prediction):
                return SampleResult(replace(failed, text=_last_answer(trace), score=0.0))
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


def fields_of(result: Any) -> dict[str, Any]:
    """The fields of a program's result; a value that has none is one itself, `prediction`; None is a `TypeError`."""
    if result is None:
        raise TypeError("the program gave None, expected a dspy.Prediction")
    return dict(result.items()) if isinstance(result, dspy.Example | Mapping) else {"prediction": result}


def _lacks_fields(error: BaseException, program: Any, calls: Sequence[Any], prediction: Any = None) -> bool:
    """Whether an exception of the program or the metric is due to an output field that the LM left out.

    It names an output field of the program that the prediction does not have; or it is about a None, which adapters
    fill in for such a field, and some output field of a call, or of the program, is None.
    """
    if isinstance(error, AttributeError | KeyError) and isinstance(prediction, dspy.Example):
        fields = {name for predictor in program.predictors() for name in predictor.signature.output_fields}
        found = re.search(r"attribute '(\w+)'", str(error))
        name = str(error.args[0]) if isinstance(error, KeyError) and error.args else (found[1] if found else None)
        if name in fields and name not in prediction:
            return True
    if not isinstance(error, AttributeError | TypeError) or "NoneType" not in str(error):
        return False
    answers = [outputs for *_, outputs in calls] + ([] if prediction is None else [fields_of(prediction)])
    return any(value is None for outputs in answers for _, value in outputs.items())


def _last_answer(calls: Sequence[Any]) -> str:
    """The output fields of the last call, as a text."""
    return str(dict(calls[-1][2].items())) if calls else ""


def _place(sample: SampleSpec | Attempt, task_key: str) -> tuple[int, str, float, int, int]:
    return sample.iteration, task_key, sample.temperature, sample.sample, sample.seed


def _lm_config(spec: SampleSpec, temperature: float) -> dict[str, Any]:
    """Settings of a sample's LM; the rollout id keeps equal prompts apart in the response cache."""
    config: dict[str, Any] = {"temperature": temperature, "seed": spec.seed}
    if temperature > 0:  # at 0, DSPy accepts no rollout id
        config["rollout_id"] = derive_seed("rollout", spec.seed, spec.iteration, spec.task.key, spec.sample)
    return config
