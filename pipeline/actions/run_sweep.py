"""`pipeline.sweep`: the runs of a sweep, each of them on record."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from scipy.special import stdtr, stdtrit  # `scipy.stats` would take most of a second to import

from pipeline.actions import compile_agent, dry_run
from pipeline.base.config import PlanOptions, RunConfig
from pipeline.base.errors import Exit, RunLive, UsageError, print_message
from pipeline.base.files import file_errors
from pipeline.base.outputs import DryRunBounds
from pipeline.base.settings import Option, is_embedded
from pipeline.base.text import console, counted, figures_table, print_lines, without_secrets
from pipeline.charts.plots import Panel, Points, plot
from pipeline.record import experiment_view, store
from pipeline.record.request import Request
from pipeline.record.resume import Resumed, all_runs, open_run
from pipeline.reporting import ablation, tables
from pipeline.reporting.ablation import ADAPTIVE, AGENT, BARE, LEVELS, RESAMPLED, SINGLE
from pipeline.reporting.runs import read_runs
from step_runtime.base.errors import TaskError
from step_runtime.base.mistakes import mistake
from step_runtime.tasks import yaml_format

# --- the file of a sweep ----------------------------------------------------------------------------------------------

MOST = 10_000
"""Runs of one sweep."""

Values = Mapping[str, Any]
"""The values of the fields that a sweep varies."""


@dataclass(frozen=True)
class Combination:
    """One run of a sweep.

    Attributes:
        values: Of the fields that the sweep varies.
        config: All settings.
        compared_with: The values of the run that this one is compared with; None for none.
        matched_to: The values of the run whose tokens this one is to take; None for its own limits.
    """

    values: Values
    config: RunConfig
    compared_with: Values | None = None
    matched_to: Values | None = None

    @property
    def configuration(self) -> str:
        """The values without the seed, as text: runs that differ in the seed alone share it."""
        return configuration(self.values)


@dataclass(frozen=True)
class Spec:
    """A sweep: its name, and its runs in the order of the file, the last list varying fastest."""

    name: str
    combinations: Sequence[Combination]


def _a_name(text: str) -> str:
    if not text.strip() or "'" in text or len(text) > 200:
        raise ValueError(f"expected a text of up to 200 characters without ', found {text!r}")
    return text


class _File(BaseModel):
    """The content of the file; values of fields are checked as those of `RunConfig`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, AfterValidator(_a_name)] | None = None
    base: dict[str, Any] = {}
    sweep: dict[str, Annotated[list[Any], Field(min_length=1)]]
    compare: dict[str, Any] = {}
    match_tokens: dict[str, Any] = {}


def read_spec(path: Path) -> Spec:
    """Reads the file of a sweep.

        name: learning                  the sweep's name in the record (default: the file's)
        base: {optimizer: adaptive, samples: 16}
        sweep:
          seed: [0, 1, 2]
          selection: [adaptive, resample]
        compare: {selection: resample}         the other configurations less this one, seed by seed
        match_tokens: {selection: adaptive}    the others get as many tokens as this one took

    The keys in `base` and `sweep` are the fields of `RunConfig`; `compare` and `match_tokens` have values in `sweep`.

    Raises:
        UsageError: It cannot be read or is not valid; the message has the line and what was expected.
    """

    def wrong(message: str, *place: str | int) -> UsageError:
        where = "".join(f"{each}: " for each in place[:2])
        return UsageError(f"{path}:{yaml_format.line_of(node, place)}: {where}{message}")

    try:
        node, content = yaml_format.load(yaml_format.read_text(path), str(path))
    except OSError as error:
        raise UsageError(f"{path}: cannot read the sweep: {error.strerror or error}") from None
    except (ValueError, TaskError) as error:
        raise UsageError(str(error) if isinstance(error, TaskError) else f"{path}: {error}") from None
    try:
        file = _File.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise wrong(mistake(first), *first["loc"]) from None
    for field, values in file.sweep.items():
        if field in file.base:
            raise wrong("expected it in `base` or in `sweep`, found in both", "sweep", field)
        for index, value in enumerate(values):
            if value in values[:index]:
                raise wrong(f"expected distinct values, found {value!r:.60} twice", "sweep", field, index)
    for key, chosen in (("compare", file.compare), ("match_tokens", file.match_tokens)):
        for field, value in chosen.items():
            if field == "seed" or value not in file.sweep.get(field, ()):
                hint = "of a field other than the seed"
                raise wrong(f"expected one of the values in `sweep` {hint}, found {value!r:.60}", key, field)
    if (count := prod(map(len, file.sweep.values()))) > MOST:
        raise wrong(f"expected at most {MOST:,} combinations, found {count:,}", "sweep")

    return Spec(file.name or path.stem, [*_combinations(file, wrong)])


