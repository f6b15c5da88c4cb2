"""What passes the gate is used; a stranger's task, and what is said beside a program, is in the project's words."""

from dataclasses import replace
from pathlib import Path

import dspy

from optimizers import Entry, Experience, HeldOutVerdict, TokenCount
from optimizers.strategies import DemoPool
from pipeline.agent.agent import Agent
from pipeline.base.config import RunConfig
from pipeline.record.request import Request
from pipeline.running.gate import Gate, solved_examples
from pipeline.verification.pool import LocalWorkers
from tests.support.scripted_answers import RIGHT, WRONG, task


def entry(name: str, impl: str) -> Entry:
    return Entry(name, {"task": task(name)}, {"impl": impl, "reasoning": "r"}, 1, 2, 0.7, 0, 0.7, 0, TokenCount())


def test_what_fell_on_what_was_held_out_is_left_out() -> None:
    """It is named, and not judged again."""
    told: list[str] = []
    fallen = replace(entry("b/0", RIGHT), held_out=HeldOutVerdict("failed", "wrong at N=7"))
    request = Request(
        RunConfig(optimizer="adaptive"),
        "x",
        [task("own/0")],
        experience=Experience(("a/0", "b/0"), (entry("a/0", RIGHT), fallen)),
    )
    passed = Gate(LocalWorkers(1), told.append).request(request).experience
    assert passed is not None and [each.task_key for each in passed.entries] == ["a/0"]
    assert told == ["not shown, because the programs fail on held-out data: b/0"]


def test_a_pool_passes_it(tmp_path: Path) -> None:
    """Wrong solutions are named, and are not chosen from."""
    agent, gate = Agent("none", prompts={"proposer": "Propose."}), Gate(LocalWorkers(1), lambda line: None)
    agent.pool = DemoPool((entry("a/0", WRONG), entry("b/0", RIGHT)))
    gate.agent(agent, "p.json")
    assert [each.task_key for each in agent.pool.entries] == ["b/0"]
    assert [refusal.place for refusal in gate.refused] == ["pool, solution 0 (a/0)"]
    assert list(solved_examples(agent)) == ["b/0"]


def test_a_demonstration_without_an_answer_is_shown_as_it_is() -> None:
    """There is nothing in it to judge, such as in a turn of a tool."""
    agent = Agent("none", prompts={"proposer": "Propose."})
    demos = [dspy.Example(task=task(), impl=RIGHT), dspy.Example(task=task(), reasoning="r")]
    agent.proposer.predict.demos = list(demos)
    gate = Gate(LocalWorkers(1), lambda line: None)
    gate.agent(agent, "p.json")
    assert agent.proposer.predict.demos == demos and not gate.refused
