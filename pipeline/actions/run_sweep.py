"""`pipeline.sweep`: the runs of a sweep, each of them on record, and the table that compares them."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from urllib.parse import quote

import yaml
from pydantic import ValidationError
from scipy.special import stdtrit  # `scipy.stats` would take most of a second to import

from pipeline.actions import compile_agent
from pipeline.base.config import RunConfig
from pipeline.base.errors import Exit, RunLive, UsageError, print_message
from pipeline.base.redaction import without_secrets
from pipeline.base.settings import Option
from pipeline.base.terminal import console, figures_table, print_lines
from pipeline.base.text import counted
from pipeline.record import experiment_view, store
from pipeline.record.request import Request
from pipeline.record.resume import Resumed, all_runs, open_run
from step_runtime.base.errors import TaskError
from step_runtime.tasks import yaml_format

KEYS = ("name", "base", "sweep")
MOST = 10_000
"""Runs of one sweep."""


@dataclass(frozen=True)
class Combination:
    """One run of a sweep: the values of the fields that the sweep varies, and all settings."""

    values: Mapping[str, Any]
    config: RunConfig

    @property
    def configuration(self) -> str:
        """The values without the seed, as text: runs that differ in the seed alone share it."""
        return ", ".join(f"{name}={shown(value)}" for name, value in self.values.items() if name != "seed") or "all"


@dataclass(frozen=True)
class Spec:
    """A sweep: its name, and its runs in the order of the file, the last list varying fastest."""

    name: str
    combinations: Sequence[Combination]


def read_spec(path: Path) -> Spec:
    """Reads the file of a sweep: settings that all its runs share, and lists, of which every combination is a run.

        name: selections              the sweep's name in the record (default: the file's)
        base: {optimizer: adaptive, samples: 16}
        sweep:
          seed: [0, 1, 2]
          selection: [adaptive, similar]

    The keys in `base` and `sweep` are the fields of `RunConfig`.

    Raises:
        UsageError: It cannot be read or is not valid; the message has the line and what was expected.
    """
    try:
        text = yaml_format.read_text(path)
        node, content = yaml_format.load(text, str(path))
    except OSError as error:
        raise UsageError(f"{path}: cannot read the sweep: {error.strerror or error}") from None
    except (ValueError, TaskError) as error:
        raise UsageError(str(error) if isinstance(error, TaskError) else f"{path}: {error}") from None
    return _Reader(path, node, content).spec()


def run_key(request: Request) -> str:
    """A digest of all that the answers of a run depend on, by which a run is found on record."""
    changed = {name for name in RunConfig.model_fields if Option.of(RunConfig, name).resume == "changed"}
    content = json.loads(request.to_json())
    content["options"] = {name: value for name, value in content["options"].items() if name not in changed}
    return hashlib.sha256(json.dumps({**content, "lm": ""}, sort_keys=True).encode()).hexdigest()[:16]


def shown(value: Any) -> str:
    """A value of a field as text."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


