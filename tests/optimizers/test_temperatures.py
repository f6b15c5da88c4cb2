"""Samples have the temperatures that their LMs take."""

import logging
from typing import Any

import dspy
import pytest
from dspy import lm15

from optimizers import AdaptiveFewShot, Domain, Experience, TemperatureError
from optimizers.temperatures import fixed, refused, taken, takes_one, temperature_of
from tests.support.scripted_program import ScriptedEngine, Solver, by_task, is_right, some, tasks


def compiled(lm: dspy.LM, student: dspy.Module | None = None, temperatures: Any = (0.4, 1.0)) -> Experience:
    optimizer = AdaptiveFewShot(is_right, 4, temperatures=temperatures, threads=1, domain=Domain(task_key=by_task))
    with dspy.context(lm=lm):
        record: Experience = optimizer.compile(student or Solver(), trainset=tasks("ab")).experience
    return record


def engine_lm(engine: Any, model: str = "scripted", **settings: Any) -> dspy.LM:
    return dspy.LM(model, engine=engine, cache=False, num_retries=0, **settings)


def asked(engine: ScriptedEngine) -> set[float | None]:
    return {request.config.temperature for request in engine.requests}


@pytest.mark.parametrize("model", ["openai/o3", "openai/gpt-5-mini", "azure/gpt-5", "openrouter/openai/o1"])
def test_a_model_known_to_reason_is_sampled_at_1_and_the_log_says_so(
    model: str, caplog: pytest.LogCaptureFixture
) -> None:
    """No sample is lost; the record has the temperatures that were used."""
    engine = ScriptedEngine(some, 4)
    with caplog.at_level(logging.WARNING, "optimizers"):
        record = compiled(engine_lm(engine, model))
    assert asked(engine) == {1.0} and record.settings["temperatures"] == (1.0,)
    assert {attempt.temperature for attempt in record.attempts} == {1.0}
    assert not any(attempt.failed for attempt in record.attempts)
    assert f"{model} takes no temperature but 1: samples are drawn at it, not at 0.4, 1" in caplog.text


def test_a_model_known_to_reason_is_asked_at_1_beside_one_that_is_not() -> None:
    """The other one is asked at the sample's temperature."""

    class Two(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.think, self.solve = dspy.Predict("task -> thought"), dspy.Predict("task -> answer")
            self.think.set_lm(engine_lm(thinking, "openai/o3"))

        def forward(self, task: str) -> dspy.Prediction:
            self.think(task=task)
            return self.solve(task=task)

    said = "[[ ## thought ## ]]\nhm\n\n[[ ## completed ## ]]"
    thinking, solving = ScriptedEngine(some, 4, lambda *_: said), ScriptedEngine(some, 4)
    compiled(engine_lm(solving), Two())
    assert (asked(thinking), asked(solving)) == ({1.0}, {0.4, 1.0})


def test_a_predictor_s_own_temperature_is_kept() -> None:
    """A temperature that is set on a predictor's LM is the user's word; one that is not is the sample's."""
    own, shared = dspy.LM("openai/a", temperature=0.0), dspy.LM("openai/a")
    assert temperature_of(own, 0.7, own=True) == 0.0
    assert temperature_of(own, 0.7, own=False) == temperature_of(shared, 0.7, own=True) == 0.7


def test_temperatures_without_effect_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Where every predictor's LM has its own; it is asked at that."""
    engine, student = ScriptedEngine(some, 4), Solver()
    student.set_lm(engine_lm(engine, temperature=0.2))
    with caplog.at_level(logging.WARNING, "optimizers"):
        compiled(engine_lm(ScriptedEngine(some, 4)), student)
    assert asked(engine) == {0.2}
    assert "every LM of the program has a temperature of its own (0.2): 0.4, 1 change nothing" in caplog.text


class OneTemperature(ScriptedEngine):
    """Refuses all temperatures but 1, in the words of OpenAI; its name does not say so."""

    def complete(self, request: Any) -> Any:
        if request.config.temperature != 1.0:
            text = f"Unsupported value: 'temperature' does not support {request.config.temperature} with this model."
            raise lm15.InvalidRequestError(text)
        return super().complete(request)


def test_a_temperature_that_the_lm_refuses_ends_the_run_at_once() -> None:
    """Named, with what to give, before many samples are lost; what was answered is in the exception's record."""
    with pytest.raises(TemperatureError, match=r"the LM refuses 0.4; give 1.0 alone: .*'temperature'") as raised:
        compiled(engine_lm(OneTemperature(some, 4)), temperatures=(1.0, 0.4))
    record = raised.value.experience  # type: ignore[attr-defined]
    assert sum(attempt.failed for attempt in record.attempts) == 1
    assert compiled(engine_lm(OneTemperature(some, 4)), temperatures=(1.0,)).stopped == "solved"


def test_a_refusal_of_one_request_is_no_refusal_of_its_temperature() -> None:
    """A text about temperatures, refused where others are answered."""

    class Warm(ScriptedEngine):
        def complete(self, request: Any) -> Any:
            if self.calls == 5:
                self.calls += 1
                raise lm15.InvalidRequestError("no talk of the temperature")
            return super().complete(request)

    record = compiled(engine_lm(Warm(some, 4)))
    assert sum(attempt.failed for attempt in record.attempts) == 1 and record.stopped == "solved"


def test_which_lms_take_one_temperature() -> None:
    """By DSPy's rules for names, or by the settings under which Anthropic's models think."""
    assert [takes_one(model) for model in ("openai/o3", "openai/gpt-4o", "openai/", "embedded/8")] == [1, 0, 0, 0]
    assert fixed(dspy.LM("anthropic/claude-sonnet-4-5", thinking={"type": "enabled", "budget_tokens": 2000}))
    assert not fixed(dspy.LM("anthropic/claude-sonnet-4-5", thinking={"type": "disabled"}))
    assert not fixed(None) and not refused(None) and not refused(ValueError("temperature"))
    with dspy.context(lm=dspy.LM("openai/o3")):
        assert taken(Solver(), (1.0,)) == (1.0,)
