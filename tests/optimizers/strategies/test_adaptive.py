"""`adaptive` calls its levels as the paper does."""

from optimizers.strategies.adaptive import Adaptive


def test_three_levels_are_called_by_letters_and_others_by_numbers() -> None:
    assert [Adaptive(3).level_label(j) for j in range(3)] == ["H", "HM", "HME"]
    assert [Adaptive(4).level_label(j) for j in range(4)] == ["1", "12", "123", "1234"]
    assert Adaptive(10).level_label(9).endswith("-9-10")
