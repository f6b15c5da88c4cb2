"""Repairs hold these:

- a refused answer is repaired until it passes, K times at most, or until a repair brings nothing new;
- the LM reads its program, the task and what the verifier found, and no number of the reference;
- an attempt passes if its last program does; each program before is on record, with why it was refused;
- without `refine`, nothing is different.
"""

import json
from collections.abc import Callable
from pathlib import Path

import dspy
import pytest
from dspy import lm15

from optimizers import SinglePass
from pipeline import load_program
from pipeline.agent.agent import Agent
from pipeline.agent.compiled import read_program, save_program
from pipeline.base.choices import GuardianMode
from pipeline.lms.embedded import engine_named
from pipeline.verification.metric import Metric
from step_runtime import load_task, verify
from step_runtime.base.errors import TaskError
from tests.support.paths import PROJECT
from tests.support.scripted_answers import BROKEN, ILL_TYPED, REUSING, RIGHT, WRONG, Engine, scripted, task

OTHER = "E1, E2 = step.Copy().apply(E0)\nreturn E2"


def asks_refiner(request: lm15.Request) -> bool:
    return "[[ ## diagnostics ## ]]" in (request.messages[-1].text or "")


def answering(*programs: str) -> Callable[[lm15.Request], str]:
    """The first to the proposer, the others to the refiner in turn."""
    left = list(programs[1:])
    return lambda request: left.pop(0) if asks_refiner(request) else programs[0]


def ask(
    refine: int, *programs: str, guardian: GuardianMode = "none", metric: Metric | None = None
) -> tuple[dspy.Prediction, Engine]:
    lm, engine = scripted(answering(*programs))
    agent = Agent(guardian, refine=refine, prompts={"proposer": "Propose.", "guardian": "", "refiner": "Repair."})
    agent.verifier.metric = metric
    with dspy.context(lm=lm):
        return agent(task=task()), engine


@pytest.mark.parametrize(
    ("refine", "programs", "impl", "stages"),
    [
        (2, [RIGHT], RIGHT, []),
        (1, [ILL_TYPED, RIGHT], RIGHT, ["type"]),
        (3, [BROKEN, REUSING, WRONG, RIGHT], RIGHT, ["parse", "affine", "value"]),
        (2, [BROKEN, REUSING, WRONG, RIGHT], WRONG, ["parse", "affine"]),
        (5, [WRONG, OTHER, WRONG], WRONG, ["value", "value"]),
        (5, [ILL_TYPED, "I can't."], ILL_TYPED, ["type"]),
    ],
)
def test_a_chain_ends_where_it_passes_or_stands_still(
    refine: int, programs: list[str], impl: str, stages: list[str]
) -> None:
    """The last program is the answer; a program that was refused already, or none, ends the chain."""
    prediction, engine = ask(refine, *programs)
    assert prediction.impl == impl
    assert prediction.proposal == programs[0]
    assert [repair["stage"] for repair in prediction.repairs] == stages
    assert [repair["impl"] for repair in prediction.repairs] == programs[: len(stages)]
    assert len(engine.requests) == 1 + len(stages)


def test_the_lm_reads_task_program_and_diagnostics() -> None:
    """The diagnostics are those on record, and quote its own lines."""
    prediction, engine = ask(1, ILL_TYPED, RIGHT)
    asked = engine.requests[-1].messages[-1].text or ""
    (repair,) = prediction.repairs
    assert asked.startswith("[[ ## task ## ]]\ninputs:\n")
    assert f"[[ ## input_impl ## ]]\n{ILL_TYPED}\n" in asked
    assert f"[[ ## diagnostics ## ]]\n{repair['feedback']}\n" in asked
    assert "E1 = step.Map(fn=fn_mul).apply(E0)\n  " in repair["feedback"]


def test_no_number_of_the_reference_is_reported() -> None:
    """Which output, where, and in how many places, is."""
    verdict = verify(task(), WRONG)
    whole = verdict.render(WRONG, "square/0")
    prediction, engine = ask(1, WRONG, RIGHT)
    feedback = prediction.repairs[0]["feedback"]
    assert "output S0 differs from the reference in" in feedback
    assert "; first at [0, 0]\n" in feedback
    assert "expected" in whole
    numbers = whole.partition("first at [0, 0]: ")[2].partition("\n")[0].split(", expected ")
    assert len(numbers) == 2
    assert not any(number in text for number in numbers for text in engine.texts)


