"""Random sets have the sizes of the levels, without repetition within a set."""

from tests.support.scripted_program import learn

RATES = {"a": 1, "b": 2, "c": 3, "d": 4}


def unaided(task: str, demos: tuple[str, ...], visit: int) -> int:
    return RATES.get(task, 0)


def test_random_sets_have_the_sizes_of_the_levels_and_repeat_with_the_seed() -> None:
    def sets(seed: int) -> list[tuple[str, ...]]:
        results = learn("abcdx", unaided, selection="random", seed=seed).experience.iterations
        assert [result.label for result in results] == ["None", "random-1_1", "random-2_1", "random-3_1"]
        return [result.demos for result in results[1:]]

    assert sets(1) == sets(1)
    assert [len(demos) for demos in sets(1)] == [2, 3, 4]
    assert len({str(sets(seed)) for seed in range(5)}) > 1
