"""What the predictors of a program are shown.

Invariants held here: each predictor is shown its own calls in the attempts that solved a task, and learns from them;
the record holds what it takes to show the same again; a program whose inputs and outputs say all is recorded as
briefly as ever; whoever can be shown nothing is named.
"""

import json
import logging
import random
import re
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dspy
import pytest
from dspy import lm15
from dspy.utils.exceptions import AdapterParseError

from optimizers import AdaptiveFewShot, Budget, Domain, Entry, Experience, TokenCount
from optimizers.attempt import TaskExample
from optimizers.demonstrations import DemoFitter, fitting, set_demos
from optimizers.run import choose_answer
from optimizers.strategies import DemoSet, Pick
from tests.support.scripted_lm import respond
from tests.support.scripted_program import ScriptedEngine, Solver, answer, learn

SHOWN = re.compile(r"\[\[ ## (\w+) ## \]\]\n(.*?)\s*(?=\n\n|\Z)", re.DOTALL)


def fields_of(text: str | None) -> dict[str, str]:
    return {name: value for name, value in SHOWN.findall(text or "") if name != "completed"}


class Pipeline(dspy.Module):
    """Two predictors, of which neither has the program's own fields alone."""

    def __init__(self) -> None:
        super().__init__()
        self.sum = dspy.Predict("text -> summary")
        self.cls = dspy.ChainOfThought("text, summary -> label")

    def forward(self, text: str) -> dspy.Prediction:
        summary = self.sum(text=text).summary
        return dspy.Prediction(label=self.cls(text=text, summary=summary).label)


class Reader:
    """Solves `easy` at once, and the rest once it is shown, in both roles, how `easy` was solved."""

    def __init__(self) -> None:
        self.shown: list[list[dict[str, str]]] = []
        self.lock = threading.Lock()

    def complete(self, request: lm15.Request) -> lm15.Response:
        *earlier, last = request.messages
        pairs = [{**fields_of(earlier[i].text), **fields_of(earlier[i + 1].text)} for i in range(0, len(earlier), 2)]
        asked = fields_of((last.text or "").partition("\n\nRespond")[0])
        with self.lock:
            self.shown.append(pairs)
        if "summary" not in asked:
            able = asked["text"] == "easy" or {"text": "easy", "summary": "gist of easy"} in pairs
            said = f"[[ ## summary ## ]]\n{'gist of ' + asked['text'] if able else 'nothing'}"
        else:
            shown = {"text": "easy", "summary": "gist of easy", "reasoning": "why easy", "label": "yes easy"}
            able = asked["text"] == "easy" or shown in pairs
            right = able and asked["summary"] == f"gist of {asked['text']}"
            said = f"[[ ## reasoning ## ]]\nwhy {asked['text']}\n\n[[ ## label ## ]]\n" + (
                f"yes {asked['text']}" if right else "no"
            )
        usage = lm15.Usage(input_tokens=len(last.text or ""), output_tokens=len(said))
        return respond(request, f"{said}\n\n[[ ## completed ## ]]", usage)


def label_is_right(example: dspy.Example, prediction: Any) -> bool:
    return bool(prediction.label == f"yes {example.text}")


def compile_pipeline(texts: tuple[str, ...], engine: Reader, **options: Any) -> dspy.Module:
    domain = {"task_key": lambda example: example.text, **options.pop("domain", {})}
    trainset = [dspy.Example(text=text).with_inputs("text") for text in texts]
    optimizer = AdaptiveFewShot(label_is_right, 2, temperatures=(0.7,), domain=Domain(**domain))
    with dspy.context(lm=dspy.LM("reader", engine=engine, cache=False)):
        return optimizer.compile(Pipeline(), trainset=trainset, **options)


def demos_of(program: dspy.Module) -> dict[str, list[dict[str, Any]]]:
    return {name: [dict(demo.items()) for demo in p.demos] for name, p in program.named_predictors()}


def test_a_program_of_two_predictors_learns_as_both_are_shown_their_own_calls():
    compiled = compile_pipeline(("easy", "hard"), Reader())
    assert compiled.experience.stopped == "solved"
    assert [result.solved for result in compiled.experience.iterations] == [("easy",), ("hard",)]
    easy = demos_of(compiled)["cls.predict"][0]
    expected = {"text": "easy", "summary": "gist of easy", "reasoning": "why easy", "label": "yes easy"}
    assert easy == {"augmented": True, **expected}
    assert demos_of(compiled)["sum"][0] == {"augmented": True, "text": "easy", "summary": "gist of easy"}


@pytest.mark.parametrize("name", ["sum", "cls.predict"])
def test_the_choice_of_predictors_stands_and_one_alone_is_not_enough_here(name):
    engine = Reader()
    compiled = compile_pipeline(("easy", "hard"), engine, domain={"demo_predictors": (name,)})
    assert compiled.experience.unsolved == ("hard",)
    (demo,) = demos_of(compiled)[name]
    assert demo["summary"] == "gist of easy" and sum(map(len, demos_of(compiled).values())) == 1
    assert [] in engine.shown and any(engine.shown)


