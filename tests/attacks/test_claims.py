"""What a file or a record from elsewhere says about a program is a claim, and is believed once the cells confirm it.

A wrong program that parses and is well-typed neither counts as solved, nor is shown to an LM, nor is saved; each attack
has the right program beside it as its control.
"""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dspy
import pytest

from optimizers import Entry, Experience, TokenCount
from pipeline import load_program, save_program
from pipeline.agent.agent import Agent
from pipeline.base.config import RunConfig
from pipeline.base.errors import UsageError
from pipeline.record.request import Request, parse_experience
from pipeline.running import job
from pipeline.running.gate import Gate
from pipeline.running.plan import Plan
from pipeline.verification.pool import LocalWorkers
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task
from tests.support.scripted_lm import scripted

TASK = """
inputs:
- {name: E0, dtype: fp32, dims: [M], data_gen: torch.rand}
- {name: E1, dtype: fp32, dims: [M], data_gen: torch.rand}
fns:
- {name: Double, apply: "return [input[0] * 2]", input_dtype: fp32, output_dtype: fp32, func_name: fn}
outputs:
- {name: S0, dtype: fp32, dims: [M], data_transform: ["input_data['E0'] * 2"]}
"""
RIGHT = "return step.Map(fn=fn).apply(E0)"
UNTYPED = {
    "another shape": "return step.Promote(b=1).apply(step.Map(fn=fn).apply(E0))",
    "a stream consumed twice": "a = step.Map(fn=fn).apply(E0)\nb = step.Zip().apply((E0, E1))\nreturn a",
    "a stream too many": "return step.Map(fn=fn).apply(E0), E1",
}
WRONG = {
    "the other input": "return step.Map(fn=fn).apply(E1)",
    "the input itself": "return E0",
    "the function applied twice": "return step.Map(fn=fn).apply(step.Map(fn=fn).apply(E0))",
}


def task(name: str = "t/0", text: str = TASK) -> Task:
    return loads_task(text, name)


def experience(*entries: tuple[Task, str], **fields: Any) -> bytes:
    """The file of an experience that says so."""
    made = [
        Entry(each.name, {"task": each}, {"impl": impl}, 3, 8, 0.7, 0, 0.7, 1, TokenCount(), **fields)
        for each, impl in entries
    ]
    return json.dumps(Experience(tuple(entry.task_key for entry in made), tuple(made)).to_dict()).encode()


def program(path: Path, *demonstrations: tuple[Task, str]) -> Path:
    """The file of a compiled program that shows these."""
    agent = Agent("none", prompts={"proposer": "Propose."})
    agent.proposer.predict.demos = [dspy.Example(augmented=True, task=each, impl=impl) for each, impl in demonstrations]
    save_program(agent, path)
    return path


@pytest.mark.parametrize("attack", UNTYPED)
def test_a_demonstration_that_breaks_a_rule_is_refused_when_it_is_read(attack: str, tmp_path: Path) -> None:
    """Without a run of any task's code, in a library too: shapes, outputs, and the affine rule."""
    assert load_program(program(tmp_path / "p.json", (task(), RIGHT))).proposer.predict.demos
    with pytest.raises(UsageError, match=r"demonstrations\[0\]\.fields\.impl:"):
        load_program(program(tmp_path / "p.json", (task(), UNTYPED[attack])))


@pytest.mark.parametrize("counts", [[(1, 1), (1, 1)], [(2, 1)]], ids=["a task twice", "more successes than samples"])
def test_the_solutions_of_a_pool_are_possible(counts: list[tuple[int, int]], tmp_path: Path) -> None:
    """As those of an experience are; the control is read."""
    content = json.loads(program(tmp_path / "p.json", (task(), RIGHT)).read_text())
    shown = content["predictors"]["proposer.predict"]["demonstrations"][0]

    def load(counts: list[tuple[int, int]]) -> Agent:
        pooled = [{**shown, "successes": right, "samples": samples} for right, samples in counts]
        content["pool"] = {"tokens": None, "solutions": pooled}
        (tmp_path / "q.json").write_text(json.dumps(content))
        return load_program(tmp_path / "q.json")

    assert load([(1, 1)]).pool
    with pytest.raises(UsageError, match="pool"):
        load(counts)


COMPUTED = "global: |\n  a_value = len('xx')\n  helper = make()\n"


