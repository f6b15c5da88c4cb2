"""One optimization of the agent, from a request to a recorded run and a compiled program."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import dspy

from optimizers import Entry, Experience, Observer, TokenCount
from optimizers.baselines import OPTIMIZERS, Baseline
from optimizers.domain import Division, HoldOut
from optimizers.strategies import DemoPool
from pipeline.agent.agent import LineLessons, demonstrated_predictors
from pipeline.agent.compiled import save_program
from pipeline.agent.domain import examples, language_domain
from pipeline.base.config import RunConfig
from pipeline.base.errors import RecordError, UsageError
from pipeline.base.files import CHECKOUT
from pipeline.base.settings import RESAMPLE
from pipeline.base.text import counted
from pipeline.languages import registry
from pipeline.languages.language import Task
from pipeline.record import store
from pipeline.record.mlflow_metrics import STATUS
from pipeline.record.recorder import Recorder, recorded
from pipeline.record.request import Request
from pipeline.record.resume import Resumed
from pipeline.running.gate import Gate
from pipeline.running.plan import Plan, budget, trusted
from pipeline.running.simplifying import simplified_solutions
from pipeline.splitting.division import dividing
from pipeline.synthesis.parallel_search import search_all
from pipeline.synthesis.search_budget import SearchBudget
from pipeline.verification.claims import Claim
from pipeline.verification.held_out import holding_out, run_settings
from pipeline.verification.metric import Metric
from pipeline.verification.pool import LocalWorkers, Workers
from pipeline.verification.pricing import AnswerCost, answer_cost, task_bounds
from pipeline.verification.task_files import digest
from step_runtime.base.errors import TaskError


@dataclass(frozen=True)
class JobResult:
    """A job's result.

    Attributes:
        probe: Tokens of the requests by which the LM was found usable, which are not in the experience.
        refused: What earlier records say is right and is not; it is left out.
    """

    request: Request
    experience: Experience
    run_id: str
    run_name: str
    program: Path
    probe: TokenCount = field(default_factory=TokenCount)
    refused: Sequence[Claim] = ()


@contextmanager
def start_job(
    request: Request,
    plan: Plan,
    name: str,
    params: Mapping[str, object],
    resumed: Resumed | None = None,
    workers: Workers | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Iterator[CompileJob]:
    """A run in the store, new or resumed, and the job that it records.

    `params` are MLflow's in addition to the settings; `tell` is given messages about what earlier records say.
    """
    workers = workers or LocalWorkers()
    gate = Gate(workers, tell)
    request = gate.request(request if resumed else taught(request, workers, tell))
    all_params = run_params(plan, request.tasks, workers) | dict(params)
    earlier = (resumed.run_id, resumed.force) if resumed else ()
    with recorded(name, all_params, request.tasks, request, *earlier) as recorder:
        if recorder.tuned is not None:
            gate.agent(recorder.tuned, "tuned.json")
        yield CompileJob(request, plan, name, recorder, workers, gate.refused, tell)


@dataclass(frozen=True)
class CompileJob:
    """A recorded run, and its request."""

    request: Request
    plan: Plan
    name: str
    recorder: Recorder
    workers: Workers
    refused: Sequence[Claim] = ()
    tell: Callable[[str], None] = lambda line: None

    @property
    def run_id(self) -> str:
        """MLflow's."""
        return self.recorder.record.run_id

    def run(self, observers: Sequence[Observer] = (), output: Path | None = None) -> JobResult:
        """Optimizes, and writes the program to `output`, by default next to the store.

        Raises:
            RecordError: The record, or the program, can't be written.
        """
        compiled = self._compile([*observers, self.recorder])
        experience: Experience = compiled.experience
        program = output or program_path(self.request.config, self.run_id)
        rates = {entry.task_key: f"{entry.successes}/{entry.samples}" for entry in experience.entries}
        origin = {"run_id": self.run_id, "solved": rates, "unsolved": list(experience.unsolved)}
        fallen = [entry.task_key for entry in experience.entries if entry.fallen]
        origin |= {"settings": experience.settings, **({"fallen": fallen} if fallen else {})}
        try:
            with dspy.context(lm=self.plan.lm):
                save_program(compiled, program, origin)
        except UsageError as error:
            raise RecordError(str(error)) from error
        self.recorder.log_file(program, self.request.config.register_as)
        probe = self.recorder.probe.total
        return JobResult(self.request, experience, self.run_id, self.name, program, probe, self.refused)

    def _compile(self, observers: list[Observer]) -> Any:
        request, config, agent = self.request, self.request.config, self.plan.agent
        kind, extra = OPTIMIZERS[config.optimizer], dict[str, Any](resample=resamples(config))
        if config.optimizer == "adaptive":
            extra = {"selection": config.selection}
        if issubclass(kind, Baseline):
            record = {"tuned": self.recorder.tuned, "overhead": self.recorder.overhead}
            extra |= {"reflection_lm": self.plan.reflecting, **record}
        probe = getattr(self.plan.lm, "probe_tokens", None)  # an LM that is not from the factory has none
        if probe is not None and probe.calls:
            self.recorder.probe.add("probe", probe)
        with ExitStack() as stack:
            metric = stack.enter_context(self.plan.session(self.workers, run_settings(config.language)))
            learn = cost = divide = None
            if config.split:
                divide = partial(_division, stack.enter_context(dividing(self.workers)))
            if config.proposer == "typed":
                agent.proposer.lessons = LineLessons(registry.find(config.language))
                learn = agent.proposer.lessons.learn
            agent.verifier.metric, agent.verifier.tasks = metric, [*request.tasks, *request.validation]
            hold_out = holding_out(self.workers, config.seed, config.language, self.tell, metric.executor)
            if config.objective != "correctness":
                cost = answer_cost(metric.executor, config.objective)
            optimizer = kind(
                metric=trusted(metric),
                num_samples=config.samples,
                granularity=config.granularity,
                temperatures=config.temperatures,
                threads=self.plan.threads(self.workers),
                seed=config.seed,
                stop_after=config.stop_after,
                budget=budget(config),
                domain=replace(
                    language_domain(config.language, lambda task, text: metric.verdict(task, text).passed),
                    demo_predictors=demonstrated_predictors(agent),
                    hold_out=hold_out,
                    cost=cost,
                    learn=learn,
                    divide=divide,
                ),
                observers=observers,
                display_progress=False,
                **extra,
            )
            compiled = optimizer.compile(
                agent,
                trainset=examples(request.tasks),
                valset=examples(request.validation) or None,
                experience=request.experience and _priced(request.experience, request.tasks, cost),
                resume=self.recorder.journal,
            )
            if config.objective != "correctness":
                bounds = task_bounds(metric.executor, request.tasks, config.objective)
                self.recorder.log_costs(config.objective, compiled.experience, bounds)
            self._simplify_solutions(compiled.experience, metric, cost, hold_out)
            if config.optimizer == "adaptive" and config.selection in ("coverage", "relevance"):
                relevant = config.selection == "relevance"
                compiled.pool = DemoPool.of(compiled.experience, config.demo_tokens, relevant=relevant)
            return compiled

    def _simplify_solutions(
        self, experience: Experience, metric: Metric, cost: AnswerCost | None, hold_out: HoldOut | None
    ) -> None:
        """Records simpler texts of a run's solutions; the experience and the program keep the answers as sampled."""
        if experience.stopped not in STATUS and self.request.config.language is None:
            threads = self.workers.count
            self.recorder.log_solutions(simplified_solutions(experience.entries, metric, cost, hold_out, threads))


