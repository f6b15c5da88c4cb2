"""What must not change while the code does: verdicts, found programs, the main curve, interrupted runs, JSON.

`record` writes each part as JSON into benchmarks/golden; `compare` makes it again and prints what differs. Each part
goes through a public door: `step_runtime.verify`, or a command in a process and a store of its own.

- verdicts: stage, code and place of all oracles, near-misses, and a share of the oracles' mutants
- search: the programs of `generate --proposer search` on all sets, and the candidates that they took
- curve: three seeds of the main job on the embedded LM
- resumed: a run on a scripted LM, killed after some requests and resumed, beside an undisturbed one
- json: the objects that commands print

How to run: python -m benchmarks.goldens compare [PART…]   (half an hour for all; 2 minutes for `verdicts`)
            python -m benchmarks.goldens record PART…      after a change on purpose, which the commit then names
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from mlflow import MlflowClient

from step_runtime import Task, load_task, verify
from tests.support.mutants import changed
from tests.support.paths import PROJECT

DATA = PROJECT / "data"
FOLDER = PROJECT / "benchmarks" / "golden"
SETS = ("tasks", "tasks-extra", "tasks-modern", "tasks-formats", "tasks-field", "tasks-layers")
_MUTANTS = 6
_DYING = "tests.support.dying_compile"
_SEARCHED = {
    "tasks": 60_000,
    "tasks-extra": 60_000,
    "tasks-modern": 60_000,
    "tasks-formats": 60_000,
    "tasks-field": 30_000,
}
"""The sets that are searched whole, with the candidates that a search may try: a bound that no busy machine moves."""
_PASSING = re.compile(r"seconds|processor|run_id|address|folder|tracking|version|digest|commit|started|host")
"""Keys whose values differ from run to run or from version to version."""


def programs() -> Iterator[tuple[str, Task, str]]:
    """A name, a task and a text: each oracle, each near-miss, and some mutants of each oracle."""
    for folder in SETS:
        for kind in ("oracles", "near-misses"):
            root = DATA / folder.replace("tasks", kind)
            for path in sorted(root.rglob("*.step")):
                name = path.relative_to(root).with_suffix("")
                stems = (name, name.with_suffix(""), Path(*name.parts[1:]))
                file = next(one for stem in stems if (one := (DATA / folder / stem).with_suffix(".yaml")).exists())
                task = load_task(file)
                yield f"{root.name}/{name}", task, path.read_text(encoding="utf-8")
        recorded = FOLDER / "mutants" / f"{folder}.json"
        if recorded.exists():
            for name, text in json.loads(recorded.read_text(encoding="utf-8")).items():
                yield f"mutants/{folder}/{name}", load_task(DATA / folder / f"{name.partition('#')[0]}.yaml"), text


def draw_mutants() -> None:
    """Writes the mutants whose verdicts are golden: they are texts on record, as edits of programs may change."""
    (FOLDER / "mutants").mkdir(parents=True, exist_ok=True)
    for folder in SETS:
        root = DATA / folder.replace("tasks", "oracles")
        found: dict[str, str] = {}
        for path in sorted(root.rglob("*.step")):
            name = path.relative_to(root).with_suffix("").as_posix()
            made = changed(load_task(DATA / folder / f"{name}.yaml"), path.read_text(encoding="utf-8"), 0.5)
            step = max(1, len(made) // _MUTANTS)
            found |= {f"{name}#{number}": each.text for number, each in enumerate(made[::step][:_MUTANTS])}
        (FOLDER / "mutants" / f"{folder}.json").write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")


def verdicts() -> dict[str, Any]:
    """The stage, and code, line and column of each diagnostic."""
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    for name, task, text in programs():
        verdict = verify(task, text)
        spans = [(each.code, each.span) for each in verdict.diagnostics]
        places = [f"{code}:{span.line}:{span.column}" if span else code for code, span in spans]
        found[name] = " ".join([str(verdict.stage), *places])
    return found


def command(folder: Path, name: str, *arguments: str) -> Any:
    """What a command prints with `--json`, without what differs from run to run, and its exit code."""
    environment = {**os.environ, "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/runs.db", "PYTHONHASHSEED": "0"}
    argv = [sys.executable, "-m", name, *arguments, "--json"]
    done = subprocess.run(argv, cwd=PROJECT, capture_output=True, text=True, env=environment, check=False)
    return {"exit": done.returncode, **settled(json.loads(done.stdout or "{}"), str(folder))}


def settled(value: Any, folder: str) -> Any:
    """JSON data without durations, addresses and versions; the scratch folder's path is replaced."""
    if isinstance(value, Mapping):
        return {key: settled(each, folder) for key, each in value.items() if not _PASSING.search(key)}
    if isinstance(value, list):
        return [settled(each, folder) for each in value]
    return value.replace(folder, "FOLDER") if isinstance(value, str) else value


