"""Sizes beyond a task's own: off every line, and held out, with what the own sets have in common."""

from random import Random

import pytest

from step_runtime import Task, loads_task
from step_runtime.tasks.sizes import KINDS, completed, further_sets, held_out_sets


def task(dims: str, sizes: str = "{}", reference: str = "input_data['X']") -> Task:
    """A task whose only stream has these dims."""
    return loads_task(
        f"inputs:\n- {{name: X, dtype: fp32, dims: [{dims}], data_gen: torch.rand}}\n"
        f'outputs:\n- {{name: Y, dtype: fp32, dims: [{dims}], data_transform: "{reference}"}}\nsizes: {sizes}\n'
    )


def test_no_dim_follows_from_another_by_a_line() -> None:
    """At the default sizes `22 - 3*M` is N, and at the further ones it is not; the same for every other pair."""
    given = task("M, N, K, D")
    (first, second), (further, *_) = given.size_sets(), further_sets(given)
    for one in "MNKD":
        for other in set("MNKD") - {one}:
            slope = (second[other] - first[other]) / (second[one] - first[one])
            assert further[other] != first[other] + slope * (further[one] - first[one])


@pytest.mark.parametrize(
    ("dims", "sizes", "common"),
    [
        ("M, N", "{M: [2, 3], N: [5, 8]}", lambda M, N: M < N),
        ("M, H, D", "{M: [3, 5], H: [2, 3], D: [4, 9]}", lambda M, H, D: D % H == 0),
        ("M, D", "{M: [3, 5], D: [16, 8]}", lambda M, D: D % 8 == 0),
        ("P, Q, T", "{P: [2, 4], Q: [3, 5], T: [6, 20]}", lambda P, Q, T: P * Q == T),
        ("P, Q, T", "{P: [2, 4], Q: [3, 7], T: [5, 11]}", lambda P, Q, T: P + Q == T),
        ("P, Q, T", "{P: [2, 4], Q: [2, 4], T: [5, 6]}", lambda P, Q, T: P == Q),
        ("P, Q", "{P: [2, 4], Q: 3}", lambda P, Q: Q == 3 and P not in (2, 4)),
        ("M, N", "{M: [4096, 2048], N: [1024, 3072]}", lambda M, N: M % 64 == N % 64 == 0 and M * N < 2**23),
    ],
)
def test_what_all_own_sizes_have_in_common_is_kept(dims: str, sizes: str, common: object) -> None:
    """Order, divisibility, a divisor, sums, products, equality and single sizes hold at the first further set, too."""
    assert callable(common)
    given = task(dims, sizes)
    further = next(further_sets(given))
    assert common(**{name: further[name] for name in dims.split(", ")})


def test_a_ratio_is_given_up_first_and_kept_last() -> None:
    """Where D is twice H in all sets, the first further set has another multiple; a task that needs two gets two."""
    first, *_, last = further_sets(task("H, D", "{H: [2, 3], D: [4, 6]}"))
    assert first["D"] % first["H"] == 0 and first["D"] != 2 * first["H"] and last["D"] == 2 * last["H"]


@pytest.mark.parametrize("sizes", ["{M: 4, N: 6}", "{M: [2, 4, 6], N: [3, 5, 9]}"])
def test_sets_that_lie_on_no_line_need_no_further_one(sizes: str) -> None:
    """Three sets of an author's own suffice, as does a task of fixed sizes."""
    assert not list(further_sets(task("M, N", sizes)))


def test_three_sets_on_a_line_get_a_fourth_beside_it() -> None:
    """N is M + 1 in all three sets, and not at the further one."""
    further = next(further_sets(task("M, N", "{M: [2, 4, 6], N: [3, 5, 7]}")))
    assert further["N"] > further["M"] + 1


def test_drawn_sets_keep_what_is_common_and_follow_the_seed() -> None:
    """One seed draws one set, other seeds others, also where three sets of an author's own need no further one."""
    given = task("M, N", "{M: [2, 4, 6], N: [4, 8, 24]}")
    drawn = [next(further_sets(given, Random(seed))) for seed in (1, 1, *range(20))]
    assert drawn[0] == drawn[1] and len({tuple(each.items()) for each in drawn}) > 10
    assert all(each["N"] % each["M"] == 0 and each["N"] % 4 == 0 for each in drawn)


# --- held out ---


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


@pytest.mark.parametrize(
    ("sizes", "given", "expected"),
    [
        ("{P: [2, 4], Q: [3, 5], T: [6, 20]}", {"T": 50}, {"P": 2, "Q": 25, "T": 50}),
        ("{P: [2, 4], Q: [3, 7], T: [5, 11]}", {"T": 50}, {"P": 2, "Q": 48, "T": 50}),
        ("{P: [3, 5], Q: [3, 5], T: [4, 9]}", {"P": 50}, {"P": 50, "Q": 50}),
        ("{P: [4, 8], Q: [2, 4], T: [5, 6]}", {"Q": 50}, {"P": 100, "Q": 50}),
    ],
)
def test_a_set_is_completed_from_some_of_its_sizes(sizes: str, given: dict[str, int], expected: dict[str, int]) -> None:
    found = completed(task("P, Q, T", sizes), given)
    assert found is not None and expected.items() <= found.items()


def test_sizes_that_break_a_common_relation_complete_no_set() -> None:
    assert completed(task("P, Q", "{P: [4, 8], Q: [3, 5]}"), {"P": 50}) is None
