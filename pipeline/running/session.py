"""Agents, LMs and metrics as a run's settings describe them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import dspy
from dspy.utils.exceptions import LMError

from optimizers import (
    Budget,
    Domain,
    MetricError,
    OptimizerError,
    Price,
    TemperatureError,
    temperatures,
)
from optimizers.demonstrations import ShownDemos, prompt_room, trimmed
from optimizers.errors import UnavailableError, one_line
from optimizers.sampling import demo_count
from optimizers.strategies.coverage import DemoPool
from pipeline.agent.agent import Agent
from pipeline.agent.compiled import SavedProgram, make_agent
from pipeline.agent.domain import examples, language_domain
from pipeline.base.choices import EMBEDDED, NO_PROGRAM, PROMPTS, ProposerKind, is_embedded
from pipeline.base.config import AgentConfig, LMConfig, ProgramConfig, RunConfig
from pipeline.base.errors import ClusterUnavailable, LMUnavailable, UsageError
from pipeline.base.languages import DEFAULT, step_only
from pipeline.base.settings import flag
from pipeline.base.text import counted
from pipeline.languages import registry
from pipeline.languages.language import Task
from pipeline.lms import factory
from pipeline.lms.embedded.engine import SAMPLING, EmbeddedEngine
from pipeline.lms.model_data import known_context, known_price
from pipeline.record.models import fetch_program
from pipeline.running.gate import Gate
from pipeline.verification.claims import Refusal
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
class ProgramSession:
    """A program to sample: the agent, its LM, and the settings, in which those of a compiled program are filled in."""

    agent: Agent
    lm: dspy.LM
    config: ProgramConfig
    threads: int
    refused: Sequence[Refusal] = ()


def open_program(
    config: ProgramConfig, workers: Workers | None = None, tell: Callable[[str], None] = lambda line: None
) -> ProgramSession:
    """The program and the LM that the settings name; `workers` are those that it will run on, if not this machine's.

    A compiled program's demonstrations are verified; `tell` is given a message about those that are left out.

    Raises:
        UsageError: The program can't be used, or a setting contradicts it.
        LMUnavailable: The LM can't be used.
    """
    compiled = None if config.program == NO_PROGRAM else fetch_program(config.program)
    if compiled:
        config = _as_compiled(config, compiled)
    model = config.lm if config.lm is not None else (compiled.lm if compiled else None) or EMBEDDED
    config = with_context(resolved(config, model), model)
    lm = open_lm(config, model, config.temperatures)
    with dspy.context(lm=lm):
        agent = make_agent(compiled, config.program) if compiled else new_agent(config)
    gate = Gate(workers or LocalWorkers(), tell)
    gate.agent(agent, config.program)
    return ProgramSession(agent, lm, config, config.threads or default_threads(model, workers), gate.refused)


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


def fitted(session: ProgramSession, tasks: Sequence[Task]) -> Fitted:
    """The agent with the demonstrations that fit the LM's context window.

    All tasks are shown those that fit with any of them, or, from the agent's pool, each its own.
    """
    agent, config = session.agent, session.config
    room = prompt_room(session.lm, config.context)
    notes = [temperature_note(session.lm.model)]
    if agent.pool:
        shown, many = agent.shown(tasks, budget(config), room), counted(len(agent.pool.entries), "solved task")
        notes.append(f"each task is shown its own choice of {many}")
        return Fitted(agent.bare(), "; ".join(filter(None, notes)), agent.pool, shown)
    with dspy.context(lm=session.lm, adapter=YAMLAdapter()):
        fit: Any = trimmed(agent, examples(tasks), room)
    most, kept = demo_count(agent), demo_count(fit)
    if kept < most:
        cause = f"the context window of {config.context:,} tokens"
        notes.append(f"{most - kept} of {most} demonstrations are left out, because of {cause}")
    return Fitted(fit, "; ".join(filter(None, notes)))


def resolved(config: AnyConfig, model: str, *others: str) -> AnyConfig:
    """The settings as an LM and the language serve them: at its one temperature, without a guardian that has no rule.

    Raises:
        UsageError: An option needs what the LM or the language does not offer, or the price of this LM, or of
            `others`, which limits in dollars need.
    """
    if takes_one(model):
        config = config.model_copy(update={"temperatures": (temperatures.ONLY,)})
    if config.language is not None:
        config = _in_language(config, config.language, model)
    lacks = {"typed": "chooses no lines", "react": "does not call tools"}.get(config.proposer)
    if lacks and is_embedded(model):
        hint = "name another with --lm, or use `predict`"
        raise UsageError(f"--proposer {config.proposer}: the embedded LM {lacks}; {hint}")
    if config.no_ir and is_embedded(model):
        raise UsageError("--no-ir: the embedded LM reads the structural IR alone; name another with --lm")
    require_price(config, model, *others)
    return config


def require_price(config: RunConfig | ProgramConfig, *models: str) -> None:
    """Raises `UsageError` if there is a limit in dollars, and a model's price is not known."""
    for model in models if config.max_usd is not None and config.price is None else ():
        if not is_embedded(model) and known_price(model) is None:
            hint = "give it with --price IN,OUT, in dollars per million tokens"
            raise UsageError(
                f"--max-usd: the price of {model} is not known; {hint}, or limit --max-tokens-total instead"
            )