def _combinations(file: _File, wrong: Callable[..., UsageError]) -> Iterator[Combination]:
    for places in itertools.product(*(enumerate(values) for values in file.sweep.values())):
        values = {field: value for field, (_, value) in zip(file.sweep, places, strict=True)}
        try:
            config = RunConfig.model_validate(dict(_settings({**file.base, **values})))
        except ValidationError as error:
            found = min(error.errors(include_url=False), key=lambda each: each["type"] == "missing")
            field = str(found["loc"][0]) if found["loc"] else ""
            if found["type"] == "missing":
                raise wrong(f"expected a value of {field} in `base` or `sweep`", "base") from None
            index = next((place for name, (place, _) in zip(file.sweep, places, strict=True) if name == field), None)
            raise wrong(mistake(found), *(("base", field) if index is None else ("sweep", field, index))) from None
        related = ({**values, **other} for other in (file.compare, file.match_tokens))
        yield Combination(values, config, *(None if other == values else other for other in related))


def shown(value: Any) -> str:
    """A value of a field as text."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def described(values: Values) -> str:
    """Values as text, `selection=similar, seed=0`."""
    return ", ".join(f"{name}={shown(value)}" for name, value in values.items())


def configuration(values: Values) -> str:
    """Values without the seed, as text."""
    return described({name: value for name, value in values.items() if name != "seed"}) or "all"


def _settings(values: Values) -> Iterator[tuple[str, Any]]:
    """The values, one in place of a list where the command takes one, too."""
    for name, value in values.items():
        alone = isinstance(value, str) and name in RunConfig.model_fields and Option.of(RunConfig, name).nargs
        yield name, [value] if alone else value


# --- the runs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SweepRun:
    """A run of a sweep.

    Attributes:
        combination: What the sweep varies.
        request: Its request; one that is matched to another run gets its limit of tokens once that run has finished.
        key: Its key in the record.
    """

    combination: Combination
    request: Request
    key: str


@dataclass(frozen=True)
class Sweep:
    """A sweep: its name and its runs."""

    name: str
    runs: Sequence[SweepRun]

    def key(self, values: Values) -> str:
        """The key of the run with these values."""
        return next(each.key for each in self.runs if each.combination.values == values)


def open_sweep(path: Path) -> Sweep:
    """Reads the file of a sweep, and everything that its runs name.

    Raises:
        UsageError: The file is not valid, or a task, an experience or a combination of settings cannot be used.
    """
    spec, runs = read_spec(path), []
    for combination in spec.combinations:
        try:
            request = matched_request(combination)
        except UsageError as error:
            raise UsageError(f"{path}: {described(combination.values)}: {error}") from None
        runs.append(SweepRun(combination, request, run_key(request)))
    return Sweep(spec.name, runs)


def matched_request(combination: Combination) -> Request:
    """The request of a run, which names what it is matched to; raises UsageError if it cannot be used."""
    config, matched_to = combination.config, combination.matched_to
    if matched_to is None:
        return compile_agent.prepare(config)
    if config.match_tokens is not None or config.max_tokens_total is not None:
        raise UsageError("match_tokens: the run would have two limits of tokens; omit its own")
    return compile_agent.checked(config.model_copy(update={"match_tokens": configuration(matched_to)}))


def run_key(request: Request) -> str:
    """A digest of all that the answers of a run depend on, by which a run is found on record."""
    changed = {name for name in RunConfig.model_fields if Option.of(RunConfig, name).resume == "changed"}
    content = json.loads(request.to_json())
    content["options"] = {name: value for name, value in content["options"].items() if name not in changed}
    return hashlib.sha256(json.dumps({**content, "lm": ""}, sort_keys=True).encode()).hexdigest()[:16]


def run(name: str, sweep: Sweep, command: str) -> Exit:
    """Makes the runs that are missing, those to which others are matched first; resumes those that were interrupted.

    A run that is being made elsewhere is left alone, and so are the runs that are matched to it.

    Returns:
        `Exit.OK` if all runs have finished, `Exit.NO` if some are left, otherwise why the sweep ended.

    Raises:
        LMUnavailable: An LM can't be used.
        UsageError: A task's own code failed.
        RecordError: The record can't be written.
    """
    left, total = Exit.OK, len(sweep.runs)
    print_message(name, f"sweep {sweep.name!r}: {counted(total, 'run')}; to resume it, run the same command again")
    in_order = sorted(sweep.runs, key=lambda each: each.combination.matched_to is not None)
    for number, each in enumerate(in_order, start=1):
        print_message(name, f"run {number} of {total}: {described(each.combination.values)}")
        known = recorded(sweep)  # now, as another machine may work on the same sweep
        found = known.get(each.key)
        if found and is_finished(found):
            print_message(name, f"run {found.info.run_id} has finished")
            continue
        request = _matched(sweep, each, known)
        if request is None:
            print_message(name, "waits for its matched run to finish")
            left = Exit.NO
            continue
        plan: Request | Resumed = _resumed(request, found.info.run_id) if found else request
        params = {"sweep": sweep.name, "sweep_key": each.key}
        try:
            result = compile_agent.compile_agent(name, plan, None, command, params)
        except RunLive as error:
            print_message(name, str(error))
            left = Exit.NO
            continue
        code = compile_agent.exit_code(name, result)
        if code not in (Exit.OK, Exit.NO):
            return code
    return left


def recorded(sweep: Sweep) -> dict[str, Any]:
    """The runs of a sweep that are on record, by key: of several with one key a finished one, otherwise the latest."""
    client, experiment = store.open_store()
    found: dict[str, Any] = {}
    for run in reversed(all_runs(client, experiment, f"params.sweep = '{sweep.name}'")):
        key = run.data.tags.get("sweep_key", "")
        if key not in found or not is_finished(found[key]):
            found[key] = run
    return found


def is_finished(run: Any) -> bool:
    """Whether there is such a run, and it has finished."""
    return run is not None and run.info.status == "FINISHED"


def estimate(sweep: Sweep) -> dict[str, tuple[int, DryRunBounds, DryRunBounds]]:
    """By configuration, the remaining runs, and the least and the most that they take together.

    A run that is matched to another takes at most the tokens of that run, which are known once it has finished.

    Raises:
        UsageError: There is a limit in dollars, and no known price; or a run has no limit that can be counted.
    """
    known, bounds = recorded(sweep), {each.key: dry_run.estimate(_bounded(sweep, each)) for each in sweep.runs}
    left: dict[str, list[tuple[DryRunBounds, DryRunBounds]]] = {}
    for each in sweep.runs:
        own = left.setdefault(each.combination.configuration, [])
        if not is_finished(known.get(each.key)):
            own.append(bounds[each.key])
    return {
        name: (len(own), dry_run.total(least for least, _ in own), dry_run.total(most for _, most in own))
        for name, own in left.items()
    }


def _bounded(sweep: Sweep, run: SweepRun) -> Request:
    """The request with the limit of tokens that follows from the other run's upper bound."""
    if run.combination.matched_to is None:
        return run.request
    other = sweep.key(run.combination.matched_to)
    _, most = dry_run.estimate(next(each.request for each in sweep.runs if each.key == other))
    limit = {"max_tokens_total": most.prompt + most.completion}
    return replace(run.request, config=run.request.config.model_copy(update=limit))


