"""The preregistered experiment on selections of demonstrations; see experiments/selections/README.md for its design.

    python -m benchmarks.selection_experiment --control -o control.jsonl      the positive control, simulated
    python -m benchmarks.selection_experiment -o results.jsonl                the embedded readers
    python -m benchmarks.selection_experiment --lm openai/… -o results.jsonl  any LM, after an estimate of its costs

Results are written fold by fold; the same command continues where it ended. `python -m scripts.documentation` makes the
page from experiments/selections/*.jsonl.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path

import torch
from dspy.utils.exceptions import LMError

from benchmarks.selection.arms import ARMS, NONE
from benchmarks.selection.control import TEACHER, ControlWorld
from benchmarks.selection.measuring import Amounts, learn, measure, taught, unaided
from benchmarks.selection.readers import StepWorld, embedded_reader, lm_reader
from benchmarks.selection.results import Results, SettingsDiffer
from benchmarks.selection.tasks import PER_LEVEL, folds, tasks_and_groups
from benchmarks.selection.worlds import World
from optimizers import Entry
from optimizers.errors import one_line
from optimizers.usage import Price, message_text
from pipeline.agent.agent import Agent
from pipeline.base.errors import LMUnavailable
from pipeline.lms.model_data import count_tokens, known_price
from signatures import YAMLAdapter
from step_runtime.tasks.task import Task

READERS = ("small@4", "unread@4", "small", "unread")
CONTROLS = {"control@4": 4, "control": None, "control@0": 0}
FOLDS = 4
GENERATED_SEED = 16
Worlds = Mapping[str, Callable[[], World]]


def run(
    worlds: Worlds, teacher: Callable[[], World], results: Results, options: argparse.Namespace, amounts: Amounts
) -> None:
    """All folds that are not done yet, seed by seed, so that readers have as many seeds."""
    started = time.monotonic()
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        entries: dict[str, Entry] = {}
        for name, make in worlds.items():
            left = [fold for fold in range(FOLDS) if (name, seed, fold) not in results.done]
            if not left:
                continue
            world, entries = make(), entries or taught(teacher(), amounts, seed)
            first, parts = unaided(world, amounts, seed), folds(world.groups, FOLDS, seed)
            for fold in left:
                if options.minutes is not None and time.monotonic() - started > 60 * options.minutes:
                    print(f"{options.minutes:g} minutes are over; the same command continues", file=sys.stderr)
                    return
                held_out = set(parts[fold])
                training = [key for key in world.tasks if key not in held_out]
                learned = learn(world, training, entries, first, amounts, seed)
                cells = measure(learned, parts[fold], options.arms, options.budgets, amounts)
                results.add(name, seed, fold, len(learned.entries), cells)
                seconds = time.monotonic() - started
                print(f"{name}, seed {seed}, fold {fold}: {seconds:.0f} s", file=sys.stderr, flush=True)


def teacher_of(options: argparse.Namespace) -> Callable[[], World]:
    """The world whose reader's answers are the experience."""
    if options.control:
        return cache(partial(ControlWorld, options.control_tasks, None, TEACHER))
    tasks, groups = _tasks(options)
    return cache(lambda: StepWorld("embedded", embedded_reader("embedded"), tasks, groups))


def worlds_of(options: argparse.Namespace) -> Worlds:
    """The worlds that are asked for; each is made once."""
    if options.control:
        return {name: cache(partial(ControlWorld, options.control_tasks, CONTROLS[name])) for name in CONTROLS}
    tasks, groups = _tasks(options)
    if options.lm:
        return {options.lm: cache(lambda: StepWorld(options.lm, _lm(options), tasks, groups, None, options.threads))}

    def embedded(name: str) -> World:
        kind, _, attention = name.partition("@")
        return StepWorld(name, embedded_reader(kind), tasks, groups, int(attention) if attention else None)

    return {name: cache(partial(embedded, name)) for name in options.readers}


def _tasks(options: argparse.Namespace) -> tuple[dict[str, Task], dict[str, str]]:
    """The tasks and groups; with `--most-tasks`, as many at random, the same ones each time."""
    tasks, groups = tasks_and_groups(options.generated_seed, options.per_level)
    if options.most_tasks is None or options.most_tasks >= len(tasks):
        return tasks, groups
    kept = set(random.Random("tasks").sample(sorted(tasks), options.most_tasks))
    return {key: task for key, task in tasks.items() if key in kept}, {
        key: groups[key] for key in groups if key in kept
    }


def _lm(options: argparse.Namespace) -> Callable[..., str | None]:
    return lm_reader(options.lm, options.api_base, options.max_tokens)


