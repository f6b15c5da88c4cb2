"""DSPy's own optimizers, unchanged, within a normal run: their requests are recorded and their program is sampled.

Invariants: the optimizer sees the student, the tasks and the metric that `AdaptiveFewShot` would, and no labels, as
none exist; its search is as large as half of the budget allows; the figures of the result come from samples by the same
loop; earlier requests of the optimizer count in the tokens and in the budget; it prints nothing on stdout; if it fails,
the run ends like a run with a failing LM, and can be resumed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import math
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import dspy
from dspy.teleprompt import Teleprompter
from dspy.utils.exceptions import AdapterParseError

from optimizers.adaptive import AdaptiveFewShot, SinglePass
from optimizers.attempt import TaskExample
from optimizers.budget import Budget
from optimizers.demonstrations import copy_program, prompt_tokens
from optimizers.errors import OptimizerError, RunStopped, one_line
from optimizers.ledger import Ledger
from optimizers.run import Run
from optimizers.sampling import Sampling
from optimizers.state import State
from optimizers.strategies.base import NoDemonstrations, Resample
from optimizers.tuning import OptimizerAborted, Tuning

logger = logging.getLogger(__name__)

Examples = list[dspy.Example]

BOOTSTRAP_ROUNDS = 8
"""Attempts to solve a task that is to become a demonstration, unless there are fewer samples."""

UNLIMITED_ERRORS = 1_000_000
"""Failures that DSPy ignores; to DSPy, an answer that cannot be parsed is one; `Tuning` ends the run on all others."""


SHARE = 0.5
"""The part of a budget for the search; the rest is for samples of the program that it finds."""

GROWTH = 1.5
"""A request with demonstrations and its answer, in prompts of the longest task without any."""


@dataclass(frozen=True)
class Search:
    """An optimizer's search of some size.

    Attributes:
        least: Runs of the student that it takes, at least.
        most: The same at most.
        own: Requests of the optimizer's own, which write instructions, at most.
        settings: Of the optimizer.
        compiling: Of its `compile`.
    """

    least: int
    most: int
    own: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    compiling: Mapping[str, Any] = field(default_factory=dict)


def affordable(limits: Budget, prompt: int, predictors: int) -> float:
    """Runs of a program that a search may take, if the longest task's prompts have so many tokens together."""
    runs = [] if limits.tokens is None else [limits.tokens / (GROWTH * prompt)]
    runs += [] if limits.calls is None else [limits.calls / predictors]
    return SHARE * min(runs, default=math.inf)