def _matched(sweep: Sweep, run: SweepRun, known: Mapping[str, Any]) -> Request | None:
    """The request with its limit of tokens; None if it follows from a run that has not finished."""
    if run.combination.matched_to is None:
        return run.request
    other = known.get(sweep.key(run.combination.matched_to))
    if other is None or not is_finished(other):
        return None
    return replace(run.request, config=compile_agent.matched(run.request.config, other.info.run_id))


def _resumed(request: Request, run_id: str) -> Resumed | Request:
    """The recorded run, with the settings of the request that a resumed run may change; a new one if it has none."""
    try:
        resumed = open_run(run_id)
    except UsageError:
        return request
    names = (name for name in RunConfig.model_fields if Option.of(RunConfig, name).resume == "changed")
    config = resumed.request.config.model_copy(update={name: getattr(request.config, name) for name in names})
    return replace(resumed, request=replace(resumed.request, config=config))


# --- `pipeline.ablate`: a sweep over LMs, the paper's methods and seeds -----------------------------------------------

_ONE_PASS: Mapping[str, Any] = {"optimizer": "none", "temperatures": (0.7,)}
_AGENT: Mapping[str, Any] = {"guardian": "paper"}
METHODS: Mapping[str, tuple[Mapping[str, Any], str | None]] = {
    BARE: ({**_ONE_PASS, "guardian": "none", "no_ir": True}, None),
    SINGLE: ({**_ONE_PASS, "guardian": "none"}, BARE),
    AGENT: ({**_ONE_PASS, **_AGENT}, SINGLE),
    RESAMPLED: ({"optimizer": "none", "max_tokens_total": None, **_AGENT}, None),
    **{
        name: ({"optimizer": "adaptive", "granularity": m, **_AGENT}, RESAMPLED if name == ADAPTIVE else ADAPTIVE)
        for m, name in LEVELS.items()
    },
}
"""The settings that make each method, and the method with which it is compared, seed by seed."""


