"""The agent holds these:

- no request shows the task's own solution;
- whatever the LM answers, the agent gives a text, and the verifier the verdict;
- DSPy's own settings stay as they are.

The guardian holds these:

- each mode asks an LM when it says, and at no other time;
- a program that needs no correction stays as it is written, and an answer without a program changes nothing.
"""

import uuid

import dspy
import pytest

from optimizers.metering import estimate_tokens
from pipeline.agent.agent import PROMPTS, Agent
from pipeline.base.choices import GuardianMode
from pipeline.base.errors import UsageError
from signatures import GuardianPrompt, ProposerPrompt, load_prompt
from step_runtime import verify
from tests.support.scripted_answers import BROKEN, ILL_TYPED, REUSING, RIGHT, Engine, asks_guardian, scripted, task


def ask(proposal: str, mode: GuardianMode, guardian: str = RIGHT) -> tuple[dspy.Prediction, Engine]:
    """An agent's answer where the LM proposes and corrects by script."""
    lm, engine = scripted(lambda request: guardian if asks_guardian(request) else proposal)
    with dspy.context(lm=lm):
        return Agent(mode, prompts={"proposer": "Propose.", "guardian": "Guard."})(task=task()), engine


@pytest.mark.parametrize("answer", ["", "I can't do that."])
def test_an_answer_that_is_not_a_program_is_handed_on(answer: str) -> None:
    """It fails at the stage `parse`, with its text kept."""
    prediction, engine = ask(answer, "gated")
    assert prediction.impl == answer
    assert verify(task(), prediction.impl).stage == "parse"
    assert len(engine.requests) == 1


@pytest.mark.parametrize("mode", ["paper", "gated"])
def test_no_request_shows_the_solution(mode: GuardianMode) -> None:
    """Neither to the proposer nor to the guardian."""
    lm, engine = scripted(lambda request: RIGHT if asks_guardian(request) else REUSING)
    with dspy.context(lm=lm):
        Agent(mode)(task=task(impl="return E0  # the oracle's"))
    assert len(engine.texts) == 2
    assert not any("oracle" in text for text in engine.texts)


def test_the_agent_speaks_yaml_whatever_dspy_is_set_to() -> None:
    """And leaves the setting as it was."""
    adapter = dspy.JSONAdapter()
    lm, engine = scripted(RIGHT)
    with dspy.context(lm=lm, adapter=adapter):
        Agent("none")(task=task())
        assert dspy.settings.adapter is adapter
    assert "[[ ## task ## ]]\ninputs:\n" in engine.texts[0]


def test_what_is_not_a_task_is_refused() -> None:
    """A path is the likely mistake."""
    with pytest.raises(TypeError, match=r"expected a Task, such as step_runtime.load_task gives, found 'task.yaml'"):
        Agent("none")(task="task.yaml")


def test_a_broken_base_prompt_is_one_clear_message(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """A command that meets one ends with it, exit code 2."""
    monkeypatch.setattr("pipeline.agent.agent.PROMPTS", tmp_path)
    with pytest.raises(UsageError, match=r"proposer\.yaml: cannot read the prompt"):
        Agent()


def test_the_short_prompt_is_the_same_language_in_at_most_3000_tokens() -> None:
    """As estimated; its examples pass."""
    full, short = (load_prompt(ProposerPrompt, path / "proposer.yaml") for path in (PROMPTS, PROMPTS / "short"))
    guardian = load_prompt(GuardianPrompt, PROMPTS / "short" / "guardian.yaml")
    for of_full, of_short in ((full.primitives, short.primitives), (full.patterns, short.patterns)):
        assert [each.name for each in of_full] == [each.name for each in of_short]
    agent = Agent("paper", prompt="short", refine=1)
    sizes = [estimate_tokens(predictor.signature.instructions) for predictor in agent.predictors()]
    assert len(sizes) == 3 and max(sizes) <= 3000
    examples = [example for _, example in short.located_examples()]
    assert len(examples) == 3 and all(verify(example, example.impl).passed for example in examples)
    for _, example in guardian.located_examples():
        assert verify(example, example.input_impl).stage == "affine" and verify(example, example.output_impl).passed


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
