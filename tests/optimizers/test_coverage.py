"""`coverage` shows each task what is like it: while a run learns, and in a program for queries of any kind."""

import asyncio
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dspy
import pytest
from dspy import lm15
from hypothesis import given
from hypothesis import strategies as st

from optimizers import Budget, Domain, Experience, PerQuery
from optimizers.demonstrations import demo_tokens
from optimizers.strategies import Candidate, Coverage, Weights, cover
from tests.support.scripted_program import (
    FIELD,
    Asynchronous,
    Heard,
    ScriptedEngine,
    answer,
    by_task,
    learn,
    some,
    tasks,
)


def candidate(name: str, structures: str, tokens: int = 10) -> Candidate:
    """A solved task whose structures are letters."""
    return Candidate(cast(Any, SimpleNamespace(task_key=name, rate=0.5)), frozenset(structures), tokens)


def picked(query: str, pool: list[Candidate], tokens: int | None = None) -> str:
    picks = cover(frozenset(query), pool, Weights([each.structures for each in pool]), tokens)
    assert all(pick.reason for pick in picks)
    return "".join(pick.entry.task_key for pick in picks)


COVERING = [candidate("a", "wxy"), candidate("b", "wx"), candidate("c", "z"), candidate("d", "xyz", 1000)]


def test_each_adds_a_structure_and_nothing_comes_after_all_is_covered() -> None:
    """Per token: `d` has two of the structures, and is a hundred times as long."""
    assert picked("wxyz", COVERING) == "ac"


def test_it_starts_over_while_tokens_are_left() -> None:
    assert picked("wxyz", COVERING, 30) == "acb"
    assert picked("wxyz", COVERING, 29) == "ac"


def test_the_hardest_are_shown_where_nothing_bears_on_the_task() -> None:
    """The pool is in this order."""
    assert picked("q", COVERING) == "abcd"
    assert picked("q", COVERING, 20) == "ab"
    assert picked("q", [candidate(str(place), "z") for place in range(9)]) == "01234567"


@given(
    st.text("uvwxyz", max_size=6),
    st.lists(st.tuples(st.text("uvwxyz", max_size=4), st.integers(0, 50)), max_size=8),
    st.none() | st.integers(0, 120),
)
def test_it_ends_within_the_tokens_and_shows_nothing_twice(
    query: str, solved: list[tuple[str, int]], tokens: int | None
) -> None:
    pool = [candidate(chr(65 + place), structures, size) for place, (structures, size) in enumerate(solved)]
    found = picked(query, pool, tokens)
    assert len(set(found)) == len(found)
    assert tokens is None or sum(each.tokens for each in pool if each.entry.task_key in found) <= tokens
    known = frozenset().union(*(each.structures for each in pool)) & frozenset(query)
    if tokens is None and known:
        covered = frozenset().union(*(each.structures for each in pool if each.entry.task_key in found))
        assert known <= covered


def test_rare_structures_weigh_more_and_unknown_ones_nothing() -> None:
    weights = Weights([frozenset("xy"), frozenset("x"), frozenset("xz")])
    assert weights.total(frozenset("x")) == pytest.approx(math.log(2))
    assert weights.total(frozenset("y")) == pytest.approx(math.log(4))
    assert weights.total(frozenset("q")) == 0 and weights.total(frozenset("xyq")) == pytest.approx(math.log(8))
    assert weights.heaviest(frozenset("xyzq"), 2) == ["y", "z"]


SOLVED = {"red cat": 1, "red dog": 2, "blue dog": 3, "green emu": 4}
HARD = {"a red cow": "red", "a blue cow": "blue", "an emu": "emu"}


def script(task: str, demos: tuple[str, ...], visit: int) -> int:
    """A hard task is solved once something with its word is shown; the emu, by nothing."""
    return SOLVED.get(task, 2 * any(HARD.get(task, "") in demo and task != "an emu" for demo in demos))


def run(name: str = "coverage", **options: Any) -> tuple[Experience, Heard, ScriptedEngine, Any]:
    heard, engine = Heard(), ScriptedEngine(script, 4)
    compiled = learn([*SOLVED, *HARD], script, engine=engine, selection=name, observers=[heard], **options)
    return compiled.experience, heard, engine, compiled


