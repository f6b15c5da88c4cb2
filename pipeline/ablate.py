"""`python -m pipeline.ablate`: the paper's ablation for the LMs at hand, as runs on record and one page.

Four methods on the same tasks, each a run like those of `pipeline.compile`, with a budget of its own: a single LM
without the structural IR, a single LM, the agent, and the agent with learning. `--resume` ends what broke off.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.base.errors import Exit, UsageError, start, tell
from pipeline.base.paths import shown
from pipeline.cli import options

if TYPE_CHECKING:
    import dspy

    from optimizers import Experience
    from pipeline.record.request import Request
    from pipeline.record.resume import Resumed
    from pipeline.reporting.ablation import ModelRuns
    from step_runtime.tasks.task import Task

NAME = "pipeline.ablate"
EPILOG = """\
examples:
  python -m pipeline.ablate
  python -m pipeline.ablate --lm embedded embedded/small --samples 16 -o ablation
  OPENAI_API_KEY=... python -m pipeline.ablate --lm openai/gpt-4o --max-usd 5      up to 5 USD for each of four runs
  python -m pipeline.ablate --resume 1a2b3c4d

exit codes: 0 the page is written, 2 a bad option or file, 3 an LM can't be used,
130 interrupted (what was done is kept)"""

WAYS: Mapping[str, Mapping[str, Any]] = {
    "Single-WS": {"optimizer": "none", "guardian": "none", "no_ir": True},
    "Single": {"optimizer": "none", "guardian": "none", "no_ir": False},
    "Agent": {"optimizer": "none", "guardian": "paper", "no_ir": False},
    "Agent, adaptive": {"optimizer": "adaptive", "guardian": "paper", "no_ir": False},
}
"""The methods by the paper's names, and the options of `pipeline.compile` that make each."""
SHARED = {"proposer": "predict", "refine": 0, "reflection_lm": None, "validation": None, "experience": None}
OF_THIS_COMMAND = {"json", "output", "resume", "tasks", "lm", "temperature"}


@dataclass(frozen=True)
class Plan:
    """An ablation: its id, the LMs as they were named, the options of all its runs, and the tasks.

    `temperature` is that of the methods that don't learn.
    """

    id: str
    lms: tuple[str, ...]
    temperature: float
    options: Mapping[str, Any]
    tasks: Sequence[Task]

    def arguments(self, lm: str, method: str) -> argparse.Namespace:
        """The options of one run."""
        own = {} if WAYS[method]["optimizer"] == "adaptive" else {"temperatures": (self.temperature,)}
        return argparse.Namespace(**{**self.options, **SHARED, **WAYS[method], **own, "lm": lm})

    def request(self, lm: str, method: str) -> Request:
        """What one run is asked to do; the rest of the plan goes with it, so that any run tells all of it."""
        from pipeline.record.request import Request

        rest = {"id": self.id, "lms": self.lms, "temperature": self.temperature, "options": dict(self.options)}
        return Request({**vars(self.arguments(lm, method)), "ablation": rest}, "", self.tasks)

    @classmethod
    def of(cls, request: Request) -> Plan:
        """The plan that a run of an ablation belongs to."""
        rest = request.options["ablation"]
        plain = {name: tuple(value) if isinstance(value, list) else value for name, value in rest["options"].items()}
        return cls(rest["id"], tuple(rest["lms"]), rest["temperature"], plain, request.tasks)

    def runs(self) -> Iterator[tuple[str, str]]:
        """LM and method of each run, in their order."""
        for lm in self.lms:
            for method in WAYS:
                yield lm, method


