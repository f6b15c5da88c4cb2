"""The results part of experiments/selections/README.md, from the recorded cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from scripts.documentation.experiment import chart
from scripts.documentation.experiment.records import Reader, by_budget, load
from scripts.documentation.experiment.statistics import Effect, effect, holm, sign_flips

REFERENCE = "adaptive"
BOUND = 0.03
"""Differences of pass@1 within ± this are equivalent."""
LEVEL = 0.05
VERSIONS = "Readers are `embedded/small-2` and `embedded/5`; the teacher is `embedded/5`."
"""Of the recorded results; later versions answer otherwise."""
MARK = "<!-- Generated below this line: python -m scripts.documentation -->\n"


def files(folder: Path) -> dict[Path, str]:
    """The page with its results, and its figure, by path; without results the page alone."""
    path = folder / "README.md"
    plan = path.read_text(encoding="utf-8").partition(MARK)[0]
    control, main = (folder / f"experiment{kind}.jsonl" for kind in ("-control", ""))
    parts, made = [plan + MARK], dict[Path, str]()
    if control.exists():
        parts.append(_control(load(control)))
    if main.exists():
        readers = load(main)
        parts += [_results(readers)]
        made[folder / "experiment.svg"] = chart.forest(_effects(readers.values()))
    added = [folder / f"experiment{kind}.jsonl" for kind in ("-mmr", "-budgets")]
    results = [each for file in added if file.exists() for each in load(file).values()]
    if results:
        parts.append(_addition([part for each in results for part in by_budget(each)]))
    return {path: "\n".join(parts), **made}


def compared(readers: Iterable[Reader]) -> dict[tuple[str, str], Effect]:
    """By reader and arm, the difference to the reference."""
    return {
        (reader.name, arm): effect(reader.rates[arm] - reader.rates[_reference(reader)])
        for reader in readers
        for arm in reader.rates
        if arm != _reference(reader)
    }


def corrected(effects: Mapping[tuple[str, str], Effect]) -> dict[tuple[str, str], float]:
    """Holm's p-values, within the family of each reader."""
    found = {}
    for reader in {name for name, _ in effects}:
        family = {arm: each.p for (name, arm), each in effects.items() if name == reader}
        found.update({(reader, arm): p for arm, p in holm(family).items()})
    return found


def _effects(readers: Iterable[Reader]) -> dict[tuple[str, str], tuple[float, float, float]]:
    return {key: (each.mean, *each.interval()) for key, each in compared(readers).items()}


def _reference(reader: Reader) -> str:
    return next(arm for arm in reader.rates if arm.partition("@")[0] == REFERENCE)


def _control(readers: Mapping[str, Reader]) -> str:
    lines = ["## The positive control", ""]
    verdict = "passes" if control_passes(readers) else "**does not pass**"
    lines += [f"The control {verdict}. Against `{REFERENCE}`:", ""]
    return "\n".join([*lines, *_table(readers), ""])


def control_passes(readers: Mapping[str, Reader]) -> bool:
    """The plan's criterion: a reader that attends to four separates the arms, one that reads nothing does not."""
    effects = compared(readers.values())
    p = corrected(effects)
    ahead = [key for key in effects if key[0] == "control@4" and key[1].partition("@")[0] in ("similar", "coverage")]
    behind = [key for key in effects if key[0] == "control@4" and key[1] == "none"]
    still = [key for key in effects if key[0] == "control@0"]
    return (
        all(effects[key].mean > 0 and p[key] < LEVEL for key in ahead)
        and all(effects[key].mean < 0 and p[key] < LEVEL for key in behind)
        and all(p[key] >= LEVEL for key in still)
        and bool(ahead and behind and still)
    )


def _results(readers: Mapping[str, Reader]) -> str:
    lines = ["## Results", "", VERSIONS, "", _summary(readers), "", "![Differences to adaptive](experiment.svg)", ""]
    lines += _table(readers)
    lines += ["", "### What each arm showed and cost", "", *_costs(readers.values())]
    lines += ["", "### By task set", "", *_by_set(readers.values())]
    return "\n".join([*lines, ""])


def _addition(readers: Sequence[Reader]) -> str:
    named = {reader.name: reader for reader in readers}
    lines = ["## Results of the addition", "", VERSIONS, "", _summary(named), "", *_table(named), "", *_costs(readers)]
    return "\n".join([*lines, ""])


def _costs(readers: Iterable[Reader]) -> list[str]:
    lines = [
        "| reader | arm | pass@1 | tokens shown | demonstrations | selection, ms per request |",
        "|---|---|---|---|---|---|",
    ]
    for reader in readers:
        for arm, rates in reader.rates.items():
            figures = [reader.means[name][arm] for name in ("tokens", "shown", "milliseconds")]
            lines.append(
                f"| {reader.name} | {arm.partition('@')[0]} | {rates.mean():.3f} | {figures[0]:.0f} |"
                f" {figures[1]:.1f} | {figures[2]:.1f} |"
            )
    return lines


def _summary(readers: Mapping[str, Reader]) -> str:
    effects = compared(readers.values())
    p = corrected(effects)
    found = [key for key in effects if p[key] < LEVEL]
    same = [key for key in effects if p[key] >= LEVEL and effects[key].p_equivalent(BOUND) < LEVEL]
    parts = [
        f"`{reader.name}`: {_counted(len(reader.seeds), 'seed')}, {len(reader.tasks)} tasks, {reader.experience:.0f}"
        " solved tasks to choose from."
        for reader in readers.values()
    ]
    parts.append(
        f"Of {len(effects)} comparisons {len(found)} are significant after Holm's correction,"
        f" and {len(same)} of the others are equivalent within ±{BOUND}; {len(effects) - len(found) - len(same)} are"
        " undecided."
    )
    return " ".join(parts)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _table(readers: Mapping[str, Reader]) -> list[str]:
    effects = compared(readers.values())
    p = corrected(effects)
    lines = [
        "| reader | arm | difference of pass@1 [95 %] | p | p, Holm | p, groups' signs | p, equivalent | detectable |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for reader in readers.values():
        reference = reader.rates[_reference(reader)]
        for arm in reader.rates:
            if (reader.name, arm) not in effects:
                continue
            each = effects[reader.name, arm]
            low, high = each.interval()
            flips = sign_flips(reader.rates[arm] - reference, reader.groups)
            least = each.detectable(LEVEL / (len(reader.rates) - 1))
            star = "**" if p[reader.name, arm] < LEVEL else ""
            values = (each.p, p[reader.name, arm], flips, each.p_equivalent(BOUND))
            lines.append(
                f"| {reader.name} | {arm.partition('@')[0]} | {star}{each.mean:+.3f} [{low:+.3f}, {high:+.3f}]{star} | "
                + " | ".join("<0.001" if value < 0.001 else f"{value:.3f}" for value in values)
                + f" | {least:.3f} |"
            )
    return lines


def _by_set(readers: Iterable[Reader]) -> list[str]:
    lines: list[str] = []
    for reader in readers:
        sets = [key.partition("/")[0] for key in reader.tasks]
        names = list(dict.fromkeys(sets))
        if not lines:
            lines += [f"| reader | arm | {' | '.join(names)} |", "|---|---|" + "---|" * len(names)]
        for arm, rates in reader.rates.items():
            means = (rates[np.array([each == name for each in sets])].mean() for name in names)
            lines.append(f"| {reader.name} | {arm.partition('@')[0]} | " + " | ".join(f"{m:.3f}" for m in means) + " |")
    return lines
