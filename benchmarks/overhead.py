"""What a sample costs apart from the LM and the verifier, by part: processor time, with an LM that answers immediately.

The agent has demonstrations, its attempts are recorded and shown, and every program passes without being run.

How to run: python -m benchmarks.overhead
"""

from __future__ import annotations

import argparse
import gc
import io
import os
import resource
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import dspy
from dspy import lm15
from rich.console import Console

from benchmarks.parts import Parts, Place
from optimizers import Experience, sampling
from optimizers.baselines import SinglePass
from optimizers.ledger import Ledger
from optimizers.usage import RequestMeter
from pipeline.agent.agent import Agent
from pipeline.agent.domain import step_domain
from pipeline.cli.progress import ProgressDisplay
from pipeline.record.recorder import Recorder, recorded
from pipeline.step.language import Step
from pipeline.verification.metric import Metric
from signatures import YAMLAdapter
from step_runtime.language import equivalence
from step_runtime.tasks.task import Task
from step_runtime.verification.verify import Verdict
from tests.support.mutants import changed
from tests.support.oracles import solved

DEMONSTRATIONS = 8
LIMIT_MS = 3.0
GROUPED = 64

PLACES: Mapping[str, Sequence[Place]] = {
    "the scripted LM": [],
    "adapter: request": [(YAMLAdapter, "format")],
    "adapter: answer, extraction": [(YAMLAdapter, "parse")],
    "the guardian's gate": [(Step, "repaired")],
    "metric": [(Metric, "__call__")],
    "accounting": [(sampling, "metered"), (Ledger, "add"), (RequestMeter, "count"), (RequestMeter, "add_usage")],
    "recording": [(Recorder, "sample_done"), (Recorder, "iteration_started"), (Recorder, "iteration_finished")],
    "progress": [(ProgressDisplay, "sample_done")],
    "DSPy: modules and the LM's client": [(sampling.Sampler, "_ask")],
}


class Instant:
    """An engine whose answer to a task is its oracle."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        self._answers = answers

    def complete(self, request: lm15.Request) -> lm15.Response:
        """The oracle of the task at the request's end, identified by a line that no other task has."""
        text = request.messages[-1].text or ""
        answer = next(answer for mark, answer in self._answers.items() if mark in text)
        message = lm15.Message.assistant(f"[[ ## impl ## ]]\n{answer}\n\n[[ ## completed ## ]]")
        usage = lm15.Usage(input_tokens=len(text) // 3, output_tokens=len(answer) // 3)
        return lm15.Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)

    def __deepcopy__(self, memo: dict[int, Any]) -> Instant:
        return self


class Passing(Executor):
    """Replaces the verifier: everything passes."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A verdict at once."""
        future: Future[Any] = Future()
        future.set_result(Verdict(True))
        return future


def sample(pairs: Sequence[tuple[Task, str]], samples: int) -> Experience:
    """Makes, judges, records and displays `samples` samples of each task; returns the experience."""
    tasks = [task.without_impl() for task, _ in pairs]
    answers = {f"data_transform:\n{_reference(task)}": text for task, text in pairs}
    agent = Agent()
    agent.proposer.predict.demos = [
        dspy.Example(task=task, impl=text) for task, (_, text) in list(zip(tasks, pairs, strict=True))[:DEMONSTRATIONS]
    ]
    lm = dspy.LM("instant", engine=Instant(answers), cache=False)
    console = Console(file=io.StringIO())
    with recorded("overhead", {}, tasks) as recorder, ProgressDisplay(console, samples) as display, dspy.context(lm=lm):
        optimizer = SinglePass(
            Metric(Passing()), samples, temperatures=(1.0,), threads=1, domain=step_domain(),
            observers=[display, recorder],
        )  # fmt: skip
        trainset = [dspy.Example(task=task).with_inputs("task") for task in tasks]
        experience: Experience = optimizer.compile(agent, trainset=trainset).experience
    if experience.unsolved or len(experience.attempts) != samples * len(tasks):
        raise RuntimeError("the scripted LM cannot be parsed")
    return experience


def _reference(task: Task) -> str:
    """The first lines of the reference, as in the task's YAML."""
    from signatures import render_task

    return render_task(task).rpartition("data_transform:\n")[2]


def processor_time(pairs: Sequence[tuple[Task, str]], samples: int) -> float:
    """Processor seconds of `sample` on all threads."""
    start = time.process_time()
    sample(pairs, samples)
    return time.process_time() - start


def grouping(pairs: Sequence[tuple[Task, str]]) -> tuple[int, float]:
    """Lines of the longest oracle, and seconds to group as many edits of it, all different, as a task has samples."""
    task, oracle = max(pairs, key=lambda pair: pair[1].count("\n"))
    texts = list({equivalence.canonical_key(mutant.text): mutant.text for mutant in changed(task, oracle)}.values())[
        :GROUPED
    ]
    times = []
    for _ in range(20):
        equivalence._tree_key.cache_clear()
        equivalence._of_line.cache_clear()
        start = time.thread_time()
        groups = {equivalence.canonical_key(text) for text in texts}
        times.append(time.thread_time() - start)
        if len(groups) < GROUPED:
            raise RuntimeError("different programs are in one group")
    return oracle.count("\n"), min(times)


def resident() -> int:
    """The resident memory of this process, in bytes."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


def main(arguments: list[str] | None = None) -> int:
    """Prints milliseconds a sample by part, and bytes a sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=64, help="of each task (default: %(default)s)")
    options = parser.parse_args(arguments)
    pairs = list(solved())
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
        sample(pairs, 1)  # warms up
        once = processor_time(pairs, 1)
        before = resident()
        parts = Parts(time.thread_time)
        places = {**PLACES, "the scripted LM": [(Instant, "complete")]}
        with parts.watching(places):
            total = processor_time(pairs, options.samples) - once
        count = options.samples * len(pairs)
        grown = resident() - before
        record = sample(pairs, 3 * options.samples)
        grown_more = resident() - before - grown
        attempts = len(record.attempts)
    lines, seconds = grouping(pairs)
    print(f"grouping {GROUPED} programs of {lines} lines, all of which differ: {seconds * 1e3:.1f} ms")
    print(f"a run's own, once: {once:.2f} s")
    print_table(parts, places, total, count)
    print(
        f"memory grown after {count} samples: {grown / 2**20:.1f} MiB;"
        f" with a record of {attempts} more attempts: {grown_more / 2**20:.1f}"
    )
    return 0


def print_table(parts: Parts, places: Mapping[str, object], total: float, count: int) -> None:
    """Prints milliseconds a sample, one line per part."""
    scripted = parts.seconds["the scripted LM"]
    for part in places:
        print(f"{part:36} {parts.seconds[part] / count * 1e3:7.3f} ms")
    rest = total - sum(parts.seconds.values())
    print(f"{'remainder: threads, the run itself':36} {rest / count * 1e3:7.3f} ms")
    print(f"{'all but the LM, of at most ' + f'{LIMIT_MS:g}':36} {(total - scripted) / count * 1e3:7.3f} ms")


if __name__ == "__main__":
    sys.exit(main())
