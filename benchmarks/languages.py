"""Two languages, one optimizer: a scripted LM learns STeP and TT-Lang, and the figures stand side by side.

The LM is `--lm scripted/LANGUAGE`. It follows one rule in every language, so that the figures measure the algorithm and
the verifiers, and no model.

How to run: python -m benchmarks.languages [step ttlang]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from pipeline import compile as compiling
from pipeline import evaluate
from pipeline.base.errors import run_command
from pipeline.base.languages import chosen
from pipeline.languages import registry
from pipeline.verification.judge import Request, judge
from pipeline.verification.limits import verification_pool
from pipeline.verification.shown_programs import Shown, read_shown

SAMPLES = 4
_ROWS = {
    "tasks": "tasks",
    "first": "pass@1 of the uncompiled agent",
    "pass_at_1": "pass@1 of the compiled program",
    "pass_at_n": f"pass@{SAMPLES} of the compiled program",
    "iterations": "iterations",
    "solved": "tasks solved",
    "tokens": "tokens of the run, prompts and answers",
    "cold": "seconds of a verdict, with the worker's start",
    "warm": "seconds of a later verdict, median",
}


def _run(command: Any, *argv: str) -> dict[str, Any]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = run_command(command.NAME, command.main, [*argv, "--json"])
    if code not in (0, 1):
        raise SystemExit(f"{command.NAME} ended with {code}")
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def figures(name: str, folder: Path) -> Mapping[str, Any]:
    """All figures of a language; files are written to a folder."""
    shown = read_shown(registry.find(name))
    options = ["--language", name, "--lm", f"scripted/{name}", "--samples", str(SAMPLES), "--temperatures", "0.7"]
    options += ["--guardian", "none"] if name == "step" else []
    program = str(folder / f"{name}.json")
    first = _run(evaluate, "--program", "none", *options)
    run = _run(compiling, "--optimizer", "adaptive", *options, "-o", program)
    last = _run(evaluate, "--program", program, *options[:-2] if name == "step" else options)
    return {
        **verdicts(name, shown), "tasks": len(shown.tasks), "first": first["pass_at_1"],
        "pass_at_1": last["pass_at_1"], "pass_at_n": last["pass_at_n"], "iterations": run["iterations"],
        "solved": len(run["solved"]), "tokens": run["tokens"]["prompt"] + run["tokens"]["completion"],
    }  # fmt: skip


def verdicts(name: str, shown: Shown) -> dict[str, float]:
    """Seconds of a verdict by the clock: the first of a new pool, and the median of oracles that were judged before."""
    times = [time.monotonic()]
    with verification_pool(1, language=chosen(name)) as pool:
        for program in (*shown.oracles, *shown.oracles):
            task = program.task
            asked = Request(task=task.name, statement=task.statement, text=program.text, language=chosen(name))
            pool.submit(judge, asked).result()
            times.append(time.monotonic())
    taken = [end - start for start, end in pairwise(times)]
    return {"cold": taken[0], "warm": statistics.median(taken[len(shown.oracles) :])}


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a table, a column for each language."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("languages", nargs="*", default=["step", "ttlang"])
    names = parser.parse_args(argv).languages
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
        found = {name: figures(name, Path(folder)) for name in names}
    print("", "", *names, "", sep=" | ")
    print("|---" * (len(names) + 1) + "|")
    for key, label in _ROWS.items():
        values = (found[name][key] for name in names)
        print("", label, *(f"{each:,}" if isinstance(each, int) else f"{each:.3f}" for each in values), "", sep=" | ")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
