"""Adaptive self-improvement learning as a DSPy optimizer (paper, Section 3, Algorithm 1).

Invariants: student and training set are left as they were, also when something raises; all state of a run
lives in its `Run`, so one optimizer can compile again; of two runs with one seed, the LM being the same
function of its requests, every attempt, demonstration and figure but the times are equal, whatever the number
of threads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import dspy
from dspy.teleprompt import Teleprompter

from optimizers.arguments import checked_count, checked_lms, checked_temperatures, checked_type, named_examples
from optimizers.attempt import Attempt
from optimizers.budget import Budget
from optimizers.demonstrations import fresh_copy, set_demos, taught_predictors
from optimizers.domain import Domain
from optimizers.experience import Entry, Experience
from optimizers.observer import Observer
from optimizers.run import Run, Step, Stop, in_task_order
from optimizers.sampling import Sampler, Sampling, Task
from optimizers.selection import selections, stratify

logger = logging.getLogger(__name__)


class AdaptiveFewShot(Teleprompter):
    """Samples a program on all unsolved tasks, showing it its own hardest solutions, for as long as it helps.

    Each predictor of the program is shown what it was asked and answered itself when a task was solved; of several
    calls in one solution the last, and nothing of a solution that never called it.

    Args:
        metric: `metric(example, prediction)`, returning a bool, a float, or a prediction with a `score` and
            whatever else is worth recording. Called in several threads at once, right after each sample.
        num_samples: Samples per task and temperature.
        granularity: m, the number of levels of difficulty.
        temperatures: Sampling temperatures; a task's success rate is that of its best.
        threads: Requests in flight at a time, over all tasks and temperatures.
        seed: Decides all that is random.
        budget: Limits of a run.
        domain: When two answers mean the same, which one is shorter, what a task is called, …
        observers: Listeners to the run.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: An argument is out of its range.
    """

    def __init__(
        self,
        metric: Callable[..., Any],
        num_samples: int = 64,
        granularity: int = 3,
        *,
        temperatures: Sequence[float] = (0.4, 0.7, 1.0),
        threads: int = 8,
        seed: int = 0,
        budget: Budget | None = None,
        domain: Domain | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        super().__init__()
        checked_type("metric", metric, Callable, "a function of an example and a prediction")  # type: ignore[arg-type]
        checked_count("granularity", granularity)
        checked_type("budget", budget or Budget(), Budget, "an optimizers.Budget")
        checked_type("domain", domain or Domain(), Domain, "an optimizers.Domain")
        self.metric = metric
        self.granularity = granularity
        self.sampling = Sampling(num_samples, checked_temperatures(temperatures), threads, seed)
        self.budget = budget or Budget()
        self.domain = domain or Domain()
        self.observers = tuple(observers)

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

        A budget, an interrupt, and an LM that fails after it gave answers end the run early, but in no
        exception: `experience.stopped` tells.

        Args:
            student: The program; its demonstrations, if it has any where ours go, are replaced in the copy.
            trainset: The tasks, `with_inputs` set.
            teacher: Not used: the student learns from itself. A teacher is refused.
            valset: Chooses the level of the final D; without it, it is the hardest.
            experience: What an earlier run learned, to go on from.
            resume: The attempts of a run of the same settings that broke off: they are not asked for again,
                and the run ends as if it never had.

        Raises:
            TypeError: The student is no module, a task no example, its name no text, what is set as the LM none,
                or what was learned no experience.
            ValueError: No task, a task without inputs, or with others than the first, two tasks of one name, no LM, no
                predictor to teach.
            MetricError: The metric failed.
            dspy.utils.exceptions.LMError: The LM could not be used and nothing had been scored.
        """
        if teacher is not None:
            raise ValueError("the student learns from its own answers; it takes no teacher")
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
            stopped, message = self._learn(run, validation), ""
            demos = self._choose(run, validation)
        except Stop as stop:
            if stop.cause is not None and not any(attempt.scored for attempt in run.attempts):
                raise stop.cause from None
            stopped, message, demos = stop.stopped, stop.message, self._choose(run, [])
        except KeyboardInterrupt:
            stopped, message, demos = "interrupted", "interrupted", self._choose(run, [])
        message = message or _outcome(run)
        logger.log(logging.ERROR if stopped == "failed" else logging.INFO, "%s: %s", stopped, message)
        compiled = fresh_copy(run.program)
        set_demos(compiled, run.names, demos)
        compiled._compiled = True
        compiled.experience = run.finish(stopped, message, demos)
        return compiled

    def _learn(self, run: Run, validation: Sequence[Task]) -> str:
        """Algorithm 1: cycles over the levels of D, begun anew once something is solved; why it ended."""
        if not run.entries:
            run.iterate(Step())
        cycle = 0
        while run.unsolved:
            cycle += 1
            for level, demos in enumerate(self._selections(run)):
                if run.iterate(Step(demos, level, cycle)):
                    break
            else:  # d_j = D solved nothing, or D is empty
                return "exhausted"
        return "solved"

    def _choose(self, run: Run, validation: Sequence[Task]) -> Sequence[Entry]:
        """The demonstrations of the result: the level the validation set likes best, else the hardest."""
        levels = self._selections(run)
        if not levels:
            return ()
        chosen = run.validate(levels, validation) if validation and len(levels) > 1 else 0
        return run.fit(levels[chosen])

    def _selections(self, run: Run) -> list[list[Entry]]:
        return selections(stratify(run.entries.values(), self.granularity))

    def _run(
        self,
        student: dspy.Module,
        tasks: dict[str, Task],
        experience: Experience | None,
        journal: Sequence[Attempt],
    ) -> Run:
        inputs = list(next(iter(tasks.values())).example.inputs().keys())
        program = fresh_copy(student)
        names = taught_predictors(program, inputs, self.domain.demo_predictors, self.domain.traced_demos)
        entries = {entry.task_key: entry for entry in experience.entries} if experience else {}
        sampler = Sampler(self.metric, self.sampling, self.domain.threshold, journal)
        return Run(
            program=program,
            names=names,
            sampler=sampler,
            domain=self.domain,
            budget=self.budget,
            granularity=self.granularity,
            observers=self.observers,
            tasks=tasks,
            entries=in_task_order(entries, tasks),
        )

    def _tasks(self, examples: Sequence[dspy.Example], name: str) -> dict[str, Task]:
        named = named_examples(examples, name, self.domain.task_key)
        return {key: Task(index, key, example) for index, (key, example) in enumerate(named.items())}


def _outcome(run: Run) -> str:
    left = [task.key for task in run.unsolved]
    if not left:
        return "every task is solved"
    told = "1 task stays unsolved" if len(left) == 1 else f"{len(left)} tasks stay unsolved"
    unanswered = run.refused
    refused = [key for key in left if key in unanswered]
    return f"{told}; no answer came to {', '.join(refused)}" if refused else told