def estimate(options: argparse.Namespace, amounts: Amounts) -> str:
    """What a run with an LM takes at most: requests, tokens and dollars."""
    tasks, _ = _tasks(options)
    adapter, signature = YAMLAdapter(), Agent("none").proposer.predict.signature
    prompts = [
        sum(count_tokens(message_text(message)) for message in adapter.format(signature, [], {"task": task}))
        for task in tasks.values()
    ]
    aided = [name for name in options.arms if name != NONE]
    each, seeds = sum(prompts), options.seeds
    learning = (FOLDS - 1) * amounts.iterations * amounts.aided
    prompt = each * (amounts.unaided + learning + amounts.fresh * (len(aided) * len(options.budgets) + 1))
    shown = amounts.fresh * len(aided) * sum(options.budgets) + learning * amounts.learning_budget
    prompt = seeds * (prompt + len(tasks) * shown)
    requests = seeds * amounts.requests(len(tasks), FOLDS, len(aided) * len(options.budgets) + 1)
    price = Price(*options.price) if options.price else known_price(options.lm)
    usd = "unknown; give --price" if price is None else f"{price.of(prompt, requests * options.max_tokens):,.2f}"
    return (
        f"requests {requests:,}, tokens in {prompt:,}, tokens out at most {requests * options.max_tokens:,}, dollars"
        f" at most {usd}"
    )


def agreed(options: argparse.Namespace, amounts: Amounts) -> bool:
    """Shows the estimate, and asks unless `--yes`."""
    print(estimate(options, amounts), file=sys.stderr)
    if options.yes:
        return True
    if not sys.stdin.isatty():
        print("nothing was asked; add --yes to start", file=sys.stderr)
        return False
    return input("start? [y/N] ").strip().lower() in ("y", "yes")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what is not done yet; 0 when all asked for is in the file, 1 when the user declined, 2 and 3 on errors."""
    options = parser().parse_args(arguments)
    torch.set_num_threads(1)
    amounts = Amounts(fresh=options.samples)
    if options.lm and not agreed(options, amounts):
        return 1
    worlds = worlds_of(options)
    try:
        groups = next(iter(worlds.values()))().groups
    except LMUnavailable as error:
        print(error, file=sys.stderr)
        return 3
    if len(set(groups.values())) < FOLDS:
        print(f"--most-tasks: expected tasks of at least {FOLDS} groups, one to hold out at a time", file=sys.stderr)
        return 2
    settings = {
        "amounts": asdict(amounts), "folds": FOLDS, "arms": list(options.arms), "budgets": list(options.budgets),
        "teacher": "embedded", "groups": groups,
    }  # fmt: skip
    try:
        run(worlds, teacher_of(options), Results(options.output, settings), options, amounts)
    except SettingsDiffer as error:
        print(error, file=sys.stderr)
        return 2
    except LMError as error:
        print(
            f"{options.lm}: {one_line(error)}; the folds that are done are kept, and the same command continues",
            file=sys.stderr,
        )
        return 3
    return 0


def _reader(text: str) -> str:
    """A reader's name, checked."""
    kind, at, attention = text.partition("@")
    if kind not in ("small", "unread", "embedded") or (at and not attention.isdecimal()):
        raise argparse.ArgumentTypeError(f"expected small, unread or embedded, with @A to attend to A, found {text!r}")
    return text


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument(
        "--readers", nargs="+", type=_reader, default=list(READERS), help="small or unread, with @A to attend to A"
    )
    made.add_argument("--control", action="store_true", help="the simulated readers instead")
    made.add_argument("--control-tasks", type=int, default=165)
    made.add_argument("--lm", metavar="MODEL", help="any LM instead, such as openai/gpt-4.1-mini")
    made.add_argument("--api-base", metavar="URL")
    made.add_argument("--price", nargs=2, type=float, metavar=("IN", "OUT"), help="dollars per million tokens")
    made.add_argument("--max-tokens", type=int, default=2048, help="length limit of an LM's answer")
    made.add_argument("--threads", type=int, default=8, help="requests to an LM in flight")
    made.add_argument("--yes", action="store_true", help="start with an LM without asking")
    made.add_argument("--arms", nargs="+", choices=ARMS, default=[name for name in ARMS if name != "mmr"])
    made.add_argument("--budgets", nargs="+", type=int, default=[2000], help="tokens of demonstrations")
    made.add_argument("--samples", type=int, default=Amounts.fresh, help="fresh samples of a task under an arm")
    made.add_argument("--seeds", type=int, default=3)
    made.add_argument("--first-seed", type=int, default=0)
    made.add_argument("--per-level", type=int, default=PER_LEVEL, help="generated tasks per level")
    made.add_argument("--most-tasks", type=int, metavar="N", help="only so many tasks, for a first look at an LM")
    made.add_argument("--generated-seed", type=int, default=GENERATED_SEED)
    made.add_argument("--minutes", type=float, help="start no fold after so long")
    made.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="JSON lines")
    return made


if __name__ == "__main__":
    sys.exit(main())
