"""The record: immutable, whole in JSON, and enough to compute every figure from."""

import copy
import json
import pickle
import threading
import tracemalloc
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import dspy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from optimizers import Attempt, AttemptLog, Experience, TokenCount, pass_at_k
from optimizers.attempt import to_jsonable
from tests.support.scripted_program import Heard, ScriptedEngine, answer, learn, tasks


def some(task: str, demos: tuple[str, ...], visit: int) -> int:
    return {"a": 1, "b": 2}.get(task, 3 if demos else 0)


def test_json_round_trip(tmp_path):
    record = learn("abx", some, compiling={"valset": tasks("v")}).experience
    halved = replace(record.entries[0], outputs={"answer": "half a pair: \ud800"})
    record = replace(record, entries=(halved, *record.entries[1:]))
    record.dump(tmp_path / "experience.json")
    loaded = Experience.load(tmp_path / "experience.json")
    assert loaded.to_dict() == json.loads(json.dumps(record.to_dict()))
    for part in ("entries", "iterations", "attempts", "validation", "tokens", "demos"):
        assert getattr(loaded, part) == getattr(record, part)


def test_attempts_can_be_left_out():
    record = learn("a", some).experience
    assert record.attempts and record.to_dict(attempts=False)["attempts"] == []


def test_another_format_is_refused():
    with pytest.raises(ValueError, match="format 99"):
        Experience.from_dict({"format": 99})


def test_every_figure_follows_from_the_attempts():
    record = learn("abx", some, n=8, temperatures=(0.4, 1.0)).experience
    figures: dict[str, tuple[int, int]] = {}
    prompt = 0
    for result in record.iterations:
        sampled = [attempt for attempt in record.attempts if attempt.iteration == result.index]
        for key in result.tasks:
            rates = []
            for temperature in record.settings["temperatures"]:
                mine = [a for a in sampled if (a.task_key, a.temperature) == (key, temperature)]
                own = [a.passed for a in mine if a.scored]
                rates.append((sum(own), len(own)))
            if any(c for c, _ in rates):
                figures[key] = max(rates, key=lambda rate: rate[0] / rate[1])
        assert set(result.solved) <= set(figures) and result.solved_total == len(figures)
        for k, value in ((1, result.pass_at_1), (8, result.pass_at_8)):
            assert value == pytest.approx(sum(pass_at_k(n, c, k) for c, n in figures.values()) / 3)
        prompt += sum(count.prompt for a in sampled for count in a.tokens.values())
        assert result.tokens_prompt_per_task == pytest.approx(prompt / 3)
    for entry in record.entries:
        assert figures[entry.task_key] == (entry.successes, entry.samples)
        (answer,) = [
            a
            for a in record.attempts
            if (a.iteration, a.task_key, a.temperature, a.sample)
            == (entry.iteration, entry.task_key, entry.answer_temperature, entry.answer_sample)
        ]
        assert answer.passed and answer.outputs == entry.outputs


def test_a_part_of_the_wrong_type_is_named_in_one_line():
    whole = learn("a", some).experience.to_dict()
    broken = {**whole, "iterations": [{**whole["iterations"][0], "solved": "a", "index": "zero"}]}
    with pytest.raises(ValueError, match=r"^iterations\.0\.index: expected [^\n]*$"):
        Experience.from_dict(broken)


def test_pooled_pass_at_k_counts_the_samples_of_all_temperatures():
    """The best temperature alone is biased upward."""
    compiled = learn("a", lambda *_: 1, temperatures=(0.4, 0.7), engine=OnlyAt(0.7))
    record = compiled.experience
    assert (record.pass_at(1), record.pass_at_pooled(1)) == (0.25, 0.125)
    assert [(r.pass_at_1, r.pass_at_1_pooled) for r in record.iterations] == [(0.25, 0.125)]
    assert Experience.from_dict(record.to_dict()).pass_at_pooled(1) == 0.125


class OnlyAt(ScriptedEngine):
    """Is right at one temperature only."""

    def __init__(self, temperature: float) -> None:
        def say(request, task, right):
            return answer(f"right {task}" if right and request.config.temperature == temperature else "wrong")

        super().__init__(lambda *_: 1, 4, say)


class Point(BaseModel):
    x: int


class Holder(BaseModel):
    held: Any


def test_values_of_any_kind_become_jsonable() -> None:
    value = {"p": Point(x=1), "e": dspy.Example(a=Point(x=2)), "s": {2, 1}, "t": (1, None), 3: b"x"}
    out = to_jsonable(value)
    assert (out["p"], out["e"], out["s"], out["t"]) == ({"x": 1}, {"a": {"x": 2}}, [1, 2], [1, None])
    assert json.dumps(out) and to_jsonable(Heard) == str(Heard)
    assert to_jsonable(Holder(held=len)) == "held=<built-in function len>"


def test_arrays_are_their_elements_and_none_is_left_out():
    """Tasks are named by this text, and the text of a long array omits its middle."""
    assert to_jsonable({"x": np.array([[1, 2], [3, 4]]), "n": np.int64(5)}) == {"x": [[1, 2], [3, 4]], "n": 5}
    one, other = np.zeros(5_000), np.zeros(5_000)
    other[2_500] = 1.0
    assert str(one) == str(other) and to_jsonable(one) != to_jsonable(other)


@pytest.mark.parametrize("n", range(1, 8))
def test_it_equals_the_enumeration_of_all_draws(n):
    for c in range(n + 1):
        for k in range(1, n + 1):
            draws = list(combinations(range(n), k))
            share = Fraction(sum(min(draw) < c for draw in draws), len(draws))
            assert pass_at_k(n, c, k) == float(share)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_its_ends_are_exact(nc):
    n, c = nc
    assert pass_at_k(n, c, 1) == c / n
    assert pass_at_k(n, c, n) == float(c > 0)


