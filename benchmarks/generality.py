"""How strong the embedded LM is, on the tasks it was developed on and on others.

Solved tasks and correct samples without demonstrations: on the benchmark; on it with its functions listed in other
orders; on it with functions, dims, streams and weights renamed to meaningless names; on data/tasks-extra. Then with
the best demonstrations there are, oracles of the benchmark: those of all other tasks, or of the other groups only.

Given task files or folders of them, solved tasks and correct samples without demonstrations on these alone. Times are
processor time; the first sample of a task includes reading it.

How to run: python -m benchmarks.generality --lm embedded --samples 64
            python -m benchmarks.generality --samples 16 data/tasks-modern my-tasks
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch

from benchmarks.proposing import Desk, Judge, oracle, tasks_in
from pipeline.lms.embedded import engine_named
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import FnSpec, OutputSpec, Task, TensorSpec, dump_task
from step_runtime.verification.loading import load_task

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
    specs: list[FnSpec | TensorSpec | OutputSpec] = [*task.fns, *task.inputs, *task.outputs]
    names = {spec.func_name: f"f_{next(fresh)}" for spec in task.fns} | {spec.name: next(fresh) for spec in specs}
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


def measure(
    tasks: Iterable[Task], desk: Desk, seeds: Sequence[int], temperature: float, shown: Shown, *, each: bool
) -> Iterator[Result]:
    """Samples each task, with what is `shown` as demonstrations, verifies the answers, and may print `each` result."""
    for task in tasks:
        judge, prompt, seconds, correct = Judge(), desk.prompt(task, list(shown(task))), [], 0
        for seed in seeds:
            start = time.process_time()
            answer = desk.sample(prompt, seed, temperature)
            seconds.append(time.process_time() - start)
            correct += judge.passes(task, answer.program)
        if each:
            median, most = 1e3 * statistics.median(seconds), 1e3 * max(seconds)
            print(f"  {task.name:25} {correct:3}/{len(seeds)}  median {median:6.1f}, most {most:6.1f} ms", flush=True)
        yield Result(task.name or "", correct, len(seeds), tuple(seconds))


def report(title: str, results: Sequence[Result]) -> None:
    """Prints a table's summary."""
    rate = statistics.mean(result.correct / result.samples for result in results)
    times = [second for result in results for second in result.seconds]
    median, mean, most = 1e3 * statistics.median(times), 1e3 * statistics.mean(times), 1e3 * max(times)
    lost = [result.name for result in results if not result.correct]
    print(
        f"{title:25} solved {len(results) - len(lost)}/{len(results)}, {rate:.3f} of samples correct, median"
        f" {median:.1f} ms, mean {mean:.1f} ms, most {most:.1f} ms{'; not: ' + ', '.join(lost) if lost else ''}",
        flush=True,
    )


def tasks_below(path: Path) -> Iterator[Task]:
    """The task of a file, or those of all files below a folder, by name."""
    for file in sorted(path.rglob("*.yaml")) if path.is_dir() else [path]:
        yield load_task(file).named(file.relative_to(path if path.is_dir() else path.parent).with_suffix("").as_posix())


def main(arguments: list[str] | None = None) -> int:
    """Prints all tables, or those of some files and folders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="task files, or folders of them")
    parser.add_argument("--lm", default="embedded")
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first sample of each task")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--seeds", type=int, default=3, help="orders of functions, and sets of names")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    desk = Desk(engine_named(options.lm))

    def table(title: str, tasks: Iterable[Task], shown: Shown = nothing, *, each: bool = False) -> None:
        seeds = range(options.first, options.first + options.samples)
        report(title, list(measure(tasks, desk, seeds, options.temperature, shown, each=each)))

    for path in options.paths:
        table(path.name, tasks_below(path), each=True)
    if options.paths:
        return 0
    benchmark, extra = tasks_in("tasks"), tasks_in("tasks-extra")
    table("benchmark", benchmark, each=True)
    table("tasks-extra", extra, each=True)
    for change in (shuffled, renamed):
        for seed in range(options.seeds):
            title = f"{change.__name__} {seed}"
            table(title, [change(task, Random(f"{title} {task.name}")) for task in benchmark])
    table("benchmark, other tasks", benchmark, other_tasks)
    table("benchmark, other groups", benchmark, other_groups)
    table("tasks-extra, other tasks", extra, other_tasks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