@dataclass(frozen=True)
class _Reader:
    path: Path
    node: yaml.Node | None
    content: Any

    def spec(self) -> Spec:
        content = self._mapping((), self.content)
        for key in content:
            if key not in KEYS:
                raise self._error((key,), f"expected one of {', '.join(KEYS)}, got {key!r}")
        name = content.get("name", self.path.stem)
        if not isinstance(name, str) or not name.strip() or "'" in name or len(name) > 200:
            raise self._error(("name",), f"name: expected a text of up to 200 characters without ', got {name!r}")
        base = self._mapping(("base",), content.get("base", {}))
        varied = self._mapping(("sweep",), content.get("sweep"))
        for place, fields in (("base", base), ("sweep", varied)):
            for field in fields:
                if field not in RunConfig.model_fields:
                    known = ", ".join(sorted(RunConfig.model_fields))
                    raise self._error((place, field), f"{place}: expected settings of a run ({known}), got {field!r}")
        for field, values in varied.items():
            self._check_list(field, values, base)
        count = prod(map(len, varied.values()))
        if count > MOST:
            raise self._error(("sweep",), f"sweep: expected at most {MOST:,} combinations, got {count:,}")
        places = itertools.product(*(range(len(values)) for values in varied.values()))
        return Spec(name, [self._combination(base, varied, dict(zip(varied, place, strict=True))) for place in places])

    def _combination(
        self, base: Mapping[str, Any], varied: Mapping[str, Sequence[Any]], places: Mapping[str, int]
    ) -> Combination:
        values = {field: varied[field][place] for field, place in places.items()}
        try:
            return Combination(values, RunConfig.model_validate({**base, **values}))
        except ValidationError as error:
            found = error.errors(include_url=False)[0]
            field = str(found["loc"][0]) if found["loc"] else ""
            place: yaml_format.Location = ("sweep", field, places[field]) if field in places else ("base", field)
            expected = found["msg"].removeprefix("Value error, ")
            if found["type"] == "missing":
                place, expected = ("base",), "expected a value in `base` or `sweep`"
            raise self._error(place, f"{field}: {expected}") from None

    def _mapping(self, place: yaml_format.Location, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            where = f"{place[0]}: " if place else ""
            raise self._error(place, f"{where}expected names with values, got {_brief(value)}")
        return value

    def _check_list(self, field: str, values: Any, base: Mapping[str, Any]) -> None:
        place = ("sweep", field)
        if field in base:
            raise self._error(place, f"{field}: expected it in `base` or in `sweep`, found in both")
        if not isinstance(values, list) or not values:
            raise self._error(place, f"{field}: expected a list of values, got {_brief(values)}")
        if len(values) > MOST:
            raise self._error(place, f"{field}: expected at most {MOST:,} values, got {len(values):,}")
        for index, value in enumerate(values):
            if value in values[:index]:
                raise self._error((*place, index), f"{field}: expected distinct values, got {_brief(value)} twice")

    def _error(self, place: yaml_format.Location, message: str) -> UsageError:
        return UsageError(f"{self.path}:{yaml_format.line_of(self.node, place)}: {message}")


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


FIGURES = {
    "solved": "total_solved", "pass_at_1": "total_pass_at_1", "pass_at_n": "total_pass_at_n",
    "tokens": "total_tokens", "seconds": "total_seconds",
}  # fmt: skip
"""The figures of the table, and the metric of a run that has each."""
CONFIDENCE = 0.95
LOCAL_SERVER = "http://127.0.0.1:5000"
"""Where `pipeline.ui` serves by default."""


@dataclass(frozen=True)
class SweepRun:
    """A run of a sweep: what it varies, its request, and its key in the record."""

    combination: Combination
    request: Request
    key: str


@dataclass(frozen=True)
class Sweep:
    """A sweep: its name and its runs."""

    name: str
    runs: Sequence[SweepRun]


def open_sweep(path: Path) -> Sweep:
    """Reads the file of a sweep, and everything that its runs name.

    Raises:
        UsageError: The file is not valid, or a task, an experience or a combination of settings cannot be used.
    """
    spec: Spec = read_spec(path)
    runs = []
    for combination in spec.combinations:
        try:
            request = compile_agent.prepare(combination.config)
        except UsageError as error:
            raise UsageError(f"{path}: {_values(combination)}: {error}") from None
        runs.append(SweepRun(combination, request, run_key(request)))
    return Sweep(spec.name, runs)


def run(name: str, sweep: Sweep, command: str) -> Exit:
    """Makes the runs that are missing, and resumes those that were interrupted.

    A run that is being made elsewhere is left alone.

    Returns:
        `Exit.OK` if all runs have finished, `Exit.NO` if some are being made elsewhere, otherwise why the sweep ended.

    Raises:
        LMUnavailable: An LM can't be used.
        UsageError: A task's own code failed.
        RecordError: The record can't be written.
    """
    left, total = Exit.OK, len(sweep.runs)
    print_message(name, f"sweep {sweep.name!r}: {counted(total, 'run')}; to resume it, run the same command again")
    for number, each in enumerate(sweep.runs, start=1):
        print_message(name, f"run {number} of {total}: {_values(each.combination)}")
        found = recorded(sweep).get(each.key)  # now, as another machine may work on the same sweep
        if found and found.info.status == "FINISHED":
            print_message(name, f"run {found.info.run_id} has finished")
            continue
        plan: Request | Resumed = _resumed(each, found.info.run_id) if found else each.request
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
        key = run.data.params.get("sweep_key", "")
        if key not in found or found[key].info.status != "FINISHED":
            found[key] = run
    return found


def figures(sweep: Sweep) -> dict[str, Any]:
    """The command's JSON object: the sweep's runs, and for each configuration means and intervals over the seeds."""
    known, runs = recorded(sweep), []
    groups: dict[str, list[Any]] = {}
    for each in sweep.runs:
        run = known.get(each.key)
        finished = run is not None and run.info.status == "FINISHED"
        runs.append({
            "values": dict(each.combination.values),
            "run_id": run and run.info.run_id,
            "status": run.info.status if run else None,
        })  # fmt: skip
        groups.setdefault(each.combination.configuration, []).extend([run] if finished else [])
    configurations = [
        {
            "configuration": configuration,
            "runs": len(finished),
            "figures": {name: interval([run.data.metrics[metric] for run in finished if metric in run.data.metrics])
                        for name, metric in FIGURES.items()},
        }
        for configuration, finished in groups.items()
    ]  # fmt: skip
    return {"sweep": sweep.name, "address": _address(sweep), "runs": runs, "configurations": configurations}


def interval(values: Sequence[float]) -> dict[str, float | None]:
    """The mean of a figure, and the 95 % confidence interval of that mean by Student's t distribution.

    The interval needs two values at least, one a run.
    """
    if not values:
        return {"mean": None, "low": None, "high": None}
    mean = fmean(values)
    if len(values) == 1:
        return {"mean": mean, "low": None, "high": None}
    quantile = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2))
    half = quantile * stdev(values) / math.sqrt(len(values))
    return {"mean": mean, "low": mean - half, "high": mean + half}