def _division(divider: Any, example: dspy.Example, answers: Mapping[str, Any]) -> Division:
    found = divider.divided(example.task, {name: str(outputs["impl"]) for name, outputs in answers.items()})
    parts = dict(zip(found.parts, examples(found.parts.values()), strict=True))
    return Division(parts, {"impl": found.impl} if found.impl else None, found.origins)


def _priced(experience: Experience, tasks: Sequence[Task], cost: AnswerCost | None) -> Experience:
    """The experience with what its answers to `tasks` cost here, whatever its record says."""
    own = {task.name: dspy.Example(task=task) for task in tasks}

    def priced(entry: Entry) -> Entry:
        known = cost(own[entry.task_key], entry.outputs) if cost and entry.task_key in own else None
        return replace(entry, cost=known, dearer=None)

    return replace(experience, entries=tuple(map(priced, experience.entries)))


def resamples(config: RunConfig) -> bool:
    """Whether a run samples unsolved tasks again and learns nothing from it: the control at equal cost."""
    if config.optimizer == "adaptive":
        return config.selection == RESAMPLE
    return config.max_iterations is not None or config.match_tokens is not None


def run_params(plan: Plan, tasks: Sequence[Task], workers: Workers) -> dict[str, object]:
    """MLflow's params of a run: everything needed to repeat it."""
    config = plan.config
    return {
        **config.params(),
        "lm": plan.lm.model,
        "tasks": ", ".join(task.name for task in tasks),
        "task_set_digest": digest(tasks),
        "temperatures": ",".join(map(str, config.temperatures)),
        "threads": plan.threads(workers),
        "code_version": code_version(),
        **language_params(config.language),
        **versions(),
    }