@pytest.mark.parametrize("beside", ["", "# helper\n", "# a_value\n"])
def test_a_computed_name_does_not_hide_a_stream_consumed_twice(beside: str, tmp_path: Path) -> None:
    """A task's `global` that must be run to be known leaves the affine rule to be checked."""
    strange = task(text=COMPUTED + TASK)
    assert load_program(program(tmp_path / "p.json", (strange, f"{beside}{RIGHT}"))).proposer.predict.demos
    with pytest.raises(UsageError, match="a stream may be consumed once"):
        load_program(program(tmp_path / "p.json", (strange, beside + UNTYPED["a stream consumed twice"])))


def gate(told: list[str]) -> Gate:
    return Gate(LocalWorkers(1), told.append)


def test_wrong_programs_of_an_experience_are_refused() -> None:
    """Those of one's own tasks and of the stranger's alike; the summary says how many, and why; the right ones stay."""
    claims = [(task(f"t/{number}"), impl) for number, impl in enumerate([RIGHT, *WRONG.values(), *UNTYPED.values()])]
    told: list[str] = []
    mine = gate(told)
    found = mine.experience(parse_experience(experience(*claims), "e.json"), [task("t/1")])
    assert [entry.task_key for entry in found.entries] == ["t/0"]
    assert [refusal.place for refusal in mine.refused] == [f"entries.{n} (t/{n})" for n in range(1, 7)]
    message = told[-1]  # after what is said while it takes long
    assert message.startswith("6 of 7 programs of the experience refused")
    assert "stage value" in message and "stage affine" in message


def test_a_stranger_s_task_under_one_s_own_name_is_judged_by_one_s_own() -> None:
    """Its program is right for another reference; the control's name is another."""
    other = TASK.replace("input_data['E0'] * 2", "input_data['E1'] * 2")
    told: list[str] = []
    for name, kept in (("t/0", 0), ("t/9", 1)):
        claim = experience((task(name, other), WRONG["the other input"]))
        found = gate(told).experience(parse_experience(claim, "e.json"), [task()])
        assert len(found.entries) == kept


def test_calls_and_other_answers_of_an_entry_are_not_shown() -> None:
    """What a demonstration shows is the program that was judged."""
    content = json.loads(experience((task(), RIGHT)))
    content["entries"][0]["calls"] = {"proposer.predict": [{"task": "x", "impl": "return E1"}]}
    content["entries"][0]["outputs"]["output_impl"] = "return E1"
    (entry,) = gate([]).experience(parse_experience(json.dumps(content), "e.json"), []).entries
    assert (entry.calls, entry.outputs) == ({}, {"impl": "return step.Map(fn=fn_1).apply(E0)\n"})


BROKEN: dict[str, Callable[[str], str]] = {
    "fails": lambda text: f"global: raise ValueError()\n{text}",
    "ends its process": lambda text: f"global: import os; os._exit(0)\n{text}",
}


@pytest.mark.parametrize("attack", BROKEN)
def test_a_task_whose_code_fails_confirms_nothing(attack: str) -> None:
    """Its program is refused, and those of other tasks are judged as ever."""
    claims = [(task("t/0", BROKEN[attack](TASK)), RIGHT), (task("t/1"), RIGHT)]
    mine = gate([])
    found = mine.experience(parse_experience(experience(*claims), "e.json"), [])
    assert [entry.task_key for entry in found.entries] == ["t/1"]
    assert [refusal.place for refusal in mine.refused] == ["entries.0 (t/0)"]


def test_a_refuted_demonstration_is_not_shown(tmp_path: Path) -> None:
    """A compiled program keeps those that pass their own task."""
    path = program(tmp_path / "p.json", (task("t/0"), RIGHT), *((task("t/1"), impl) for impl in WRONG.values()))
    agent, mine = load_program(path), gate([])
    mine.agent(agent, "p.json")
    assert [(demo["task"].name, demo["impl"]) for demo in agent.proposer.predict.demos] == [("t/0", RIGHT)]
    assert len(mine.refused) == len(WRONG)


def test_what_an_optimizer_had_tuned_is_shown_without_what_is_refuted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program of an interrupted run, from its record."""
    agent, told = load_program(program(tmp_path / "p.json", (task("t/0"), RIGHT), (task("t/1"), "return E0"))), [""]
    monkeypatch.setattr(job, "recorded", lambda *_: contextlib.nullcontext(SimpleNamespace(tuned=agent)))
    request = Request(RunConfig(optimizer="bootstrap"), "x", [task()])
    plan = Plan(request.config, scripted(RIGHT)[0], Agent("none"))
    with job.start_job(request, plan, "x", {}, workers=LocalWorkers(1), tell=told.append) as started:
        assert [demo["task"].name for demo in agent.proposer.predict.demos] == ["t/0"]
        assert [refusal.place for refusal in started.refused] == ["proposer.predict, demonstration 1 (t/1)"]
    assert "of tuned.json refused" in told[-1]