def open_ablation(options: PlanOptions) -> Sweep:
    """The sweep of an ablation; its name follows from its runs, so that the same command finds them again.

    Raises:
        UsageError: A task can't be used, or the language lacks what a method needs.
    """
    shared = {name: value for name, value in options if name not in ("lm", "seed")}
    runs = []
    for lm in options.lm:
        methods = [*METHODS][is_embedded(lm) :]  # the embedded LM reads the structural IR alone
        for method in methods:
            own, other = METHODS[method]
            for seed in options.seed:
                config = RunConfig.model_validate({**shared, **own, "lm": lm, "seed": seed})
                values = {"lm": lm, "method": method, "seed": seed}
                combination = Combination(
                    values,
                    config,
                    compared_with={**values, "method": other} if other in methods else None,
                    matched_to={**values, "method": ADAPTIVE} if method == RESAMPLED else None,
                )
                request = matched_request(combination)
                runs.append(SweepRun(combination, request, run_key(request)))
    keys = hashlib.sha256("".join(sorted(each.key for each in runs)).encode()).hexdigest()
    return Sweep(f"ablation {keys[:8]}", runs)


def write_page(sweep: Sweep, figures: Mapping[str, Any], output: str | None) -> dict[str, Any]:
    """Writes the page of the finished runs to a folder, by default next to the store; returns the command's JSON.

    Raises:
        UsageError: It can't be written.
    """
    folder = Path(output) if output is not None else store.folder() / "ablations" / sweep.name.replace(" ", "-")
    known = recorded(sweep)
    read = {run.run_id: run for run in read_runs([known[each.key].info.run_id for each in sweep.runs])}
    by_lm: dict[str, list[Any]] = {}
    for each in sweep.runs:
        values = each.combination.values
        run = replace(read[known[each.key].info.run_id], label=values["method"])
        by_lm.setdefault(values["lm"], []).append(run)
    tests = tables.of(
        {"method": row["configuration"], "less": row["less"], "seeds": row["pairs"], **row["differences"]["solved"],
         "p": row["p"]}
        for row in figures["comparisons"]
    )  # fmt: skip
    with file_errors(f"--output: can't write the page to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        files = ablation.write(by_lm, tests, folder)
    return {**figures, "page": str(folder / files[0]), "files": files}


# --- means, intervals, paired differences, and curves -----------------------------------------------------------------

FIGURES = {
    "solved": "total_solved", "pass_at_1_pooled": "total_pass_at_1_pooled", "pass_at_n": "total_pass_at_n",
    "tokens": "total_tokens", "seconds": "total_seconds",
}  # fmt: skip
"""The figures of the table, and the metric of a run that has each: pass@1 over all temperatures, which is unbiased."""
TESTED = "solved"
"""The figure whose differences are tested."""
CURVE = ("samples", "tokens_prompt", "tokens_completion")
CONFIDENCE = 0.95
NARROW = 200
"""The parts of an axis in which all places are one."""
LOCAL_SERVER = "http://127.0.0.1:5000"
"""Where `pipeline.ui` serves by default."""


def figures(sweep: Sweep) -> dict[str, Any]:
    """The command's JSON object.

    It has the sweep's runs, each with its curve; for each configuration means and intervals over the seeds; and where
    the file says what to compare with, the differences seed by seed.
    """
    known, runs = recorded(sweep), []
    client, _ = store.open_store()
    groups: dict[str, list[Any]] = {}
    pairs: dict[tuple[str, str], list[tuple[Any, Any]]] = {}
    for each in sweep.runs:
        combination, run = each.combination, known.get(each.key)
        runs.append({
            "values": dict(combination.values),
            "run_id": run and run.info.run_id,
            "status": run.info.status if run else None,
            "curve": solved_curve(client, run) if is_finished(run) else [],
        })  # fmt: skip
        groups.setdefault(combination.configuration, []).extend([run] if is_finished(run) else [])
        if combination.compared_with is not None:
            other = known.get(sweep.key(combination.compared_with))
            place = combination.configuration, configuration(combination.compared_with)
            pairs.setdefault(place, []).extend([(run, other)] if is_finished(run) and is_finished(other) else [])
    configurations = [
        {"configuration": name, "runs": len(finished), "figures": {f: interval(_values(finished, f)) for f in FIGURES}}
        for name, finished in groups.items()
    ]
    tested = holm([p_value(_differences(both, TESTED)) for both in pairs.values()])
    comparisons = [
        {"configuration": name, "less": other, "pairs": len(both), "p": p,
         "differences": {figure: interval(_differences(both, figure)) for figure in FIGURES}}
        for ((name, other), both), p in zip(pairs.items(), tested, strict=True)
    ]  # fmt: skip
    return {
        "sweep": sweep.name, "address": _address(sweep), "runs": runs, "configurations": configurations,
        "comparisons": comparisons,
    }  # fmt: skip


def _values(runs: Sequence[Any], figure: str) -> list[float]:
    metric = FIGURES[figure]
    return [run.data.metrics[metric] for run in runs if metric in run.data.metrics]


def _differences(pairs: Sequence[tuple[Any, Any]], figure: str) -> list[float]:
    """One run's figure less the other's, of each pair that has both."""
    both = ((_values([one], figure), _values([other], figure)) for one, other in pairs)
    return [one[0] - other[0] for one, other in both if one and other]


def interval(values: Sequence[float]) -> dict[str, float | None]:
    """The mean of a figure, and the 95 % confidence interval of that mean by Student's t distribution.

    The interval needs two values at least, one a run or a pair of runs.
    """
    if not values:
        return {"mean": None, "low": None, "high": None}
    mean = fmean(values)
    if len(values) == 1:
        return {"mean": mean, "low": None, "high": None}
    quantile = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2))
    half = quantile * stdev(values) / math.sqrt(len(values))
    return {"mean": mean, "low": mean - half, "high": mean + half}


