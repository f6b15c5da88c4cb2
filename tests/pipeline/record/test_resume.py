"""Resuming an earlier run holds these.

- A run that was killed by SIGKILL at any moment and then resumed ends as one that was never killed: attempts,
  demonstrations, solutions and figures, all but the times, in the same MLflow run.
- A sample on record with an answer is not requested again, however often the run is killed.
- A run's own options and tasks hold; whatever contradicts them is refused in one line.
- What one of DSPy's optimizers spent counts over all processes; once it is done, its program is kept.
- Resuming takes only a few bytes of memory per recorded attempt.
- A run that starts from an experience samples only the tasks that are not solved in it.
"""

import gzip
import json
import random
import signal
import subprocess
import tracemalloc
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest
from mlflow import MlflowClient

from optimizers import Attempt, Experience, Sampling, TokenCount
from optimizers.sampling import Sampler
from pipeline import compile as command
from pipeline import load_program
from pipeline.base.config import RunConfig
from pipeline.base.errors import run_command
from pipeline.record import resume, store
from pipeline.record.attempts import read_attempts
from pipeline.record.recorder import recorded
from pipeline.record.request import Request
from pipeline.record.resume import PersistentLedger
from pipeline.verification.task_files import load_tasks
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import dump_task
from tests.pipeline.conftest import copied
from tests.support import answering_lm as answering
from tests.support import forked, scripted_runs
from tests.support.answering_lm import Engine, write_tasks
from tests.support.run_digests import digests
from tests.support.scripted_runs import RIGHT

pytestmark = pytest.mark.usefixtures("unrendered")

OPTIONS = ("--optimizer", "adaptive", "--samples", "6", "--temperatures", "1.0,0.4", "--threads", "3", "--seed", "5")


def process(log: Path, calls: int, delay: float, *argv: str) -> subprocess.CompletedProcess[str]:
    """A command that may kill itself, in a process of its own."""
    return forked.run("-m", "tests.support.dying_compile", str(log), str(calls), str(delay), *argv, "--json")


