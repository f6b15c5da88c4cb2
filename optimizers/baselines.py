"""DSPy's own optimizers, unchanged, within a run like any other: what they spend is booked, what they make is sampled.

Invariants: the optimizer sees the student, the tasks and the metric that `AdaptiveFewShot` would, and no labels, as
there are none; the figures of the result come from one pass of samples over all tasks, by the same machinery; what
the optimizer spent before counts, in the tokens and in the budget; it prints nothing on stdout; where it breaks off,
the run ends as one whose LM fails, and can be gone on with.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import sys
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from optimizers.demonstrations import fresh_copy
from optimizers.errors import OptimizerError, in_short
from optimizers.ledger import Ledger
from optimizers.plain import plain
from optimizers.run import Run, Step, Stop
from optimizers.sampling import Task
from optimizers.single_pass import SinglePass
from optimizers.tuning import Enough, Tuning

logger = logging.getLogger(__name__)

Examples = list[dspy.Example]

ROUNDS = 8
"""Tries at a solution of a task that is to become a demonstration, unless fewer samples than that are drawn."""

ANY = 1_000_000
"""Failures that DSPy passes over: an answer that can't be parsed is one to it, and `Tuning` ends all others."""


class Baseline(SinglePass):
    """One of DSPy's optimizers, then a single pass with the program that it made.

    Args:
        options: Those of `AdaptiveFewShot`; `granularity` does not matter.
        reflection_lm: Writes instructions and reflects on failures, where the optimizer does so; None: the LM that
            is set.
        tuned: What the optimizer made of the student in a run that broke off later; it is not run again.
        overhead: Where its requests are booked; what a run that broke off spent on them is in it already.
    """

    name: str
    """What its iteration is called, as in the registry."""

    validates = False
    """Whether the optimizer takes a validation set; without one, the tasks themselves choose."""

    def __init__(
        self,
        *options: Any,
        reflection_lm: Any = None,
        tuned: dspy.Module | None = None,
        overhead: Ledger | None = None,
        **named: Any,
    ) -> None:
        super().__init__(*options, **named)
        self.reflection_lm = reflection_lm
        self.tuned = tuned
        self.overhead = overhead

    @abstractmethod
    def _tune(self, student: dspy.Module, trainset: Examples, valset: Examples, tuning: Tuning) -> dspy.Module:
        """What the optimizer makes of the student."""

    def _learn(self, run: Run, validation: Sequence[Task]) -> str:
        run.names = ()  # the pass leaves the demonstrations alone
        if validation and not self.validates:
            raise ValueError(f"{type(self).__name__} takes no validation set")
        if self.overhead is not None:
            run.overhead = self.overhead
        tuned = self._made(run, validation) if self.tuned is None else self.tuned
        made = dict(tuned.named_predictors())
        for name, predictor in run.program.named_predictors():
            predictor.demos, predictor.signature = made[name].demos, made[name].signature
        run.carried = carried(run.program, run.tasks.values())
        if run.unsolved:
            run.iterate(Step(label=self.name))
        return "exhausted" if run.unsolved else "solved"

    def _made(self, run: Run, validation: Sequence[Task]) -> dspy.Module:
        trainset = [task.example for task in run.tasks.values()]
        valset = [task.example for task in validation] or trainset
        tuning = Tuning(run)
        try:
            with (
                contextlib.redirect_stdout(sys.stderr),
                dspy.context(lm=tuning.lm(dspy.settings.lm), adapter=tuning.adapter()),
            ):
                return self._tune(fresh_copy(run.program), list(trainset), list(valset), tuning)
        except Enough as enough:
            raise enough.reason from enough.__cause__
        except OptimizerError:
            raise
        except Exception as error:
            logger.info("%s broke off", self.name, exc_info=True)
            raise Stop("failed", f"{self.name} broke off: {_cause(error)}") from error

    def _reflection(self, tuning: Tuning) -> Any:
        return dspy.settings.lm if self.reflection_lm is None else tuning.lm(self.reflection_lm)

    def _bootstrapping(self, tuning: Tuning) -> dict[str, Any]:
        """What the optimizers that show a program its own solutions have in common."""
        return {
            "metric": tuning.judge,
            "metric_threshold": self.domain.threshold,
            "max_labeled_demos": 0,
            "max_errors": ANY,
        }

    @property
    def _rounds(self) -> int:
        return min(ROUNDS, self.sampling.num_samples)


