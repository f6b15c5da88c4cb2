"""The `Driver` by which every optimizer of this package compiles: it checks, runs the iterations and makes the result.

Invariants: student and training set are not changed, also when an exception is raised; all state of a run is in its
`Run`, so that one optimizer can compile repeatedly; if the LM is a function of its requests, two runs with one seed
agree in every attempt, demonstration and figure except times, for any number of threads.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypedDict

import dspy
from dspy.teleprompt import Teleprompter

from optimizers.arguments import (
    checked_choice,
    checked_count,
    checked_limits,
    checked_lms,
    checked_temperatures,
    checked_type,
    named_examples,
)
from optimizers.attempt import Attempt
from optimizers.autologging import join_autologging
from optimizers.budget import Budget, Spending
from optimizers.call_metric import checked_metric
from optimizers.call_trace import TRACE_CALLS
from optimizers.candidates import candidate_programs
from optimizers.closing_remarks import summary, warn_of_unscored, warn_of_unshown
from optimizers.context_fit import ContextFit
from optimizers.demonstrations import DemoFitter, copy_program, taught_predictors
from optimizers.domain import Domain
from optimizers.errors import RunStopped, one_line
from optimizers.experience import Entry, Experience, in_task_order
from optimizers.ledger import Ledger
from optimizers.observer import Observer, evaluate_events
from optimizers.progress import ProgressBar, watched
from optimizers.run import Run
from optimizers.sampling import Sampler, Sampling, TaskExample
from optimizers.sampling_loop import CANCELLED
from optimizers.solutions import Solutions
from optimizers.strategies.base import Selection
from optimizers.strategies.none import Resample
from optimizers.strategies.registry import make_selection
from optimizers.temperatures import taken
from optimizers.typed_fields import ProgramTypes

logger = logging.getLogger(__name__)

Prepare = Callable[[Run, Sequence[TaskExample]], dspy.Module]
"""Makes a program within a run, before its first iteration, from the run and the validation set."""


UNRECORDED = ("budget", "display_progress", "domain", "observers", "overhead", "prepare", "sampling", "threads")
"""Fields of a `Driver` that are no scalars, or are among its `params` under another name."""


class Options(TypedDict, total=False):
    """The keyword options that every optimizer takes; see `Driver`."""

    temperatures: Sequence[float]
    threads: int | None
    seed: int
    budget: Budget | None
    domain: Domain | None
    observers: Sequence[Observer]
    trace_calls: str
    num_threads: int | None
    metric_threshold: float | None
    max_demos: int | None
    max_errors: int | None
    failure_score: float | None
    stop_at_score: float | None
    display_progress: bool | None


@dataclass(frozen=True)
class Driver:
    """Compiles students.

    Attributes:
        metric: `metric(example, prediction)`, or one with up to five arguments as for DSPy's GEPA, or a coroutine;
            returns a bool, a float, or a prediction with a `score` and further fields to record. Called in several
            threads at once, right after each sample. An exception costs the attempt; a `MetricError` ends the run.
            Requests of its own, to any LM, are recorded as those of the `LM judge`.
        num_samples: Samples per task and temperature.
        granularity: The number m of levels of difficulty.
        selection: The selection strategy, or its name.
        temperatures: Sampling temperatures; a task's success rate is that of its best.
        threads: Requests in flight at a time, over all tasks and temperatures; None: `num_threads`.
        seed: Determines everything random.
        budget: Limits of a run.
        domain: When two answers mean the same, which one is shorter, task names, …
        observers: Listeners to the run.
        trace_calls: Which calls of a predictor become its demonstrations, of those in the attempt that solved a task:
            `all` of them in order, so that an agent is shown how it starts and how it ends; the `first`; the `last`; or
            `one`, the last or an earlier one at random, as in DSPy's BootstrapFewShot. Of calls with equal inputs, such
            as votes, one counts. Without effect where a predictor is called once.
        num_threads: DSPy's name for `threads`; None: that of `dspy.settings`.
        metric_threshold: The lowest score of a right answer; None: the domain's, by default 1.
        max_demos: Demonstrations of a predictor; the easiest tasks' are omitted.
        max_errors: The number of samples without an answer or a verdict that ends the run, in place of the budget's
            share of an iteration.
        failure_score: The score of such a sample, as in `dspy.Evaluate`; None: it is in no success rate.
        stop_at_score: Percentage of solved tasks at which the run ends before its strategy does.
        display_progress: Whether to show a progress bar; None: in a terminal and in a notebook.
        prepare: Makes the program that is sampled, with its demonstrations and instructions; None: the selection's
            demonstrations are set.
        overhead: The ledger of `prepare`'s requests.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of its range.
    """

    metric: Callable[..., Any]
    num_samples: int = 64
    granularity: int = 3
    selection: str | Selection = "adaptive"
    temperatures: Sequence[float] = (0.4, 0.7, 1.0)
    threads: int | None = None
    seed: int = 0
    budget: Budget | None = None
    domain: Domain | None = None
    observers: Sequence[Observer] = ()
    trace_calls: str = "all"
    num_threads: int | None = None
    metric_threshold: float | None = None
    max_demos: int | None = None
    max_errors: int | None = None
    failure_score: float | None = None
    stop_at_score: float | None = None
    display_progress: bool | None = None
    prepare: Prepare | None = None
    overhead: Ledger | None = None
    sampling: Sampling = field(init=False)

    def __post_init__(self) -> None:
        checked_metric(self.metric)
        checked_count("granularity", self.granularity)
        checked_type("budget", self.budget or Budget(), Budget, "an optimizers.Budget")
        checked_type("domain", self.domain or Domain(), Domain, "an optimizers.Domain")
        checked_choice("trace_calls", self.trace_calls, TRACE_CALLS)
        checked_limits(self)
        if None not in (self.threads, self.num_threads) and self.threads != self.num_threads:
            raise ValueError(f"threads is {self.threads}, and num_threads, another name for it, {self.num_threads}")
        own = self.num_threads if self.threads is None else self.threads
        threads = dspy.settings.num_threads or 8 if own is None else own
        sampling = Sampling(self.num_samples, checked_temperatures(self.temperatures), threads, self.seed)
        object.__setattr__(self, "sampling", sampling)
        if self.metric_threshold is not None:
            domain = replace(self.domain or Domain(), threshold=float(self.metric_threshold))
            object.__setattr__(self, "domain", domain)
        selection = make_selection(self.selection, self.granularity)
        if isinstance(selection, Resample) and not (self.budget or Budget()).limited:
            raise ValueError("selection: `resample` ends at a limit only; give a budget, such as Budget(iterations=5)")
        object.__setattr__(self, "selection", selection)

    def compile(
        self,
        student: dspy.Module,
        trainset: Sequence[dspy.Example],
        valset: Sequence[dspy.Example] | None,
        experience: Experience | None,
        resume: Sequence[Attempt],
    ) -> dspy.Module:
        """See `DrivenOptimizer.compile`."""
        checked_type("student", student, dspy.Module, "a dspy.Module")
        checked_lms(student)
        if experience is not None:
            checked_type("experience", experience, Experience, "an optimizers.Experience")
        checked_type("resume", resume, Sequence, "the attempts of a run")
        tasks = self._tasks(trainset, "trainset")
        validation = list(self._tasks(valset, "valset").values()) if valset else []
        with evaluate_events(self.metric, {key: task.example for key, task in tasks.items()}) as events:
            shown = watched() if self.display_progress is None else self.display_progress
            bar = [ProgressBar()] if shown else []
            run = self._run(student, tasks, experience, resume, [*self.observers, *events, *bar])
            return self._compiled(run, validation)

    def _compiled(self, run: Run, validation: Sequence[TaskExample]) -> dspy.Module:
        """The result of the run; an exception carries the run's record, as its `experience`."""
        try:
            return self._learned(run, validation)
        except RunStopped as stop:
            cause = stop.cause or stop
            run.fail(cause, stop.stopped, stop.message)
            raise cause from cause.__cause__
        except BaseException as error:
            stopped = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            run.fail(error, stopped, one_line(error))
            raise

    def _learned(self, run: Run, validation: Sequence[TaskExample]) -> dspy.Module:
        """The result of the run; raises `RunStopped` if its cause is to be raised."""
        demos: Sequence[Entry] = ()
        run.start()
        try:
            stopped, message = self._iterated(run, validation)
            run.solutions.hold_out(run.nearest_misses)
            demos = run.choose(() if stopped == "budget" else validation)
        except RunStopped as stop:
            if stop.unusable(scored=not all(attempt.failed for attempt in run.attempts)):
                raise
            stopped, message, demos = stop.stopped, stop.message, run.choose()
        except KeyboardInterrupt:
            stopped, message, demos = "interrupted", "interrupted", run.choose()
        message = message or summary(run)
        logger.log(logging.ERROR if stopped == "failed" else logging.INFO, "%s: %s", stopped, message)
        warn_of_unscored(run)
        if not validation:
            warn_of_unshown(run, demos)
        compiled = run.program_with(demos)
        compiled._compiled = True
        compiled.candidate_programs = candidate_programs(run, compiled)
        compiled.experience = run.finish(compiled, stopped, message, demos)
        return compiled

    def _iterated(self, run: Run, validation: Sequence[TaskExample]) -> tuple[str, str]:
        """Why a run's iterations end, and a line about it; raises `RunStopped` unless a budget ends them."""
        try:
            if self.prepare is not None:
                run.adopt(self.prepare(run, validation))
            return run.learn(), ""
        except RunStopped as stop:
            if stop.stopped != "budget":
                raise
            return stop.stopped, stop.message

    @property
    def params(self) -> dict[str, str | int | float | bool]:
        """The settings as scalars; unset settings are omitted."""
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in UNRECORDED}
        limits = {f"budget_{name}": getattr(self.budget, name) for name in Budget.__slots__} if self.budget else {}
        threshold = (self.domain or Domain()).threshold
        named = {
            "metric": getattr(self.metric, "__name__", type(self.metric).__name__),
            "selection": make_selection(self.selection).name,
            "temperatures": ", ".join(map(str, self.sampling.temperatures)),
            "num_threads": self.sampling.threads,
            "metric_threshold": threshold,
        }
        return {name: value for name, value in {**own, **limits, **named}.items() if value is not None}

    def _run(
        self,
        student: dspy.Module,
        tasks: dict[str, TaskExample],
        experience: Experience | None,
        journal: Sequence[Attempt],
        observers: Sequence[Observer],
    ) -> Run:
        domain, program = self.domain or Domain(), copy_program(student)
        for result in ("candidate_programs", "experience"):  # of an earlier optimizer
            vars(program).pop(result, None)
        inputs = list(next(iter(tasks.values())).example.inputs().keys())
        names = taught_predictors(program, inputs, domain.demo_predictors, domain.traced_demos)
        sampling = replace(self.sampling, temperatures=taken(program, self.sampling.temperatures))
        types = ProgramTypes(program)
        known = experience.entries if experience else ()
        entries = {entry.task_key: types.entry(entry) for entry in known if not entry.fallen}
        return Run(
            program=program,
            # A prepared program keeps its demonstrations.
            fitter=DemoFitter(
                names if self.prepare is None else (),
                self.budget or Budget(),
                self.max_demos,
                own={name: list(predictor.demos) for name, predictor in program.named_predictors()},
            ),
            sampler=Sampler(self.metric, sampling, domain.threshold, journal, self.trace_calls, self.failure_score),
            selection=make_selection(self.selection),
            domain=domain,
            spending=Spending(self.budget or Budget(), Ledger() if self.overhead is None else self.overhead),
            granularity=self.granularity,
            observers=tuple(observers),
            tasks=tasks,
            solutions=Solutions(domain, self.sampling.seed, tasks, in_task_order(entries, tasks)),
            context=ContextFit((self.budget or Budget()).context, experience.tokens if experience else {}),
            max_errors=self.max_errors,
            stop_at_score=self.stop_at_score,
        )

    def _tasks(self, examples: Sequence[dspy.Example], name: str) -> dict[str, TaskExample]:
        named = named_examples(examples, name, (self.domain or Domain()).task_key)
        return {key: TaskExample(index, key, example) for index, (key, example) in enumerate(named.items())}


