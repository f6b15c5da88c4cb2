"""How strong the embedded proposers are, on the tasks they were developed on and on others.

Solved tasks and correct samples without demonstrations: on the benchmark; on it with its functions listed in other
orders; on it with functions, dims, streams and weights renamed to meaningless names; on data/tasks-extra. Then with
the best demonstrations there are, oracles of the benchmark: those of all other tasks, or of the other groups only.

How to run: python -m benchmarks.generality --lm embedded --samples 64
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

import torch

from benchmarks.proposing import Desk, Judge, oracle, tasks_in
from pipeline.lms.embedded import engine_named
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task, dump_task

_LETTERS = "bcdfghjkqvwxz"
_FAMILY = re.compile(r"([A-Za-z]+_)\d\d")


@dataclass(frozen=True)
class Result:
    """One task's result: correct samples, all samples, and the seconds of each."""

    name: str
    correct: int
    samples: int
    seconds: tuple[float, ...]


Shown = Callable[[Task], Iterable[tuple[Task, str]]]


def nothing(task: Task) -> Iterable[tuple[Task, str]]:
    """No demonstrations."""
    return ()


def other_tasks(task: Task) -> Iterable[tuple[Task, str]]:
    """The benchmark's other tasks with their oracles."""
    return ((other, oracle("oracles", other)) for other in tasks_in("tasks") if other.name != task.name)


def other_groups(task: Task) -> Iterable[tuple[Task, str]]:
    """The benchmark's other groups with their oracles."""
    group = task.name.partition("/")[0]
    return ((other, answer) for other, answer in other_tasks(task) if other.name.partition("/")[0] != group)


def shuffled(task: Task, rng: Random) -> Task:
    """The task with its functions listed in another order."""
    return task.model_copy(update={"fns": rng.sample(task.fns, len(task.fns))})


def renamed(task: Task, rng: Random) -> Task:
    """The task with functions, dims, streams and weights called by random letters."""
    fresh = _fresh_names(rng)
    fns, streams = task.fns, [*task.inputs, *task.outputs]
    names = {spec.func_name: f"f_{next(fresh)}" for spec in fns} | {spec.name: next(fresh) for spec in [*fns, *streams]}
    families = {found[1] for spec in task.parameters if (found := _FAMILY.fullmatch(spec.name))}
    names |= {spec.name: next(fresh) for spec in task.parameters if not _FAMILY.fullmatch(spec.name)}
    dims = {dim: next(fresh).upper() for dim in "MNKDE"}
    sizes = {name: [sizes[name] for sizes in task.size_sets()] for name in task.size_sets()[0]}
    text = dump_task(task.model_copy(update={"sizes": {}, "impl": None}))
    for old, new in names.items():
        text = re.sub(rf"(?<![\w.]){re.escape(old)}(?!\w)", new, text)
    for old in families:  # W_00, W_01, … may be distinguished by a formatted index, as in f"W_{i}0"
        text = re.sub(rf"(?<![A-Za-z]){old}(?=[\d{{])", f"{next(fresh)}_", text)
    for old, new in dims.items():
        text = re.sub(rf"(?<![\w.]){old}(?=_value|(?!\w))", new, text)
    declared = ", ".join(f"{dims.get(dim, dim)}: {sizes[dim]}" for dim in sizes)
    return loads_task(f"{text}\nsizes: {{{declared}}}\n", task.name)


def _fresh_names(rng: Random) -> Iterator[str]:
    taken = set()
    while True:
        name = "".join(rng.choices(_LETTERS, k=4))
        if name not in taken:
            taken.add(name)
            yield name


def measure(tasks: Sequence[Task], desk: Desk, samples: int, temperature: float, shown: Shown) -> Iterator[Result]:
    """Samples each task, with what is `shown` as demonstrations, and verifies the answers."""
    for task in tasks:
        judge, prompt, seconds, correct = Judge(), desk.prompt(task, list(shown(task))), [], 0
        for seed in range(samples):
            start = time.perf_counter()
            answer = desk.sample(prompt, seed, temperature)
            seconds.append(time.perf_counter() - start)
            correct += judge.passes(task, answer.program)
        yield Result(task.name or "", correct, samples, tuple(seconds))


def report(title: str, results: Sequence[Result], *, each: bool) -> None:
    """Prints a table's rows and their summary."""
    for result in results if each else ():
        times = sorted(result.seconds)
        print(f"  {result.name:20} {result.correct:3}/{result.samples}  {1e3 * times[len(times) // 2]:6.1f} ms")
    rate = statistics.mean(result.correct / result.samples for result in results)
    times = sorted(second for result in results for second in result.seconds)
    median, mean = 1e3 * times[len(times) // 2], 1e3 * statistics.mean(times)
    lost = [result.name for result in results if not result.correct]
    print(
        f"{title:25} solved {len(results) - len(lost)}/{len(results)}, {rate:.3f} of samples correct, median"
        f" {median:.1f} ms, mean {mean:.1f} ms{'; not: ' + ', '.join(lost) if lost else ''}",
        flush=True,
    )


def main(arguments: list[str] | None = None) -> int:
    """Prints all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lm", default="embedded")
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--seeds", type=int, default=3, help="orders of functions, and sets of names")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    desk = Desk(engine_named(options.lm))
    benchmark, extra = tasks_in("tasks"), tasks_in("tasks-extra")
    same: Callable[[Task, Random], Task] = lambda task, rng: task  # noqa: E731
    tables = [("benchmark", benchmark, same, True), ("tasks-extra", extra, same, True)]
    for change in (shuffled, renamed):
        tables += [(f"{change.__name__} {seed}", benchmark, change, False) for seed in range(options.seeds)]
    for title, tasks, change, each in tables:
        changed = [change(task, Random(f"{title} {task.name}")) for task in tasks]
        report(title, list(measure(changed, desk, options.samples, options.temperature, nothing)), each=each)
    for shown, name, tasks in (
        (other_tasks, "benchmark", benchmark),
        (other_groups, "benchmark", benchmark),
        (other_tasks, "tasks-extra", extra),
    ):
        results = list(measure(tasks, desk, options.samples, options.temperature, shown))
        report(f"{name}, {shown.__name__.replace('_', ' ')}", results, each=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
