"""Attempts in a file hold these.

- A log reads like a tuple of what was put in, in any order that it was arranged to.
- It survives copying, pickling and a full disk, and takes memory for only a few bytes of each attempt.
"""

import copy
import json
import pickle
import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from optimizers import Attempt, AttemptLog, TokenCount
from tests.support.scripted_program import learn


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

        from tests.support.scripted_program import respond

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


def test_an_attempt_without_calls_is_recorded_without_the_key() -> None:
    """Records of programs whose own fields say all stay short, and read back."""
    bare = replace(RIGHT, calls={})
    assert "calls" not in bare.to_dict() and "calls" in RIGHT.to_dict()
    assert Attempt.from_dict(bare.to_dict()) == bare


def test_an_unscored_verdict_is_neither_a_failure_nor_a_score() -> None:
    """The metric answered, so that the sample stands; the control got no answer."""
    unknown = Attempt(0, 0, "t", 0.4, 0, 0, outputs={"impl": "x"}, feedback={"unscored": True, "stage": "run"})
    assert unknown.unknown and not unknown.failed and not unknown.scored
    lost = Attempt(0, 0, "t", 0.4, 0, 0, error="LMError: no")
    assert lost.failed and not lost.unknown
