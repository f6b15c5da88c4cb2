"""Adaptive self-improvement learning as a DSPy optimizer (paper, Section 3): the loop of `run`, and its defaults.

Invariants: student and training set are not changed, also when an exception is raised; one optimizer can compile
repeatedly; if the LM is a function of its requests, two runs with one seed agree in every attempt, demonstration and
figure except times, for any number of threads.
"""

from __future__ import annotations

import inspect
import logging
import math
import sys
from collections.abc import Sequence
from dataclasses import field, fields, replace
from typing import Annotated, Any

import dspy
from dspy.teleprompt import Teleprompter
from pydantic import AfterValidator, Field

from optimizers.arguments import Temperatures, checked_lms, named_examples, validated
from optimizers.attempt import JUDGE, Attempt, TaskExample, checked_metric
from optimizers.budget import Budget, Spending
from optimizers.demonstrations import DemoFitter, copy_program, taught_predictors
from optimizers.domain import Domain
from optimizers.errors import RunStopped, attach_experience, one_line
from optimizers.experience import Entry, Experience, in_task_order
from optimizers.ledger import Ledger
from optimizers.observer import Observer, ProgressBar, watched
from optimizers.predictors import ProgramTypes, held
from optimizers.requests import taken
from optimizers.run import Run, choose_demos, hold_out, learn, start
from optimizers.sampling import Sampler, Sampling
from optimizers.state import State
from optimizers.strategies import Resample, make_selection

logger = logging.getLogger(__name__)


def _metric(value: Any) -> Any:
    checked_metric(value)
    return value


Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[int, Field(ge=1)]


@validated
class Options:
    """The arguments of an optimizer, documented there."""

    metric: Annotated[Any, AfterValidator(_metric)]
    num_samples: Positive = 64
    granularity: Positive = 3
    selection: Any = "adaptive"
    temperatures: Temperatures = (0.4, 0.7, 1.0)
    threads: Positive | None = None
    seed: int = 0
    budget: Budget | None = None
    domain: Domain | None = None
    observers: Sequence[Any] = ()
    num_threads: Positive | None = None
    metric_threshold: Finite | None = None
    max_demos: Annotated[int, Field(ge=0)] | None = None
    max_errors: Positive | None = None
    failure_score: Finite | None = None
    stop_at_score: Finite | None = None
    display_progress: bool | None = None
    stop_after: Any = None
    sampling: Sampling = field(init=False)
    limits: Budget = field(init=False)

    def __post_init__(self) -> None:
        if None not in (self.threads, self.num_threads) and self.threads != self.num_threads:
            raise ValueError(f"threads is {self.threads}, and num_threads, another name for it, {self.num_threads}")
        own = self.num_threads if self.threads is None else self.threads
        threads = dspy.settings.num_threads or 8 if own is None else own
        domain, limits = self.domain or Domain(), self.budget or Budget()
        if self.metric_threshold is not None:
            domain = replace(domain, threshold=float(self.metric_threshold))
        selection = make_selection(self.selection, self.granularity)
        if isinstance(selection, Resample) and not limits.limited:
            raise ValueError("selection: `resample` ends at a limit only; give a budget, such as Budget(iterations=5)")
        sampling = Sampling(self.num_samples, self.temperatures, threads, self.seed, self.stop_after)
        made = {"sampling": sampling, "domain": domain, "selection": selection, "limits": limits}
        for name, value in made.items():
            object.__setattr__(self, name, value)


