"""The tasks of the experiment, the groups that are held out together, and folds of whole groups."""

from __future__ import annotations

import random
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import yaml

from benchmarks.generated_tasks import generate
from benchmarks.proposing import tasks_in
from step_runtime.tasks.task import Task

LEVELS = (1, 2, 3, 4)
PER_LEVEL = 12


def tasks_and_groups(generated_seed: int, per_level: int = PER_LEVEL) -> tuple[dict[str, Task], dict[str, str]]:
    """All tasks by key `SET/NAME`, and the group of each.

    Args:
        generated_seed: Seed of the generated tasks.
        per_level: Generated tasks per level.
    """
    tasks: dict[str, Task] = {}
    groups: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # three modern references have a clamp without effect
        for folder in ("tasks", "tasks-extra", "tasks-modern"):
            families = _families(folder)
            for task in tasks_in(folder):
                name = str(task.name)
                family = name.partition("/")[0] if folder == "tasks" else families[name]
                tasks[f"{folder}/{name}"], groups[f"{folder}/{name}"] = task, f"{folder}/{family}"
    for level in LEVELS:
        for task, _ in generate(level, per_level, generated_seed):
            key = f"generated/{task.name}"
            tasks[key], groups[key] = task, f"generated/l{level}"
    return {key: task.named(key) for key, task in tasks.items()}, groups


@cache
def _families(folder: str) -> Mapping[str, str]:
    named = yaml.safe_load((Path(__file__).parent / "groups.yaml").read_text(encoding="utf-8"))
    return {name: family for family, names in named.get(folder, {}).items() for name in names}


def folds(groups: Mapping[str, str], count: int, seed: int) -> list[list[str]]:
    """Tasks by fold: whole groups, in random order, each to the fold with the fewest tasks so far."""
    members: dict[str, list[str]] = {}
    for key, group in groups.items():
        members.setdefault(group, []).append(key)
    order: Sequence[str] = random.Random(f"folds {seed}").sample(sorted(members), len(members))
    parts: list[list[str]] = [[] for _ in range(count)]
    for group in order:
        min(parts, key=len).extend(members[group])
    return parts
