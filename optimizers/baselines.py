"""DSPy's own optimizers, unchanged, within a normal run: their requests are recorded and their program is sampled.

Invariants: the optimizer sees the student, the tasks and the metric that `AdaptiveFewShot` would, and no labels, as
none exist; its search is as large as half of the budget allows; the figures of the result come from samples by the same
loop; earlier requests of the optimizer count in the tokens and in the budget; it prints nothing on stdout; if it fails,
the run ends like a run with a failing LM, and can be resumed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import math
import sys
import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import dspy
from dspy.teleprompt import Teleprompter
from dspy.utils.exceptions import AdapterParseError, LMError

from optimizers.adaptive import AdaptiveFewShot, SinglePass
from optimizers.attempt import JUDGE, TaskExample, read_verdict
from optimizers.budget import Budget, Spending
from optimizers.demonstrations import copy_program, prompt_tokens
from optimizers.errors import MetricError, OptimizerError, RunStopped, one_line
from optimizers.ledger import Ledger, metered_all
from optimizers.predictors import OTHER, innermost_predictor, predictor_names
from optimizers.requests import DeadlineReached, derive_seed, extended, sampled
from optimizers.run import Run
from optimizers.sampling import FATAL, Sampler, Sampling
from optimizers.state import State
from optimizers.strategies import NoDemonstrations, Resample

# --- a run's LM, adapter and metric for DSPy's optimizers: it counts and can end them ---------------------------------
# Invariants: every request is recorded for the student's predictor that made it; a request's seed depends on the run's
# seed, on the request and on how often it was made before, so that answers differ and runs repeat; a budget that is
# reached, an LM that cannot be used and a metric that fails end the optimizer, which would otherwise ignore them; an
# answer to the optimizer's own request that cannot be parsed, on which it would fail, is requested again.

MAX_PAID_ANSWERS = 3
"""The number of paid answers to one of the optimizer's own requests before it may fail on one that cannot be parsed."""

MAX_ANSWERS = 100
"""The same for answers from the response cache, where a resumed run finds all earlier ones, including bad ones."""


class OptimizerAborted(BaseException):
    """Ends an optimizer that catches every `Exception`.

    Attributes:
        reason: The exception to raise in its place.
    """

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Tuning:
    """The LM, the adapter and the metric for an optimizer within a run, which records all its requests as overhead."""

    def __init__(self, program: dspy.Module, sampler: Sampler, spending: Spending, max_errors: int | None) -> None:
        self.threshold = sampler.threshold
        self._program, self._sampler, self._spending, self._max_errors = program, sampler, spending, max_errors
        self._too_many = spending.budget.too_many_failures
        self._asked: Counter[str] = Counter()
        self._finished = self._failed = self._verdicts = self._unjudged = 0
        self._lm = dspy.settings.lm
        self._lock = threading.Lock()

    def lm(self, lm: Any) -> Any:
        """A copy of `lm` to tune with; copies that DSPy makes of it for other settings count too."""
        overhead, deadline = self._spending.overhead, self._spending.deadline
        return sampled(lm, overhead, self._predictor, seeds=self, deadline=deadline, n=None)

    def adapter(self) -> Any:
        """A copy of the adapter in use that repeats the request if it cannot parse the answer."""
        twin = extended(dspy.settings.adapter or dspy.ChatAdapter(), _Repeating)
        twin._tuning = self
        return twin

    def score(self, example: dspy.Example, prediction: Any, trace: Any = None, *_: Any) -> float:
        """The metric's score."""
        return self._verdict(example, prediction, trace)[0]

    def score_with_feedback(
        self,
        gold: dspy.Example,
        pred: Any,
        trace: Any = None,
        pred_name: str | None = None,
        pred_trace: Any = None,
    ) -> dspy.Prediction:
        """The metric's score, and everything else it returned as `feedback` in words."""
        score, details = self._verdict(gold, pred, trace)
        words = details.get("feedback") or "; ".join(f"{name}: {value}" for name, value in details.items() if value)
        right = score >= self.threshold
        return dspy.Prediction(score=score, feedback=str(words) or ("This is right." if right else "This is wrong."))

    def _verdict(self, example: dspy.Example, prediction: Any, trace: Any) -> tuple[float, dict[str, Any]]:
        try:
            with (
                dspy.context(lm=self._lm, caller_modules=[], trace=[]),
                metered_all(self._spending.overhead, JUDGE),
            ):
                score, details = read_verdict(self._sampler.judged(example, prediction, trace))
        except Exception as error:
            failure = MetricError.of(error, "")
            with self._lock:
                self._verdicts += 1
                self._unjudged += 1
                many = self._too_many(self._unjudged, self._verdicts, most=self._max_errors)
            if failure.fatal or many:
                raise OptimizerAborted(failure) from error
            raise failure from error  # DSPy's optimizers count it as an answer without a score
        with self._lock:
            self._verdicts += 1
        return score or 0.0, details  # DSPy's optimizers know no answer that is unscored

    def next(self, request: Any, settings: Mapping[str, Any], explicit: bool) -> int:
        """The seed of a request, by how often it was made before; none is made once a limit is reached."""
        if self._spending.reached():
            raise OptimizerAborted(self._spending.stop())
        text = json.dumps([*request, settings], default=str)
        with self._lock:
            self._asked[text] += 1
            return derive_seed("tuning", self._sampler.sampling.seed, text, self._asked[text])

    def answered(self, error: LMError | None = None) -> None:
        """Counts an answer, or a failure."""
        if isinstance(error, DeadlineReached):
            raise OptimizerAborted(self._spending.stop()) from error
        with self._lock:
            self._finished += 1
            self._failed += error is not None
            many = self._too_many(self._failed, self._finished, most=self._max_errors)
            never = self._failed == self._finished  # otherwise the run has answers to report
        if isinstance(error, FATAL) or (error is not None and many):
            message = f"the LM cannot be used: {one_line(error)}"
            raise OptimizerAborted(RunStopped("failed", message, error if never else None)) from error

    @property
    def reflecting(self) -> bool:
        """Whether the running request is the optimizer's own, not the student's."""
        return self._predictor(dspy.settings.caller_modules or []) == OTHER

    def _predictor(self, callers: Sequence[Any]) -> str:
        outermost = next((module for module in callers if _is_like(module, self._program)), None)
        return OTHER if outermost is None else innermost_predictor(callers, predictor_names(outermost))


def _is_like(module: Any, program: dspy.Module) -> bool:
    """Whether a module is a copy of the program; an optimizer's own predictors have other fields."""
    if isinstance(module, dspy.Predict) and isinstance(program, dspy.Predict):
        return bool(module.signature.fields.keys() == program.signature.fields.keys())
    return isinstance(module, type(program))


class _Repeating:
    """What an adapter to tune with adds to the class it is mixed into.

    A mixin, not a wrapper: `dspy.Refine` subclasses the adapter's class and calls it without arguments.
    """

    _tuning: Tuning

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._tuning.reflecting:
            return super().__call__(*args, **kwargs)  # type: ignore[misc]
        made = Ledger()
        while True:
            try:
                with metered_all(made, OTHER):
                    return super().__call__(*args, **kwargs)  # type: ignore[misc]
            except AdapterParseError:
                calls, cached = made.total.calls, made.total.cache_hits
                if calls - cached >= MAX_PAID_ANSWERS or calls >= MAX_ANSWERS:
                    raise


# --- DSPy's own optimizers, unchanged, within a run -------------------------------------------------------------------

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