def only_run() -> str:
    client, experiment = store.open_store()
    parents = [run for run in client.search_runs([experiment]) if "mlflow.parentRunId" not in run.data.tags]
    assert len(parents) == 1
    return str(parents[0].info.run_id)


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, Any], str]:
    """The command's exit code, its JSON object, and what it says on stderr."""
    capsys.readouterr()
    code = run_command(command.NAME, command.main, [*argv, "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else {}, err


def test_a_run_that_is_killed_at_random_and_resumed_ends_as_one_that_was_never_killed(
    engine: Engine,
    empty_store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Killed within the first iteration, again while it is resumed, and within a later one."""
    tasks = str(write_tasks(tmp_path / "mine"))
    _, whole, _ = run(capsys, *OPTIONS, "--tasks", tasks)
    expected = digests(whole["run_id"])
    (tmp_path / "other").mkdir()
    other = copied(empty_store, tmp_path / "other")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{other}/mlflow.db")
    rng, log, argv = random.Random(2), tmp_path / "log", [*OPTIONS, "--tasks", tasks]
    answered: set[int] = set()
    for calls in (rng.randrange(4, 30), rng.randrange(3, 12), rng.randrange(20, 30)):
        asked = Counter(log.read_text().split()) if log.exists() else Counter[str]()
        died = process(log, calls, rng.uniform(0, 0.03), *argv)
        assert died.returncode == -signal.SIGKILL, died.stderr
        now = Counter(log.read_text().split()) - asked
        assert not answered & {int(seed) for seed in now}, "a sample on record was requested again"
        run_id = only_run()
        on_record = {attempt.seed for attempt in read_attempts(store.open_store()[0], run_id)}
        assert on_record >= answered
        answered, argv = on_record, ["--resume", run_id[:8]]
    assert answered
    asked = Counter(log.read_text().split())
    done = process(log, 0, 0, *argv)
    assert done.returncode == 0, done.stderr
    assert not answered & {int(seed) for seed in Counter(log.read_text().split()) - asked}
    resumed = json.loads(done.stdout)
    assert resumed["run_id"] == only_run()
    assert digests(only_run()) == expected
    assert {**resumed, "run_id": 0, "program": 0, "seconds": 0} == {**whole, "run_id": 0, "program": 0, "seconds": 0}
    assert MlflowClient(tracking_uri=store.store_uri()).get_run(only_run()).info.status == "FINISHED"


def test_a_run_that_ended_early_is_asked_again_only_for_what_it_lacks(
    engine: Engine, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As its LM gave out, which the message says, or its budget, which is raised; it ends in the same record."""
    tasks = str(folder)
    _, whole, _ = run(capsys, *OPTIONS, "--tasks", tasks)
    calls, engine.calls, engine.fail_from = engine.calls, 0, 41
    code, result, err = run(capsys, *OPTIONS, "--tasks", tasks)
    assert (code, result["stopped"]) == (3, "failed")
    assert f"To resume: python -m pipeline.compile --resume {result['run_id'][:8]}" in err
    engine.calls, engine.fail_from = 0, 1_000_000
    unanswered = [attempt for attempt in read_attempts(store.open_store()[0], result["run_id"]) if not attempt.scored]
    assert unanswered
    code, resumed, err = run(capsys, "--resume", result["run_id"][:8])
    assert f"run {result['run_id']} resumes with 40 recorded answers" in err
    assert (code, resumed["run_id"], resumed["stopped"]) == (0, result["run_id"], "exhausted")
    assert engine.calls == calls - 40
    assert (resumed["pass_at_1"], resumed["tokens"]) == (whole["pass_at_1"], whole["tokens"])
    program = load_program(resumed["program"], lm=dspy.LM("scripted", engine=engine, cache=False))
    assert program(task=load_tasks([f"{tasks}/triple.yaml"])[0]).impl == RIGHT
    engine.calls = 0
    _, first, _ = run(capsys, *OPTIONS, "--tasks", tasks, "--max-iterations", "1")
    assert (first["stopped"], first["iterations"]) == ("budget", 1)
    _, second, _ = run(capsys, "--resume", first["run_id"], "--max-iterations", "100", "--threads", "1")
    assert engine.calls == calls
    assert digests(first["run_id"])["attempts"] == digests(whole["run_id"])["attempts"]
    assert second["iterations"] == whole["iterations"]


def test_what_an_optimizer_spent_before_it_was_killed_adds_up(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed while it tunes, then in the pass that follows: tokens on record are those of every answer that came."""
    log, tasks = tmp_path / "log", str(write_tasks(tmp_path / "mine"))
    options = ("--samples", "6", "--temperatures", "1.0", "--threads", "1")
    argv = ["--optimizer", "random-search", *options, "--tasks", tasks]
    client, _ = store.open_store()
    first = process(log, 26, 0, *argv)
    assert first.returncode == -signal.SIGKILL, first.stderr
    run_id = only_run()
    spent = resume.overhead(store.open_store()[0], run_id)["proposer.predict"].calls
    assert 25 <= spent <= len(log.read_text().split())
    assert resume.tuned(client, run_id) is None
    code, result, err = run(capsys, "--resume", run_id)
    assert code == 0, err
    again = engine.calls
    assert result["tokens"]["prompt"] == (spent + again) * answering.PROMPT_TOKENS
    assert resume.overhead(client, run_id)["proposer.predict"].calls == spent + again - 3 * 6
    assert resume.tuned(client, run_id) is not None
    assert run(capsys, "--resume", run_id)[1]["tokens"] == result["tokens"]
    assert engine.calls == again, "no request is repeated"


def test_an_optimizer_that_was_done_is_not_run_again(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed in the pass over the tasks: the remaining samples are taken with the program that it had made."""
    log, tasks = tmp_path / "log", str(write_tasks(tmp_path / "mine"))
    options = ("--samples", "6", "--temperatures", "1.0", "--threads", "1")
    argv = ["--optimizer", "bootstrap", *options, "--tasks", tasks]
    _, whole, _ = run(capsys, *argv)
    assert process(log, engine.calls - 4, 0, *argv).returncode == -signal.SIGKILL
    client, experiment = store.open_store()
    (run_id,) = (
        run.info.run_id
        for run in client.search_runs([experiment])
        if run.info.status == "FAILED" and "mlflow.parentRunId" not in run.data.tags
    )
    engine.calls = 0
    answered = sum(attempt.scored for attempt in read_attempts(client, run_id))
    _, resumed, _ = run(capsys, "--resume", run_id)
    assert engine.calls == 3 * 6 - answered
    assert (resumed["tokens"], resumed["pass_at_1"]) == (whole["tokens"], whole["pass_at_1"])
    programs = [json.loads(Path(result["program"]).read_text())["predictors"] for result in (whole, resumed)]
    assert programs[0] == programs[1]


def test_memory_does_not_grow_with_what_is_on_record(store_folder: Path) -> None:
    """Reading an earlier run's attempts, and handing them to the sampler."""
    attempt = Attempt(0, 0, "a", 0.7, 0, 1, text="x" * 20_000, score=0.0)

    def peak(samples: int) -> int:
        with recorded("earlier", {}, scripted_runs.tasks()) as recorder:
            (folder := recorder.record.folder / "iterations" / "01_None").mkdir(parents=True)
            lines = (json.dumps(replace(attempt, sample=n, seed=n).to_dict()) + "\n" for n in range(samples))
            with gzip.open(folder / "attempts.jsonl.gz", "wt") as file:
                file.writelines(lines)
        client, _ = store.open_store()
        run_id = recorder.record.run_id
        tracemalloc.start()
        try:
            journal = read_attempts(client, run_id)
            sampler = Sampler(lambda *_: 0.0, Sampling(samples), journal=journal)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            assert len(journal) == len(sampler._places) == samples

    peak(4)
    assert peak(300) - peak(30) < 270 * 20_000 / 20


def test_what_contradicts_the_run_is_refused_in_one_line(
    engine: Engine, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another seed, other tasks, a missing, ambiguous or running run; equal options are accepted."""
    tasks = str(folder / "double.yaml")
    run_id = run(capsys, *OPTIONS, "--samples", "1", "--tasks", tasks)[1]["run_id"]
    with recorded("adaptive other", {}, scripted_runs.tasks()):
        pass
    calls = engine.calls
    cases = [
        (("--resume", run_id, "--seed", "6"), "--seed: the resumed run has 5"),
        (("--resume", run_id, "--optimizer", "none"), "--optimizer: the resumed run has adaptive"),
        (("--resume", run_id, "--tasks", tasks), "--tasks: the resumed run has its own"),
        (("--resume", "nobody"), "--resume: there is no run 'nobody'; the latest runs are "),
        (("--resume", "adaptive"), "'adaptive' matches 2 runs; give the id of one: "),
        ((), "--optimizer: expected an optimizer's name, or a run to resume with --resume"),
    ]
    for argv, reported in cases:
        code, _, err = run(capsys, *argv)
        assert (code, err.count("\n")) == (2, 1), err
        assert reported in err
    with store.locked_run_folder(run_id):
        assert "is still running" in run(capsys, "--resume", run_id)[2]
    assert run(capsys, "--resume", run_id, "--seed", "5")[0] == 0
    assert engine.calls == calls


def test_a_run_from_an_experience_begins_with_a_cycle_and_asks_only_what_is_new(
    engine: Engine, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its file; `double` is known, so `triple` is shown it from the first iteration on."""
    _, first, _ = run(capsys, *OPTIONS, "--tasks", str(folder / "double.yaml"))
    client = MlflowClient(tracking_uri=store.store_uri())
    file = Path(client.get_run(first["run_id"]).info.artifact_uri.removeprefix("file://"), "experience.json")
    engine.calls = 0
    chosen = [str(folder / f"{name}.yaml") for name in ("double", "triple")]
    code, second, _ = run(capsys, *OPTIONS, "--tasks", *chosen, "--experience", str(file))
    assert (code, second["solved"], second["iterations"]) == (0, ["double", "triple"], 1)
    assert engine.calls == 12
    resumed = run(capsys, "--resume", second["run_id"])[1]
    assert (resumed["solved"], engine.calls) == (["double", "triple"], 12)
    program = json.loads(Path(second["program"]).read_text())
    assert [demo["name"] for demo in program["predictors"]["proposer.predict"]["demonstrations"]] == [
        "double",
        "triple",
    ]


def test_an_experience_that_cannot_be_used_is_reported_in_one_line(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No such run, a file of something else, a task that is another one now, nothing learned, no learner."""
    folder = write_tasks(tmp_path / "mine")
    _, first, _ = run(capsys, *OPTIONS, "--tasks", str(folder / "double.yaml"))
    _, none, _ = run(capsys, *OPTIONS, "--tasks", str(folder / "halve.yaml"))
    double = folder / "double.yaml"
    double.write_text(double.read_text().replace("* 2", "* 4"))
    cases = [
        (("--experience", "nobody"), "--experience: there is no run or file 'nobody'"),
        (("--experience", str(double)), "expected the experience of a run in JSON"),
        (("--experience", first["run_id"]), "solved another task named 'double'"),
        (("--experience", none["run_id"]), "solved no task, so there is nothing to learn from"),
        (("--experience", first["run_id"], "--optimizer", "none"), "`none` does not learn from it"),
    ]
    for argv, reported in cases:
        code, _, err = run(capsys, *OPTIONS, "--tasks", str(double), *argv)
        assert (code, err.count("\n")) == (2, 1), err
        assert reported in err


def test_a_request_keeps_every_task_of_the_benchmark_whole() -> None:
    """The tasks read back from a request are those that went in, to the letter that a prompt shows."""
    tasks = load_tasks()
    request = Request(RunConfig(optimizer="none", samples=3), "scripted", tasks, tasks[:1], Experience(("a",)))
    read = Request.from_json(request.to_json())
    assert [(task.name, dump_task(task)) for task in read.tasks] == [(t.name, dump_task(t)) for t in tasks]
    assert read.tasks == [loads_task(dump_task(task), task.name) for task in tasks] == tasks
    assert (read.validation, read.experience, read.config) == (tasks[:1], request.experience, request.config)


def test_a_file_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    """The counts are kept in memory."""
    ledger = PersistentLedger(tmp_path / "no" / "overhead.json", {"solve": TokenCount(calls=2)})
    ledger.add("solve", TokenCount(calls=1))
    assert ledger.counts["solve"].calls == 3
