"""A program that carries what was solved shows each query what suits it."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy import lm15

from optimizers import Experience, PerQuery
from optimizers.demonstrations import demo_tokens
from optimizers.strategies.similar import Similar
from optimizers.strategies.utility import Utility
from tests.support.scripted_program import FIELD, Asynchronous, ScriptedEngine, answer, learn, some

NAMES = ("red rose", "red brick", "blue sky", "blue sea")


def solved(*, selection: str = "similar") -> dspy.Module:
    return learn(NAMES, lambda *_: 2, selection=selection)


def shown(program: dspy.Module, task: str) -> list[str]:
    """The tasks in the prompt of a query."""
    engine = ScriptedEngine(some, 1, lambda request, task, right: answer("done"))
    with dspy.context(lm=dspy.LM("scripted", engine=engine, cache=False)):
        assert program(task=task).answer == "done"
    (request,) = engine.requests
    users = [message.text or "" for message in request.messages if message.role == "user"][:-1]
    return [found.group(1) for user in users if (found := FIELD.search(user))]


@pytest.mark.parametrize("selection", ["similar", "mmr", "coverage", "hybrid"])
def test_each_query_is_shown_what_suits_it(selection: str) -> None:
    """The nearest within a budget of tokens; the program itself is not changed."""
    compiled = solved()
    size = max(demo_tokens(compiled, ["solve"], entry) for entry in compiled.experience.entries)
    program = PerQuery(compiled, selection, token_budget=size)
    before = program.program.dump_state()
    assert [name.split()[0] for name in shown(program, "red apple")] == ["red"]
    assert [name.split()[0] for name in shown(program, "blue bird")] == ["blue"]
    assert program.program.dump_state() == before


def test_utility_counts_what_helped_in_the_run(tmp_path: Path) -> None:
    """Of demonstrations that are equally near, the one that led to a right answer comes first, also when read again."""
    compiled = learn(("one", "two", "far"), helped, selection="easy-first", granularity=2)
    program, other = PerQuery(compiled, Utility(most=1)), PerQuery(learn("ab", some), Utility(most=1))
    program.save(tmp_path / "program.json")
    other.load(tmp_path / "program.json")
    assert [shown(each, "new") for each in (PerQuery(compiled, Similar(most=1)), program, other)] == [
        ["one"], ["two"], ["two"],
    ]  # fmt: skip


def helped(task: str, demos: tuple[str, ...], visit: int) -> int:
    """`far` is solved once `two` is shown; `one` is the hardest otherwise."""
    return 4 * (demos == ("two",)) if task == "far" else {"one": 1, "two": 2}[task]


def test_it_is_saved_with_what_was_solved(tmp_path: Path) -> None:
    """A file of its state is read into one that knows another run."""
    program, other = PerQuery(solved(), "similar"), PerQuery(learn("ab", some), "similar")
    program.save(tmp_path / "program.json")
    other.load(tmp_path / "program.json")
    assert [entry.task_key for entry in other.choose(task="red apple")] == [
        entry.task_key for entry in program.choose(task="red apple")
    ]
    assert shown(other, "red apple") == shown(program, "red apple")
    assert shown(program.deepcopy(), "red apple") == shown(program, "red apple")


def test_it_can_be_awaited() -> None:
    """As the program that it is made of."""
    program = PerQuery(learn(("a", "b"), some, student=dspy.Predict("task -> answer")), "coverage")
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

    program = PerQuery(solved(), Similar(most=1))
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


def test_what_cannot_choose_per_query_is_refused() -> None:
    """A strategy that shows all the same, or nothing to show."""
    with pytest.raises(ValueError, match="selection: adaptive shows every query the same; expected one of similar, "):
        PerQuery(solved(), "adaptive")
    with pytest.raises(ValueError, match="no solved task"):
        PerQuery(dspy.Predict("task -> answer"))
    with pytest.raises(ValueError, match="no solved task"):
        PerQuery(dspy.Predict("task -> answer"), experience=Experience(("a",)))