def _in_language(config: AnyConfig, language: str, model: str) -> AnyConfig:
    if config.guardian != "none" and not registry.find(language).guards:
        if "guardian" in config.model_fields_set:
            raise UsageError(f"--guardian: the language `{language}` has no rule to guard; omit the option")
        config = config.model_copy(update={"guardian": "none"})
    wanted = {
        "--no-ir": config.no_ir,
        "--prompt": config.prompt != PROMPTS[0],
        "--proposer react": config.proposer == "react",
        f"--lm {model}": is_embedded(model),
        "--objective": getattr(config, "objective", "correctness") != "correctness",
    }
    for name in (name for name, given in wanted.items() if given):
        step_only(language, name)
    return config


def takes_one(model: str) -> bool:
    """Whether an LM is known to refuse all temperatures but one."""
    return not is_embedded(model) and temperatures.takes_one(model)


def temperature_note(model: str) -> str:
    """The note on an LM that takes one temperature; empty for other LMs."""
    return f"{model} takes temperature {temperatures.ONLY:g} only, and is sampled at it" if takes_one(model) else ""


def with_context(config: AnyConfig, model: str) -> AnyConfig:
    """The settings with the LM's context window, if it is known; one that was given stays."""
    if config.context is not None or is_embedded(model):
        return config
    return config.model_copy(update={"context": known_context(model, config.api_base)})


def open_lm(config: RunConfig | ProgramConfig, model: str, sampled: Sequence[float]) -> dspy.LM:
    """The LM that the settings describe, found to answer at all temperatures `sampled`.

    Where its context window is small, the default limit of an answer is a quarter of it.

    Raises:
        LMUnavailable: The LM can't be used.
        UsageError: It refuses a temperature, or a setting contradicts another.
    """
    choosing = config.proposer == "typed"
    timeout, batch = (config.timeout, config.batch_n) if isinstance(config, RunConfig) else (factory.TIMEOUT, 1)
    if choosing and batch > 1:
        raise UsageError("--batch-n: `--proposer typed` asks for one line at a time; omit the option")
    longest, default = config.max_tokens, LMConfig.model_fields["max_tokens"].default
    if config.context is not None and longest == default:
        longest = min(default, max(1, config.context // 4))
    lm = factory.make_lm(model, config.api_base, max_tokens=longest, timeout=timeout, n=batch, temperatures=sampled)
    if choosing:
        factory.prepare_choosing(lm)
    if config.price is not None:
        lm.price = Price(*config.price, given=True)
    return lm


def _as_compiled(config: ProgramConfig, compiled: SavedProgram) -> ProgramConfig:
    """The settings with the compiled program's own; raises `UsageError` if one that was given contradicts it."""
    own: dict[str, Any] = {
        "guardian": compiled.guardian, "proposer": compiled.proposer, "refine": compiled.refine,
        "no_ir": not compiled.ir, "prompt": compiled.prompt,
    }  # fmt: skip
    if compiled.language != config.language:
        written = compiled.language or DEFAULT
        raise UsageError(f"--language: this program writes {written}; give --language {written}")
    for name, value in own.items():
        if name in config.model_fields_set and getattr(config, name) != value:
            described = "with the structural IR" if name == "no_ir" else f"with {value}"
            raise UsageError(f"{flag(name)}: this program was compiled {described}; omit the option")
    return config.model_copy(update=own)


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


def proposer_asked(config: RunConfig) -> ProposerKind | None:
    """How the run asks an LM for programs; None for the embedded one, whose answers are no matter of prompting."""
    return None if is_embedded(config.lm) else config.proposer


def default_threads(model: str, workers: Workers | None = None) -> int:
    """Requests in flight: for the embedded LM so many that none of its workers waits; for others a fixed number."""
    if not is_embedded(model):
        return REMOTE_THREADS
    workers = workers or LocalWorkers()
    if isinstance(workers, LocalWorkers):
        return 2 * workers.count
    least, most = CLUSTER_THREADS
    return max(least, min(most, 4 * workers.count))


def budget(config: RunConfig | ProgramConfig) -> Budget:
    """The limits on a run."""
    limits = Budget(None, config.max_tokens_total, config.max_usd, config.max_minutes, context=config.context)
    if isinstance(config, ProgramConfig):
        return limits
    return replace(limits, iterations=config.max_iterations, demos=config.max_demos, demo_tokens=config.demo_tokens)


def fixed_program_domain(language: str | None = None) -> Domain:
    """The domain for optimizers that leave a program's demonstrations unchanged."""
    return replace(language_domain(language), demo_predictors=())


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
def lm_session(
    lm: dspy.LM,
    workers: Workers | None = None,
    language: str | None = None,
    settings: PoolSettings | None = None,
) -> Iterator[Metric]:
    """The metric that judges answers in a language; within the context requests go to `lm`.

    Answers are verified by workers, which end with the context; the embedded LM answers in as many others.
    `settings` are of the workers that verify.

    Raises:
        LMUnavailable: The LM can't be used.
        ClusterUnavailable: The cluster is lost.
        UsageError: A task's own code fails, or an optimizer lacks a package.
    """
    workers = workers or LocalWorkers()
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


@contextmanager
def _sampling_workers(lm: dspy.LM, workers: Workers) -> Iterator[None]:
    """Within the context, the embedded LM answers in workers; any other is left alone."""
    if not isinstance(lm.engine, EmbeddedEngine):
        yield
        return
    with workers.pool(SAMPLING) as pool, lm.engine.answering_in(pool):
        yield
        pool.kill_workers()
