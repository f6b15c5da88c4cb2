"""Algorithm 1, on a scripted agent whose success rates are known.

Invariants held here: the demonstrations of every iteration are d_j of β over what is known by then; a
solution restarts the cycle from the hardest level; repeats are kept; the run ends when nothing is left, when
d_j = D solves nothing, or when D stays empty; entries carry the figures of the iteration that earned them; all of it
equals the algorithm as the paper writes it down, for any rates, levels and number of threads.
"""

import random
import re
from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any

import dspy
import pytest
from dspy import lm15
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizers import AdaptiveFewShot, Budget, Domain, Experience, SinglePass, pass_at_k
from optimizers.attempt import counted
from optimizers.domain import input_name
from tests.support.scripted_program import (
    ScriptedEngine,
    answer,
    by_task,
    is_right,
    learn,
    respond,
    story,
    tasks,
)

pytestmark = pytest.mark.usefixtures("no_waiting")


UNAIDED = {"a": 1, "b": 2, "c": 3}


def unaided(task: str, demos: tuple[str, ...], visit: int) -> int:
    return UNAIDED.get(task, 0)


def test_levels_are_tried_hardest_first_and_the_run_ends_with_all_of_d():
    compiled = learn("abcx", unaided)
    assert story(compiled) == ["None: - -> abc", "H_1: a -> -", "HM_1: ab -> -", "HME_1: abc -> -"]
    assert compiled.experience.stopped == "exhausted"
    assert compiled.experience.unsolved == ("x",)


def test_a_solution_restarts_the_cycle_from_the_hardest_level():
    def script(task: str, demos: tuple[str, ...], visit: int) -> int:
        if task == "x":
            return 4 if demos == ("a", "b") else 0
        return 1 if task == "y" and "x" in demos else unaided(task, demos, visit)

    compiled = learn("abcxy", script)
    assert story(compiled) == [
        "None: - -> abc",
        "H_1: a -> -",
        "HM_1: ab -> x",  # D = a 1/4, b 2/4, c 3/4, x 4/4: runs of 2, 1, 1
        "H_2: ab -> -",
        "HM_2: abc -> -",
        "HME_2: abcx -> y",
    ]
    assert compiled.experience.stopped == "solved"


def test_the_same_demonstrations_are_tried_again_when_levels_repeat_them():
    rates = {"a": 2, "b": 2, "c": 2, "d": 9}

    def script(task: str, demos: tuple[str, ...], visit: int) -> int:
        if task in rates:
            return rates[task]
        return 1 if demos == ("a", "b", "c") and visit == 1 else 0  # the second time only

    compiled = learn("abcdx", script, n=16)
    assert story(compiled) == ["None: - -> abcd", "H_1: abc -> -", "HM_1: abc -> x"]


def test_ties_stand_in_task_order_whatever_iteration_solved_them():
    def script(task: str, demos: tuple[str, ...], visit: int) -> int:
        return {"c": 2, "d": 2}.get(task, 2 if task in "a" and demos else 0)

    compiled = learn("abcd", script, granularity=1)
    assert story(compiled) == ["None: - -> cd", "1_1: cd -> a", "1_2: acd -> -"]


def test_a_task_has_the_rate_of_its_best_temperature_and_the_first_of_equals():
    class Warm(ScriptedEngine):
        def complete(self, request: Any) -> Any:
            self.script = lambda task, demos, visit: {0.4: 1, 0.7: 3, 1.0: 3}[request.config.temperature]
            return super().complete(request)

    compiled = learn("a", unaided, engine=Warm(unaided, 4), temperatures=(0.4, 0.7, 1.0), threads=1)
    (entry,) = compiled.experience.entries
    assert (entry.successes, entry.samples, entry.temperature, entry.rate) == (3, 4, 0.7, 0.75)
    assert [(c.temperature, c.successes) for c in compiled.experience.iterations[0].counts] == [
        (0.4, 1), (0.7, 3), (1.0, 3)
    ]  # fmt: skip