class Baseline(AdaptiveFewShot):
    """One of DSPy's optimizers, then a pass with the program that it made.

    Args:
        granularity: For the record only.
        resample: Whether to make further passes over the tasks that are unsolved, until the budget ends the run.
        reflection_lm: Writes instructions and reflects on failures, if the optimizer does so; None: the LM in use.
        tuned: The optimizer's program from a run that was interrupted later; it is not run again.
        overhead: The ledger of its requests; includes what an interrupted run spent on them.
    """

    name: str
    """The name of its iteration, as in the registry."""

    seeded = False
    """Whether its `compile` takes a seed."""

    validates = False
    """Whether the optimizer takes a validation set; otherwise it validates on the tasks themselves."""

    def __init__(
        self,
        metric: Callable[..., Any],
        num_samples: int = 64,
        granularity: int = 3,
        *,
        resample: bool = False,
        reflection_lm: Any = None,
        tuned: dspy.Module | None = None,
        overhead: Ledger | None = None,
        **options: Any,
    ) -> None:
        passes = (Resample if resample else NoDemonstrations)(self.name, self.name)
        super().__init__(metric, num_samples, granularity, selection=passes, **options)
        self._reflection_lm, self._tuned, self._overhead = reflection_lm, tuned, overhead

    @classmethod
    @abstractmethod
    def sizes(cls, tasks: int, validation: int, rounds: int, predictors: int) -> Iterator[Search]:
        """The sizes of its search on so many tasks, the largest first, for a student with so many predictors.

        `rounds` are the attempts to solve a task that is to become a demonstration.
        """

    @classmethod
    def search(cls, tasks: int, validation: int, samples: int, predictors: int, runs: float = math.inf) -> Search:
        """The largest search that takes at most so many runs of the student; the smallest where none does."""
        sizes = list(cls.sizes(tasks, validation, min(BOOTSTRAP_ROUNDS, samples), predictors))
        return next((each for each in sizes if each.most + each.own <= runs), sizes[-1])

    @abstractmethod
    def _optimizer(self, search: Search, tuning: Tuning) -> Teleprompter:
        """DSPy's optimizer."""

    _prepares = True

    def _prepared(self, state: State, run: Run, validation: Sequence[TaskExample]) -> dspy.Module:
        """The optimizer's program, made from the run's program now or before the run was interrupted."""
        if validation and not self.validates:
            raise ValueError(f"{type(self).__name__} takes no validation set")
        if self._tuned is not None:
            return self._tuned
        if not hasattr(type(run.program), "forward"):
            raise ValueError(f"{self.name}: DSPy's optimizers need a program with forward, not only aforward")
        trainset = [task.example for task in state.tasks.values()]
        valset = [task.example for task in validation] or trainset
        tuning = Tuning(run.program, run.sampler, run.spending, run.max_errors)
        try:
            with (
                contextlib.redirect_stdout(sys.stderr),
                dspy.context(lm=tuning.lm(dspy.settings.lm), adapter=tuning.adapter()),
            ):
                search = self._search(run, trainset, len(valset))
                optimizer, options = self._optimizer(search, tuning), dict(search.compiling)
                options |= {"valset": list(valset)} if self.validates else {}
                options |= {"seed": self._sampling.seed} if self.seeded else {}
                return optimizer.compile(copy_program(run.program), trainset=list(trainset), **options)
        except OptimizerAborted as aborted:
            raise aborted.reason from aborted.__cause__
        except OptimizerError:
            raise
        except Exception as error:
            logger.info("%s failed", self.name, exc_info=True)
            raise RunStopped("failed", f"{self.name} failed: {_cause(error)}") from error

    def _search(self, run: Run, trainset: Examples, validation: int) -> Search:
        predictors = run.program.predictors()
        prompt = sum(max(prompt_tokens(each, each.demos, example) for example in trainset) for each in predictors)
        runs = affordable(run.spending.budget, prompt, len(predictors))
        return self.search(len(trainset), validation, self._sampling.num_samples, len(predictors), runs)

    def _reflection(self, tuning: Tuning) -> Any:
        return dspy.settings.lm if self._reflection_lm is None else tuning.lm(self._reflection_lm)

    def _bootstrapping(self, tuning: Tuning) -> dict[str, Any]:
        """Arguments shared by the optimizers that show a program its own solutions."""
        return {
            "metric": tuning.score,
            "metric_threshold": tuning.threshold,
            "max_labeled_demos": 0,
            "max_errors": UNLIMITED_ERRORS,
        }

    @property
    def _sampling(self) -> Sampling:
        return self._options.sampling


class Bootstrap(Baseline):
    """`dspy.BootstrapFewShot`: the first four solutions found become the demonstrations."""

    name = "bootstrap"

    @classmethod
    def sizes(cls, tasks: int, validation: int, rounds: int, predictors: int) -> Iterator[Search]:
        """Fewer rounds."""
        for number in range(rounds, 0, -1):
            yield Search(1, number * tasks, settings={"max_rounds": number})

    def _optimizer(self, search: Search, tuning: Tuning) -> Teleprompter:
        return dspy.BootstrapFewShot(**search.settings, **self._bootstrapping(tuning))


class RandomSearch(Baseline):
    """`dspy.BootstrapFewShotWithRandomSearch`: the best-scoring of many sets of demonstrations."""

    name = "random-search"
    validates = True

    @classmethod
    def sizes(cls, tasks: int, validation: int, rounds: int, predictors: int) -> Iterator[Search]:
        """Fewer sets; three more are always scored, of which one is bootstrapped, too."""
        for sets in (16, 8, 4, 2, 1):
            again, scored = min(rounds, sets), (sets + 3) * validation
            settings = {"num_candidate_programs": sets, "max_rounds": again}
            yield Search(scored, scored + (sets + 1) * again * tasks, settings=settings)

    def _optimizer(self, search: Search, tuning: Tuning) -> Teleprompter:
        return dspy.BootstrapFewShotWithRandomSearch(
            num_threads=self._sampling.threads, **search.settings, **self._bootstrapping(tuning)
        )


