"""DSPy's own optimizers, unchanged, within a normal run: their requests are recorded and their program is sampled.

Invariants: the optimizer sees the student, the tasks and the metric that `AdaptiveFewShot` would, and no labels, as
none exist; the figures of the result come from one pass of samples over all tasks, by the same loop; earlier requests
of the optimizer count in the tokens and in the budget; it prints nothing on stdout; if it fails, the run ends like a
run with a failing LM, and can be resumed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import dspy
from dspy.teleprompt import Teleprompter
from dspy.utils.exceptions import AdapterParseError

from optimizers.adaptive import AdaptiveFewShot, SinglePass
from optimizers.attempt import TaskExample
from optimizers.demonstrations import copy_program
from optimizers.errors import OptimizerError, RunStopped, UnknownOptimizerError, one_line
from optimizers.ledger import Ledger
from optimizers.run import Run
from optimizers.sampling import Sampling
from optimizers.state import State
from optimizers.strategies.none import NoDemonstrations
from optimizers.tuning import OptimizerAborted, Tuning

logger = logging.getLogger(__name__)

Examples = list[dspy.Example]

BOOTSTRAP_ROUNDS = 8
"""Attempts to solve a task that is to become a demonstration, unless there are fewer samples."""

UNLIMITED_ERRORS = 1_000_000
"""Failures that DSPy ignores; to DSPy, an answer that cannot be parsed is one; `Tuning` ends the run on all others."""


class Baseline(AdaptiveFewShot):
    """One of DSPy's optimizers, then a single pass with the program that it made.

    Args:
        granularity: For the record only.
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
        reflection_lm: Any = None,
        tuned: dspy.Module | None = None,
        overhead: Ledger | None = None,
        **options: Any,
    ) -> None:
        one_pass = NoDemonstrations(self.name, self.name)
        super().__init__(metric, num_samples, granularity, selection=one_pass, **options)
        self._reflection_lm, self._tuned, self._overhead = reflection_lm, tuned, overhead

    @abstractmethod
    def _optimizer(self, trainset: Examples, tuning: Tuning) -> Teleprompter:
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
                optimizer = self._optimizer(trainset, tuning)
                options: dict[str, Any] = {"valset": list(valset)} if self.validates else {}
                options |= {"seed": self._sampling.seed} if self.seeded else {}
                return optimizer.compile(copy_program(run.program), trainset=list(trainset), **options)
        except OptimizerAborted as aborted:
            raise aborted.reason from aborted.__cause__
        except OptimizerError:
            raise
        except Exception as error:
            logger.info("%s failed", self.name, exc_info=True)
            raise RunStopped("failed", f"{self.name} failed: {_cause(error)}") from error

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

    @property
    def _rounds(self) -> int:
        return min(BOOTSTRAP_ROUNDS, self._sampling.num_samples)


class Bootstrap(Baseline):
    """`dspy.BootstrapFewShot`: the first four solutions found become the demonstrations."""

    name = "bootstrap"

    def _optimizer(self, trainset: Examples, tuning: Tuning) -> Teleprompter:
        return dspy.BootstrapFewShot(max_rounds=self._rounds, **self._bootstrapping(tuning))


class RandomSearch(Baseline):
    """`dspy.BootstrapFewShotWithRandomSearch`: the best-scoring of many sets of demonstrations."""

    name = "random-search"
    validates = True

    def _optimizer(self, trainset: Examples, tuning: Tuning) -> Teleprompter:
        return dspy.BootstrapFewShotWithRandomSearch(
            max_rounds=self._rounds, num_threads=self._sampling.threads, **self._bootstrapping(tuning)
        )


class MIPRO(Baseline):
    """`dspy.MIPROv2`, its light setting: searches instructions and demonstrations together."""

    name = "mipro"
    validates = True

    def _optimizer(self, trainset: Examples, tuning: Tuning) -> Teleprompter:
        if importlib.util.find_spec("optuna") is None:
            raise OptimizerError("mipro needs the package optuna; install it: pip install optuna")
        return dspy.MIPROv2(
            prompt_model=self._reflection(tuning),
            num_threads=self._sampling.threads,
            seed=1 + self._sampling.seed,  # it treats 0 as no seed
            **self._bootstrapping(tuning),
        )


class SIMBA(Baseline):
    """`dspy.SIMBA`: the batches with the most variable scores become rules and demonstrations."""

    name = "simba"
    seeded = True

    def _optimizer(self, trainset: Examples, tuning: Tuning) -> Teleprompter:
        return dspy.SIMBA(
            metric=tuning.score,
            bsize=min(32, len(trainset)),
            prompt_model=self._reflection(tuning),
            num_threads=self._sampling.threads,
        )


class GEPA(Baseline):
    """`dspy.GEPA`, its light setting: instructions evolve by reflection on the metric's feedback."""

    name = "gepa"
    validates = True

    def _optimizer(self, trainset: Examples, tuning: Tuning) -> Teleprompter:
        return dspy.GEPA(
            metric=tuning.score_with_feedback,
            auto="light",
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


def get(name: str) -> type[AdaptiveFewShot]:
    """The optimizer called `name`.

    Raises:
        UnknownOptimizerError: No optimizer has that name; the message lists the known ones.
    """
    if name not in OPTIMIZERS:
        known = ", ".join(sorted(OPTIMIZERS))
        raise UnknownOptimizerError(f"unknown optimizer {name!r}; expected one of {known}")
    return OPTIMIZERS[name]