def test_a_resumed_run_and_one_from_its_experience_show_the_same_calls(tmp_path):
    whole = compile_pipeline(("easy", "hard"), Reader()).experience
    whole.dump(tmp_path / "experience.json")
    loaded = Experience.load(tmp_path / "experience.json")
    assert loaded.entries == whole.entries and loaded.attempts == whole.attempts
    engine = Reader()
    resumed = compile_pipeline(("easy", "hard"), engine, resume=loaded.attempts)
    assert engine.shown == [] and resumed.experience.entries == whole.entries
    seen = []
    for earlier in (whole, Experience.from_dict(whole.to_dict(attempts=False))):
        engine = Reader()
        later = compile_pipeline(("harder",), engine, experience=earlier)
        assert later.experience.solved == ("harder",)
        seen.append((demos_of(later), sorted(map(str, engine.shown))))
    assert seen[0] == seen[1] and all(seen[0][0].values()) and "[]" not in seen[0][1]


def test_codecs_go_over_the_fields_of_calls():
    record = compile_pipeline(("easy",), Reader()).experience
    data = record.to_dict(encode=lambda fields: {name: f"<{value}>" for name, value in fields.items()})
    assert data["entries"][0]["calls"]["sum"] == {"text": "<easy>", "summary": "<gist of easy>"}
    loaded = Experience.from_dict(data, decode=lambda fields: {n: v.strip("<>") for n, v in fields.items()})
    assert loaded.entries == record.entries


def test_calls_are_kept_of_right_answers_alone():
    record = compile_pipeline(("easy", "hard"), Reader()).experience
    assert {attempt.passed for attempt in record.attempts} == {True, False}
    assert all(bool(attempt.calls) == attempt.passed for attempt in record.attempts)


def test_domains_may_show_the_programs_own_fields_instead():
    compiled = compile_pipeline(("easy",), Reader(), domain={"traced_demos": False})
    assert demos_of(compiled)["cls.predict"] == [{"augmented": True, "text": "easy", "label": "yes easy"}]
    assert compiled.experience.entries[0].calls == {}


def solved(student: dspy.Module, names: str = "a", **options: Any) -> dspy.Module:
    return learn(names, lambda *_: 4, student=student, **options)