class MIPRO(Baseline):
    """`dspy.MIPROv2`, at most its light setting: searches instructions and demonstrations together."""

    name = "mipro"
    validates = True

    @classmethod
    def sizes(cls, tasks: int, validation: int, rounds: int, predictors: int) -> Iterator[Search]:
        """Fewer candidates, and so fewer trials."""
        for candidates in (6, 5, 4, 3):
            trials = int(max(4 * predictors * math.log2(candidates), 1.5 * candidates))
            light, some = candidates == 6, validation > 50
            scored = min(validation, 100) if light else validation
            least = trials * 35 if some else (trials + 1) * scored
            most = least + (trials // 5 + 3) * scored * some + (candidates - 2) * tasks
            own = 12 + 4 * candidates * predictors
            if light:
                yield Search(least, most, own, {"auto": "light"})
                continue
            settings = {"auto": None, "num_candidates": candidates}
            yield Search(least, most, own, settings, {"num_trials": trials, "minibatch": some})

    def _optimizer(self, search: Search, tuning: Tuning) -> Teleprompter:
        if importlib.util.find_spec("optuna") is None:
            raise OptimizerError("mipro needs the package optuna; install it: pip install optuna")
        return dspy.MIPROv2(
            prompt_model=self._reflection(tuning),
            num_threads=self._sampling.threads,
            seed=1 + self._sampling.seed,  # it treats 0 as no seed
            **search.settings,
            **self._bootstrapping(tuning),
        )


class SIMBA(Baseline):
    """`dspy.SIMBA`: the batches with the most variable scores become rules and demonstrations."""

    name = "simba"
    seeded = True

    @classmethod
    def sizes(cls, tasks: int, validation: int, rounds: int, predictors: int) -> Iterator[Search]:
        """Fewer steps, then fewer programs a step."""
        batch = min(32, tasks)
        for steps, programs in ((8, 6), (4, 6), (2, 6), (2, 3), (1, 3), (1, 1)):
            least, scored = steps * batch * programs + tasks, (min(steps, programs) + 1) * tasks
            most = steps * batch * (2 * programs + 1) + scored
            settings = {"bsize": batch, "max_steps": steps, "num_candidates": programs}
            yield Search(least, most, steps * (programs + 1), settings)

    def _optimizer(self, search: Search, tuning: Tuning) -> Teleprompter:
        return dspy.SIMBA(
            metric=tuning.score,
            **search.settings,
            prompt_model=self._reflection(tuning),
            num_threads=self._sampling.threads,
        )


class GEPA(Baseline):
    """`dspy.GEPA`, at most its light setting: instructions evolve by reflection on the metric's feedback."""

    name = "gepa"
    validates = True

    @classmethod
    def sizes(cls, tasks: int, validation: int, rounds: int, predictors: int) -> Iterator[Search]:
        """Fewer runs that are scored; the last step may take a whole validation beyond them."""
        scored = dspy.GEPA.auto_budget(None, max(1, predictors), 6, validation)
        while scored > 2 * validation:
            yield Search(validation, scored + validation + 6, scored // 6 + 1, {"max_metric_calls": scored})
            scored = 4 * scored // 5
        yield Search(validation, 3 * validation + 6, validation // 3 + 1, {"max_metric_calls": 2 * validation})

    def _optimizer(self, search: Search, tuning: Tuning) -> Teleprompter:
        return dspy.GEPA(
            metric=tuning.score_with_feedback,
            **search.settings,
            reflection_lm=self._reflection(tuning),
            num_threads=self._sampling.threads,
            seed=self._sampling.seed,
        )


def _cause(error: Exception) -> str:
    """Why one of DSPy's optimizers failed, and how to fix it."""
    if not isinstance(error, AdapterParseError):
        return f"{one_line(error)}; another LM or other tasks may work"
    wanted, found = ", ".join(error.signature.output_fields), " ".join(str(error.lm_response).split())
    return f"the LM's answers lack {wanted}; the last one is {found!r:.80}; resuming the run repeats the request"


OPTIMIZERS: Mapping[str, type[AdaptiveFewShot]] = MappingProxyType(
    {
        "adaptive": AdaptiveFewShot,
        "none": SinglePass,
        **{kind.name: kind for kind in (Bootstrap, RandomSearch, MIPRO, SIMBA, GEPA)},
    }
)
"""Optimizers by name, as on the command line."""