def test_an_earlier_experience_starts_the_run_with_a_cycle_and_its_tasks_are_done():
    earlier = Experience.from_dict(learn("ab", unaided).experience.to_dict())
    engine = ScriptedEngine(lambda task, demos, visit: 4 if demos else 0, 4)
    compiled = learn("bxy", unaided, engine=engine, compiling={"experience": earlier})
    assert story(compiled) == ["H_1: a -> xy"]
    assert [entry.task_key for entry in compiled.experience.entries] == ["a", "b", "x", "y"]
    assert compiled.experience.solved == ("b", "x", "y")
    assert engine.calls == 8


def test_an_earlier_experience_that_solves_every_task_leaves_nothing_to_do():
    compiled = learn("ab", unaided, compiling={"experience": learn("ab", unaided).experience})
    assert (story(compiled), compiled.experience.stopped) == ([], "solved")
    assert [demo.task for demo in compiled.solve.demos] == ["a"]


def test_a_validation_set_chooses_the_level_and_the_hardest_of_equals():
    def script(task: str, demos: tuple[str, ...], visit: int) -> int:
        return {"ab": 3, "abc": 3}.get("".join(demos), 1) if task == "v" else unaided(task, demos, visit)

    compiled = learn("abc", script, compiling={"valset": tasks("v")})
    assert [demo.task for demo in compiled.solve.demos] == ["a", "b"]
    assert [(s.label, s.score) for s in compiled.experience.validation] == [
        ("H_1", 0.25), ("HM_1", 0.75), ("HME_1", 0.75)
    ]  # fmt: skip
    assert compiled.experience.demos == ("a", "b")
    assert {a.task_key for a in compiled.experience.attempts if a.iteration < 0} == {"v"}


def test_the_chosen_answer_is_the_shortest_of_those_that_differ():
    def say(request: Any, task: str, right: bool) -> str:
        text = "long\nlong" if request.config.temperature == 0.4 else "x  y" if right else "x y"
        return f"[[ ## answer ## ]]\n{text}\n\n[[ ## completed ## ]]"

    compiled = learn(
        "a",
        unaided,
        engine=ScriptedEngine(lambda *_: 2, 4, say),
        temperatures=(0.4, 0.7),
        metric=lambda example, prediction: True,
    )
    (entry,) = compiled.experience.entries
    assert entry.outputs["answer"].split() == ["x", "y"]
    assert (entry.answer_temperature, entry.temperature) == (0.7, 0.4)


def say_two_answers(request, task, right):
    return answer(f"right {task}\n\n{'x' if request.config.seed % 2 else 'y'}")


def test_an_answer_that_is_not_confirmed_does_not_represent_its_task():
    """Of the right answers the domain refuses some: another one is chosen, however short the refused ones are."""
    engine = ScriptedEngine(lambda *_: 4, 8, say_two_answers)
    refused = []

    def confirm(example, outputs):
        passes = outputs["answer"].endswith("y")
        refused.extend([outputs["answer"]] * (not passes))
        return passes

    domain = Domain(task_key=by_task, confirm=confirm, length=lambda outputs: outputs["answer"].endswith("y"))
    compiled = learn("ab", None, n=8, engine=engine, domain=domain, metric=lambda example, prediction: True)
    assert [entry.outputs["answer"][-1] for entry in compiled.experience.entries] == ["y", "y"]
    assert refused


def test_a_task_without_a_confirmed_answer_stays_unsolved():
    """Its samples count as they were judged; no demonstration comes of it."""
    domain = Domain(task_key=by_task, confirm=lambda example, outputs: example.task != "a")
    compiled = learn("ab", lambda *_: 4, domain=domain, compiling={}, budget=Budget(iterations=1))
    assert compiled.experience.solved == ("b",)
    assert [count.successes for count in compiled.experience.iterations[0].counts] == [4, 4]


N = 4


RATES = st.dictionaries(st.integers(0, 6), st.integers(0, N), max_size=4)


"""Of a task: how many of N samples are right once so many demonstrations are shown, at least."""