def test_tasks_are_shown_what_is_like_them() -> None:
    """The record and the listeners have the demonstrations of each, in the prompt's order, with reasons."""
    record, heard, engine, compiled = run()
    assert record.unsolved == ("an emu",)
    second = record.iterations[1]
    assert set(second.reasons) == set(HARD) and heard.started[1].reasons == second.reasons
    for task, reasons in second.reasons.items():
        assert all(reasons.values())
        assert {demos for each, demos, _ in engine.drawn if each == task and demos} >= {tuple(reasons)}
    assert "red cat" in second.reasons["a red cow"] and "green emu" in second.reasons["an emu"]
    assert second.demos == tuple(key for key in SOLVED if any(key in each for each in second.reasons.values()))
    assert [demo.task for demo in compiled.solve.demos] == list(record.demos) != []
    assert Experience.from_dict(record.to_dict()).iterations == record.iterations


def test_relevant_tasks_are_shown_to_those_that_failed_without() -> None:
    """Two at most, the most relevant last; none that are hardly relevant, and none in a first pass."""
    weights = {"red cat": 0.9, "red dog": 0.5, "blue dog": 0.45, "green emu": 0.3}
    domain = Domain(task_key=by_task, relevance=lambda query, shown, answer: weights.get(shown["task"], 0.0))
    known, *_ = run(budget=Budget(iterations=1))
    record, _, engine, _ = run("relevance", domain=domain, compiling={"experience": known})
    first, second = record.iterations[:2]
    assert not first.demos and not first.reasons and set(first.tasks) == set(HARD)
    assert all(tuple(shown) == ("red dog", "red cat") for shown in second.reasons.values())
    assert second.reasons["an emu"]["red cat"] == "relevance 0.90"
    assert not any("green emu" in demos for _, demos, _ in engine.drawn)


@pytest.mark.parametrize("name", ["coverage", "everything"])
def test_demonstrations_fit_their_tokens(name: str) -> None:
    """None where none fits, all of them where there is room."""
    sizes = {}
    for limit in (1, 45, 10_000):
        _, _, engine, compiled = run(name, budget=Budget(demo_tokens=limit))
        sizes[limit] = max(len(demos) for _, demos, _ in engine.drawn), len(compiled.solve.demos)
    assert sizes[1] == (0, 0)
    assert all(0 < few < len(SOLVED) for few in sizes[45]) and max(sizes[10_000]) >= len(SOLVED)


def test_a_resumed_run_is_the_same_run() -> None:
    whole, *_ = run()
    kept = [attempt for attempt in whole.attempts if attempt.iteration < 2]
    again, *_ = run(compiling={"resume": kept})
    assert [(it.solved, it.reasons) for it in again.iterations] == [(it.solved, it.reasons) for it in whole.iterations]
    assert again.demos == whole.demos


def test_the_structures_are_the_domain_s_of_the_task_and_its_nearest_miss() -> None:
    """Here the first letter alone, which no solved task shares."""
    seen: list[Any] = []

    def first_letter(inputs: Any, outputs: Any) -> frozenset[str]:
        seen.append((inputs["task"], outputs and outputs["answer"]))
        return frozenset(inputs["task"][0])

    record = run(domain=Domain(task_key=by_task, structures=first_letter))[0]
    assert list(record.iterations[1].reasons["an emu"]) == list(SOLVED) and ("an emu", "wrong") in seen


NAMES = ("red rose", "red brick", "blue sky", "blue sea")


def solved() -> dspy.Module:
    return learn(NAMES, lambda *_: 2, selection="coverage")


def shown(program: dspy.Module, task: str) -> list[str]:
    """The tasks in the prompt of a query."""
    engine = ScriptedEngine(some, 1, lambda request, task, right: answer("done"))
    with dspy.context(lm=dspy.LM("scripted", engine=engine, cache=False)):
        assert program(task=task).answer == "done"
    (request,) = engine.requests
    users = [message.text or "" for message in request.messages if message.role == "user"][:-1]
    return [found.group(1) for user in users if (found := FIELD.search(user))]


def for_one_each() -> PerQuery:
    compiled = solved()
    size = max(demo_tokens(compiled, ["solve"], entry) for entry in compiled.experience.entries)
    return PerQuery(compiled, token_budget=size)


