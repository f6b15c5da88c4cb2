"""The kinds of proposer hold these:

- `cot` asks for reasoning first, keeps it, and shows it in demonstrations;
- `react` has tools that tell types and shapes of a program for the task, and run programs on solved examples;
- no tool runs anything on the task's own reference, even where the task itself is among the examples;
- whatever the LM does with its turns, there is an answer;
- saved programs propose as before.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dspy
import pytest

from pipeline import load_program
from pipeline.agent.agent import Agent, demonstrated_predictors
from pipeline.agent.compiled import save_program
from pipeline.agent.proposer import (
    ToolContext,
    check,
    list_examples,
    show_example,
    tool_context,
    verify_on_example,
)
from pipeline.agent.refiner import ProgramVerifier
from pipeline.base.choices import ProposerKind
from pipeline.verification.metric import Reward
from step_runtime.tasks.task import SolvedTask, Task
from tests.support.scripted_answers import ILL_TYPED, REUSING, RIGHT, WRONG, Engine, scripted, task


def turn(tool: str, **arguments: str) -> str:
    """One turn of an LM that calls tools."""
    return (
        f"[[ ## next_thought ## ]]\nLet me see.\n\n[[ ## next_tool_name ## ]]\n{tool}\n\n"
        f"[[ ## next_tool_args ## ]]\n{json.dumps(arguments)}\n\n[[ ## completed ## ]]"
    )


ANSWER = f"[[ ## reasoning ## ]]\nIt is checked.\n\n[[ ## impl ## ]]\n{RIGHT}\n\n[[ ## completed ## ]]"


def react(
    *turns: str, demos: list[dspy.Example] | None = None, tasks: Sequence[Task] = ()
) -> tuple[dspy.Prediction, Engine]:
    """An agent's answer where the LM takes these turns."""
    left = list(turns)
    lm, engine = scripted(lambda request: left.pop(0) if left else ANSWER)
    agent = Agent("none", proposer="react", prompts={"proposer": "Propose."})
    agent.proposer.predict.extract.predict.demos = demos or []
    agent.verifier.tasks = [task("square/0"), *tasks]
    with dspy.context(lm=lm):
        return agent(task=task()), engine


def test_cot_keeps_its_reasoning() -> None:
    """It is asked for first, and part of the answer."""
    lm, engine = scripted(f"[[ ## reasoning ## ]]\nA product of two copies.\n\n[[ ## impl ## ]]\n{RIGHT}")
    with dspy.context(lm=lm):
        prediction = Agent("none", proposer="cot", prompts={"proposer": "Propose."})(task=task())
    assert (prediction.reasoning, prediction.impl) == ("A product of two copies.", RIGHT)
    asked = engine.texts[0]
    assert asked.index("[[ ## reasoning ## ]]") < asked.index("[[ ## impl ## ]]")


def test_react_calls_tools_and_answers() -> None:
    """Each turn shows what the tools said before; the turns are kept."""
    prediction, engine = react(turn("check", program=REUSING), turn("list_examples"), turn("finish"))
    assert (prediction.impl, prediction.reasoning) == (RIGHT, "It is checked.")
    assert len(engine.requests) == 4
    assert "affine" in engine.texts[1]
    assert "There is none." in engine.texts[2]
    assert prediction.turns["tool_name_0"] == "check"


@pytest.mark.parametrize("text", [RIGHT, f"I need no tools:\n```python\n{RIGHT}\n```"])
def test_a_program_instead_of_a_turn_is_an_answer(text: str) -> None:
    """Tools are an offer."""
    assert react(text)[0].impl == RIGHT


def test_a_tool_that_is_none_ends_no_attempt() -> None:
    """The LM is told, or answers; nothing raises."""
    assert react(turn("check", text=RIGHT), turn("finish"))[0].impl == RIGHT


def test_examples_are_demonstrations_without_the_task_itself() -> None:
    """The task may be among the demonstrations of a compiled program; its reference stays out of reach."""
    other = task("other/0").model_copy(update={"sizes": {"M": [3, 4]}}).named("other/0")
    demos = [dspy.Example(augmented=True, task=shown, impl=RIGHT) for shown in (task("square/0"), other)]
    _, engine = react(
        turn("list_examples"),
        turn("verify_on_example", name="demonstration 2", program=WRONG),
        turn("finish"),
        demos=demos,
        tasks=[other],
    )
    observed = engine.texts[1].partition("observation_0")[2]
    assert "demonstration 2" in observed and "demonstration 1" not in observed
    assert "output S0 differs from the reference" in engine.texts[2]


def test_the_base_prompt_s_examples_can_be_run() -> None:
    """They are read out of the instructions, so a saved program has them too."""
    names = dict(Agent("none", proposer="react").proposer._examples(task()))
    assert {"Map 1", "Accum 1", "Partition with Merge 1"} <= names.keys()
    assert all(example.program for example in names.values())


@pytest.mark.parametrize("kind", ["predict", "cot", "react"])
@pytest.mark.parametrize("ir", [True, False])
def test_a_saved_program_asks_what_it_asked(tmp_path: Path, kind: ProposerKind, ir: bool) -> None:
    """Request for request; a demonstration keeps its reasoning."""
    agent = Agent("none", proposer=kind, ir=ir, prompts={"proposer": "Propose."})
    demo = {"task": task("square/1"), "impl": RIGHT} | ({"reasoning": "Well."} if kind != "predict" else {})
    dict(agent.named_predictors())[demonstrated_predictors(agent)[0]].demos = [dspy.Example(augmented=True, **demo)]
    save_program(agent, tmp_path / "p.json")
    asked = []
    for program in (agent, load_program(tmp_path / "p.json"), agent.deepcopy()):
        left = [turn("finish")] if kind == "react" else []
        lm, engine = scripted(lambda request, left=left: left.pop(0) if left else ANSWER)  # type: ignore[misc]
        with dspy.context(lm=lm):
            assert program(task=task()).impl == RIGHT
        asked.append(engine.texts)
    assert asked[0] == asked[1] == asked[2]
    assert ("def make_case(" in asked[0][0]) is not ir


class Refusing:
    """A metric that must not be asked about one task."""

    def __init__(self, forbidden: Task) -> None:
        self.forbidden = forbidden
        self.asked: list[str] = []

    def __call__(self, example: Any, prediction: Any) -> Any:
        assert example.task.without_impl() != self.forbidden
        self.asked.append(example.task.name)
        return Reward(score=0.0, stage="value", feedback="output S0 differs; first at [0]: 1, expected 2")


def test_the_tools_tell_types_and_run_examples_alone() -> None:
    """What a program computes is reported for examples; for the task only what its text shows."""
    metric = Refusing(task())
    example = task("other/0").model_copy(update={"sizes": {"M": [3, 4]}})
    solved = SolvedTask(example, RIGHT)
    with tool_context(ToolContext(task(), {"other/0": solved}, ProgramVerifier(metric), frozenset({"other/0"}))):
        assert "E1  fp32 [M, N]" in check(RIGHT)
        assert "No rule is broken" in check(WRONG)
        assert "fn_mul takes [fp32, fp32]" in check(ILL_TYPED)
        assert list_examples() == "other/0"
        assert RIGHT in show_example("other/0")
        assert "there are: other/0" in show_example("square/0")
        assert verify_on_example("other/0", WRONG) == "output S0 differs; first at [0]"
        assert "no example 'square/0'" in verify_on_example("square/0", RIGHT)
    assert metric.asked == ["other/0"]