def language_params(language: str | None) -> dict[str, str]:
    """The version of a language, and what becomes of its programs; nothing for the default, which is the code's own."""
    if language is None:
        return {}
    spoken = registry.find(language)
    where = "in confined cells" if spoken.confined else "not confined"
    return {
        "language_version": registry.version(language),
        "programs": f"run as Python, {where}" if spoken.executes else "interpreted",
    }


def program_path(config: RunConfig, run_id: str) -> Path:
    """The default path of a run's compiled program."""
    return store.folder() / "programs" / f"{config.optimizer}-{config.lm.replace('/', '-')}-{run_id[:8]}.json"


PACKAGES = ("dspy", "mlflow", "torch")


def code_version() -> str:
    """The package's version and, in a checkout, git's name for the commit, marked `-dirty` if files differ from it."""
    try:
        version = metadata.version("adaptive-step")
    except metadata.PackageNotFoundError:
        version = "not installed"
    if CHECKOUT is None:
        return version
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--tags"],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return version
    return f"{version} ({described.stdout.strip()})"


def versions() -> dict[str, str]:
    """The versions of Python and of the libraries that results may depend on."""
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in PACKAGES}


def taught(request: Request, workers: Workers, tell: Callable[[str], None]) -> Request:
    """The request whose experience has what its teacher solves before an LM learns; as it is, if it has none.

    Its programs are demonstrations, and never count as the LM's.

    Raises:
        UsageError: A task's own code fails.
    """
    config, before = request.config, request.experience or Experience(tasks=())
    if config.teacher is None:
        return request
    known = {entry.task_key for entry in before.entries}
    tasks = [task for task in request.tasks if task.name not in known]
    tell(f"the teacher searches {counted(len(tasks), 'task')}, each for {config.teacher_minutes:g} min at most")
    budget, entries = SearchBudget(60.0 * config.teacher_minutes), []
    try:
        for task, outcome in search_all(tasks, budget, workers):  # type: ignore[arg-type] # of the language
            if outcome.impl is not None:
                entries.append(_entry(task, outcome.impl, config.teacher))
    except TaskError as error:
        raise UsageError(str(error)) from None
    tell(f"the teacher solved {len(entries)} of {len(tasks)}; the LM is asked for the rest")
    return replace(request, experience=replace(before, entries=(*before.entries, *entries)))


def _entry(task: Task, impl: str, teacher: str) -> Entry:
    """A task that a teacher solved; its single sample is none of the LM's successes."""
    return Entry(
        task_key=task.name, inputs={"task": task}, outputs={"impl": impl}, successes=0, samples=1, temperature=0.0,
        iteration=0, answer_temperature=0.0, answer_sample=0, tokens=TokenCount(), teacher=teacher,
    )  # fmt: skip
