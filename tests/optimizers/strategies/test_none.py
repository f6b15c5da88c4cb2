"""`none` is one pass, without demonstrations; `resample` is passes until a limit, each with new samples."""

from itertools import islice

import pytest

from optimizers import Budget
from optimizers.baselines import SinglePass
from optimizers.strategies.base import DemoSet
from optimizers.strategies.none import NoDemonstrations, Resample
from tests.support.entries import SOLVED, Progress
from tests.support.scripted_program import is_right, learn, story


def test_one_set_without_demonstrations_whatever_is_solved() -> None:
    """The compiled program carries none either."""
    progress = Progress({solved.name: solved for solved in SOLVED})
    assert list(NoDemonstrations().demo_sets(progress)) == [DemoSet("None")]
    assert list(NoDemonstrations("mipro", "mipro").demo_sets(progress)) == [DemoSet("mipro")]
    assert list(NoDemonstrations().candidates(progress)) == []


def late(task: str, demos: tuple[str, ...], visit: int) -> int:
    """`a` is solved in the first pass, `b` in the third, `x` never."""
    return int(task == "a" or (task == "b" and visit == 2))


def test_resample_samples_what_is_unsolved_until_a_limit() -> None:
    """Nothing is shown, no two samples have one seed, and a limit of tokens ends it as one of iterations does."""
    assert list(islice(Resample().demo_sets(Progress({})), 3)) == [DemoSet("None")] * 3
    compiled = learn("abx", late, selection="resample", budget=Budget(iterations=4))
    assert story(compiled) == ["None: - -> a", "None: - -> -", "None: - -> b", "None: - -> -"]
    experience = compiled.experience
    assert (experience.stopped, compiled.solve.demos) == ("budget", [])
    assert len({attempt.seed for attempt in experience.attempts}) == len(experience.attempts) == 4 * (3 + 2 + 2 + 1)
    tokens = sum(count.total for count in experience.tokens.values())
    matched = learn("abx", late, selection="resample", budget=Budget(tokens=tokens), threads=1).experience
    assert [attempt.seed for attempt in matched.attempts] == [attempt.seed for attempt in experience.attempts]


def test_resample_without_a_limit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"selection: `resample` ends at a limit only; give a budget"):
        learn("a", late, selection="resample")


def test_a_single_pass_resamples_on_demand() -> None:
    """With as many passes as the budget allows; otherwise it is one, whatever the budget allows."""
    once = SinglePass(is_right, 4, budget=Budget(iterations=3))
    again = SinglePass(is_right, 4, resample=True, budget=Budget(iterations=3))
    assert [each.get_params()["selection"] for each in (once, again)] == ["none", "resample"]