class DrivenOptimizer(Teleprompter):
    """An optimizer that compiles by a `Driver`, which it makes of the arguments.

    Raises:
        TypeError: An argument has the wrong type, or an option is unknown.
        ValueError: An argument is out of its range.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__()
        known = [each.name for each in fields(Driver) if each.init]
        if unknown := [name for name in options if name not in known]:
            listed = ", ".join(sorted(Options.__annotations__))
            raise TypeError(f"{type(self).__name__}: no option {', '.join(unknown)}; the options are {listed}")
        self._driver = Driver(*arguments, **options)

    def get_params(self) -> dict[str, Any]:
        """The settings as scalars, for trackers."""
        return dict(self._driver.params)

    def compile(
        self,
        student: dspy.Module,
        *,
        trainset: Sequence[dspy.Example],
        teacher: dspy.Module | None = None,
        valset: Sequence[dspy.Example] | None = None,
        experience: Experience | None = None,
        resume: Sequence[Attempt] = (),
    ) -> dspy.Module:
        """A copy of `student` that carries demonstrations, with the record of the run as its `experience`.

        Its `candidate_programs` are the programs that could have been the result, best first, each a dict with
        `program`, `score` (a percentage; minus infinity for one that was not measured) and `label`. Saving the copy
        saves a plain DSPy program, without the candidates and the experience.

        A budget, an interrupt, and an LM that fails after giving answers end the run early without an exception;
        `experience.stopped` says so.

        Args:
            student: The program; in the copy, its demonstrations are replaced if it gets others.
            trainset: The tasks, `with_inputs` set.
            teacher: Not used, since the student learns from itself; a teacher is rejected.
            valset: Chooses among the strategy's candidates for the compiled program; None: its default, which is the
                hardest level for `adaptive`.
            experience: The result of an earlier run, to continue from.
            resume: The attempts of an interrupted run with the same settings: they are not requested again, and the
                run ends as if it had not been interrupted.

        Raises:
            TypeError: The student is not a module, a task not an example, its name is neither a text nor a whole
                number, its LM is not an LM, or `experience` is not an experience.
            ValueError: There are no tasks, a task has no inputs, two tasks have one name, no LM is set, or there is
                no predictor to teach.
            MetricError: The metric cannot be used, or failed before it gave any verdict.
            dspy.utils.exceptions.LMError: The LM could not be used, and nothing had been scored.

        Any exception after the run's start has its record as its `experience`: `resume=error.experience.attempts`
        goes on from there.
        """
        if teacher is not None:
            raise ValueError("the student learns from its own answers; it takes no teacher")
        return self._driver.compile(student, trainset, valset, experience, resume)

    async def acompile(self, student: dspy.Module, **arguments: Any) -> dspy.Module:
        """As `compile`, without holding up the event loop: in a thread, with the settings of `dspy.context`.

        If the task is cancelled, no further sample starts, as after an interrupt.
        """
        cancelled = threading.Event()
        token = CANCELLED.set(cancelled)
        try:
            return await asyncio.to_thread(self.compile, student, **arguments)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        finally:
            CANCELLED.reset(token)


# In Python's errors about arguments, where this class's own name would say nothing to the users of others.
vars(DrivenOptimizer)["compile"].__wrapped__.__qualname__ = "compile"
join_autologging()
