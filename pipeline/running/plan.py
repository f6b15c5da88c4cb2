"""What the settings of a command say, resolved once: the agent, its LM, the limits, and how answers are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import dspy
from dspy.utils.exceptions import LMError

from optimizers import Budget, MetricError, OptimizerError, Price, TemperatureError
from optimizers.demonstrations import ShownDemos, prompt_room, trimmed
from optimizers.errors import UnavailableError, one_line
from optimizers.requests import ONLY, takes_one
from optimizers.sampling import demo_count
from optimizers.strategies import DemoPool
from pipeline.agent.agent import Agent
from pipeline.agent.compiled import SavedProgram, make_agent
from pipeline.agent.domain import examples
from pipeline.base.config import AgentConfig, LMConfig, ProgramConfig, RunConfig
from pipeline.base.errors import ClusterUnavailable, LMUnavailable, UsageError
from pipeline.base.languages import DEFAULT
from pipeline.base.settings import EMBEDDED, NO_PROGRAM, Objective, flag, is_embedded
from pipeline.base.text import counted
from pipeline.languages import registry
from pipeline.languages.language import Task
from pipeline.lms import factory
from pipeline.lms.embedded.engine import SAMPLING, EmbeddedEngine
from pipeline.lms.model_data import known_context, known_price
from pipeline.record.models import fetch_program
from pipeline.running.gate import Gate
from pipeline.verification.claims import Claim
from pipeline.verification.limits import verification_settings
from pipeline.verification.metric import Metric, Reward
from pipeline.verification.pool import LocalWorkers, PoolSettings, Workers
from signatures import YAMLAdapter
from step_runtime.base.errors import TaskError

RERUN = "To continue, run the same command again: answers of a remote LM are cached"
AnyConfig = TypeVar("AnyConfig", RunConfig, ProgramConfig)
REMOTE_THREADS = 16
"""Requests in flight to an LM elsewhere."""

CLUSTER_THREADS = (32, 512)
"""Requests in flight to the embedded LM on a cluster, at least and at most: nodes may join, and threads cost memory."""


@dataclass(frozen=True)
class Fitted:
    """An agent for tasks, and a note on it for the user.

    Attributes:
        pool: What each task is shown its demonstrations from, if it is shown its own; `agent` has none then.
        shown: Those, within the limits.
    """

    agent: Agent
    note: str
    pool: DemoPool | None = None
    shown: ShownDemos = field(default_factory=lambda: ShownDemos(()))


@dataclass(frozen=True)
class Plan:
    """What the settings say.

    Attributes:
        config: The settings, in which those that the LM, the language or a compiled program determines are filled in.
        lm: The LM that solves tasks, found to answer at all temperatures.
        agent: The agent, or that of the compiled program.
        reflecting: The LM with which an optimizer reflects, if it is another.
        refused: The demonstrations of the compiled program that verification refuses; the agent has them no more.
    """

    config: Any
    lm: dspy.LM
    agent: Agent
    reflecting: dspy.LM | None = None
    refused: Sequence[Claim] = ()

    @classmethod
    def of(cls, config: RunConfig, *, resumed: bool = False) -> Plan:
        """The plan of a run of `pipeline.compile`; a resumed one keeps the context window on its record.

        Raises:
            UsageError: A setting contradicts another, or the LM.
            LMUnavailable: An LM can't be used.
        """
        config = resolved(config)
        config = config if resumed else _with_context(config)
        lm, reflecting = _open_lm(config), None
        if config.reflection_lm:
            reflecting = factory.make_lm(config.reflection_lm, config.api_base, timeout=config.timeout)
        return cls(config, lm, aimed(new_agent(config), config.objective), reflecting)

    @classmethod
    def of_program(
        cls, config: ProgramConfig, workers: Workers | None = None, tell: Callable[[str], None] = lambda line: None
    ) -> Plan:
        """The plan for a program, on this machine or on `workers`.

        A compiled program's demonstrations are verified; `tell` is given a message about those that are left out.

        Raises:
            UsageError: The program can't be used, or a setting contradicts it.
            LMUnavailable: The LM can't be used.
        """
        compiled = None if config.program == NO_PROGRAM else fetch_program(config.program)
        if compiled:
            config = _as_compiled(config, compiled)
        config = _with_context(resolved(config.model_copy(update={"lm": config.lm or EMBEDDED})))
        lm = _open_lm(config)
        with dspy.context(lm=lm):
            agent = make_agent(compiled, config.program) if compiled else new_agent(config)
        gate = Gate(workers or LocalWorkers(), tell)
        gate.agent(agent, config.program)
        return cls(config, lm, agent, refused=gate.refused)

    def threads(self, workers: Workers | None = None) -> int:
        """Requests in flight: as given; for the embedded LM so many that no worker waits; else a fixed number."""
        if self.config.threads or not is_embedded(self.config.lm):
            return self.config.threads or REMOTE_THREADS
        workers = workers or LocalWorkers()
        if isinstance(workers, LocalWorkers):
            return 2 * workers.count
        least, most = CLUSTER_THREADS
        return max(least, min(most, 4 * workers.count))

    @property
    def note(self) -> str:
        """What the user is to know of an LM that takes one temperature; empty for others."""
        lm = self.config.lm
        return f"{lm} takes temperature {ONLY:g} only, and is sampled at it" if _takes_one(lm) else ""

    def fitted(self, tasks: Sequence[Task]) -> Fitted:
        """The agent with the demonstrations that fit the LM's context window.

        All tasks are shown those that fit with any of them, or, from the agent's pool, each its own.
        """
        agent, notes = self.agent, [self.note]
        room = prompt_room(self.lm, self.config.context)
        if agent.pool:
            shown, many = agent.shown(tasks, budget(self.config), room), counted(len(agent.pool.entries), "solved task")
            notes.append(f"each task is shown its own choice of {many}")
            return Fitted(agent.bare(), "; ".join(filter(None, notes)), agent.pool, shown)
        with dspy.context(lm=self.lm, adapter=YAMLAdapter()):
            fit: Any = trimmed(agent, examples(tasks), room)
        most, kept = demo_count(agent), demo_count(fit)
        if kept < most:
            cause = f"the context window of {self.config.context:,} tokens"
            notes.append(f"{most - kept} of {most} demonstrations are left out, because of {cause}")
        return Fitted(fit, "; ".join(filter(None, notes)))

    @contextmanager
    def session(self, workers: Workers, settings: PoolSettings | None = None) -> Iterator[Metric]:
        """The metric that judges answers; within the context requests go to the LM.

        Answers are verified by workers, which end with the context; the embedded LM answers in as many others.
        `settings` are of the workers that verify.

        Raises:
            LMUnavailable: The LM can't be used.
            ClusterUnavailable: The cluster is lost.
            UsageError: A task's own code fails, or an optimizer lacks a package.
        """
        lm, language = self.lm, self.config.language
        try:
            with (
                dspy.context(lm=lm, adapter=YAMLAdapter()),
                workers.pool(settings or verification_settings(language=language)) as judges,
                _sampling_workers(lm, workers),
            ):
                yield Metric(judges, registry.find(language))
                # Workers that are still busy were abandoned, as after an interrupt.
                judges.kill_workers()
        except UnavailableError as error:
            raise ClusterUnavailable(error.message) from None
        except LMError as error:
            raise LMUnavailable(f"{lm.model}: {factory.reason(error, lm.model, lm.kwargs.get('api_base'))}") from None
        except MetricError as error:
            if isinstance(error.__cause__, TaskError):
                raise UsageError(str(error.__cause__)) from None
            raise
        except TemperatureError as error:
            raise UsageError(f"--{error}") from None
        except OptimizerError as error:
            raise UsageError(str(error)) from None


def resolved(config: AnyConfig) -> AnyConfig:
    """The settings as the LM and the language serve them: at its one temperature, without a guardian that has no rule.

    Nothing is asked of an LM or a server.

    Raises:
        UsageError: An option needs what the LM or the language does not offer, or a price that is not known.
    """
    model = str(config.lm)
    if _takes_one(model):
        config = config.model_copy(update={"temperatures": (ONLY,)})
    config.require_served(model)
    config = registry.served(config)
    models = (model, getattr(config, "reflection_lm", None)) if config.max_usd is not None and not config.price else ()
    for each in models:
        if each and not is_embedded(each) and known_price(each) is None:
            hint = "give it with --price IN,OUT, in dollars per million tokens"
            raise UsageError(
                f"--max-usd: the price of {each} is not known; {hint}, or limit --max-tokens-total instead"
            )
    return config


def _as_compiled(config: ProgramConfig, compiled: SavedProgram) -> ProgramConfig:
    """The settings with the compiled program's own; raises `UsageError` if one that was given contradicts it."""
    own: dict[str, Any] = {
        "guardian": compiled.guardian, "proposer": compiled.proposer, "refine": compiled.refine,
        "prompt": compiled.prompt,
    }  # fmt: skip
    if compiled.language != config.language:
        written = compiled.language or DEFAULT
        raise UsageError(f"--language: this program writes {written}; give --language {written}")
    for name, value in own.items():
        if name in config.model_fields_set and getattr(config, name) != value:
            raise UsageError(f"{flag(name)}: this program was compiled with {value}; omit the option")
    return config.model_copy(update={**own, "lm": config.lm or compiled.lm})


