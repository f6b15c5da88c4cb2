"""Two languages, one optimizer: a scripted LM learns STeP and TT-Lang, and the figures stand side by side.

The LM knows an oracle and a wrong program of each task. In the order of their names, tasks need 0 to 3 demonstrations
in the request to be answered rightly, and then every other answer is right. It follows this rule in every language, so
that the figures measure the algorithm and the verifiers, and no model. A token is counted as four characters.

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

import dspy
from dspy import lm15

import pipeline.lms.factory
from pipeline import compile as compiling
from pipeline import evaluate
from pipeline.actions.shown_programs import Shown, read_shown
from pipeline.base.errors import run_command
from pipeline.base.languages import chosen
from pipeline.languages import registry
from pipeline.verification.judge import Request, judge
from pipeline.verification.limits import verification_pool
from signatures import render_task
from step_runtime.tasks.task import Task

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


class Scripted:
    """Answers from a fixed table; see the module."""

    def __init__(self, shown: Shown) -> None:
        tasks, programs = list(shown.tasks.values()), {each.task.name: each.text for each in shown.oracles}
        wrong = {each.task.name: each.text for each in shown.near_misses}
        self._table = [
            (_lines(task), programs[task.name], wrong.get(task.name, "wrong"), place * 4 // len(tasks))
            for place, task in enumerate(tasks)
        ]

    def complete(self, request: lm15.Request) -> lm15.Response:
        """A right answer where enough is shown and the request's seed is even."""
        *shown, asked = [message.text or "" for message in request.messages]
        lines = {*map(str.strip, asked.splitlines())}
        _, right, wrong, needed = max((row for row in self._table if row[0] <= lines), key=lambda row: len(row[0]))
        knows = len(shown) // 2 >= needed and (request.config.seed or 0) % 2 == 0
        answer = f"[[ ## impl ## ]]\n```\n{right if knows else wrong}\n```\n"
        prompt = len(str(request.system)) + sum(map(len, [*shown, asked]))
        usage = lm15.Usage(input_tokens=prompt // 4, output_tokens=len(answer) // 4)
        message = lm15.Message.assistant(answer)
        return lm15.Response(id="1", model=request.model, message=message, finish_reason="stop", usage=usage)


def _lines(task: Any) -> frozenset[str]:
    """The lines of a task as a request shows it."""
    text = render_task(task) if isinstance(task, Task) else task.statement
    return frozenset(map(str.strip, text.strip().splitlines()))


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
    lm = dspy.LM("scripted", engine=Scripted(shown), cache=False, num_retries=0)
    pipeline.lms.factory.make_lm = lambda *_, **__: lm
    options = ["--language", name, "--lm", "scripted/x", "--samples", str(SAMPLES), "--temperatures", "0.7"]
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