@pytest.mark.parametrize(("n", "c", "k"), [(0, 0, 1), (3, 4, 1), (3, -1, 1), (3, 1, 4), (3, 1, 0)])
def test_what_is_not_a_draw_is_refused(n, c, k):
    with pytest.raises(ValueError, match="pass@k"):
        pass_at_k(n, c, k)


# Attempts in a file hold these.
#
# - A log reads like a tuple of what was put in, in any order that it was arranged to.
# - It survives copying, pickling and a full disk, and takes memory for only a few bytes of each attempt.


def attempt(sample: int, **others: object) -> Attempt:
    tokens = {"solve": TokenCount(calls=1, prompt=3)}
    return Attempt(0, 0, "a", 0.7, sample, 100 + sample, tokens=tokens, **others)  # type: ignore[arg-type]


def test_a_log_reads_like_a_tuple() -> None:
    """Length, places from both ends, slices, going through, equality."""
    attempts = tuple(attempt(n, outputs={"answer": {n}}) for n in range(5))
    log = AttemptLog(attempts)
    assert (len(log), log[1], log[-1], log[1:3]) == (5, attempts[1], attempts[4], attempts[1:3])
    assert log[::-2] == attempts[::-2]
    assert tuple(log) == attempts and log == attempts and attempts == log
    assert log != attempts[:4] and log != [*attempts[:4], attempt(9)] and log != 5
    assert attempts[3] in log and log.index(attempts[3]) == 3
    assert log[0].outputs == {"answer": {0}}, "types are kept"
    with pytest.raises(IndexError):
        log[5]


def test_what_was_added_last_is_arranged_by_its_places() -> None:
    log = AttemptLog(map(attempt, (0, 1)))
    for sample in (9, 7, 8):
        log.append(attempt(sample))
    log.arrange(2, [2, 0, 1])
    assert [a.sample for a in log] == [0, 1, 7, 8, 9]


def test_it_survives_copying_and_pickling() -> None:
    log = AttemptLog(map(attempt, range(3)))
    assert pickle.loads(pickle.dumps(log)) == copy.deepcopy(log) == log
    record = replace(learn("ab", lambda *_: 1).experience, carried=False)
    assert pickle.loads(pickle.dumps(record)) == record


def test_what_nothing_can_pickle_or_read_again_stays_as_it_is() -> None:
    class Odd:
        def __reduce__(self) -> object:
            return int, ("unreadable",)

    odd, lock, tool = Odd(), threading.Lock(), lambda: 7
    log = AttemptLog(
        [attempt(0, outputs={"lock": lock, "tool": tool}), attempt(1, calls={"solve": ({"given": odd},)}), attempt(2)]
    )
    log.arrange(0, [2, 1, 0])
    assert (
        log[0] == attempt(2)
        and log[1].calls["solve"][0]["given"] is odd
        and log[2].outputs == {"lock": lock, "tool": tool}
    )


def test_a_full_disk_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has no room for stays in memory, the half-written one included."""
    log = AttemptLog([attempt(0)])
    with Path("/dev/full").open("r+b", buffering=0) as full, monkeypatch.context() as patch:
        patch.setattr(log, "_file", full)
        log.append(attempt(1))
    log.append(attempt(2))
    assert [a.sample for a in log] == [0, 1, 2]


def test_memory_of_a_run_does_not_grow_with_its_samples() -> None:
    """Within an iteration neither; the record has every sample all the same."""

    def peak(n: int) -> int:
        answer = "[[ ## answer ## ]]\n" + "x" * 20_000 + "\n\n[[ ## completed ## ]]"
        tracemalloc.start()
        try:
            engine = Engine(answer)
            record = learn("a", lambda *_: 0, n=n, engine=engine).experience
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            assert len(record.attempts) == n

    peak(4)
    assert peak(150) - peak(20) < 130 * 20_000 / 4


class Engine:
    """Says always the same, at length, and remembers nothing."""

    def __init__(self, text: str) -> None:
        self.text = text

    def complete(self, request: object) -> object:
        from dspy import lm15

        from tests.support.scripted_lm import respond

        return respond(request, self.text + "", lm15.Usage(input_tokens=1, output_tokens=1))  # type: ignore[arg-type]


RIGHT = Attempt(
    iteration=1,
    task=2,
    task_key="c",
    temperature=0.7,
    sample=3,
    seed=4,
    outputs={"answer": "right"},
    score=1.0,
    passed=True,
    tokens={"solve": TokenCount(calls=1, prompt=5)},
    calls={"check": ({"draft": "x"},), "hop": ({"at": 1}, {"at": 2}), "unused": ()},
)


def test_an_attempt_survives_json() -> None:
    """Counts of tokens come back as counts, and calls as calls, of which one is written without a list."""
    assert RIGHT.to_dict()["calls"] == {"check": {"draft": "x"}, "hop": [{"at": 1}, {"at": 2}], "unused": {}}
    again = Attempt.from_dict(json.loads(json.dumps(RIGHT.to_dict())))
    assert again == RIGHT and isinstance(again.tokens["solve"], TokenCount)


def test_an_unscored_verdict_is_neither_a_failure_nor_a_score() -> None:
    """The metric answered, so that the sample stands; the control got no answer."""
    unknown = Attempt(0, 0, "t", 0.4, 0, 0, outputs={"impl": "x"}, feedback={"unscored": True, "stage": "run"})
    assert unknown.unknown and not unknown.failed and not unknown.scored
    lost = Attempt(0, 0, "t", 0.4, 0, 0, error="LMError: no")
    assert lost.failed and not lost.unknown
