"""Tasks that have right answers enough are sampled no further, and their figures stay unbiased."""

import random
from statistics import fmean

import pytest

from optimizers import pass_at_k
from optimizers.pass_at_k import counted
from tests.support.scripted_program import ScriptedEngine, learn

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