class AdaptiveFewShot(Teleprompter):
    """Samples a program on all unsolved tasks, showing it its own solutions, as long as that helps.

    Each predictor of the program is shown its own inputs and its own answers from the attempt that solved a task: all
    calls in order, of which one counts for equal inputs, such as votes.

    Args:
        metric: `metric(example, prediction)`, or one with up to five arguments as for DSPy's GEPA, or a coroutine;
            returns a bool, a float, or a prediction with a `score` and further fields to record. Called in several
            threads at once, right after each sample. An exception costs the attempt; a `MetricError` ends the run.
            Requests of its own, to any LM, are recorded as those of the `LM judge`.
        num_samples: Samples per task and temperature.
        granularity: The number m of levels of difficulty.
        selection: What to show next: `adaptive` (the paper's β, hardest level first), `everything`, `random`; to each
            task its own, `coverage`; nothing, `none`, `resample`; or your own `Selection`.
        temperatures: Sampling temperatures, (0.4, 0.7, 1.0); a task's success rate is that of its best.
        threads: Samples in flight at a time, over all tasks and temperatures; None: `num_threads`.
        seed: Determines everything random; 0.
        budget: Limits of a run.
        domain: When two answers mean the same, which one is shorter, task names, …
        observers: Listeners to the run.
        num_threads: DSPy's name for `threads`; None: that of `dspy.settings`, else 8.
        metric_threshold: The lowest score of a right answer; None: the domain's, by default 1.
        max_demos: Demonstrations of a predictor; the easiest tasks' are omitted.
        max_errors: The number of samples without an answer or a verdict that ends the run, in place of the budget's
            share of an iteration.
        failure_score: The score of such a sample, as in `dspy.Evaluate`; None: it is in no success rate.
        stop_at_score: Percentage of solved tasks at which the run ends before its strategy does.
        stop_after: Right answers to a task at a temperature after which an iteration samples it there no further, 2 or
            more; None: it takes all `num_samples`.
        display_progress: Whether to show a progress bar; None: in a terminal and in a notebook.

    Raises:
        TypeError: An argument has the wrong type, or an option is unknown.
        ValueError: An argument is out of its range.
    """

    def __init__(self, metric: Any, num_samples: int = 64, granularity: int = 3, **options: Any) -> None:
        super().__init__()
        known = [each.name for each in fields(Options) if each.init]
        if unknown := [name for name in options if name not in known]:
            listed = ", ".join(sorted({*known} - {"metric", "num_samples", "granularity"}))
            raise TypeError(f"{type(self).__name__}: no option {', '.join(unknown)}; the options are {listed}")
        self._options = Options(metric, num_samples, granularity, **options)

    def get_params(self) -> dict[str, Any]:
        """The settings as scalars, for trackers; those that are unset are omitted."""
        options = self._options
        own = ("num_samples", "granularity", "seed", "max_demos", "max_errors", "failure_score")
        named: dict[str, Any] = {name: getattr(options, name) for name in (*own, "stop_at_score", "stop_after")}
        named |= {f"budget_{each.name}": getattr(options.budget, each.name, None) for each in fields(Budget)}
        named |= {
            "metric": getattr(options.metric, "__name__", type(options.metric).__name__),
            "selection": options.selection.name,
            "temperatures": ", ".join(map(str, options.sampling.temperatures)),
            "num_threads": options.sampling.threads,
            "metric_threshold": options.domain.threshold if options.domain else None,
        }
        return {name: value for name, value in named.items() if value is not None}

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
        given = {"student": (student, dspy.Module), "resume": (resume, Sequence)}
        given |= {} if experience is None else {"experience": (experience, Experience)}
        for name, (value, kind) in given.items():
            if not isinstance(value, kind):
                raise TypeError(f"{name}: expected an instance of {kind.__name__}, found {value!r:.80}")
        checked_lms(student)
        tasks, options = self._tasks(trainset, "trainset"), self._options
        validation = list(self._tasks(valset, "valset").values()) if valset else []
        shown = watched() if options.display_progress is None else options.display_progress
        run = self._run(student, tasks, resume, [*options.observers, *([ProgressBar()] if shown else [])])
        state = self._state(run, tasks, experience)
        try:
            return self._compiled(state, run, validation)
        except RunStopped as stop:
            cause = stop.cause or stop
            _fail(state, run, cause, stop.stopped, stop.message)
            raise cause from cause.__cause__
        except BaseException as error:
            stopped = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            _fail(state, run, error, stopped, one_line(error))
            raise

    _prepares = False
    """Whether `_prepared` makes the program that is sampled, with its demonstrations and instructions."""

    _overhead: Ledger | None = None

    def _prepared(self, state: State, run: Run, validation: Sequence[TaskExample]) -> dspy.Module:
        """The program to sample, made within the run before its first iteration."""
        raise NotImplementedError

    def _compiled(self, state: State, run: Run, validation: Sequence[TaskExample]) -> dspy.Module:
        """The result of the run; raises `RunStopped` if its cause is to be raised."""
        demos: Sequence[Entry] = ()
        start(state, run)
        try:
            stopped, message = self._learned(state, run, validation)
            hold_out(state)
            demos = choose_demos(state, run, () if stopped == "budget" else validation)
        except RunStopped as stop:
            if stop.unusable(scored=not all(attempt.failed for attempt in state.attempts)):
                raise
            stopped, message, demos = stop.stopped, stop.message, choose_demos(state, run)
        except KeyboardInterrupt:
            stopped, message, demos = "interrupted", "interrupted", choose_demos(state, run)
        message, cut = message or summary(state), ""
        if stopped == "budget" and not (state.iterations and isinstance(run.selection, Resample)):  # whose end it is
            cut = cut_short(state, run.sampler.sampling)
        level = logging.ERROR if stopped == "failed" else logging.WARNING if cut else logging.INFO
        logger.log(level, "%s: %s%s", stopped, message, cut)
        warn_of_async_tools(run.program)
        warn_of_unscored(state, run.spending, self._options.failure_score)
        compiled = run.program_with(demos)
        compiled._compiled = True
        compiled.candidate_programs = candidate_programs(state, run, compiled)
        run.tell("program_compiled", compiled)
        compiled.experience = replace(run.record(state, stopped, message, demos), carried=True)
        run.tell("run_finished", compiled.experience)
        return compiled

    def _learned(self, state: State, run: Run, validation: Sequence[TaskExample]) -> tuple[str, str]:
        """Why a run's iterations end, and a line about it; raises `RunStopped` unless a budget ends them."""
        try:
            if self._prepares:
                run.adopt(state, self._prepared(state, run, validation))
            return learn(state, run), ""
        except RunStopped as stop:
            if stop.stopped != "budget":
                raise
            return stop.stopped, stop.message

    def _run(
        self,
        student: dspy.Module,
        tasks: dict[str, TaskExample],
        journal: Sequence[Attempt],
        observers: Sequence[Observer],
    ) -> Run:
        options, domain, program = self._options, self._options.domain or Domain(), copy_program(student)
        for result in ("candidate_programs", "experience"):  # of an earlier optimizer
            vars(program).pop(result, None)
        inputs = list(next(iter(tasks.values())).example.inputs().keys())
        names = taught_predictors(program, inputs, domain.demo_predictors, domain.traced_demos)
        sampling = replace(options.sampling, temperatures=taken(program, options.sampling.temperatures))
        own = {name: list(predictor.demos) for name, predictor in program.named_predictors()}
        return Run(
            program=program,
            # A prepared program keeps its demonstrations.
            fitter=DemoFitter(() if self._prepares else names, options.limits, options.max_demos, own=own),
            sampler=Sampler(options.metric, sampling, domain.threshold, journal, options.failure_score),
            selection=options.selection,
            domain=domain,
            spending=Spending(options.limits, Ledger() if self._overhead is None else self._overhead),
            granularity=options.granularity,
            observers=tuple(observers),
            max_errors=options.max_errors,
            stop_at_score=options.stop_at_score,
        )

    def _state(self, run: Run, tasks: dict[str, TaskExample], experience: Experience | None) -> State:
        types, known = ProgramTypes(run.program), experience.entries if experience else ()
        entries = {entry.task_key: types.entry(entry) for entry in known if not entry.fallen}
        return State(
            tasks=tasks,
            domain=run.domain,
            seed=self._options.seed,
            max_demo_tokens=self._options.limits.demo_tokens,
            demo_tokens=lambda entry: run.fitter.tokens(run.program, entry),
            solved=in_task_order(entries, tasks),
        )

    def _tasks(self, examples: Sequence[dspy.Example], name: str) -> dict[str, TaskExample]:
        named = named_examples(examples, name, (self._options.domain or Domain()).task_key)
        return {key: TaskExample(index, key, example) for index, (key, example) in enumerate(named.items())}


