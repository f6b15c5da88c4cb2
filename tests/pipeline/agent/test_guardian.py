"""The guardian holds these:

- each mode asks an LM when it says, and at no other time;
- a program that needs no correction stays as it is written, and an answer without a program changes nothing.
"""

import uuid

import dspy
import pytest

from pipeline.agent.agent import Agent, Guardian
from pipeline.base.choices import GuardianMode
from step_runtime import verify
from tests.support.scripted_answers import BROKEN, ILL_TYPED, REUSING, RIGHT, Engine, asks_guardian, scripted, task


def ask(proposal: str, mode: GuardianMode, guardian: str = RIGHT) -> tuple[dspy.Prediction, Engine]:
    """An agent's answer where the LM proposes and corrects by script."""
    lm, engine = scripted(lambda request: guardian if asks_guardian(request) else proposal)
    with dspy.context(lm=lm):
        return Agent(mode, prompts={"proposer": "Propose.", "guardian": "Guard."})(task=task()), engine


@pytest.mark.parametrize(
    ("mode", "proposal", "impl", "requests"),
    [
        ("none", REUSING, REUSING, 1),
        ("none", RIGHT, RIGHT, 1),
        ("paper", REUSING, RIGHT, 2),
        ("paper", RIGHT, RIGHT, 2),
        ("paper", BROKEN, RIGHT, 2),
        ("gated", REUSING, RIGHT, 2),
        ("gated", RIGHT, RIGHT, 1),
        ("gated", BROKEN, BROKEN, 1),
        ("gated", ILL_TYPED, ILL_TYPED, 1),
        ("compiler", RIGHT, RIGHT, 1),
        ("compiler", BROKEN, BROKEN, 1),
    ],
)
def test_each_mode_asks_when_it_says(mode: GuardianMode, proposal: str, impl: str, requests: int) -> None:
    """`none` and `compiler` never ask a guardian, `gated` only about a violation, `paper` always."""
    prediction, engine = ask(proposal, mode)
    assert (prediction.impl, prediction.proposal, len(engine.requests)) == (impl, proposal, requests)


def test_the_compiler_inserts_what_is_missing() -> None:
    """Without a request, and so that the program passes."""
    prediction, engine = ask(REUSING, "compiler")
    assert "step.Copy()" in prediction.impl
    assert verify(task(), prediction.impl).passed
    assert len(engine.requests) == 1


def test_a_clean_proposal_stays_as_it_is_written() -> None:
    """Comments and layout are kept where nothing is to be fixed."""
    commented = RIGHT.replace("\n", "  # a comment\n\n", 1)
    assert ask(commented, "gated")[0].impl == commented
    assert ask(commented, "compiler")[0].impl == commented


@pytest.mark.parametrize("answer", ["No change is needed.", "", "[[ ## output_impl ## ]]\n"])
def test_a_guardian_that_writes_no_program_changes_nothing(answer: str) -> None:
    """The proposal stands, and is judged as it is."""
    assert ask(REUSING, "gated", guardian=answer)[0].impl == REUSING


def test_the_guardian_sees_task_and_proposal() -> None:
    """Its request is the task, then the program."""
    _, engine = ask(REUSING, "gated")
    asked = engine.requests[-1].messages[-1].text or ""
    assert asked.startswith("[[ ## task ## ]]\ninputs:\n")
    assert f"[[ ## input_impl ## ]]\n{REUSING}\n" in asked
    assert "`[[ ## output_impl ## ]]`" in asked


def test_an_unknown_mode_is_refused() -> None:
    """With the modes that there are."""
    with pytest.raises(ValueError, match="gated, paper, compiler, none, found 'strict'"):
        Guardian("strict", "")  # type: ignore[arg-type]


@pytest.mark.parametrize(("temperature", "asked"), [(0.0, 1), (0.7, 2)])
def test_samples_share_a_guardian_s_answer_at_temperature_0_alone(temperature: float, asked: int) -> None:
    """There equal proposals make equal requests, which the response cache answers; elsewhere answers are draws."""
    engine = Engine(lambda request: RIGHT if asks_guardian(request) else REUSING)
    agent = Agent("gated", prompts={"proposer": "Propose.", "guardian": "Guard."})
    model = f"scripted-{uuid.uuid4()}"
    for seed in (1, 2):
        own = {"rollout_id": seed} if temperature else {}
        lm = dspy.LM(model, engine=engine, cache=True, temperature=temperature, seed=seed, **own)
        with dspy.context(lm=lm):
            assert agent(task=task()).impl == RIGHT
    assert sum(map(asks_guardian, engine.requests)) == asked
    assert len(engine.requests) == 2 + asked


def test_a_compiler_s_answer_keeps_no_reuse_without_the_ir_either() -> None:
    """Every mode works on bare prompts."""
    for mode in ("gated", "paper", "compiler"):
        lm, engine = scripted(lambda request: RIGHT if asks_guardian(request) else REUSING)
        with dspy.context(lm=lm):
            impl = Agent(mode, ir=False)(task=task()).impl  # type: ignore[arg-type]
        assert verify(task(), impl).passed
        assert all("def make_case(" in (request.messages[-1].text or "") for request in engine.requests)
