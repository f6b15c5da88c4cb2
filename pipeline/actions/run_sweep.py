"""`pipeline.sweep`: the runs of a sweep, each of them on record."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.actions import compile_agent, dry_run
from pipeline.actions.sweep_spec import Combination, Values, configuration, described, read_spec
from pipeline.base.config import RunConfig
from pipeline.base.errors import Exit, RunLive, UsageError, print_message
from pipeline.base.outputs import DryRunBounds
from pipeline.base.settings import Option
from pipeline.base.text import counted
from pipeline.record import store
from pipeline.record.request import Request
from pipeline.record.resume import Resumed, all_runs, open_run


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