def _fail(state: State, run: Run, error: BaseException, stopped: str, message: str) -> None:
    """Attaches the record to the exception that ends the run, and announces it."""
    experience = run.record(state, stopped, message)
    attach_experience(error, experience)
    for observer in run.observers:
        try:
            if (heard := getattr(observer, "run_failed", None)) is not None:
                heard(experience, error)
        except Exception as failure:
            logger.warning("%s.run_failed: %s", type(observer).__name__, one_line(failure))


UNMEASURED = -math.inf
"""The score of a program that was not measured: less than any."""


class CandidatePrograms(list[dict[str, Any]]):
    """Candidates, best first: each a dict with `program`, `score` (a percentage, or `UNMEASURED`) and `label`.

    It is pickled as an empty list, and a deep copy of a program shares it.
    """

    def __reduce_ex__(self, protocol: Any) -> Any:
        return list, ()

    def __deepcopy__(self, memo: dict[int, Any]) -> CandidatePrograms:
        return self


def candidate_programs(state: State, run: Run, chosen: dspy.Module) -> CandidatePrograms:
    """The programs that could have been the result, best first; those that were not measured come last, in order.

    A strategy without candidates has only the program `chosen`, whose score is pass@1.
    """
    candidates = run.selection.candidates(state)
    if not candidates:
        score = 100 * state.iterations[-1].pass_at_1 if state.iterations else UNMEASURED
        return CandidatePrograms([{"program": copy_program(chosen), "score": score, "label": run.selection.name}])
    scores, made = {level.label: 100 * level.score for level in state.validation}, CandidatePrograms()
    for candidate in candidates:
        program = run.program_with(run.fit(state, candidate.demos))
        made.append({"program": program, "score": scores.get(candidate.label, UNMEASURED), "label": candidate.label})
    made.sort(key=lambda each: -each["score"])
    return made