def test_a_predictor_that_the_solution_never_called_is_shown_nothing_and_named_once(caplog):
    class Router(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.short, self.long = dspy.Predict("task -> answer"), dspy.Predict("task -> answer")

        def forward(self, task: str) -> dspy.Prediction:
            return self.short(task=task) if task == "a" else dspy.Prediction(answer="wrong")

    with caplog.at_level(logging.WARNING):
        compiled = solved(Router(), "ax")
    assert [demo.task for demo in compiled.short.demos] == ["a"] and compiled.long.demos == []
    assert [r.getMessage().partition(",")[0] for r in caplog.records] == ["long gets no demonstrations"]
    assert len(compiled.experience.iterations) == 2


def test_predictors_with_lms_of_their_own_are_shown_their_calls():
    student = Pipeline()
    student.sum.lm = dspy.LM("own", engine=Reader(), cache=False)
    optimizer = AdaptiveFewShot(label_is_right, 2, domain=Domain(task_key=lambda example: example.text))
    with dspy.context(lm=dspy.LM("reader", engine=Reader(), cache=False)):
        compiled = optimizer.compile(student, trainset=[dspy.Example(text="easy").with_inputs("text")])
    assert [demo.summary for demo in compiled.sum.demos] == ["gist of easy"]


def test_a_user_who_switched_traces_off_has_demonstrations_all_the_same():
    with dspy.context(max_trace_size=0, trace=None):
        compiled = compile_pipeline(("easy",), Reader())
    assert len(demos_of(compiled)["sum"]) == 1


def test_a_program_without_predictors_or_with_other_inputs_is_refused():
    class Fixed(dspy.Module):
        def forward(self, task: str) -> dspy.Prediction:
            return dspy.Prediction(answer="right")

    with pytest.raises(ValueError, match="no predictor that could get demonstrations"):
        solved(Fixed())
    message = r"none of the examples' inputs \(task\): self takes question"
    with pytest.raises(ValueError, match=message):
        solved(dspy.Predict("question -> answer"))


def test_a_predictor_that_could_be_shown_nothing_is_named_before_anything_is_sampled():
    class Renaming(Solver):
        def __init__(self) -> None:
            super().__init__()
            self.inner = dspy.Predict("query -> hits")

    message = r"inner takes none of the examples' inputs \(task\), but Domain\(traced_demos=False\) shows only these"
    with pytest.raises(ValueError, match=message):
        solved(Renaming(), domain=Domain(traced_demos=False))
    assert solved(Renaming()).inner.demos == []


def test_a_demonstration_has_an_input_and_an_output_of_the_predictor_s_or_is_none() -> None:
    """Calls with inputs alone, or with outputs alone, are left out, as adapters would leave them out silently."""
    record = compile_pipeline(("easy",), Reader()).experience
    (entry,), program = record.entries, Pipeline()
    (fields,) = entry.calls["cls.predict"]
    for known, shown in (
        ({"text": "easy", "summary": "gist of easy"}, 0),
        ({"reasoning": "why easy", "label": "yes easy"}, 0),
        ({"unknown": "field"}, 0),
        ({"text": "easy", "label": "yes easy"}, 1),
        (fields, 1),
    ):
        without = set_demos(program, ["cls.predict"], [replace(entry, calls={"cls.predict": (known,)})])
        assert (len(program.cls.predict.demos), without) == (shown, [] if shown else ["cls.predict"])


def test_the_room_that_demonstrations_take_counts_what_the_program_itself_hands_on():
    record = compile_pipeline(("easy",), Reader()).experience
    (entry,), program = record.entries, Pipeline()
    assert set_demos(program, ["sum"], [entry]) == [] and program.cls.predict.demos == []
    example = dspy.Example(text="x").with_inputs("text")
    room = next(size for size in range(2_000) if fitting(program, ["cls.predict"], [entry], [example], size))
    (call,) = entry.calls["cls.predict"]
    long = {"cls.predict": ({**call, "summary": "gist of easy" + "!" * 300},)}
    longer = replace(entry, calls=long)
    more = next(size for size in range(2_000) if fitting(program, ["cls.predict"], [longer], [example], size))
    assert more - room >= 200, "once as shown, once as asked"


TASKS = [
    TaskExample(index, name, dspy.Example(question=name).with_inputs("question")) for index, name in enumerate("xy")
]


def entry(name: str, successes: int) -> Entry:
    return Entry(
        task_key=name, inputs={"question": name}, outputs={"answer": f"answer {name}"}, successes=successes, samples=4,
        temperature=0.7, iteration=0, answer_temperature=0.7, answer_sample=0, tokens=TokenCount(),
    )  # fmt: skip


KNOWN = [entry("a", 1), entry("b", 2), entry("c", 3)]


@pytest.fixture
def program() -> dspy.Predict:
    return dspy.Predict("question -> answer")


def shown_by(program: dspy.Module) -> list[str]:
    (predictor,) = program.predictors()
    return [demo["question"] for demo in predictor.demos]


@pytest.mark.parametrize(
    ("budget", "max_demos", "kept"),
    [(Budget(), None, "abc"), (Budget(demos=2), None, "ab"), (Budget(), 1, "a"), (Budget(demo_tokens=1), None, "")],
)
def test_the_first_demonstrations_within_every_limit_are_set(
    program: dspy.Predict, budget: Budget, max_demos: int | None, kept: str
) -> None:
    """The others are reported, last first."""
    fitter = DemoFitter(["self"], budget, max_demos)
    shown = fitter.show(program, DemoSet("H", KNOWN), TASKS)
    assert [each.task_key for each in shown.demos] == list(kept) and shown_by(program) == list(kept)
    assert [each.task_key for each in shown.left_out] == list("abc"[len(kept) :][::-1])


def test_a_choice_per_task_gets_programs_of_its_own_and_the_union_is_shown_hardest_first(program: dspy.Predict) -> None:
    """What one task leaves out is not reported if another shows it."""

    def select(task: TaskExample, limit: int | None) -> Sequence[Pick]:
        assert limit == 900
        chosen = [KNOWN[2], KNOWN[0]] if task.key == "x" else [KNOWN[1], KNOWN[2]]
        return [Pick(each, f"{each.task_key} for {task.key}") for each in chosen]

    demo_set = DemoSet("T", KNOWN, select=select)
    fitter = DemoFitter(["self"], Budget(demos=1, demo_tokens=900))
    shown = fitter.show(program, demo_set, TASKS)
    assert {key: shown_by(own) for key, own in shown.own_programs.items()} == {"x": ["c"], "y": ["b"]}
    assert shown.reasons == {"x": {"c": "c for x"}, "y": {"b": "b for y"}}
    assert [each.task_key for each in shown.demos] == ["b", "c"] and shown_by(program) == ["b", "c"]
    assert [each.task_key for each in shown.left_out] == ["a"]


def choose(answers: list[str], seed: int = 0) -> str:
    return choose_answer(answers, str.lower, lambda answer: len(answer.strip()), random.Random(seed))


def test_the_shortest_group_wins_however_rare():
    assert choose(["loong"] * 9 + ["ab"]) == "ab"


def test_a_groups_representative_is_chosen_by_chance_among_all_its_members():
    chosen = Counter(choose(["AB", "ab", "aB"], seed) for seed in range(300))
    assert set(chosen) == {"AB", "ab", "aB"} and min(chosen.values()) > 60


def test_of_equal_lengths_the_first_sampled_wins():
    assert choose(["xy", "ab", "cd"]) == "xy"


def test_the_same_seed_chooses_the_same():
    assert len({choose(["AB", "ab", "aB"], 7) for _ in range(9)}) == 1


def test_answers_without_a_key_stand_alone():
    assert choose_answer(["aa", "a"], lambda _: None, len, random.Random(0)) == "a"


# Of a predictor's calls within a sample, those chosen count that could be read, as they were when they were made.


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