class Bootstrap(Baseline):
    """`dspy.BootstrapFewShot`: the first four solutions found become the demonstrations."""

    name = "bootstrap"

    def _tune(self, student: dspy.Module, trainset: Examples, valset: Examples, tuning: Tuning) -> dspy.Module:
        optimizer = dspy.BootstrapFewShot(max_rounds=self._rounds, **self._bootstrapping(tuning))
        return optimizer.compile(student, trainset=trainset)


class RandomSearch(Baseline):
    """`dspy.BootstrapFewShotWithRandomSearch`: of many sets of demonstrations the one that scores best."""

    name = "random-search"
    validates = True

    def _tune(self, student: dspy.Module, trainset: Examples, valset: Examples, tuning: Tuning) -> dspy.Module:
        optimizer = dspy.BootstrapFewShotWithRandomSearch(
            max_rounds=self._rounds, num_threads=self.sampling.threads, **self._bootstrapping(tuning)
        )
        return optimizer.compile(student, trainset=trainset, valset=valset)


class MIPRO(Baseline):
    """`dspy.MIPROv2`, its light setting: searches instructions and demonstrations together."""

    name = "mipro"
    validates = True

    def _tune(self, student: dspy.Module, trainset: Examples, valset: Examples, tuning: Tuning) -> dspy.Module:
        if importlib.util.find_spec("optuna") is None:
            raise OptimizerError("mipro needs the package optuna; install it: pip install optuna")
        optimizer = dspy.MIPROv2(
            prompt_model=self._reflection(tuning),
            num_threads=self.sampling.threads,
            seed=1 + self.sampling.seed,  # it takes 0 for none
            **self._bootstrapping(tuning),
        )
        return optimizer.compile(student, trainset=trainset, valset=valset)


class SIMBA(Baseline):
    """`dspy.SIMBA`: batches whose scores vary most become rules and demonstrations."""

    name = "simba"

    def _tune(self, student: dspy.Module, trainset: Examples, valset: Examples, tuning: Tuning) -> dspy.Module:
        optimizer = dspy.SIMBA(
            metric=tuning.judge,
            bsize=min(32, len(trainset)),
            prompt_model=self._reflection(tuning),
            num_threads=self.sampling.threads,
        )
        return optimizer.compile(student, trainset=trainset, seed=self.sampling.seed)


class GEPA(Baseline):
    """`dspy.GEPA`, its light setting: instructions evolve by reflection on what the metric says."""

    name = "gepa"
    validates = True

    def _tune(self, student: dspy.Module, trainset: Examples, valset: Examples, tuning: Tuning) -> dspy.Module:
        optimizer = dspy.GEPA(
            metric=tuning.judge_in_words,
            auto="light",
            reflection_lm=self._reflection(tuning),
            num_threads=self.sampling.threads,
            seed=self.sampling.seed,
        )
        return optimizer.compile(student, trainset=trainset, valset=valset)


def carried(program: dspy.Module, tasks: Iterable[Task]) -> tuple[str, ...]:
    """The keys of the tasks that a program's demonstrations are of, one a demonstration; `?` where no task is."""
    inputs = {task.key: plain(dict(task.example.inputs().items())) for task in tasks}
    return tuple(
        next((key for key, known in inputs.items() if known.items() <= demo.items()), "?")
        for predictor in program.predictors()
        for demo in ({field: plain(value) for field, value in shown.items()} for shown in predictor.demos)
    )


def _cause(error: Exception) -> str:
    """Why an optimizer of DSPy's ended in an error, and what can be done about it."""
    if not isinstance(error, AdapterParseError):
        return f"{in_short(error)}; another LM, or other tasks, may do better"
    wanted, found = ", ".join(error.signature.output_fields), " ".join(str(error.lm_response).split())
    return f"answers of the LM have no {wanted}, the last: {found!r:.80}; gone on with, it asks anew"