def test_a_repair_passes_the_guardian() -> None:
    """What reuses a stream is fixed there, as any proposal."""
    prediction, _ = ask(1, ILL_TYPED, REUSING, guardian="compiler")
    assert verify(task(), prediction.impl).passed


def test_a_task_that_fails_is_left_to_who_judges() -> None:
    """It is no failure of the LM's."""

    class Failing(Metric):
        def __call__(self, *_: object) -> object:  # type: ignore[override]
            raise TaskError("task.yaml: the reference failed")

    prediction, engine = ask(2, WRONG, RIGHT, metric=Failing())
    assert (prediction.impl, prediction.repairs, len(engine.requests)) == (WRONG, [], 1)


def test_attempts_record_repairs_and_their_tokens() -> None:
    """Once an attempt, whatever it took: pass@k counts answers, not programs."""
    lm, _ = scripted(lambda request: RIGHT if asks_refiner(request) else WRONG)
    metric = Metric()
    agent = Agent("none", refine=2, prompts={"proposer": "Propose.", "refiner": "Repair."})
    agent.verifier.metric = metric
    example = dspy.Example(task=task()).with_inputs("task")
    with dspy.context(lm=lm):
        optimizer = SinglePass(metric, 3, temperatures=(0.7,), threads=1)
        experience = optimizer.compile(agent, trainset=[example]).experience
    assert len(experience.attempts) == 3
    assert experience.iterations[0].pass_at_1 == 1.0
    for attempt in experience.attempts:
        assert attempt.passed
        assert {name: count.calls for name, count in attempt.tokens.items()} == {
            "proposer.predict": 1,
            "refiner.predict": 1,
        }
        (repair,) = json.loads(json.dumps(attempt.to_dict()))["outputs"]["repairs"]
        assert (repair["impl"], repair["stage"]) == (WRONG, "value")


def test_without_refine_there_is_no_refiner() -> None:
    """Predictors and predictions are as they were."""
    agent = Agent("none")
    assert [name for name, _ in agent.named_predictors()] == ["proposer.predict"]
    prediction, _ = ask(0, WRONG)
    assert list(prediction.keys()) == ["impl", "proposal"]


def test_the_refiner_begins_as_the_proposer_does() -> None:
    """To the letter, so that providers' caches serve both."""
    agent = Agent("none", refine=1)
    proposer, refiner = (predictor.signature.instructions for predictor in agent.predictors())
    assert refiner.startswith(f"{proposer}\n\n")
    assert "`affine`" in refiner[len(proposer) :]


def test_a_saved_program_repairs_as_before(tmp_path: Path) -> None:
    """K and the refiner's instructions are in the file."""
    agent = Agent("none", refine=2, prompts={"proposer": "Propose.", "guardian": "", "refiner": "Repair well."})
    save_program(agent, tmp_path / "p.json")
    assert read_program(tmp_path / "p.json").refine == 2
    lm, engine = scripted(answering(ILL_TYPED, RIGHT))
    assert load_program(tmp_path / "p.json", lm=lm)(task=task()).impl == RIGHT
    assert "Repair well." in engine.texts[1]


def test_the_embedded_lm_solves_more_by_repairs() -> None:
    """On a task of the benchmark that it seldom solves at once."""
    shown = load_task(PROJECT / "data" / "tasks" / "gemm" / "1.yaml")
    engine = engine_named("embedded/4")
    metric, passed = Metric(), []
    for refine in (0, 3):
        agent = Agent("none", refine=refine)
        agent.verifier.metric = metric
        example = dspy.Example(task=shown).with_inputs("task")
        with dspy.context(lm=dspy.LM(engine.model, engine=engine, cache=False)):
            optimizer = SinglePass(metric, 16, temperatures=(1.0,), threads=1)
            experience = optimizer.compile(agent, trainset=[example]).experience
        passed.append(sum(attempt.passed for attempt in experience.attempts))
    engine.close()
    assert passed[1] > passed[0], passed
