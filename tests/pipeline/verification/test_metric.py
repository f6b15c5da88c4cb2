"""The metric holds these:

- right is 1 and wrong is 0, with the stage and the reason in the words of the person's and LM's one error style;
- a text is judged once, from however many threads it comes, and what is said of it points into its own lines;
- a task's function that hangs, crashes or allocates without end costs its own programs a verdict, and nothing else;
- a task that fails is an exception, never a wrong answer.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import dspy
import pytest

from pipeline.verification.limits import verification_pool
from pipeline.verification.metric import Metric, Reward
from pipeline.verification.pool import WorkerPool
from step_runtime.base.errors import TaskError
from step_runtime.verification.verify import verify
from tests.support.processes import LIMIT
from tests.support.scripted_answers import BROKEN, ILL_TYPED, REUSING, RIGHT, WRONG, task

EXAMPLE = dspy.Example(task=task()).with_inputs("task")


class Counting(ThreadPoolExecutor):
    """Counts what is verified."""

    count = 0

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        self.count += 1
        return super().submit(*args, **kwargs)


@pytest.fixture
def executor() -> Iterator[Counting]:
    with Counting(1) as executor:
        yield executor


@pytest.fixture
def metric(executor: Counting) -> Metric:
    return Metric(executor)


def judge(metric: Metric, impl: str, example: dspy.Example = EXAMPLE) -> Reward:
    return metric(example, dspy.Prediction(impl=impl))


@pytest.mark.parametrize(
    ("impl", "stage", "codes"),
    [(RIGHT, None, []), (WRONG, "value", ["value"]), (REUSING, "affine", ["affine"]), (BROKEN, "parse", ["syntax"])],
)
def test_a_program_is_right_or_wrong(metric: Metric, impl: str, stage: str | None, codes: list[str]) -> None:
    """Score, truth, stage and codes agree."""
    reward = judge(metric, impl)
    right = stage is None
    assert (reward.score, bool(reward), reward.stage, reward.codes) == (float(right), right, stage, codes)
    assert (reward.feedback == "") == (stage is None)
    assert reward.seconds > 0


def test_a_text_is_judged_once(metric: Metric, executor: Counting) -> None:
    """Right or wrong; the second time costs nothing."""
    for impl in (RIGHT, WRONG):
        first, second = judge(metric, impl), judge(metric, impl)
        assert (first.score, first.feedback) == (second.score, second.feedback)
        assert first.seconds > 0 == second.seconds
    assert executor.count == 2


def test_the_same_program_is_another_for_another_task(metric: Metric, executor: Counting) -> None:
    """Verdicts are kept by the task's content, and reported under its name."""
    other = task("square/1").model_copy(update={"sizes": {"M": [3, 4]}}).named("square/1")
    assert judge(metric, WRONG).feedback.startswith("square/0:")
    assert judge(metric, WRONG, dspy.Example(task=other)).feedback.startswith("square/1:")
    assert executor.count == 2


def test_one_program_from_many_threads_is_verified_once(metric: Metric, executor: Counting) -> None:
    """Whoever comes second waits for the verdict of the first."""
    start, rewards = threading.Barrier(8), []

    def work() -> None:
        start.wait()
        rewards.append(judge(metric, RIGHT))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert executor.count == 1
    assert [reward.score for reward in rewards] == [1.0] * 8
    assert sum(reward.seconds > 0 for reward in rewards) == 1


def test_a_broken_task_is_not_a_wrong_answer(metric: Metric) -> None:
    """Its author hears of it."""
    fails = task().model_copy(update={"global_": "raise ValueError('on purpose')"})
    for _ in range(2):
        with pytest.raises(TaskError, match="on purpose"):
            judge(metric, RIGHT, dspy.Example(task=fails))


def test_dspy_takes_it_as_a_metric() -> None:
    """`dspy.Evaluate` sums it up, and optimizers may hand over a trace and a predictor's name."""
    metric = Metric()
    program = dspy.Module()
    program.forward = lambda task: dspy.Prediction(impl=RIGHT if task.name == "square/0" else WRONG)
    examples = [EXAMPLE, dspy.Example(task=task("square/1")).with_inputs("task")]
    with dspy.context(lm=None):
        evaluate = dspy.Evaluate(devset=examples, metric=metric, num_threads=1, display_progress=False)
        assert evaluate(program).score == 50.0
    assert metric(EXAMPLE, dspy.Prediction(impl=RIGHT), None, "proposer.predict", []).score == 1.0


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with verification_pool(2, seconds=LIMIT, memory=2**29) as pool:
        yield pool


def test_worker_processes_judge_alike(pool: WorkerPool) -> None:
    """The verdict is the same in another process, and comes back whole."""
    for impl in (RIGHT, WRONG, REUSING, ILL_TYPED, BROKEN):
        pooled, local = judge(Metric(pool), impl), judge(Metric(), impl)
        assert (pooled.score, pooled.stage, pooled.feedback) == (local.score, local.stage, local.feedback)


@pytest.mark.parametrize(
    ("apply", "code"),
    [
        ("while True: pass", "time-limit"),
        ("import os; os._exit(1)", "crashed"),
        ("import ctypes; ctypes.string_at(0)", "crashed"),
        ("x = [bytes(2**26) for _ in iter(int, 1)]", "memory-limit"),
        ("return [torch.ones(2**36)]", "memory-limit"),
    ],
)
def test_a_function_that_costs_a_worker_costs_its_own_programs_a_verdict(
    pool: WorkerPool, apply: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which says what happened; another task's programs are judged meanwhile, and after."""
    bad = task("bad/0")
    bad = bad.model_copy(update={"fns": [bad.fns[0].model_copy(update={"apply": apply})]}).named("bad/0")
    metric = Metric(pool)
    with ThreadPoolExecutor(3) as threads:
        lost = threads.submit(judge, metric, RIGHT, dspy.Example(task=bad))
        others = [threads.submit(judge, metric, impl) for impl in (RIGHT, WRONG)]
        reward = lost.result()
        assert [other.result().score for other in others] == [1.0, 0.0]
    assert (reward.score, reward.stage, reward.codes) == (0.0, "run", [code])
    assert reward.feedback.startswith("bad/0")
    assert "hint: " in reward.feedback
    monkeypatch.setattr(pool, "submit", None)  # found once
    assert judge(metric, RIGHT, dspy.Example(task=bad)).codes == [code]


def test_only_the_latest_verdicts_are_kept(metric: Metric, executor: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many programs a run samples, its memory is bounded; one that was forgotten gets its verdict again."""
    monkeypatch.setattr("pipeline.verification.metric.MAX_VERDICTS", 2)
    first = [judge(metric, text).stage for text in (RIGHT, WRONG, REUSING)]
    assert executor.count == 3
    assert [judge(metric, text).stage for text in (REUSING, WRONG)] == first[:0:-1]
    assert executor.count == 3
    assert judge(metric, RIGHT).stage == first[0]
    assert executor.count == 4


@pytest.mark.parametrize("form", ["# mine\n{}", "{}  # done", "\n\n{}", "```\n{}\n```", "'#'\n{}", "# a\r{}"])
def test_feedback_is_what_the_text_alone_would_get(form: str, metric: Metric) -> None:
    """Though the same program was judged before in other words."""
    for impl in (WRONG, ILL_TYPED, REUSING):
        judge(metric, impl)
        text = form.format(impl)
        assert judge(metric, text).feedback == verify(task(), text).render(text, "square/0")