def make_parser() -> options.Parser:
    """The command's options."""
    parser = options.Parser(NAME, "Measures what the structural IR, the guardian and learning each bring.", EPILOG)
    options.add_tasks(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=options.writable_folder,
        help="where the page goes (default: a folder in mlruns)",
    )
    options.add_json(parser)
    options.add_lm(parser, several=True)
    options.add_sampling(parser)
    parser.add_argument(
        "--temperature",
        metavar="T",
        type=options.temperature,
        default=0.7,
        help="of the methods that don't learn; --temperatures is for the one that does (default: %(default)s)",
    )
    options.add_budget(parser)
    options.add_verdict_cache(parser)
    parser.add_argument(
        "--resume",
        metavar="ABLATION",
        help="end an ablation that broke off: its own options and tasks, no answer on record asked for again;"
        " --threads, --api-base and the budget may differ",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what is left to run, then writes the page; see the exit codes."""
    parser = make_parser()
    args = parser.parse_args(argv)
    if len(set(args.lm)) < len(args.lm):
        raise UsageError("--lm: an LM is named twice")
    plan, known = _resumed(args, options.given(parser, argv)) if args.resume else (_planned(args), {})

    from pipeline.lms.factory import make_lm
    from pipeline.record.metrics import counted

    lms = {lm: make_lm(lm, plan.options["api_base"], **options.of_lm(plan.arguments(lm, "Single"))) for lm in plan.lms}
    tasks = counted(len(plan.tasks), "task")
    tell(NAME, f"ablation {plan.id}: {tasks}, {', '.join(lms)}; should it break off: {_go_on(plan)}")
    command = f"python -m {NAME} {shlex.join(sys.argv[1:] if argv is None else argv)}"
    for lm, method in plan.runs():
        run = known.get((lm, method))
        if run is None or isinstance(run, _Unfinished):
            done = _run(plan, lm, method, lms[lm], run.resumed if run else None, command)
            if code := _stopped(plan, done):
                return code
    return _report(plan, args)


def _planned(args: argparse.Namespace) -> Plan:
    from pipeline.verification.task_files import load_tasks

    shared = {name: value for name, value in vars(args).items() if name not in OF_THIS_COMMAND}
    return Plan(uuid.uuid4().hex[:8], tuple(args.lm), args.temperature, shared, load_tasks(args.tasks))


@dataclass(frozen=True)
class _Unfinished:
    """A run that broke off."""

    resumed: Resumed


def _resumed(args: argparse.Namespace, given: set[str]) -> tuple[Plan, dict[tuple[str, str], str | _Unfinished]]:
    """The plan, and its runs by LM and method: the id of one that has ended, or one to go on with."""
    from pipeline.record.resume import open_run

    found: dict[tuple[str, str], str | _Unfinished] = {}
    plan: Plan | None = None
    for run in _runs(args.resume):
        try:
            resumed = open_run(run.info.run_id)
        except UsageError:
            continue  # it died before it had written down what it was asked; it is begun anew
        plan = plan or Plan.of(resumed.request)
        place = resumed.request.options["lm"], run.data.params["method"]
        found[place] = run.info.run_id if run.info.status == "FINISHED" else _Unfinished(resumed)
    if plan is None:
        raise UsageError(f"--resume: there is no ablation {args.resume!r}, or none of its runs was begun")
    asked = argparse.Namespace(**vars(args))
    recorded = {**plan.options, "lm": list(plan.lms), "temperature": plan.temperature}
    asked.lm = tuple(asked.lm)
    options.restore(asked, recorded, given)
    if "tasks" in given:
        raise UsageError("--tasks: the ablation to go on with has its own; leave the option out, or start a new one")
    return replace(plan, options={name: getattr(asked, name) for name in plan.options}), found


def _runs(text: str) -> list[Any]:
    """The runs in the store of the one ablation whose id begins so, the latest of each method last."""
    from pipeline.record import store

    client, experiment = store.open_store()
    if not (text.isalnum() and len(text) >= 4):
        raise UsageError(f"--resume: expected the id of an ablation, such as 1a2b3c4d, found {text!r}")
    runs = client.search_runs([experiment], f"params.ablation LIKE '{text}%'", order_by=["attributes.start_time ASC"])
    ids = {run.data.params["ablation"] for run in runs}
    if len(ids) > 1:
        raise UsageError(f"--resume: {text!r} stands for {len(ids)} ablations: {', '.join(sorted(ids))}")
    return list(runs)


def _run(plan: Plan, lm: str, method: str, solving: dspy.LM, resumed: Resumed | None, command: str) -> Experience:
    """One run, to its end or to where it breaks off."""
    from pipeline.running.job import LMs, begin

    if resumed and resumed.request.lm != solving.model:
        raise UsageError(f"--resume: a run asked {resumed.request.lm}, and this is {solving.model}")
    args = plan.arguments(lm, method)
    request = replace(plan.request(lm, method), lm=solving.model)
    params = {"ablation": plan.id, "method": method, "named": lm, "command": command}
    name = f"{method} {len(plan.tasks)} tasks {lm}, ablation {plan.id}"
    with begin(args, request, LMs(solving), name, params, resumed) as job:
        tell(NAME, f"{lm}, {method}: run {job.run_id}, {job.answers_on_record:,} answers on record")
        return job.run().experience


def _stopped(plan: Plan, experience: Experience) -> Exit | None:
    """The exit code if the ablation can't go on, once stderr has been told."""
    if experience.stopped in ("interrupted", "failed"):
        tell(NAME, f"{experience.message}; what was done is kept. To go on: {_go_on(plan)}")
        return Exit.INTERRUPTED if experience.stopped == "interrupted" else Exit.LM
    if experience.stopped == "budget" and not experience.attempts:
        tell(NAME, f"{experience.message} before anything was done")
        return Exit.LM
    if experience.stopped == "budget":
        tell(NAME, f"{experience.message}; its figures are of what was done")
    return None


def _report(plan: Plan, args: argparse.Namespace) -> int:
    """Writes the page, and tells where it is and what it says."""
    from pipeline.record import store
    from pipeline.reporting import ablation

    folder = Path(args.output) if args.output is not None else store.folder() / "ablations" / plan.id
    studies = _studies(plan)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = ablation.write(studies, folder)
    except OSError as error:
        raise UsageError(f"--output: can't write the page to {folder}: {error.strerror}") from None
    found = {study.name: _figures(study) for study in studies}
    if args.json:
        print(json.dumps({"ablation": plan.id, "page": str(folder / files[0]), "files": files, "lms": found}))
    else:
        for model, methods in found.items():
            _print_figures(model, methods)
        print(f"\n{shown(folder.absolute() / files[0])}")
    return Exit.OK


def _studies(plan: Plan) -> list[ModelRuns]:
    """The runs of the plan, read back from the store."""
    from pipeline.reporting.ablation import ModelRuns
    from pipeline.reporting.runs import read_runs

    latest = {(run.data.params["named"], run.data.params["method"]): run.info.run_id for run in _runs(plan.id)}
    recorded = {run.run_id: run for run in read_runs(list(latest.values()))}
    return [ModelRuns(lm, {method: recorded[latest[lm, method]] for method in WAYS}) for lm in plan.lms]


def _figures(study: ModelRuns) -> dict[str, dict[str, Any]]:
    """An LM's overview, by method."""
    from pipeline.reporting.ablation import overview

    table = overview(study)
    return {str(row[0]): dict(zip(table.head[1:], row[1:], strict=True)) for row in table.rows}


def _print_figures(model: str, methods: Mapping[str, Mapping[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", title=model, title_justify="left")
    names = ("solved", "pass_at_1", "pass_at_n", "tokens per solved task")
    table.add_column("")
    for name in names:
        table.add_column(name.replace("pass_at_", "pass@"), justify="right")
    for method, row in methods.items():
        per_task = row["tokens per solved task"]
        shares = (f"{row['pass_at_1']:.3f}", f"{row['pass_at_n']:.3f}")
        tokens = "" if per_task is None else f"{per_task:,}"
        table.add_row(method, f"{row['solved']} of {row['tasks']}", *shares, tokens)
    Console(width=None if sys.stdout.isatty() else 120).print("", table, sep="\n")


def _go_on(plan: Plan) -> str:
    return f"python -m {NAME} --resume {plan.id}"


if __name__ == "__main__":
    start(NAME, main)
