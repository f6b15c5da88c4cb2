"""Do mined skills help? The embedded readers on modern and generated tasks at equal samples, under three prompts.

    none      the base prompt
    skills    with skills mined from the training tasks' solutions (`--skills` of pipeline.compile)
    examples  with the tasks of these skills as demonstrations, without the patterns: the control for their examples

Solutions are those of the teacher of `selection_experiment`; its folds hold out whole groups.

How to run: python -m benchmarks.skills
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
import torch

from benchmarks.selection.measuring import Amounts, taught
from benchmarks.selection.readers import StepWorld, embedded_reader
from benchmarks.selection.tasks import folds, tasks_and_groups
from benchmarks.selection.worlds import Asked, seed_of
from optimizers import Entry
from pipeline.agent.skills import Skill, mine
from scripts.documentation.experiment.statistics import Array, effect, sign_flips
from step_runtime.tasks.task import SolvedTask, Task

FOLDS = 4
GENERATED_SEED = 16
ARMS = ("none", "skills", "examples")


def rates(reader: str, seeds: Sequence[int], samples: int, count: int) -> tuple[list[str], dict[str, Array]]:
    """The groups of the modern and the generated tasks, and by arm their pass@1 by task and seed."""
    tasks, groups = tasks_and_groups(GENERATED_SEED)
    keys = [key for key in tasks if key.startswith(("tasks-modern/", "generated/"))]
    found = {arm: np.zeros((len(keys), len(seeds))) for arm in ARMS}
    teacher = StepWorld("embedded", embedded_reader("embedded"), tasks, groups)
    for column, seed in enumerate(seeds):
        entries = taught(teacher, Amounts(), seed)
        for held_out in folds(groups, FOLDS, seed):
            known = [entry for key, entry in entries.items() if key not in set(held_out)]
            skills = mine([SolvedTask(e.inputs["task"], str(e.outputs["impl"])) for e in known], count)
            own = [key for key in held_out if key in keys]
            for arm, correct in _measured(reader, (tasks, groups), known, skills, own, samples, seed).items():
                found[arm][[keys.index(key) for key in own], column] = correct
        for skill in skills:
            print(f"{skill.name}: {skill.uses} uses in {skill.programs} programs, {skill.saved:.0f} bits")
    return [groups[key] for key in keys], found


def _measured(
    reader: str,
    world: tuple[dict[str, Task], dict[str, str]],
    known: list[Entry],
    skills: list[Skill],
    keys: list[str],
    n: int,
    seed: int,
) -> dict[str, list[float]]:
    patterns = [skill.as_pattern(number) for number, skill in enumerate(skills, start=1)]
    examples = {skill.example.task.name for skill in skills}
    shown = tuple(entry for entry in known if entry.task_key in examples)
    plain, skilled = (StepWorld(reader, embedded_reader(reader, own), *world) for own in ((), patterns))
    found = {}
    for arm, place, demos in (("none", plain, ()), ("skills", skilled, ()), ("examples", plain, shown)):
        asked = [Asked(key, demos, seed_of(seed, "skills", key, sample)) for key in keys for sample in range(n)]
        passed = np.array([answer.passed for answer in place.answers(asked)], dtype=float)
        found[arm] = passed.reshape(len(keys), n).mean(axis=1).tolist()
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", nargs="+", default=["small", "unread"])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--skills", type=int, default=8)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for reader in options.readers:
        groups, found = rates(reader, range(options.seeds), options.samples, options.skills)
        print(reader, {arm: f"{values.mean():.3f}" for arm, values in found.items()})
        for base, arm in (("none", "skills"), ("examples", "skills"), ("none", "examples")):
            difference = found[arm] - found[base]
            each, flips = effect(difference), sign_flips(difference, groups)
            low, high = each.interval()
            print(f"  {arm} - {base}: {each.mean:+.3f} [{low:+.3f}, {high:+.3f}], p {each.p:.3f}, groups {flips:.3f}")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
