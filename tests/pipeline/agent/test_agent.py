"""The agent holds these:

- no request shows the task's own solution;
- whatever the LM answers, the agent gives a text, and the verifier the verdict;
- DSPy's own settings stay as they are.
"""

import dspy
import pytest
from dspy import lm15

from pipeline.agent.agent import PROMPTS, Agent
from pipeline.base.choices import GuardianMode
from pipeline.base.errors import UsageError
from pipeline.lms.model_data import count_tokens
from signatures import GuardianPrompt, ProposerPrompt, load_prompt
from step_runtime import verify
from tests.support.scripted_answers import REUSING, RIGHT, Engine, asks_guardian, scripted, task


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


def test_the_base_prompts_come_from_the_data_folder() -> None:
    """Both are composed into instructions, which begin every request."""
    lm, engine = scripted(lambda request: RIGHT if asks_guardian(request) else REUSING)
    with dspy.context(lm=lm):
        Agent()(task=task())
    for request, key in zip(engine.requests, ("primitives:", "examples:"), strict=True):
        assert str(request.system).startswith("desc: |\n")
        assert f"\n{key}\n" in str(request.system)


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        ("gated", ["proposer.predict", "guardian.predict"]),
        ("paper", ["proposer.predict", "guardian.predict"]),
        ("compiler", ["proposer.predict"]),
        ("none", ["proposer.predict"]),
    ],
)
def test_the_predictors_have_stable_names(mode: GuardianMode, names: list[str]) -> None:
    """Tokens are counted, and demonstrations given, by these names."""
    assert [name for name, _ in Agent(mode).named_predictors()] == names


def test_the_agent_speaks_yaml_whatever_dspy_is_set_to() -> None:
    """And leaves the setting as it was."""
    adapter = dspy.JSONAdapter()
    lm, engine = scripted(RIGHT)
    with dspy.context(lm=lm, adapter=adapter):
        Agent("none")(task=task())
        assert dspy.settings.adapter is adapter
    assert "[[ ## task ## ]]\ninputs:\n" in engine.texts[0]


def test_an_lm_that_fails_is_an_exception() -> None:
    """It is no wrong answer."""

    def fail(request: lm15.Request) -> str:
        raise lm15.AuthError("no")

    lm, _ = scripted(fail)
    with dspy.context(lm=lm), pytest.raises(dspy.utils.exceptions.LMAuthError):
        Agent("none")(task=task())


def test_what_is_not_a_task_is_refused() -> None:
    """A path is the likely mistake."""
    with pytest.raises(TypeError, match=r"expected a Task, such as step_runtime.load_task gives, found 'task.yaml'"):
        Agent("none")(task="task.yaml")


def test_a_broken_base_prompt_is_one_clear_message(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """A command that meets one ends with it, exit code 2."""
    monkeypatch.setattr("pipeline.agent.agent.PROMPTS", tmp_path)
    with pytest.raises(UsageError, match=r"proposer\.yaml: cannot read the prompt"):
        Agent()


def test_a_copy_asks_the_same() -> None:
    """Optimizers work on deep copies."""
    lm, engine = scripted(RIGHT)
    with dspy.context(lm=lm):
        agent = Agent()
        for copy in (agent, agent.deepcopy(), agent.reset_copy()):
            copy(task=task())
    assert len(set(engine.texts)) == 1


def test_the_short_prompt_is_the_same_language_in_at_most_3000_tokens() -> None:
    """A fifth less by `cl100k_base`, as other tokenizers count up to that much more; its examples pass."""
    full, short = (load_prompt(ProposerPrompt, path / "proposer.yaml") for path in (PROMPTS, PROMPTS / "short"))
    guardian = load_prompt(GuardianPrompt, PROMPTS / "short" / "guardian.yaml")
    for of_full, of_short in ((full.primitives, short.primitives), (full.patterns, short.patterns)):
        assert [each.name for each in of_full] == [each.name for each in of_short]
    agent = Agent("paper", prompt="short", refine=1)
    sizes = [count_tokens(predictor.signature.instructions) for predictor in agent.predictors()]
    assert len(sizes) == 3 and max(sizes) <= 2500
    examples = [example for _, example in short.located_examples()]
    assert len(examples) == 3 and all(verify(example, example.impl).passed for example in examples)
    for _, example in guardian.located_examples():
        assert verify(example, example.input_impl).stage == "affine" and verify(example, example.output_impl).passed