def p_value(differences: Sequence[float]) -> float | None:
    """The two-sided p-value of Student's paired test; None for fewer than two pairs, or differences that are all one.

    Differences that are all 0 have p = 1.
    """
    if len(set(differences)) < 2:
        return 1.0 if len(differences) > 1 and differences[0] == 0 else None
    t = fmean(differences) * math.sqrt(len(differences)) / stdev(differences)
    return float(2 * stdtr(len(differences) - 1, -abs(t)))


def holm(values: Sequence[float | None]) -> list[float | None]:
    """p-values corrected for their number by Holm's method; None stays None."""
    known = sorted((p, place) for place, p in enumerate(values) if p is not None)
    corrected, largest = list(values), 0.0
    for rank, (p, place) in enumerate(known):
        largest = corrected[place] = max(largest, min(1.0, p * (len(known) - rank)))
    return corrected


def print_figures(result: Mapping[str, Any]) -> None:
    """Prints the table of the configurations, that of the differences, and where the runs are in the UI."""
    stdout = console()
    headings = [name.replace("pass_at_", "pass@").replace("_", " ") for name in FIGURES]
    table = figures_table("configuration", "runs", *headings)
    for row in result["configurations"]:
        table.add_row(row["configuration"], str(row["runs"]), *(_cell(row["figures"][name]) for name in FIGURES))
    stdout.print(table)
    explained: list[str] = []
    if result["comparisons"]:
        explained = ["p is of the difference in solved tasks: Student's paired test, corrected by Holm's method"]
        table = figures_table("seed by seed", "less", "pairs", *headings, "p", texts=2)
        for row in result["comparisons"]:
            cells = (_cell(row["differences"][name], signed=True) for name in FIGURES)
            p = "" if row["p"] is None else f"{row['p']:.3f}"
            table.add_row(row["configuration"], row["less"], str(row["pairs"]), *cells, p)
        stdout.print("", table, sep="\n")
    lines = ["", "± is half of the 95 % confidence interval of the mean", *explained, f"the runs: {result['address']}"]
    if result["address"].startswith(LOCAL_SERVER):
        lines.append("served by: python -m pipeline.ui")
    print_lines(stdout, *lines)