def _takes_one(model: str) -> bool:
    """Whether an LM is known to refuse all temperatures but one."""
    return not is_embedded(model) and takes_one(model)


def _with_context(config: AnyConfig) -> AnyConfig:
    """The settings with the LM's context window, if it is known; one that was given stays."""
    model = str(config.lm)
    if config.context is not None or is_embedded(model):
        return config
    return config.model_copy(update={"context": known_context(model, config.api_base)})


def _open_lm(config: RunConfig | ProgramConfig) -> dspy.LM:
    """The LM, found to answer; where its context window is small, an answer has a quarter of it by default."""
    choosing, model = config.proposer == "typed", str(config.lm)
    timeout, batch = (config.timeout, config.batch_n) if isinstance(config, RunConfig) else (factory.TIMEOUT, 1)
    if choosing and batch > 1:
        raise UsageError("--batch-n: `--proposer typed` asks for one line at a time; omit the option")
    longest, default = config.max_tokens, LMConfig.model_fields["max_tokens"].default
    if config.context is not None and longest == default:
        longest = min(default, max(1, config.context // 4))
    sampled = config.temperatures
    lm = factory.make_lm(model, config.api_base, max_tokens=longest, timeout=timeout, n=batch, temperatures=sampled)
    if choosing:
        factory.prepare_choosing(lm)
    if config.price is not None:
        lm.price = Price(*config.price, given=True)
    return lm


def new_agent(config: AgentConfig) -> Agent:
    """The uncompiled agent."""
    return Agent(
        config.guardian,
        proposer=config.proposer,
        refine=config.refine,
        ir=config.ir,
        prompt=config.prompt,
        language=config.language,
    )


OBJECTIVES: Mapping[Objective, str] = {
    "memory": "the fewest bytes held at a time: states, Buffers, repeated elements, and elements that wait in queues",
    "time": "the fewest cycles until the last element arrives, where all primitives work at once",
    "traffic": "the fewest bytes that pass between the chip and its memory",
    "operations": "the fewest operations of functions",
}
"""What a proposer is told of the right answer that is wanted."""


def aimed(agent: Agent, objective: Objective) -> Agent:
    """The agent, whose proposer is told the objective."""
    for name, predictor in agent.named_predictors():
        if objective in OBJECTIVES and name.startswith("proposer."):
            told = f"{predictor.signature.instructions}\n\n# Of right programs, the best has {OBJECTIVES[objective]}."
            predictor.signature = predictor.signature.with_instructions(told)
    return agent


def budget(config: RunConfig | ProgramConfig) -> Budget:
    """The limits on a run."""
    limits = Budget(None, config.max_tokens_total, config.max_usd, config.max_minutes, context=config.context)
    if isinstance(config, ProgramConfig):
        return limits
    return replace(limits, iterations=config.max_iterations, demos=config.max_demos, demo_tokens=config.demo_tokens)


def trusted(metric: Callable[[Any, Any], Reward]) -> Callable[[Any, Any], Reward]:
    """The metric as one whose failure ends the run: it fails on tasks and machines, not on answers."""

    def judged(example: Any, prediction: Any) -> Reward:
        try:
            return metric(example, prediction)
        except ClusterUnavailable as error:
            raise UnavailableError(str(error)) from error
        except Exception as error:
            raise MetricError(one_line(error)) from error

    return judged


@contextmanager
def _sampling_workers(lm: dspy.LM, workers: Workers) -> Iterator[None]:
    """Within the context, the embedded LM answers in workers; any other is left alone."""
    if not isinstance(lm.engine, EmbeddedEngine):
        yield
        return
    with workers.pool(SAMPLING) as pool, lm.engine.answering_in(pool):
        yield
        pool.kill_workers()