def as_written(names: str, rates: list[dict[int, int]], m: int) -> list[str]:
    """Algorithm 1 on its own: lists and loops, and nothing of what it is to test."""

    def right(task: str, shown: str) -> int:
        of_task = rates[names.index(task)]
        return of_task.get(max((k for k in of_task if k <= len(shown)), default=-1), 0)

    def iteration(label: str, shown: str) -> str:
        solved = [task for task in names if task not in known and right(task, shown)]
        lines.append(f"{label}: {shown or '-'} -> {''.join(solved) or '-'}")
        known.update({task: right(task, shown) for task in solved})
        return "".join(solved)

    def levels() -> list[str]:
        ranked = sorted((task for task in names if task in known), key=lambda task: known[task])
        runs = min(m, len(ranked))
        cuts = [len(ranked) // runs * j + min(j, len(ranked) % runs) for j in range(1, runs + 1)] if runs else []
        bounds = [known[ranked[cut - 1]] for cut in cuts]
        return ["".join(task for task in ranked if known[task] <= bound) for bound in bounds]

    known: dict[str, int] = {}
    lines: list[str] = []
    iteration("None", "")
    cycle, going = 0, True
    while going and set(names) - set(known):
        cycle, going = cycle + 1, False
        for level, shown in enumerate(levels()):
            called = "HME"[: level + 1] if m == 3 else "".join(str(j + 1) for j in range(level + 1))
            if iteration(f"{called}_{cycle}", shown):
                going = True
                break
    return lines


@settings(max_examples=40, deadline=None)
@given(st.lists(RATES, min_size=1, max_size=6), st.integers(1, 7), st.sampled_from([1, 3, 8]))
def test_it_is_the_algorithm_as_written_whatever_the_rates_levels_and_threads(rates, m, threads):
    names = "abcdef"[: len(rates)]

    def script(task: str, demos: tuple[str, ...], visit: int) -> int:
        of_task = rates[names.index(task)]
        return of_task.get(max((k for k in of_task if k <= len(demos)), default=-1), 0)

    compiled = learn(names, script, n=N, granularity=m, threads=threads)
    assert story(compiled) == as_written(names, rates, m)
    shown = [demo.task for demo in compiled.solve.demos]
    assert compiled.experience.demos == tuple(shown)
    assert bool(shown) == bool(compiled.experience.entries)


@pytest.mark.parametrize("optimizer", [AdaptiveFewShot, SinglePass])
def test_an_unknown_option_is_named_with_the_optimizer_that_has_none(optimizer: Any) -> None:
    """As the user wrote it, with the options that there are."""
    with pytest.raises(TypeError, match=rf"^{optimizer.__name__}: no option max_bootstrapped_demos; the options are "):
        optimizer(is_right, max_bootstrapped_demos=3)


# The entries of a run's tasks, extended iteration by iteration.


def test_an_entry_says_how_often_its_task_was_solved_and_what_that_cost() -> None:
    """At its best temperature and at all together; tokens are those of all iterations until then."""

    def late(task: str, demos: tuple[str, ...], visit: int) -> int:
        return 2 if task == "a" or demos else 0

    engine = ScriptedEngine(late, 4)
    experience: Experience = learn("ab", late, engine=engine, temperatures=(0.4, 1.0)).experience
    first, second = experience.entries
    assert [(each.task_key, each.iteration, each.successes, each.samples) for each in (first, second)] == [
        ("a", 0, 2, 4), ("b", 1, 2, 4),
    ]  # fmt: skip
    assert (second.pooled_successes, second.pooled_samples) == (4, 8)
    spent = sum(attempt.tokens["solve"].total for attempt in experience.attempts if attempt.task_key == "b")
    assert second.tokens.total == spent


def test_entries_are_in_task_order_and_another_run_s_other_tasks_come_first() -> None:
    """Whatever the order of the iterations that solved them."""
    earlier = learn("xc", lambda *_: 4).experience
    rates = {"a": lambda demos: 4 if len(demos) > 2 else 0, "b": lambda demos: 4}
    compiled = learn(
        "abc", lambda task, demos, visit: rates[task](demos) if task in rates else 4, granularity=1,
        compiling={"experience": replace(earlier, carried=False)},
    )  # fmt: skip
    assert [entry.task_key for entry in compiled.experience.entries] == ["x", "a", "b", "c"]
    assert [result.solved for result in compiled.experience.iterations] == [("b",), ("a",)]


def price(example: dspy.Example, outputs: Mapping[str, Any]) -> float | None:
    """The number in an answer such as `right a 7`; an answer without one has no cost."""
    found = re.search(r"\d+", str(outputs["answer"]))
    return float(found[0]) if found else None


def begins_right(example: dspy.Example, prediction: dspy.Prediction, trace: Any = None) -> bool:
    return str(prediction.answer).startswith(f"right {example.task}")


class Pricing(ScriptedEngine):
    """Gives right answers of these costs, one after another."""

    def __init__(self, *costs: str) -> None:
        self.left = list(costs)
        super().__init__(lambda task, demos, visit: 99, 2, self.said)

    def said(self, request: Any, task: str, right: bool) -> str:
        with self.lock:
            return answer(f"right {task} {self.left.pop(0) if len(self.left) > 1 else self.left[0]}")


def run(engine: ScriptedEngine, iterations: int | None = 3, **options: Any) -> Experience:
    domain = Domain(task_key=by_task, cost=price, grouping_key=lambda outputs: outputs["answer"])
    settings = {
        "domain": domain,
        "budget": Budget(iterations=iterations),
        "metric": begins_right,
        "threads": 1,
        **options,
    }
    return learn("a", lambda task, demos, visit: 99, n=2, engine=engine, **settings).experience


def answers(experience: Experience) -> list[str]:
    return [str(entry.outputs["answer"]) for entry in experience.entries]


def test_the_cheapest_answer_of_an_iteration_is_chosen() -> None:
    """And not the shortest, nor the first; one without a cost comes last."""
    assert answers(run(Pricing("30", "4"), 1)) == ["right a 4"]
    assert answers(run(Pricing("", "1000"), 1)) == ["right a 1000"]
    assert run(Pricing("30", "4"), 1).costs == {"a": 4.0}


def test_a_solved_task_is_sampled_until_the_budget_and_keeps_its_cheapest_answer() -> None:
    """Counts stay those of the iteration that solved it; the record says what each iteration found."""
    experience = run(Pricing("30", "40", "9", "50", "60", "70"))
    assert [(result.solved, result.improved) for result in experience.iterations] == [
        (("a",), ()), ((), ("a",)), ((), ())
    ]  # fmt: skip
    assert [result.costs for result in experience.iterations] == [{"a": 30.0}, {"a": 9.0}, {"a": 9.0}]
    [entry] = experience.entries
    assert (entry.outputs["answer"], entry.cost, entry.iteration, entry.answer_iteration) == ("right a 9", 9.0, 0, 1)
    assert (entry.successes, experience.stopped) == (2, "budget")
    assert Experience.from_dict(experience.to_dict()).entries == experience.entries


def test_a_cheaper_answer_is_a_demonstration_from_then_on() -> None:
    engine = Pricing("30", "40", "9", "50", "60", "70")
    run(engine)
    shown = ["\n".join(message.text or "" for message in request.messages) for request in engine.requests]
    assert ["right a 30" in text for text in shown] == [False, False, True, True, False, False]
    assert ["right a 9" in text for text in shown] == [False, False, False, False, True, True]


def test_without_a_budget_a_run_ends_when_nothing_gets_cheaper() -> None:
    """Once the strategy has shown all levels in vain."""
    experience = run(Pricing("30", "40", "9", "50", "60"), None)
    assert answers(experience) == ["right a 9"]
    assert experience.stopped == "solved"


# Tasks that have right answers enough are sampled no further, and their figures stay unbiased.


RIGHT = {"easy": 4, "rare": 1}


@pytest.mark.parametrize("threads", [1, 4])
def test_no_sample_is_made_after_the_right_answers(threads: int) -> None:
    """Whatever the threads: an answer that was in flight is on record, and in no figure."""
    engine = ScriptedEngine(lambda task, *_: RIGHT.get(task, 0), 8)
    compiled = learn(("easy", "rare", "never"), engine.script, n=8, engine=engine, threads=threads, stop_after=2)
    first, *_ = compiled.experience.iterations
    counts = {count.task_key: (count.successes, count.samples) for count in first.counts}
    assert counts == {"easy": (1, 1), "rare": (1, 8), "never": (0, 8)}
    sampled = [attempt for attempt in compiled.experience.attempts if attempt.iteration == 0]
    assert 2 + 8 + 8 <= len(sampled) <= 2 + 8 + 8 + threads and first.samples == len(sampled)
    assert {entry.task_key: entry.rate for entry in compiled.experience.entries} == {"easy": 1.0, "rare": 1 / 8}
    assert first.pass_at_n == 2 / 3


@pytest.mark.parametrize("k", [1, 3])
def test_pass_at_k_is_unbiased_all_the_same(k: int) -> None:
    """Over many runs of 40 samples at a rate of 0.3, its mean is that of runs which take all samples."""
    rng, rate, found = random.Random(0), 0.3, []
    for _ in range(20_000):
        c, n = counted([rng.random() < rate for _ in range(40)], 4)
        found.append(pass_at_k(n, c, min(k, n)))
    assert fmean(found) == pytest.approx(1 - (1 - rate) ** k, abs=0.005)


def test_one_right_answer_gives_no_rate() -> None:
    with pytest.raises(ValueError, match="stop_after: expected greater than or equal to 2, found 1"):
        learn("a", lambda *_: 1, stop_after=1)


# The optimizer knows no domain, unless told: here it learns to spell words backwards, with defaults in place.


class Speller:
    """An engine that spells short words backwards, and longer ones as long as it was shown examples of."""

    def complete(self, request: lm15.Request) -> lm15.Response:
        users = [m.text or "" for m in request.messages if m.role == "user"]
        *shown, word = [re.search(r"## word ## ]]\n(\w+)", text).group(1) for text in users]  # type: ignore[union-attr]
        reach = max([3, *(len(example) + 1 for example in shown)])
        lucky = len(word) <= reach and (request.config.seed or 0) % 3 == 0
        text = f"[[ ## backwards ## ]]\n{word[::-1] if lucky else word}\n\n[[ ## completed ## ]]"
        usage = lm15.Usage(input_tokens=len(users), output_tokens=1)
        return respond(request, text, usage)


def test_a_plain_predictor_learns_from_its_own_answers():
    words = ["cat", "frog", "zebra", "monkey"]
    trainset = [dspy.Example(word=word, gold=word[::-1]).with_inputs("word") for word in words]
    student = dspy.Predict("word -> backwards")
    with dspy.context(lm=dspy.LM("speller", engine=Speller(), cache=False)):
        compiled = AdaptiveFewShot(
            metric=lambda example, prediction: prediction.backwards == example.gold, num_samples=16
        ).compile(student, trainset=trainset)
        assert len(compiled.experience.solved) == 4 and compiled.experience.stopped == "solved"
        solved = [len(result.solved) for result in compiled.experience.iterations]
        assert [count for count in solved if count] == [1, 1, 1, 1]
        assert compiled(word="dog").keys() == ["backwards"]
    assert compiled.demos and not student.demos


def example(**fields: object) -> dspy.Example:
    return dspy.Example(**fields).with_inputs("task", "notes")


def test_a_task_is_named_by_the_words_of_its_inputs_whatever_their_order() -> None:
    """Outputs, which are answers, do not count."""
    text = "Pay (10) euros, and a half!"
    name = input_name(example(task=text, notes=[1, 2], answer="x"))
    assert re.fullmatch(r"Pay-10-euros-and-a-half-[0-9a-f]{8}", name)
    assert name == input_name(example(notes=[1, 2], task=text, answer="y"))
    assert name != input_name(example(task=text, notes=[2, 1], answer="x"))


def test_the_default_groups_by_words_and_prefers_fewer_lines() -> None:
    """White space makes no other answer."""
    domain = Domain()
    assert domain.grouping_key({"answer": "a  b\n"}) == domain.grouping_key({"answer": "a b"})
    assert domain.grouping_key({"answer": "a b"}) != domain.grouping_key({"answer": "ab"})
    assert domain.length({"answer": "one long line"}) < domain.length({"answer": "a\nb"})
    assert (domain.threshold, domain.demo_predictors, domain.traced_demos) == (1.0, None, True)
