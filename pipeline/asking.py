"""An LM at work, and the options of commands that sample a program as it is, its demonstrations included."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline import options
from pipeline.errors import LMUnavailable, UsageError

if TYPE_CHECKING:
    import dspy

    from optimizers import Domain
    from pipeline.agent import Agent, GuardianMode
    from pipeline.metric import Metric

NO_PROGRAM = "none"
GO_ON = "To go on, run the same command again: answers that an LM was paid for come from the cache"


class Arguments(argparse.Namespace):
    """The options below, as parsed."""

    program: str
    lm: str | None
    api_base: str | None
    guardian: GuardianMode | None
    samples: int
    temperatures: tuple[float, ...]
    threads: int | None
    seed: int


@dataclass(frozen=True)
class Asked:
    """What the options stand for: the agent, its LM and requests in flight at a time."""

    agent: Agent
    lm: dspy.LM
    threads: int


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which program, which LM, and how answers are drawn."""
    parser.add_argument(
        "--program",
        metavar="P",
        required=True,
        help=f"a compiled program, such as pipeline.compile writes; `{NO_PROGRAM}`: the agent as it is, uncompiled",
    )
    group = parser.add_argument_group("the LM")
    group.add_argument(
        "--lm",
        metavar="MODEL",
        help="a DSPy/LiteLLM model string such as openai/gpt-4o, or `embedded`: offline, no key"
        " (default: the one that the program was compiled with, else embedded)",
    )
    group.add_argument("--api-base", metavar="URL", help="the address of an OpenAI-compatible server")
    group.add_argument(
        "--guardian",
        choices=options.GUARDIANS,
        help=f"with `--program {NO_PROGRAM}`: what mends a proposal that reuses a stream (default: gated)",
    )
    group = parser.add_argument_group("sampling")
    group.add_argument(
        "--samples",
        metavar="N",
        type=options.at_least(1),
        default=64,
        help="answers per task and temperature, at most (default: %(default)s)",
    )
    group.add_argument(
        "--temperatures",
        metavar="T,T",
        type=options.temperatures,
        default=(0.4, 0.7, 1.0),
        help="sampling temperatures, with commas between (default: 0.4,0.7,1.0)",
    )
    group.add_argument(
        "--threads",
        metavar="N",
        type=options.at_least(1),
        help="answers drawn at a time; the results don't depend on it (default: 16; embedded: one a core)",
    )
    group.add_argument(
        "--seed",
        metavar="N",
        type=options.at_least(0),
        default=0,
        help="the same seed gives the same answers (default: %(default)s)",
    )


def make(args: Arguments) -> Asked:
    """The program and the LM that the options name.

    Raises:
        UsageError: the program can't be used, or options contradict each other.
        LMUnavailable: the LM can't be used.
    """
    import dspy

    from pipeline.agent import Agent
    from pipeline.lm import EMBEDDED, make_lm
    from pipeline.program import load_program, read_program

    compiled = None if args.program == NO_PROGRAM else read_program(Path(args.program))
    if compiled and args.guardian not in (None, compiled.guardian):
        raise UsageError(f"--guardian: this program was compiled with {compiled.guardian}; leave the option out")
    model = args.lm or (compiled.lm if compiled else None) or EMBEDDED
    lm = make_lm(model, args.api_base)
    with dspy.context(lm=lm):
        agent = load_program(args.program) if compiled else Agent(args.guardian or "gated")
    embedded = model.partition("/")[0] == EMBEDDED
    return Asked(agent, lm, args.threads or (options.cores() if embedded else 16))


def domain() -> Domain:
    """What the optimizers have to be told so that they leave a program's demonstrations alone."""
    from pipeline.domain import step_domain

    return replace(step_domain(), demo_predictors=())


@contextmanager
def working(lm: dspy.LM) -> Iterator[Metric]:
    """The metric to judge answers by; in this context requests go to `lm`, and faults end the command.

    Answers are verified in worker processes, one a core, which are gone when the context is left.

    Raises:
        LMUnavailable: the LM can't be used.
        UsageError: a task's own code failed, or an optimizer lacks something.
    """
    import dspy
    from dspy.utils.exceptions import LMError

    from optimizers import MetricError, OptimizerError
    from pipeline.judge import verification_pool
    from pipeline.metric import Metric
    from signatures import YAMLAdapter
    from step_runtime.errors import TaskError

    try:
        with dspy.context(lm=lm, adapter=YAMLAdapter()), verification_pool(options.cores()) as workers:
            yield Metric(workers)
            # Whoever is still at work was given up, as after an interrupt.
            workers.kill_workers()
    except LMError as error:
        raise LMUnavailable(f"{lm.model}: {error}") from None
    except MetricError as error:
        if isinstance(error.__cause__, TaskError):
            raise UsageError(str(error.__cause__)) from None
        raise
    except OptimizerError as error:
        raise UsageError(str(error)) from None


def write(path: Path, text: str) -> None:
    """Writes a file at once or not at all, its folder included.

    Raises:
        UsageError: it can't be written.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot write the file: {error.strerror}") from None
