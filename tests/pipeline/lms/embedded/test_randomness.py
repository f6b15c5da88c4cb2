"""The randomness of a sample depends on its seed alone, and follows scores by their sharpness."""

from __future__ import annotations

from pipeline.lms.embedded.randomness import SeededChoice


def picks(sharpness: float, seed: int = 0, count: int = 200) -> list[str]:
    choice = SeededChoice(seed, sharpness)
    return [choice.pick("abc", [2.0, 1.0, 0.0]) for _ in range(count)]


def test_one_seed_gives_one_sequence() -> None:
    """Another gives another."""
    assert picks(1.0, 1) == picks(1.0, 1) != picks(1.0, 2)


def test_sharpness_decides_how_much_the_best_is_preferred() -> None:
    """With none all are alike; with much nearly nothing but the best is picked."""
    assert picks(100.0) == ["a"] * 200
    soft, flat = picks(1.0), picks(0.0)
    assert soft.count("a") > soft.count("b") > soft.count("c") > 0
    assert min(flat.count(each) for each in "abc") > 40


def test_large_scores_do_not_overflow() -> None:
    """Only differences count."""
    assert SeededChoice(0, 1e3).pick("ab", [1e6, 0.0]) == "a"
    assert SeededChoice(0, 1.0).pick("a", [float("-inf")]) == "a"


def test_a_shuffle_keeps_every_item_and_a_probability_its_extremes() -> None:
    """0 never happens, 1 always."""
    choice = SeededChoice(3, 1.0)
    assert sorted(choice.shuffled("abcd")) == list("abcd")
    assert not any(choice.happens(0.0) for _ in range(20)) and all(choice.happens(1.0) for _ in range(20))
    assert {choice.any_of("ab") for _ in range(50)} == {"a", "b"}


def test_noise_orders_choices_as_a_softmax_would() -> None:
    """The larger of two scores with noise is that of the better one as often as it would be picked."""
    choice = SeededChoice(5, 1.0)
    wins = sum(1.0 + choice.noise() > choice.noise() for _ in range(2000))
    assert 0.68 < wins / 2000 < 0.78