def _cell(figure: Mapping[str, float | None], *, signed: bool = False) -> str:
    mean, high = figure["mean"], figure["high"]
    if mean is None:
        return ""
    digits = 3 if abs(mean) <= 1 else 1 if abs(mean) < 1000 else 0
    half = "" if high is None else f" ± {high - mean:,.{digits}f}"
    return f"{mean:{'+' if signed else ''},.{digits}f}{half}"


def solved_curve(client: Any, run: Any) -> list[dict[str, float]]:
    """Samples and tokens so far, and tasks solved: before the run, after each iteration, and at the end of the run.

    The end includes an iteration that a limit cut short.
    """
    history = {
        name: {point.step: point.value for point in client.get_metric_history(run.info.run_id, name)}
        for name in ("solved", *CURVE)
    }
    points, samples, tokens = [_point(0, 0, 0)], 0.0, 0.0
    for step, solved in sorted(history["solved"].items()):
        new, *new_tokens = (history[name].get(step, 0) for name in CURVE)
        samples, tokens = samples + new, tokens + sum(new_tokens)
        points.append(_point(samples, tokens, solved))
    total = run.data.metrics
    if "total_solved" in total:
        end = _point(total["total_samples"], total["total_tokens"], total["total_solved"])
        points += [end] if end != points[-1] else []
    return points


def _point(samples: float, tokens: float, solved: float) -> dict[str, float]:
    return {"samples": samples, "tokens": tokens, "solved": solved}


def draw(sweep: Sweep, result: Mapping[str, Any], path: Path) -> None:
    """Draws the tasks solved over samples and over tokens: each configuration's mean over the seeds, with its interval.

    A run keeps its last value where another one of its configuration goes on.
    """
    curves: dict[str, list[Sequence[Mapping[str, float]]]] = {}
    for each, run in zip(sweep.runs, result["runs"], strict=True):
        curves.setdefault(each.combination.configuration, []).extend([run["curve"]] if run["curve"] else [])
    found = {name: own for name, own in curves.items() if own}
    tasks = max(len(each.request.tasks) for each in sweep.runs)
    panels = [
        Panel(
            {name: _mean_curve(own, along) for name, own in found.items()},
            f"solved tasks, of {tasks}",
            f"{along} spent",
            kind="step",
            top=tasks,
        )
        for along in ("samples", "tokens")
    ]
    plot(path, *panels, size=(12.0, 4.25))


def _mean_curve(curves: Sequence[Sequence[Mapping[str, float]]], along: str) -> Points:
    """Steps up to the next one: what was spent, the mean number of tasks solved, and the ends of its interval.

    Places that no eye can tell apart are one, the last: the runs take it one after another.
    """
    steps, shown, first = [], list[float](), 0.0
    places = sorted({point[along] for curve in curves for point in curve})
    for place in places:
        if shown and place - first <= places[-1] / NARROW:
            shown[-1] = place
        else:
            shown, first = [*shown, place], place
    for place in shown:
        reached = [max(point["solved"] for point in curve if point[along] <= place) for curve in curves]
        found = interval(reached)
        mean = found["mean"] or 0.0
        low, high = (mean if end is None else end for end in (found["low"], found["high"]))
        steps.append((place, mean, low, high))
    return steps


def _address(sweep: Sweep) -> str:
    """The address of the sweep's runs in MLflow's UI."""
    client, experiment = store.open_store()
    uri = store.store_uri()
    server = without_secrets(uri).rstrip("/") if uri.startswith("http") else LOCAL_SERVER
    return experiment_view.found(client, server, experiment, f"params.sweep = '{sweep.name}'")
