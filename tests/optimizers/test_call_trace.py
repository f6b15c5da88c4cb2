"""Of a predictor's calls within a sample, the last one that could be read counts, as it was when it was made."""

from __future__ import annotations

from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from tests.support.scripted_program import ScriptedEngine, Solver, answer, learn


def solved(student: dspy.Module, names: str = "a", **options: Any) -> dspy.Module:
    return learn(names, lambda *_: 4, student=student, **options)


def test_of_several_calls_the_last_counts_as_it_was_when_it_was_made():
    class Hops(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hop = dspy.Predict("task, notes: list[str] -> answer")

        def forward(self, task: str) -> dspy.Prediction:
            notes: list[str] = []
            for _ in range(3):
                answer = self.hop(task=task, notes=notes).answer
                notes += [answer]
            return dspy.Prediction(answer=answer)

    (demo,) = solved(Hops()).hop.demos
    assert demo.notes == ["right a"] * 2


def test_what_a_program_changes_within_an_input_after_the_call_is_not_shown():
    class Talk(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.turn = dspy.Predict("task, turns: list[dict] -> answer")

        def forward(self, task: str) -> dspy.Prediction:
            turns = [{"said": "nothing"}]
            answer = self.turn(task=task, turns=turns).answer
            turns[0]["said"] = answer
            return dspy.Prediction(answer=answer)

    (demo,) = solved(Talk()).turn.demos
    assert demo.turns == [{"said": "nothing"}]


def test_a_call_that_could_not_be_read_is_passed_over_for_the_one_that_followed():
    def say(request: Any, task: str, right: bool) -> str:
        return "no fields at all" if "twice" not in task else answer("right a")

    class Retrying(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.solve = dspy.Predict("task -> answer")

        def forward(self, task: str) -> dspy.Prediction:
            try:
                return self.solve(task=task)
            except AdapterParseError:
                return self.solve(task=f"{task} twice")

    engine = ScriptedEngine(lambda *_: 4, 4, say)
    (demo,) = solved(Retrying(), engine=engine).solve.demos
    assert (demo.task, demo.answer) == ("a twice", "right a")


def test_what_the_program_makes_of_an_answer_is_not_what_the_predictor_is_shown():
    class Shouting(Solver):
        def forward(self, task: str) -> dspy.Prediction:
            return dspy.Prediction(answer=self.solve(task=task).answer.upper())

    student = Shouting()
    compiled = solved(student, metric=lambda example, prediction: prediction.answer == "RIGHT A")
    assert [demo.answer for demo in compiled.solve.demos] == ["right a"]
    assert compiled.experience.entries[0].outputs == {"answer": "RIGHT A"}


def test_calls_of_copies_that_a_program_makes_of_its_predictors_are_theirs():
    class Trying(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            solve = dspy.Predict("task, hint -> answer")
            self.best = dspy.BestOfN(solve, N=1, reward_fn=lambda inputs, prediction: 1.0, threshold=1.0)

        def forward(self, task: str) -> dspy.Prediction:
            return self.best(task=task, hint="think")

    compiled = solved(Trying())
    ((demo,),) = (predictor.demos for predictor in compiled.predictors())
    assert (demo.task, demo.hint, demo.answer) == ("a", "think", "right a")
