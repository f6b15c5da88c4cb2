"""Held-out sizes: none that the task names, primes and equal dims among them, within what its own sets share."""

from random import Random

import pytest

from step_runtime import Task, loads_task
from step_runtime.tasks.sizes import KINDS, held_out_sets


def task(dims: str, sizes: str) -> Task:
    """A task whose only stream has these dims."""
    return loads_task(
        f"inputs:\n- {{name: X, dtype: fp32, dims: [{dims}], data_gen: torch.rand}}\n"
        f"outputs:\n- {{name: Y, dtype: fp32, dims: [{dims}], data_transform: \"input_data['X']\"}}\nsizes: {sizes}\n"
    )


def test_one_seed_draws_one_list_of_new_sets() -> None:
    """The same seed gives the same sets, another seed others, and none is a set of the task's own."""
    given = task("M, N", "{M: [5, 6], N: [7, 4]}")
    drawn = [[list(held_out_sets(given, kind, Random(seed))) for kind in KINDS] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(sizes not in given.size_sets() for kinds in drawn for sets in kinds for sizes in sets)


def test_primes_and_equal_dims_are_among_them() -> None:
    """Dims without a common divisor are primes in one set, and share a size in another, for any seed."""
    given = task("M, N", "{M: [5, 6], N: [7, 4]}")
    for seed in range(20):
        primes = next(held_out_sets(given, "primes", Random(seed)))
        equal = next(held_out_sets(given, "equal", Random(seed)))
        assert {primes["M"], primes["N"]} <= {2, 3, 5, 7, 11, 13}
        assert equal["M"] == equal["N"]


@pytest.mark.parametrize(
    ("sizes", "common"),
    [
        ("{M: [2, 3], N: [5, 8]}", lambda M, N: M <= N),
        ("{M: [4, 8], N: [2, 4]}", lambda M, N: M % N == N % 2 == 0),
        ("{M: [3, 5], N: [3, 5]}", lambda M, N: M == N),
    ],
)
def test_what_all_own_sizes_share_is_kept(sizes: str, common: object) -> None:
    """Order, divisors and equality hold at primes and at equal dims."""
    assert callable(common)
    for kind in KINDS[:2]:
        for found in held_out_sets(task("M, N", sizes), kind, Random(0)):
            assert common(found["M"], found["N"])


def test_free_dims_leave_divisors_and_fixed_sizes() -> None:
    """A dim that is even in all own sets is odd in some free set, and a fixed dim of a stream has another size."""
    found = [
        sizes
        for seed in range(5)
        for sizes in held_out_sets(task("M, N", "{M: [4, 6, 10], N: 3}"), "free", Random(seed))
    ]
    assert any(sizes["M"] % 2 for sizes in found) and all(sizes["N"] != 3 for sizes in found)


def test_dims_that_are_equal_in_all_own_sets_differ_in_some_free_set() -> None:
    """These come first; the others, for a task that is not defined there, keep the equality."""
    given = task("M, N", "{M: [3, 5], N: [3, 5]}")
    found = [sizes["M"] == sizes["N"] for sizes in held_out_sets(given, "free", Random(0))]
    assert found == [False, False, False, True, True, True]