def print_figures(result: Mapping[str, Any]) -> None:
    """Prints the table of the configurations, and where the runs are in the UI."""
    stdout = console()
    table = figures_table("configuration", "runs", *(name.replace("pass_at_", "pass@") for name in FIGURES))
    for row in result["configurations"]:
        cells = [_cell(row["figures"][name]) for name in FIGURES]
        table.add_row(row["configuration"], str(row["runs"]), *cells)
    stdout.print(table)
    lines = ["", "± is half of the 95 % confidence interval of the mean", f"the runs: {result['address']}"]
    if result["address"].startswith(LOCAL_SERVER):
        lines.append("served by: python -m pipeline.ui")
    print_lines(stdout, *lines)


def _cell(figure: Mapping[str, float | None]) -> str:
    mean, high = figure["mean"], figure["high"]
    if mean is None:
        return ""
    digits = 3 if abs(mean) <= 1 else 1 if abs(mean) < 1000 else 0
    half = "" if high is None else f" ± {high - mean:,.{digits}f}"
    return f"{mean:,.{digits}f}{half}"


def _resumed(run: SweepRun, run_id: str) -> Resumed | Request:
    """The recorded run, with the settings of the file that a resumed run may change; a new one if it has no request."""
    try:
        resumed = open_run(run_id)
    except UsageError:
        return run.request
    names = (name for name in RunConfig.model_fields if Option.of(RunConfig, name).resume == "changed")
    changed = {name: getattr(run.combination.config, name) for name in names}
    config = resumed.request.config.model_copy(update=changed)
    return replace(resumed, request=replace(resumed.request, config=config))


def _values(combination: Combination) -> str:
    return ", ".join(f"{name}={shown(value)}" for name, value in combination.values.items())


def _address(sweep: Sweep) -> str:
    """The address of the sweep's runs in MLflow's UI."""
    _, experiment = store.open_store()
    uri = store.store_uri()
    server = without_secrets(uri).rstrip("/") if uri.startswith("http") else LOCAL_SERVER
    search = f"params.sweep = '{sweep.name}'"
    return f"{experiment_view.address(server, experiment)}&searchFilter={quote(search)}"
