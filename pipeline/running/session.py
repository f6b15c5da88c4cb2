"""An LM at work, and the options of commands that sample a program as it is, its demonstrations included."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.base.errors import LMUnavailable, UsageError
from pipeline.base.machine import cores
from pipeline.cli import options

if TYPE_CHECKING:
    import dspy

    from optimizers import Budget, Domain
    from pipeline.agent.agent import Agent, GuardianMode
    from pipeline.agent.compiled import SavedProgram
    from pipeline.agent.proposer import ProposerKind
    from pipeline.verification.metric import Metric

NO_PROGRAM = "none"
GO_ON = "To go on, run the same command again: answers that an LM was paid for come from the cache"


class Arguments(argparse.Namespace):
    """The options below, as parsed."""

    program: str
    lm: str | None
    api_base: str | None
    max_tokens: int
    timeout: float
    batch_n: int
    guardian: GuardianMode | None
    proposer: ProposerKind | None
    refine: int | None
    no_ir: bool | None
    samples: int
    temperatures: tuple[float, ...]
    threads: int | None
    seed: int
    max_tokens_total: int | None
    max_usd: float | None
    max_minutes: float | None
    verdict_cache: str | None


@dataclass(frozen=True)
class Asked:
    """What the options stand for: the agent, its LM and requests in flight at a time."""

    agent: Agent
    lm: dspy.LM
    threads: int


def add_options(parser: argparse.ArgumentParser, proposers: Sequence[str] = options.PROPOSERS) -> None:
    """Which program, which LM, how answers are drawn, and when to stop."""
    parser.add_argument(
        "--program",
        metavar="P",
        required=options.SEARCH not in proposers,
        help=f"a compiled program, such as pipeline.compile writes; `{NO_PROGRAM}`: the agent as it is, uncompiled",
    )
    options.add_lm(parser, default=None)
    options.add_agent(parser, compiled=True, proposers=proposers)
    options.add_sampling(parser, learning=False)
    options.add_verdict_cache(parser)
    options.add_budget(parser, learning=False)


def make(args: Arguments) -> Asked:
    """The program and the LM that the options name.

    Raises:
        UsageError: the program can't be used, or options contradict each other.
        LMUnavailable: the LM can't be used.
    """
    import dspy

    from pipeline.agent.compiled import make_agent
    from pipeline.lms.factory import EMBEDDED, make_lm
    from pipeline.record.models import fetch_program

    compiled = None if args.program == NO_PROGRAM else fetch_program(args.program)
    if compiled:
        _refuse_others(args, compiled)
    model = args.lm if args.lm is not None else (compiled.lm if compiled else None) or EMBEDDED
    lm = make_lm(model, args.api_base, **options.of_lm(args))
    with dspy.context(lm=lm):
        agent = make_agent(compiled, args.program) if compiled else new_agent(args)
    refuse_tools(agent.proposer.kind, lm.model)
    return Asked(agent, lm, args.threads or threads(model))


def new_agent(args: argparse.Namespace) -> Agent:
    """The uncompiled agent that the options of `options.add_agent` describe.

    Raises:
        UsageError: a base prompt can't be used.
    """
    from pipeline.agent.agent import Agent

    return Agent(
        args.guardian or "gated", proposer=args.proposer or "predict", refine=args.refine or 0, ir=not args.no_ir
    )


def refuse_tools(proposer: str | None, model: str) -> None:
    """Raises `UsageError` if tools are to be called by an LM that calls none."""
    from pipeline.lms.factory import EMBEDDED

    if proposer == "react" and model.partition("/")[0] == EMBEDDED:
        raise UsageError("--proposer react: the embedded LM calls no tools; name another with --lm, or use `predict`")


def threads(model: str) -> int:
    """Requests in flight: the embedded LM computes, so that more than the cores would not help it; others wait."""
    from pipeline.lms.factory import EMBEDDED

    return cores() if model.partition("/")[0] == EMBEDDED else 16


def budget(args: argparse.Namespace) -> Budget:
    """The limits that the options name."""
    from optimizers import Budget

    iterations = getattr(args, "max_iterations", None)
    return Budget(iterations, args.max_tokens_total, args.max_usd, args.max_minutes)


def _refuse_others(args: Arguments, compiled: SavedProgram) -> None:
    """Raises `UsageError` if an option contradicts what a compiled program says of itself."""
    known = {
        "guardian": compiled.guardian, "proposer": compiled.proposer, "refine": compiled.refine,
        "no_ir": not compiled.ir,
    }  # fmt: skip
    for name, value in known.items():
        if getattr(args, name) not in (None, value):
            option = f"--{name.replace('_', '-')}"
            told = "with the structural IR" if name == "no_ir" else f"with {value}"
            raise UsageError(f"{option}: this program was compiled {told}; leave the option out")


def domain() -> Domain:
    """What the optimizers have to be told so that they leave a program's demonstrations alone."""
    from pipeline.agent.domain import step_domain

    return replace(step_domain(), demo_predictors=())


@contextmanager
def working(lm: dspy.LM, verdict_cache: str | None = None) -> Iterator[Metric]:
    """The metric to judge answers by; in this context requests go to `lm`, and faults end the command.

    Answers are verified in worker processes, one a core, which are gone when the context is left. Verdicts are kept in
    the folder `verdict_cache`, if one is named.

    Raises:
        LMUnavailable: the LM can't be used.
        UsageError: a task's own code failed, an optimizer lacks something, or the folder can't be used.
    """
    import dspy
    from dspy.utils.exceptions import LMError

    from optimizers import MetricError, OptimizerError
    from pipeline.lms.factory import reason
    from pipeline.verification.cache import VerdictStore
    from pipeline.verification.metric import Metric
    from pipeline.verification.worker import verification_pool
    from signatures import YAMLAdapter
    from step_runtime.base.errors import TaskError

    try:
        with (
            dspy.context(lm=lm, adapter=YAMLAdapter()),
            VerdictStore(Path(verdict_cache)) if verdict_cache else nullcontext() as verdicts,
            verification_pool(cores()) as workers,
        ):
            yield Metric(workers, verdicts)
            # Whoever is still at work was given up, as after an interrupt.
            workers.kill_workers()
    except LMError as error:
        raise LMUnavailable(f"{lm.model}: {reason(error, lm.model, lm.kwargs.get('api_base'))}") from None
    except MetricError as error:
        if isinstance(error.__cause__, TaskError):
            raise UsageError(str(error.__cause__)) from None
        raise
    except OptimizerError as error:
        raise UsageError(str(error)) from None
