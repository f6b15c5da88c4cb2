"""The `Driver` by which every optimizer of this package compiles: it checks, runs the iterations and makes the result.

Invariants: student and training set are not changed, also when an exception is raised; all state of a run is in its
`Run`, so that one optimizer can compile repeatedly; if the LM is a function of its requests, two runs with one seed
agree in every attempt, demonstration and figure except times, for any number of threads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

import dspy
from dspy.teleprompt import Teleprompter

from optimizers.arguments import checked_count, checked_lms, checked_temperatures, checked_type, named_examples
from optimizers.attempt import Attempt
from optimizers.budget import Budget
from optimizers.context_fit import ContextFit
from optimizers.demonstrations import copy_program, set_demos, taught_predictors
from optimizers.domain import Domain
from optimizers.errors import RunStopped
from optimizers.experience import Entry, Experience, in_task_order
from optimizers.ledger import Ledger
from optimizers.observer import Observer
from optimizers.run import Run
from optimizers.sampling import Sampler, Sampling, TaskExample
from optimizers.strategies.base import Selection
from optimizers.strategies.registry import make_selection

logger = logging.getLogger(__name__)

Prepare = Callable[[Run, Sequence[TaskExample]], dspy.Module]
"""Makes a program within a run, before its first iteration, from the run and the validation set."""


class Options(TypedDict, total=False):
    """The keyword options that every optimizer takes; see `Driver`."""

    temperatures: Sequence[float]
    threads: int
    seed: int
    budget: Budget | None
    domain: Domain | None
    observers: Sequence[Observer]


@dataclass(frozen=True)
class Driver:
    """Compiles students.

    Attributes:
        metric: `metric(example, prediction)`, returning a bool, a float, or a prediction with a `score` and
            further fields to record. Called in several threads at once, right after each sample.
        num_samples: Samples per task and temperature.
        granularity: The number m of levels of difficulty.
        selection: What to show next: a strategy, or the name of one.
        temperatures: Sampling temperatures; a task's success rate is that of its best.
        threads: Requests in flight at a time, over all tasks and temperatures.
        seed: Determines everything random.
        budget: Limits of a run.
        domain: When two answers mean the same, which one is shorter, task names, …
        observers: Listeners to the run.
        prepare: Makes the program whose demonstrations and instructions are sampled; None: the selection's
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
    threads: int = 8
    seed: int = 0
    budget: Budget | None = None
    domain: Domain | None = None
    observers: Sequence[Observer] = ()
    prepare: Prepare | None = None
    overhead: Ledger | None = None
    sampling: Sampling = field(init=False)

    def __post_init__(self) -> None:
        callable_type: Any = Callable
        checked_type("metric", self.metric, callable_type, "a function of an example and a prediction")
        checked_count("granularity", self.granularity)
        checked_type("budget", self.budget or Budget(), Budget, "an optimizers.Budget")
        checked_type("domain", self.domain or Domain(), Domain, "an optimizers.Domain")
        sampling = Sampling(self.num_samples, checked_temperatures(self.temperatures), self.threads, self.seed)
        object.__setattr__(self, "sampling", sampling)
        object.__setattr__(self, "selection", make_selection(self.selection, self.granularity))

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
        run = self._run(student, self._tasks(trainset, "trainset"), experience, resume)
        validation = list(self._tasks(valset, "valset").values()) if valset else []
        demos: Sequence[Entry] = ()
        run.start()
        try:
            if self.prepare is not None:
                run.adopt(self.prepare(run, validation))
            stopped, message = run.learn(), ""
            demos = run.choose(validation)
        except RunStopped as stop:
            if stop.cause is not None and not any(attempt.scored for attempt in run.attempts):
                raise stop.cause from None
            stopped, message, demos = stop.stopped, stop.message, run.choose()
        except KeyboardInterrupt:
            stopped, message, demos = "interrupted", "interrupted", run.choose()
        message = message or _outcome(run)
        logger.log(logging.ERROR if stopped == "failed" else logging.INFO, "%s: %s", stopped, message)
        compiled = copy_program(run.program)
        set_demos(compiled, run.names, demos)
        compiled._compiled = True
        compiled.experience = run.finish(stopped, message, demos)
        return compiled

    def _run(
        self,
        student: dspy.Module,
        tasks: dict[str, TaskExample],
        experience: Experience | None,
        journal: Sequence[Attempt],
    ) -> Run:
        domain, program = self.domain or Domain(), copy_program(student)
        inputs = list(next(iter(tasks.values())).example.inputs().keys())
        names = taught_predictors(program, inputs, domain.demo_predictors, domain.traced_demos)
        entries = {entry.task_key: entry for entry in experience.entries} if experience else {}
        return Run(
            program=program,
            names=names if self.prepare is None else (),  # a prepared program keeps its demonstrations
            sampler=Sampler(self.metric, self.sampling, domain.threshold, journal),
            selection=make_selection(self.selection),
            domain=domain,
            budget=self.budget or Budget(),
            granularity=self.granularity,
            observers=tuple(self.observers),
            tasks=tasks,
            entries=in_task_order(entries, tasks),
            context=ContextFit((self.budget or Budget()).context, experience.tokens if experience else {}),
            overhead=Ledger() if self.overhead is None else self.overhead,
        )

    def _tasks(self, examples: Sequence[dspy.Example], name: str) -> dict[str, TaskExample]:
        named = named_examples(examples, name, (self.domain or Domain()).task_key)
        return {key: TaskExample(index, key, example) for index, (key, example) in enumerate(named.items())}


class DrivenOptimizer(Teleprompter):
    """An optimizer that compiles by a `Driver`."""

    def __init__(self, driver: Driver) -> None:
        super().__init__()
        self._driver = driver

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

        A budget, an interrupt, and an LM that fails after giving answers end the run early without an exception;
        `experience.stopped` says so.

        Args:
            student: The program; in the copy, its demonstrations are replaced if it gets others.
            trainset: The tasks, `with_inputs` set.
            teacher: Not used, since the student learns from itself; a teacher is rejected.
            valset: Chooses among the strategy's candidates for the compiled program; None: its default, which is the
                hardest level for `adaptive`.
            experience: What an earlier run learned, to continue from.
            resume: The attempts of an interrupted run with the same settings: they are not requested again, and the
                run ends as if it had not been interrupted.

        Raises:
            TypeError: The student is not a module, a task not an example, its name neither a text nor a whole number,
                what is set as the LM not one, or `experience` not an experience.
            ValueError: There are no tasks, a task has no inputs, two tasks have one name, no LM is set, or there is
                no predictor to teach.
            MetricError: The metric failed.
            dspy.utils.exceptions.LMError: The LM could not be used, and nothing had been scored.
        """
        if teacher is not None:
            raise ValueError("the student learns from its own answers; it takes no teacher")
        return self._driver.compile(student, trainset, valset, experience, resume)


def _outcome(run: Run) -> str:
    left = [task.key for task in run.unsolved]
    if not left:
        return "every task is solved"
    summary = "1 task stays unsolved" if len(left) == 1 else f"{len(left)} tasks stay unsolved"
    if run.too_long:
        summary += f"; too long for the LM, even without demonstrations: {', '.join(run.too_long)}"
    unanswered = [key for key in left if key in run.unanswered and key not in run.too_long]
    return f"{summary}; no answers for {', '.join(unanswered)}" if unanswered else summary
