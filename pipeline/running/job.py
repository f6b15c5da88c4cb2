"""One optimization of the agent, from options to a run on record and a compiled program.

The options are those of `pipeline.compile`, as parsed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.base.errors import RecordError, UsageError
from pipeline.running import session

if TYPE_CHECKING:
    import dspy

    from optimizers import Experience, Observer
    from pipeline.record.recorder import Recorder
    from pipeline.record.request import Request
    from pipeline.record.resume import Resumed

UNRECORDED = ("json", "output")
"""Options that no answer depends on."""


@dataclass(frozen=True)
class LMs:
    """The LM that solves tasks, and the one that reflects on it, if that is another."""

    solving: dspy.LM
    reflecting: dspy.LM | None = None


@dataclass(frozen=True)
class Done:
    """What came of a job; `program` is the file of the compiled program."""

    experience: Experience
    run_id: str
    program: Path


@contextmanager
def begin(
    args: argparse.Namespace,
    request: Request,
    lms: LMs,
    name: str,
    params: Mapping[str, object],
    resumed: Resumed | None = None,
) -> Iterator[Job]:
    """A run in the store that waits for its job.

    Args:
        args: the options.
        request: what the run is asked to do.
        lms: who is asked.
        name: the run's, for people.
        params: what the run's parameters say beside the options.
        resumed: the run to go on with; None: a new one.

    Raises:
        UsageError: the store can't be opened, or the run to go on with is at work.
    """
    from pipeline.record.recorder import recorded

    told = _params(args, request, lms.solving) | dict(params)
    with recorded(name, told, request.tasks, request, resumed.run_id if resumed else None) as recorder:
        yield Job(args, request, lms, recorder)


@dataclass(frozen=True)
class Job:
    """A run that is on record, and what it is to do."""

    args: argparse.Namespace
    request: Request
    lms: LMs
    recorder: Recorder

    @property
    def run_id(self) -> str:
        """MLflow's."""
        return self.recorder.run_id

    @property
    def answers_on_record(self) -> int:
        """Those of a run that broke off; an attempt that got none is not among them."""
        return self.recorder.answers

    def run(self, output: Path | None = None) -> Done:
        """Optimizes, shows how that goes on stderr, and writes the program to `output`, or else beside the store.

        Raises:
            UsageError: a task's own code failed.
            LMUnavailable: the LM can't be used.
            RecordError: the record, or the program, can't be written.
        """
        import dspy
        from rich.console import Console

        from pipeline.agent.compiled import save_program
        from pipeline.cli.progress import ProgressDisplay

        console = Console(stderr=True, width=None if sys.stderr.isatty() else 120)
        with ProgressDisplay(console, self.args.samples) as display:
            compiled = self._compile([display, self.recorder])
        experience: Experience = compiled.experience
        program = output or program_path(self.args, self.run_id)
        try:
            with dspy.context(lm=self.lms.solving):
                save_program(compiled, program, _metadata(experience, self.run_id))
        except UsageError as error:
            raise RecordError(str(error)) from error
        self.recorder.log_program(program)
        return Done(experience, self.run_id, program)

    def _compile(self, observers: list[Observer]) -> Any:
        import dspy

        from optimizers import registry
        from optimizers.baselines import Baseline
        from pipeline.agent.agent import taught
        from pipeline.agent.domain import step_domain

        args, request = self.args, self.request
        trainset = [dspy.Example(task=task).with_inputs("task") for task in request.tasks]
        valset = [dspy.Example(task=task).with_inputs("task") for task in request.validation]
        kind, extra = registry.get(args.optimizer), {}
        if issubclass(kind, Baseline):
            record = {"tuned": self.recorder.tuned, "overhead": self.recorder.overhead}
            extra = {"reflection_lm": self.lms.reflecting, **record}
        agent = session.new_agent(args)
        with session.working(self.lms.solving, args.verdict_cache) as metric:
            agent.judge.metric, agent.judge.tasks = metric, list(request.tasks)
            optimizer = kind(
                metric=metric,
                num_samples=args.samples,
                granularity=args.granularity,
                temperatures=args.temperatures,
                threads=_threads(args),
                seed=args.seed,
                budget=session.budget(args),
                domain=replace(step_domain(), demo_predictors=taught(agent)),
                observers=observers,
                **extra,
            )
            return optimizer.compile(
                agent,
                trainset=trainset,
                valset=valset or None,
                experience=request.experience,
                resume=self.recorder.journal,
            )


def _threads(args: argparse.Namespace) -> int:
    threads: int = args.threads or session.threads(args.lm)
    return threads


def _params(args: argparse.Namespace, request: Request, lm: dspy.LM) -> dict[str, object]:
    """Everything that is needed to run it again."""
    from pipeline.base.versions import code_version, versions
    from pipeline.verification.task_files import digest

    asked = {key: value for key, value in vars(args).items() if value is not None and key not in UNRECORDED}
    return {
        **asked,
        "lm": lm.model,
        "tasks": ", ".join(task.name for task in request.tasks),
        "task_set_digest": digest(request.tasks),
        "temperatures": ",".join(map(str, args.temperatures)),
        "threads": _threads(args),
        "code_version": code_version(),
        **versions(),
    }


def _metadata(experience: Experience, run_id: str) -> dict[str, object]:
    """What the program's file says of how it was made."""
    rates = {entry.task_key: f"{entry.successes}/{entry.samples}" for entry in experience.entries}
    return {"run_id": run_id, "solved": rates, "unsolved": list(experience.unsolved), "settings": experience.settings}


def program_path(args: argparse.Namespace, run_id: str) -> Path:
    """Where a run's compiled program goes if no other place is named."""
    from pipeline.record import store

    return store.folder() / "programs" / f"{args.optimizer}-{args.lm.replace('/', '-')}-{run_id[:8]}.json"