def search() -> dict[str, Any]:
    """Program and number of candidates of each task."""
    found: dict[str, Any] = {}
    for folder, most in _SEARCHED.items():
        with tempfile.TemporaryDirectory() as scratch:
            limits = ["--no-split", "--max-candidates", str(most), "--max-minutes", "60"]
            output = command(Path(scratch), "pipeline.generate", str(DATA / folder), *limits)
        for name, task in output["tasks"].items():
            found[f"{folder}/{name}"] = [task["impl"], task["detail"]]
    return found


def curve() -> dict[str, Any]:
    """Solved tasks, pass rates and tokens of three seeds."""
    found = {}
    for seed in range(3):
        with tempfile.TemporaryDirectory() as scratch:
            target = ["--optimizer", "adaptive", "--seed", str(seed), "-o", f"{scratch}/compiled.json"]
            found[f"seed {seed}"] = command(Path(scratch), "pipeline.compile", *target)
    return found


def resumed() -> dict[str, Any]:
    """The JSON of an undisturbed run, and of one that was killed after some requests and resumed."""
    found = {}
    for calls in (0, 7, 23):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            target = ["--optimizer", "adaptive", "--threads", "2", "-o", f"{folder}/compiled.json"]
            small = ["--tasks", "data/tasks/gemm/[0-2].yaml", "--samples", "4", "--max-iterations", "4"]
            output = command(folder, _DYING, f"{folder}/log", str(calls), "0.1", *target, *small)
            if calls:
                store = MlflowClient(tracking_uri=f"sqlite:///{folder}/runs.db")
                experiments = [each.experiment_id for each in store.search_experiments()]
                run = next(run for run in store.search_runs(experiments) if "mlflow.parentRunId" not in run.data.tags)
                output = command(folder, _DYING, f"{folder}/log", "0", "0", *target, "--resume", run.info.run_id)
            found[f"killed after {calls}"] = output
    return found


def json_outputs() -> dict[str, Any]:
    """One object of each command that prints one, and those of failures."""
    task, oracle = "data/tasks/gemm/1.yaml", "data/oracles/gemm/1.step"
    unread = "data/near-misses/parse/gemm/0.step"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        compiled = f"{folder}/compiled.json"
        small = ["--tasks", "gemm/0", "gemm/1", "--samples", "2", "--max-iterations", "2"]
        calls = {
            "verify": ["pipeline.verify", task, oracle],
            "verify exact": ["pipeline.verify", task, oracle, "--exact"],
            "verify stage type": ["pipeline.verify", task, "data/oracles/gemm/0.step"],
            "verify stage parse": ["pipeline.verify", task, unread],
            "verify many": ["pipeline.verify", "data/tasks/gemm", "--programs", "data/oracles/gemm"],
            "verify no file": ["pipeline.verify", "none.yaml", oracle],
            "cost": ["pipeline.cost", task, oracle],
            "optimize": ["pipeline.optimize", task, oracle, "--objective", "memory"],
            "generate": ["pipeline.generate", task, "--proposer", "search"],
            "compile": ["pipeline.compile", "--optimizer", "adaptive", *small, "-o", compiled],
            "compile dry run": [
                "pipeline.compile",
                "--optimizer",
                "adaptive",
                *small,
                "--lm",
                "openai/gpt-4o",
                "--dry-run",
            ],
            "evaluate": ["pipeline.evaluate", "--program", compiled, "--tasks", "gemm/0", "bmm/0", "--samples", "2"],
        }
        return {name: command(folder, *call) for name, call in calls.items()}


PARTS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "verdicts": verdicts, "search": search, "curve": curve, "resumed": resumed, "json": json_outputs,
}  # fmt: skip


def differences(part: str, found: Mapping[str, Any]) -> list[str]:
    """A diff of each entry that is not as recorded."""
    recorded = json.loads((FOLDER / f"{part}.json").read_text(encoding="utf-8"))
    lines = []
    for name in sorted({*recorded, *found}):
        old, new = (json.dumps(side.get(name), indent=1, sort_keys=True).split("\n") for side in (recorded, found))
        if old != new:
            lines += [
                f"{part}: {name}",
                *(
                    f"  {line}"
                    for line in difflib.unified_diff(old, new, lineterm="", n=0)
                    if line[:2] not in ("--", "++", "@@")
                ),
            ]
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Records or compares; 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    options = parser.parse_args(arguments)
    if unknown := {*options.parts} - {*PARTS}:
        parser.error(f"no part is called {', '.join(sorted(unknown))}; parts: {', '.join(PARTS)}")
    lines = []
    recorded = [part for part in PARTS if options.action == "record" or (FOLDER / f"{part}.json").exists()]
    for part in options.parts or recorded:
        if part == "verdicts" and options.action == "record" and not (FOLDER / "mutants").exists():
            draw_mutants()
        found = PARTS[part]()
        if options.action == "record":
            FOLDER.mkdir(exist_ok=True)
            (FOLDER / f"{part}.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        else:
            lines += differences(part, found)
        print(f"{part}: {len(found)} entries", flush=True)
    print(*lines, f"{len(lines)} lines differ", sep="\n")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
