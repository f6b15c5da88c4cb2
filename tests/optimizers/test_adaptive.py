"""Algorithm 1, on a scripted agent whose success rates are known.

Invariants held here: the demonstrations of every iteration are d_j of β over what is known by then; a
solution restarts the cycle from the hardest level; repeats are kept; the run ends when nothing is left, when
d_j = D solves nothing, or when D stays empty; entries carry the figures of the iteration that earned them; all of it
equals the algorithm as the paper writes it down, for any rates, levels and number of threads.
"""

import asyncio
import threading
from typing import Any

import dspy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizers import AdaptiveFewShot, BaseObserver, Budget, Domain, Experience, SinglePass, pass_at_k
from tests.support.scripted_program import ScriptedEngine, Solver, answer, by_task, is_right, learn, some, story, tasks

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


def test_without_a_success_the_run_ends_after_the_first_iteration():
    compiled = learn("xy", unaided)
    assert story(compiled) == ["None: - -> -"]
    assert (compiled.experience.stopped, compiled.experience.entries) == ("exhausted", ())
    assert compiled.solve.demos == []


def test_everything_solved_at_once_ends_the_run_at_once():
    compiled = learn("abc", unaided)
    assert story(compiled) == ["None: - -> abc"]
    assert compiled.experience.stopped == "solved"
    assert [demo.task for demo in compiled.solve.demos] == ["a"]


def test_a_solved_task_is_not_sampled_again():
    engine = ScriptedEngine(unaided, 4)
    learn("ax", unaided, engine=engine)
    assert engine.calls == 4 + 4 + 4


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


def test_figures_keep_what_the_solving_iteration_found_and_count_unsolved_tasks_as_nothing():
    compiled = learn("abcx", unaided)
    first, *_, last = compiled.experience.iterations
    assert first.pass_at_1 == last.pass_at_1 == pytest.approx((1 + 2 + 3) / 4 / 4)
    assert first.pass_at_n == last.pass_at_n == 3 / 4
    assert first.pass_at_8 == pytest.approx(3 / 4)  # of the four samples there are
    full = learn("ax", lambda task, demos, visit: 3 if task == "a" else 0, n=16).experience.iterations[0]
    assert full.pass_at_8 == pytest.approx(pass_at_k(16, 3, 8) / 2)


def test_a_task_stops_taking_prompt_tokens_once_solved():
    compiled = learn("ax", unaided)
    record = compiled.experience
    spent = dict.fromkeys("ax", 0)
    for result in record.iterations:
        for attempt in (a for a in record.attempts if a.iteration == result.index):
            spent[attempt.task_key] += sum(count.prompt for count in attempt.tokens.values())
        assert result.tokens_prompt_per_task == sum(spent.values()) / 2
    assert record.entries[0].tokens.prompt == spent["a"]


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


def test_errors_about_arguments_name_the_method_alone() -> None:
    """Not a class that the user has never seen."""
    with pytest.raises(TypeError, match=r"^compile\(\) missing 1 required keyword-only argument: 'trainset'"):
        AdaptiveFewShot(is_right).compile(Solver())  # type: ignore[call-arg]


def test_compiling_can_be_awaited() -> None:
    """The event loop goes on meanwhile; the settings are those of the caller's context."""

    async def both() -> tuple[Any, int]:
        optimizer, turns = AdaptiveFewShot(is_right, 4, temperatures=(0.7,), domain=Domain(task_key=by_task)), 0
        with dspy.context(lm=dspy.LM("scripted", engine=ScriptedEngine(some, 4), cache=False)):
            compiling = asyncio.create_task(optimizer.acompile(Solver(), trainset=tasks("ab")))
        while not compiling.done():
            await asyncio.sleep(0.001)
            turns += 1
        return await compiling, turns

    compiled, turns = asyncio.run(both())
    assert compiled.experience.solved == ("a", "b") and turns > 1


def test_a_cancelled_compilation_ends_like_an_interrupted_one() -> None:
    """No further sample starts; what was sampled is in the record that listeners get."""
    asked, ended = threading.Event(), threading.Event()
    records: list[Experience] = []

    class Slow(ScriptedEngine):
        def complete(self, request: Any) -> Any:
            asked.set()
            return super().complete(request)

    class Last(BaseObserver):
        def sample_done(self, attempt: Any) -> None:
            cancelled.wait(10)

        def run_finished(self, experience: Experience) -> None:
            records.append(experience)
            ended.set()

    cancelled, engine = threading.Event(), Slow(some, 64)

    async def cancel() -> None:
        optimizer = AdaptiveFewShot(is_right, 64, temperatures=(0.7,), threads=1, observers=[Last()])
        with dspy.context(lm=dspy.LM("scripted", engine=engine, cache=False)):
            compiling = asyncio.create_task(optimizer.acompile(Solver(), trainset=tasks("abx")))
        await asyncio.to_thread(asked.wait)
        compiling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await compiling
        cancelled.set()
        await asyncio.to_thread(ended.wait, 10)

    asyncio.run(cancel())
    assert records[0].stopped == "interrupted" and engine.calls < 10
