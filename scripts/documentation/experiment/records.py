"""What the experiment recorded, as one array per reader, arm and budget."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from scripts.documentation.experiment.statistics import Array


@dataclass(frozen=True)
class Reader:
    """A reader's results over its complete seeds.

    Attributes:
        name: As in the results.
        tasks: Keys, in the order of the arrays' rows.
        groups: The group of each task.
        seeds: The seeds of the arrays' columns.
        rates: By arm (`NAME@BUDGET`, or `none`), pass@1 of fresh samples.
        means: By figure (`tokens`, `shown`, `milliseconds`) and arm, the mean over prompts.
        experience: Mean number of solved tasks to choose from.
    """

    name: str
    tasks: tuple[str, ...]
    groups: tuple[str, ...]
    seeds: tuple[int, ...]
    rates: Mapping[str, Array]
    means: Mapping[str, Mapping[str, float]]
    experience: float


def load(path: Path) -> dict[str, Reader]:
    """The readers with at least one complete seed, in the order of the file."""
    settings, *lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found = {}
    for name in dict.fromkeys(line["reader"] for line in lines):
        own = [line for line in lines if line["reader"] == name]
        seeds = [seed for seed in dict.fromkeys(line["seed"] for line in own) if _complete(own, seed, settings)]
        if seeds:
            found[name] = _reader(name, settings, [line for line in own if line["seed"] in seeds], sorted(seeds))
    return found


def by_budget(reader: Reader) -> list[Reader]:
    """A reader's results under each budget of tokens, as readers named `NAME, 1,000 tokens`; each has what has none."""
    found = []
    for budget in dict.fromkeys(arm.partition("@")[2] for arm in reader.rates if "@" in arm):
        own = [arm for arm in reader.rates if arm.partition("@")[2] in ("", budget)]
        means = {figure: {arm: values[arm] for arm in own} for figure, values in reader.means.items()}
        rates = {arm: reader.rates[arm] for arm in own}
        found.append(replace(reader, name=f"{reader.name}, {int(budget):,} tokens", rates=rates, means=means))
    return found


def _complete(lines: list[Any], seed: int, settings: Any) -> bool:
    return bool(sum(line["seed"] == seed for line in lines) == settings["folds"])


def _reader(name: str, settings: Any, lines: list[Any], seeds: list[int]) -> Reader:
    tasks = tuple(settings["groups"])
    place = {key: number for number, key in enumerate(tasks)}
    arms = list(lines[0]["correct"])
    rates = {arm: np.full((len(tasks), len(seeds)), np.nan) for arm in arms}
    for line in lines:
        rows, column = [place[key] for key in line["tasks"]], seeds.index(line["seed"])
        for arm in arms:
            rates[arm][rows, column] = np.array(line["correct"][arm]) / settings["amounts"]["fresh"]
    means = {
        figure: {arm: float(np.mean([line[figure][arm] for line in lines])) for arm in arms}
        for figure in ("tokens", "shown", "milliseconds")
    }
    experience = float(np.mean([line["experience"] for line in lines]))
    return Reader(name, tasks, tuple(settings["groups"].values()), tuple(seeds), rates, means, experience)
