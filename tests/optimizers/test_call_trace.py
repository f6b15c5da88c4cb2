"""Of a predictor's calls within a sample, those chosen count that could be read, as they were when they were made."""

import json
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from optimizers import Experience
from tests.support.scripted_program import ScriptedEngine, Solver, answer, learn


def solved(student: dspy.Module, names: str = "a", **options: Any) -> dspy.Module:
    return learn(names, lambda *_: 4, student=student, **options)


class Hops(dspy.Module):
    """Three hops, each of which is handed the answers before."""

    def __init__(self) -> None:
        super().__init__()
        self.hop = dspy.Predict("task, notes: list[str] -> answer")

    def forward(self, task: str) -> dspy.Prediction:
        notes: list[str] = []
        for _ in range(3):
            answer = self.hop(task=task, notes=notes).answer
            notes += [answer]
        return dspy.Prediction(answer=answer)


def test_all_calls_are_shown_as_they_were_when_they_were_made():
    compiled = solved(Hops())
    assert [demo.notes for demo in compiled.hop.demos] == [["right a"] * number for number in range(3)]
    again = Experience.from_dict(json.loads(json.dumps(compiled.experience.to_dict())))
    assert again.entries == compiled.experience.entries and again.attempts == compiled.experience.attempts


def test_an_agent_is_shown_its_lookups_and_not_only_how_it_finishes():
    """`dspy.ReAct`: each turn is a call of one predictor, whose trajectory grows."""

    def say(request: Any, task: str, right: bool) -> str:
        text = request.messages[-1].text
        if "## next_tool_name ##" not in text:
            return "[[ ## reasoning ## ]]\nseen\n\n" + answer(f"right {task}")
        name, args = ("finish", {}) if "observation_1" in text else ("lookup", {"key": task})
        fields = {"next_thought": "on", "next_tool_name": name, "next_tool_args": json.dumps(args)}
        return "\n\n".join(f"[[ ## {field} ## ]]\n{value}" for field, value in fields.items())

    def lookup(key: str) -> str:
        return f"about {key}"

    student = dspy.ReAct("task -> answer", tools=[lookup], max_iters=4)
    compiled = solved(student, "ab", engine=ScriptedEngine(lambda *_: 4, 4, say), granularity=1)
    assert [demo.next_tool_name for demo in compiled.react.demos] == ["lookup", "lookup", "finish"] * 2
    assert [len(demo.trajectory) > 0 for demo in compiled.react.demos] == [False, True, True] * 2
    assert [demo.answer for demo in compiled.extract.predict.demos] == ["right a", "right b"]


def test_of_votes_on_one_question_the_one_that_agrees_with_the_program_is_shown():
    """Calls with equal inputs count as one; which of them was rejected, the program's answer says."""
    said = iter(["right a", "right a", "wrong"])

    class Voting(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.vote = dspy.Predict("task, style -> answer")

        def forward(self, task: str) -> dspy.Prediction:
            votes = [self.vote(task=task, style="short").answer for _ in range(3)]
            return dspy.Prediction(answer=max(votes, key=votes.count))

    def say(request: Any, task: str, right: bool) -> str:
        return answer(next(said))

    (demo,) = learn("a", lambda *_: 1, n=1, student=Voting(), engine=ScriptedEngine(lambda *_: 1, 1, say)).vote.demos
    assert (demo.task, demo.style, demo.answer) == ("a", "short", "right a")


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


def test_what_a_metric_makes_of_a_prediction_is_not_what_the_predictor_is_shown():
    def metric(example: Any, prediction: Any) -> bool:
        prediction.answer = "changed"
        return True

    compiled = solved(Solver(), metric=metric)
    assert [demo.answer for demo in compiled.solve.demos] == ["right a"]
    assert compiled.experience.entries[0].outputs == {"answer": "right a"}