def test_each_query_is_shown_what_suits_it() -> None:
    """Within a budget of tokens; the program itself is not changed."""
    program = for_one_each()
    before = program.program.dump_state()
    assert [name.split()[0] for name in shown(program, "red apple")] == ["red"]
    assert [name.split()[0] for name in shown(program, "blue bird")] == ["blue"]
    assert program.program.dump_state() == before


def test_a_program_for_queries_is_saved_with_what_was_solved(tmp_path: Path) -> None:
    """A file of its state is read into one that knows another run."""
    program, other = PerQuery(solved()), PerQuery(learn("ab", some))
    program.save(tmp_path / "program.json")
    other.load(tmp_path / "program.json")
    assert [entry.task_key for entry in other.choose(task="red apple")] == [
        entry.task_key for entry in program.choose(task="red apple")
    ]
    assert shown(other, "red apple") == shown(program, "red apple")
    assert shown(program.deepcopy(), "red apple") == shown(program, "red apple")


def test_a_program_for_queries_can_be_awaited() -> None:
    program = PerQuery(learn(("a", "b"), some, student=dspy.Predict("task -> answer")))
    engine = ScriptedEngine(some, 1, lambda *_: answer("done"))

    async def ask() -> Any:
        lm = dspy.LM("scripted", engine=engine, async_engine=Asynchronous(engine), cache=False)
        with dspy.context(lm=lm):
            return (await program.acall(task="red apple")).answer

    assert asyncio.run(ask()) == "done"


def test_it_streams_by_its_own_predictors_which_take_an_lm() -> None:
    """With what suits the query; demonstrations given in a call, or by an optimizer, stay what they are."""

    class Streaming(ScriptedEngine):
        def stream(self, request: Any) -> Iterator[Any]:
            for event in lm15.response_to_events(self.complete(request)):
                words = getattr(getattr(event, "delta", None), "text", "").split(" ")
                yield from (replace(event, delta=replace(event.delta, text=f"{word} ")) for word in words if word)
                if words == [""]:
                    yield event

    program = for_one_each()
    engine = Streaming(some, 1, lambda *_: answer("some words that are said one by one"))
    program.set_lm(dspy.LM("scripted", engine=engine, cache=False))
    listener = dspy.streaming.StreamListener(signature_field_name="answer")
    *chunks, last = dspy.streamify(program, stream_listeners=[listener], async_streaming=False)(task="red apple")
    assert len(chunks) > 1 and "".join(each.chunk for each in chunks).strip() == last.answer
    assert "red" in str(engine.requests[0].messages[0]) and len(engine.requests[0].messages) == 3
    with dspy.context(adapter=program._showing({"task": "red apple"})):
        program.program.solve(task="red apple", demos=[])
    assert len(engine.requests[1].messages) == 1
    program.program.solve.lm, program.program.solve.demos = None, [dspy.Example(task=name, answer="") for name in "ab"]
    assert len(shown(program, "red apple")) == 2


def test_a_program_that_solved_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no solved task"):
        PerQuery(dspy.Predict("task -> answer"))
    with pytest.raises(ValueError, match="no solved task"):
        PerQuery(dspy.Predict("task -> answer"), experience=Experience(("a",)))


class TwoPools(Coverage):
    """Chooses for each task among the hardest two, then among all."""

    def order(self, entries: Any, rng: Any) -> Any:
        (every,) = super().order(entries, rng)
        return [every[:2], every]


def test_validation_measures_what_the_compiled_program_shows() -> None:
    """One set for every task, not the sets that are chosen per task."""
    engine, valset = ScriptedEngine(script, 4), tasks(["a blue cow", "an emu"])
    compiled = learn([*SOLVED, *HARD], script, engine=engine, selection=TwoPools(), compiling={"valset": valset})
    record = compiled.experience
    shown = {level.demos for level in record.validation}
    assert len(record.validation) > 1 and tuple(demo.task for demo in compiled.solve.demos) in shown
    validated = [attempt for attempt in record.attempts if attempt.iteration < 0]
    assert {attempt.task_key for attempt in validated} == {"a blue cow", "an emu"}
    for demos in shown:
        assert {task for task, each, _ in engine.drawn if each == demos} >= {"a blue cow", "an emu"}
