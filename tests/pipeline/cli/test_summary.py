"""A run's result, for machines and for people.

Verdicts as JUnit XML: a case per program, counted, whatever characters a program has.

Tables of costs; `tests/pipeline/test_cost.py` holds the command's.
"""

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from optimizers import Experience, HeldOutVerdict, TokenCount
from pipeline.actions.compile_agent import counts_as_text, figures, print_figures
from pipeline.base.config import RunConfig
from pipeline.cli.cost_tables import cost_table
from pipeline.cli.junit import junit_text
from pipeline.record.request import Request
from pipeline.running.job import JobResult
from step_runtime.base.errors import Diagnostic, Span
from step_runtime.verification.task_costs import TaskCosts
from step_runtime.verification.verdict import Verdict
from tests.support.oracles import oracle, task
from tests.support.scripted_runs import learn


@pytest.fixture(scope="module")
def experience() -> Experience:
    return learn([])


def result(experience: Experience) -> JobResult:
    request = Request(RunConfig(optimizer="adaptive"), "x", [])
    return JobResult(request, experience=experience, program=Path("/programs/p.json"), run_id="r1", run_name="a run")


def test_the_object_has_the_figures_of_the_run(experience: Experience) -> None:
    """It is JSON as it stands."""
    reported = json.loads(json.dumps(figures(result(experience))))
    tokens = TokenCount.sum(experience.tokens.values())
    assert (reported["run_id"], reported["program"], reported["stopped"]) == ("r1", "/programs/p.json", "exhausted")
    assert (reported["solved"], reported["unsolved"], reported["iterations"]) == (["easy/0", "hard/0"], ["no/0"], 4)
    assert reported["tokens"] == {"prompt": tokens.prompt, "completion": tokens.completion, "cached": 0}
    assert reported["pass_at_n"] == pytest.approx(2 / 3)


def test_the_summary_has_a_row_for_each_task_and_says_where_all_is(
    experience: Experience, capsys: pytest.CaptureFixture[str]
) -> None:
    """Iterations count from 1; an unsolved task says so."""
    some = tuple(replace(each, unknown=2) for each in experience.iterations[:2])
    print_figures(result(replace(experience, iterations=(*some, *experience.iterations[2:]))))
    out = capsys.readouterr().out
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in out.splitlines() if "/0 " in line}
    assert rows == {"easy/0": "2 of 2 1.0 1", "hard/0": "2 of 2 1.0 2", "no/0": "none unsolved"}
    assert re.search(r"solved 2 of 3 tasks in \d+ s: 1 task remains unsolved", out)
    assert "program  /programs/p.json" in out and "run 'a run'" in out
    assert "unknown  4 answers without a verdict, not counted" in out
    curve = [line.split()[2] for line in out.splitlines() if "█" in line]
    assert curve == [f"{iteration.solved_total}" for iteration in experience.iterations]
    assert "--optimizer none --match-tokens r1" in out, "the control, as demonstrations were shown"


def test_solutions_that_fall_are_named(experience: Experience, capsys: pytest.CaptureFixture[str]) -> None:
    """With the reason; refused answers are counted where they were judged, and nothing is said where none was."""
    print_figures(result(experience))
    assert "held out" not in capsys.readouterr().out
    proved = HeldOutVerdict("passed", details={"exact": {"answer": "proved"}})
    verdicts = (proved, HeldOutVerdict("failed", "value: wrong at M=7"))
    entries = tuple(replace(e, held_out=each) for e, each in zip(experience.entries, verdicts, strict=True))
    judged = replace(experience, entries=entries)
    print_figures(result(judged))
    out = capsys.readouterr().out
    assert "held-out check: 1 of 2 solutions pass (1 proved); 1 fail\n" in out
    assert "hard/0 fails, and is not a demonstration: value: wrong at M=7" in out
    print_figures(result(replace(judged, refused={"no/0": HeldOutVerdict("failed")})))
    assert "1 rejected answer rechecked, none passes" in capsys.readouterr().out
    found = figures(result(judged))["held_out"]
    assert (found["proved"], found["fallen"]) == (["easy/0"], {"hard/0": "value: wrong at M=7"})
    assert found["quadrants"]["gate_only"] is None


def test_a_task_that_an_earlier_run_solved_says_so(experience: Experience, capsys: pytest.CaptureFixture[str]) -> None:
    """It has the earlier run's figures, and no iteration of this one."""
    later = replace(experience, iterations=experience.iterations[1:])
    assert later.solved_earlier == ("easy/0",) and experience.solved_earlier == ()
    assert figures(result(later))["solved_earlier"] == ["easy/0"]
    print_figures(result(later))
    assert "an earlier run" in next(line for line in capsys.readouterr().out.splitlines() if "easy/0" in line)


def test_tokens_that_the_lm_did_not_report_are_labelled() -> None:
    assert counts_as_text(TokenCount(prompt=2000, completion=5)) == "2,000 in, 5 out, 0.00 USD"
    assert "(1,500 estimated" in counts_as_text(TokenCount(prompt=2000, estimated=1500, unpriced=1))
    assert counts_as_text(TokenCount(calls=5, failed=1, cache_hits=3)).endswith("; 3 of 4 answers from the cache")


FINDING = Diagnostic("type", "zip-shape", "<&\ufffe\x00>", Span(1, 1, 1, 2))
WARNING = Diagnostic("task", "equal-dims", "both 4", None, ("M and N",))


def checked(text: str = "", **fields: object) -> Verdict:
    values = {"task": "t", "task_file": "t.yaml", "program": "p.step", "passed": True, "stage": None, "seconds": 0.25}
    return Verdict.model_validate({**values, "feedback": text, **fields})


def test_each_program_is_a_case_and_all_are_counted() -> None:
    """Failures have the verdict as text, unusable files are errors, warnings are output with their details."""
    results = [
        checked(warnings=(WARNING,)),
        checked("p.step:1:1: zip-shape", passed=False, stage="type", diagnostics=(FINDING,)),
        checked("t.yaml:3: odd", passed=False, error="t.yaml:3: odd"),
    ]
    root = ElementTree.fromstring(junit_text(results))
    assert root.attrib == {"tests": "3", "failures": "1", "errors": "1", "time": "0.750"}
    good, failed, unusable = root.iter("testcase")
    assert [child.tag for child in good] == ["system-out"] and good.findtext(
        "system-out"
    ) == "t.yaml: warning: equal-dims: both 4\n  M and N"
    failure = failed.find("failure")
    assert failure is not None and failure.attrib["type"] == "type" and failure.text == "p.step:1:1: zip-shape"
    assert failure.attrib["message"] == "zip-shape: <&\ufffd\\x00>"
    assert unusable.findtext("error") == "t.yaml:3: odd"


def test_a_program_of_which_nothing_is_known_is_skipped() -> None:
    """With the reason, and no failure."""
    finding = Diagnostic("run", "time-limit", "took 10 s")
    slow = checked("p.step: took 10 s", passed=False, unknown=True, stage="run", diagnostics=(finding,))
    root = ElementTree.fromstring(junit_text([slow]))
    assert (root.get("failures"), root.get("skipped")) == ("0", "1")
    (skipped,) = root.iter("skipped")
    assert skipped.attrib == {"message": "time-limit: took 10 s"} and skipped.text == "p.step: took 10 s"


def test_data_dependent_dims_are_stated() -> None:
    priced = TaskCosts(task("etoe/2")).price(oracle("etoe/2"))
    assert "dims that depend on the data count as their upper bounds" in cost_table(priced, "moe", "example")