class SinglePass(AdaptiveFewShot):
    """Samples every task once, with the same loop and record as `AdaptiveFewShot`, and learns nothing from it.

    Args:
        resample: Whether to make further passes over the tasks that are unsolved, with new samples, until the budget
            ends the run: the control for learning.
        metric: This and the others as for `AdaptiveFewShot`; `granularity` is for the record only.
    """

    def __init__(
        self, metric: Any, num_samples: int = 64, granularity: int = 3, *, resample: bool = False, **options: Any
    ) -> None:
        super().__init__(metric, num_samples, granularity, selection="resample" if resample else "none", **options)


def join_autologging() -> None:
    """Has `mlflow.dspy.autolog` patch all optimizers once more, if it is on; to be called after defining one."""
    switches, flavor = sys.modules.get("mlflow.utils.autologging_utils"), sys.modules.get("mlflow.dspy")
    settings = getattr(switches, "AUTOLOGGING_INTEGRATIONS", {}).get("dspy")
    if flavor is None or not settings or settings.get("disable", True):
        return
    accepted = inspect.signature(flavor.autolog).parameters
    try:
        flavor.autolog(**{name: value for name, value in settings.items() if name in accepted})
    except Exception as error:  # such as an import in a thread that may not change DSPy's settings
        logger.warning("MLflow does not log this package's optimizers; call mlflow.dspy.autolog again: %s", error)


join_autologging()

# --- a finished run in words: its end, its unsolved tasks, and what its program lacks outside the run -----------------


def summary(state: State) -> str:
    """One line about a run that ended as its strategy has it."""
    left = [task.key for task in state.unsolved]
    if not left:
        return "every task is solved"
    parts = ["1 task remains unsolved" if len(left) == 1 else f"{len(left)} tasks remain unsolved"]
    if state.too_long:
        long = [key for key in state.tasks if key in state.too_long]
        parts.append(f"too long for the LM, even without demonstrations: {', '.join(long)}")
    if unanswered := [key for key in left if key in state.unanswered and key not in state.too_long]:
        parts.append(f"no scored answers for {', '.join(unanswered)}")
    if short := _short_of_threshold(state):
        logger.warning("%s", short)
        parts.append(short)
    return "; ".join(parts)


def _short_of_threshold(state: State) -> str | None:
    """What to say of a metric that gave scores, none of which reached the threshold; else None."""
    if any(result.learned for result in state.iterations):
        return None
    scores = [attempt.score for attempt in state.attempts if attempt.score is not None and not attempt.failed]
    best, threshold = max(scores, default=0.0), state.domain.threshold
    if not best or best >= threshold:
        return None
    return f"no score reached the threshold {threshold:g}, the highest is {best:g}; metric_threshold sets it"


def cut_short(state: State, sampling: Sampling) -> str:
    """What a budget left of the iteration that it ended, in words; empty if it ended none."""
    if not state.iterations:
        return "; it left nothing to sample with"
    *_, last = state.iterations
    total = len(last.tasks) * len(sampling.temperatures) * sampling.num_samples
    cut = f"; iteration {len(state.iterations)}, {last.label}, had {last.samples} of its {total} samples"
    return "" if last.complete else cut


def warn_of_async_tools(program: dspy.Module) -> None:
    """Warns of tools that the run called and that plain calls of its result refuse, which agents take in silence."""
    called = [(tool, getattr(tool.func, "__call__", None)) for tool in held(program, dspy.Tool)]  # noqa: B004
    waiting = [str(tool.name) for tool, own in called if any(map(inspect.iscoroutinefunction, (tool.func, own)))]
    if waiting and not dspy.settings.allow_tool_async_sync_conversion:
        logger.warning(
            "the run could call the tools that are coroutines (%s); dspy.Evaluate and plain calls of the compiled "
            "program cannot, and its agents see each call fail: use acall, or set "
            "dspy.configure(allow_tool_async_sync_conversion=True)",
            ", ".join(waiting),
        )


def warn_of_unscored(state: State, spending: Spending, failure_score: float | None) -> None:
    """Warns of many failures of tasks that have an answer, which no success rate has; and of requests not seen."""
    failures, samples = (sum(getattr(each, name) for each in state.iterations) for name in ("failures", "samples"))
    if failures > (most := spending.budget.failures * samples) and failure_score is None:
        failed = [each for each in state.attempts if each.failed and each.task_key not in state.unanswered]
        if len(failed) > most:
            described = len(failed), samples, failed[-1].error
            logger.warning(
                "%d of %d samples are in no success rate, the last: %s; failure_score counts them", *described
            )
    if samples > failures and set(spending.tokens) <= {JUDGE}:
        logger.warning(
            "no request of the program was counted: threads of its own see neither the run's LM nor its temperatures, "
            "unless they are dspy.Parallel's or start in a copy of the context"
        )
