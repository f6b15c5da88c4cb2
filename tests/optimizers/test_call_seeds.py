"""Every call of a sample has a seed of its own, which depends on the sample and on the call, never on timing."""

import threading
from concurrent.futures import ThreadPoolExecutor

import dspy

from optimizers.call_seeds import CallSeeds, derive_seed
from tests.support.scripted_program import ScriptedEngine, Solver, learn


def test_the_first_call_has_the_samples_seed_and_the_others_their_own() -> None:
    seeds = CallSeeds(7)
    found = [seeds.next("the same") for _ in range(5)]
    assert found[0] == 7 and len(set(found)) == 5 and found[1] == derive_seed("call", 7, 1)
    repeated = CallSeeds(7)
    assert [repeated.next("another") for _ in range(5)] == found


def test_in_other_threads_the_seeds_do_not_depend_on_who_is_first() -> None:
    def drawn(order: str) -> dict[str, list[int]]:
        seeds, found = CallSeeds(7), dict[str, list[int]]()
        for text in order:
            thread = threading.Thread(target=lambda text=text: found.setdefault(text, []).append(seeds.next(text)))
            thread.start()
            thread.join()
        assert seeds.next("own") == 7, "the sample's own thread counts for itself"
        return found

    one, other = drawn("aabbc"), drawn("bcaba")
    assert one == other
    assert len({seed for each in one.values() for seed in each}) == 5


class Voting(dspy.Module):
    """Asks five times, one after another or at once."""

    def __init__(self, threads: int) -> None:
        super().__init__()
        self.solver, self.threads = Solver(), threads

    def forward(self, task: str) -> dspy.Prediction:
        if self.threads == 1:
            return [self.solver(task=task) for _ in range(5)][-1]
        parallel = dspy.Parallel(num_threads=self.threads, disable_progress_bar=True)
        return parallel([(self.solver, dspy.Example(task=task).with_inputs("task"))] * 5)[-1]


def sent(student: dspy.Module, threads: int) -> list[int]:
    engine = ScriptedEngine(lambda *_: 0, 4)
    learn("ab", lambda *_: 0, engine=engine, student=student, n=2, threads=threads)
    return sorted(request.config.seed or 0 for request in engine.requests)


def test_a_module_that_votes_gets_five_seeds_in_every_sample_whatever_the_threads() -> None:
    found = sent(Voting(1), 1)
    assert len(set(found)) == len(found) == 2 * 2 * 5
    assert sent(Voting(1), 8) == found


def test_a_module_that_asks_at_once_gets_as_many_and_the_same_every_time() -> None:
    found = sent(Voting(4), 1)
    assert len(set(found)) == len(found) == 2 * 2 * 5
    assert sent(Voting(4), 4) == found


def test_best_of_n_sends_n_seeds() -> None:
    class Best(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.best = dspy.BestOfN(Solver(), N=4, reward_fn=lambda inputs, prediction: 0.0, threshold=1.0)

        def forward(self, task: str) -> dspy.Prediction:
            return self.best(task=task)

    found = sent(Best(), 2)
    assert len(set(found)) == len(found) == 2 * 2 * 4


def test_a_copy_of_the_lm_counts_with_it() -> None:
    import copy

    seeds = CallSeeds(7)
    assert copy.deepcopy(seeds) is seeds
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(seeds.next, "x").result() != 7
