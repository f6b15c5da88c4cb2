"""sigma: one representative of each group by chance, the shortest of these, and the first sampled of equals."""

import random
from collections import Counter

import pytest

from optimizers.filtering import choose_answer, normalized_text, text_length


def choose(answers: list[str], seed: int = 0) -> str:
    return choose_answer(answers, str.lower, lambda answer: len(answer.strip()), random.Random(seed))


def test_the_shortest_group_wins_however_rare():
    assert choose(["loong"] * 9 + ["ab"]) == "ab"


def test_a_groups_representative_is_chosen_by_chance_among_all_its_members():
    chosen = Counter(choose(["AB", "ab", "aB"], seed) for seed in range(300))
    assert set(chosen) == {"AB", "ab", "aB"} and min(chosen.values()) > 60


def test_the_shortest_member_of_a_group_has_no_advantage():
    key, length = (lambda answer: "one group"), len
    chosen = {choose_answer(["a", "aaaa"], key, length, random.Random(seed)) for seed in range(20)}
    assert chosen == {"a", "aaaa"}


def test_of_equal_lengths_the_first_sampled_wins():
    assert choose(["xy", "ab", "cd"]) == "xy"


def test_the_same_seed_chooses_the_same():
    assert len({choose(["AB", "ab", "aB"], 7) for _ in range(9)}) == 1


def test_answers_without_a_key_stand_alone():
    assert choose_answer(["aa", "a"], lambda _: None, len, random.Random(0)) == "a"


def test_no_candidate_is_refused():
    with pytest.raises(ValueError, match="no answer"):
        choose([])


def test_defaults_ignore_layout():
    assert normalized_text({"b": "x  y\n", "a": 1}) == normalized_text({"a": "1", "b": " x y"})
    assert text_length({"code": "  one\n\n\ntwo  \n"}) == (2, 6)
