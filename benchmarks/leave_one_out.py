"""Which demonstration made the difference? A task that a run solved late, with each demonstration left out in turn.

It takes what the run showed the task in the iteration that solved it, and samples the task afresh: with all of these,
without each one, with each one alone, and with none.

How to run: python -m benchmarks.leave_one_out RUN expert/0 etoe/3
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import torch

from benchmarks.proposing import Desk, Judge
from optimizers import Entry, Experience
from pipeline.lms.embedded import engine_named
from pipeline.record.resume import load_experience
from step_runtime.tasks.task import Task


def shown_to(run: Experience, key: str) -> list[Entry]:
    """The demonstrations that a task was shown in the iteration that solved it.

    Raises:
        SystemExit: The run did not solve the task, or was shown the same as all.
    """
    iteration = next((each for each in run.iterations if key in each.solved), None)
    if iteration is None or not iteration.demos:
        sys.exit(f"{key}: expected a task that the run solved with demonstrations")
    names = iteration.reasons.get(key, dict.fromkeys(iteration.demos, ""))
    entries = {entry.task_key: entry for entry in run.entries}
    for name, reason in names.items():
        print(f"  shown {name}: {reason}")
    return [entries[name] for name in names]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints, for each task, how many of the samples are right under each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a run's id, or the path of its experience.json")
    parser.add_argument("tasks", nargs="+")
    parser.add_argument("--lm", default="embedded")
    parser.add_argument("--samples", type=int, default=48)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    run, desk, judge = load_experience(options.run, []), Desk(engine_named(options.lm)), Judge()
    tasks: dict[str, Task] = {entry.task_key: entry.inputs["task"] for entry in run.entries}
    for key in options.tasks:
        iteration = next((each.index + 1 for each in run.iterations if key in each.solved), None)
        print(f"{key}, solved in iteration {iteration}")
        demos = shown_to(run, key)
        sets = {"all": demos, "none": []}
        sets |= {f"without {demo.task_key}": [each for each in demos if each is not demo] for demo in demos}
        sets |= {f"only {demo.task_key}": [demo] for demo in demos}
        for name, shown in sets.items():
            prompt = desk.prompt(tasks[key], [(demo.inputs["task"], str(demo.outputs["impl"])) for demo in shown])
            answers = [desk.sample(prompt, 1000 + number, 0.7) for number in range(options.samples)]
            right = sum(judge.passes(tasks[key], answer) for answer in answers)
            print(f"  {name}: {right} of {options.samples}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
