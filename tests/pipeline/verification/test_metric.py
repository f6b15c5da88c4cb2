"""The metric holds these:

- right is 1 and wrong is 0, with the stage and the reason in the words of the person's and LM's one error style;
- a program is run once, whatever its names, comments and layout, and from however many threads it comes;
- what is said of a program points into its own text;
- a task's function that hangs, crashes or allocates without end costs its own programs a verdict, and nothing else;
- verdicts that were kept on disk are found by the same code alone, and by any number of runs;
- a task that fails is an exception, never a wrong answer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dspy
import pytest

from pipeline.verification import cache
from pipeline.verification.cache import VerdictStore
from pipeline.verification.metric import Metric, Reward, relocated
from pipeline.verification.pool import WorkerPool
from pipeline.verification.worker import verification_pool
from step_runtime.base.errors import Diagnostic, Span, TaskError
from step_runtime.language.identity import graphs, known_scopes
from step_runtime.verification.verify import Verdict, verify
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
    assert (reward.score, bool(reward), reward.stage, reward.codes) == (
        float(stage is None),
        stage is None,
        stage,
        codes,
    )
    assert (reward.feedback == "") == (stage is None)
    assert reward.seconds > 0


def test_the_reason_is_reported_in_the_one_error_style(metric: Metric) -> None:
    """Task, line, column, code, the source line with carets, a hint."""
    feedback = judge(metric, REUSING).feedback
    assert feedback.startswith("square/0:1:")
    assert "affine" in feedback
    assert "^" in feedback
    assert "hint: " in feedback


def test_isomorphic_programs_are_run_once(metric: Metric, executor: Counting) -> None:
    """Names, comments and layout make no other program; neither does being drawn again."""
    renamed = RIGHT.replace("E1", "left").replace("E2", "right") + "\n# done"
    rewards = [
        judge(metric, impl) for impl in (RIGHT, renamed, RIGHT, f"def body(x):\n  {RIGHT}".replace("\n", "\n  "))
    ]
    assert [reward.score for reward in rewards[:3]] == [1.0] * 3
    assert [reward.seconds == 0.0 for reward in rewards[:3]] == [False, True, True]
    assert executor.count <= 2


def test_a_wrong_result_is_found_once_too(metric: Metric, executor: Counting) -> None:
    """What needed a run is shared by isomorphic programs."""
    first, second = judge(metric, WRONG), judge(metric, WRONG.replace("E4", "rest"))
    assert first.feedback == second.feedback
    assert executor.count == 1


def test_feedback_points_into_the_program_s_own_text(metric: Metric) -> None:
    """Though another program of the same structure was judged before."""
    judge(metric, ILL_TYPED)
    feedback = judge(metric, "# squares\n" + ILL_TYPED.replace("E1", "squared")).feedback
    assert feedback.startswith("square/0:2:")
    assert "squared = step.Map" in feedback


COMMENTED = ["# mine\n{}", "# again\n{}  # done", "#\n{} \t# E1: fp32", "# a\r\n{}"]


@pytest.mark.parametrize("impl", [WRONG, ILL_TYPED, REUSING])
def test_comments_make_no_other_program_whatever_is_wrong(impl: str, metric: Metric, executor: Counting) -> None:
    """It is judged once, and each text is told its own lines."""
    texts = [form.format(impl) for form in COMMENTED]
    alone = [verify(task(), text).render(text, "square/0") for text in texts]
    assert [judge(metric, text).feedback for text in texts] == alone
    assert executor.count == 1


@pytest.mark.parametrize("form", ["'#'\n{}", "# a\r{}", "\n\n{}", "# a\n  # b\n{}", "```\n{}\n```"])
def test_what_moves_a_program_is_not_a_comment(form: str, metric: Metric) -> None:
    """Strings that look like one, lines that end in another way, blank lines, fences."""
    for impl in (ILL_TYPED, REUSING):
        judge(metric, f"# a\n{impl}")
        text = form.format(impl)
        assert judge(metric, text).feedback == verify(task(), text).render(text, "square/0")


def test_what_does_not_parse_is_reported_of_itself(metric: Metric) -> None:
    """Blanks that count, and the length of a comment, are no matter of layout there."""
    open_, long = "x = (", "x = E0\nreturn nope"
    for text in (f"{open_}{' ' * 30_000}", open_, f"{long}  # {'c' * 30_000}", long, f"{long} # c"):
        assert judge(metric, text).feedback == verify(task(), text).render(text, "square/0")


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
def pool(limit: int) -> Iterator[WorkerPool]:
    with verification_pool(2, seconds=limit, memory=2**29) as pool:
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


def test_a_reference_that_hangs_costs_a_verdict_too(pool: WorkerPool) -> None:
    """The run continues with the other tasks."""
    bad = task("bad/1")
    output = bad.outputs[0].model_copy(update={"data_transform": ["while True: pass\ninput_data['E0']"]})
    reward = judge(Metric(pool), RIGHT, dspy.Example(task=bad.model_copy(update={"outputs": [output]})))
    assert reward.codes == ["time-limit"]


def test_verdicts_are_found_again_in_another_run(tmp_path: Path) -> None:
    """Nothing is verified twice, and all is reported as before; isomorphic programs included."""
    store = VerdictStore(tmp_path)
    first = [judge(Metric(None, store), impl) for impl in (RIGHT, WRONG, REUSING, BROKEN)]
    store.close()
    again = VerdictStore(tmp_path)
    with Counting(1) as executor:
        metric = Metric(executor, again)
        second = [judge(metric, impl) for impl in (RIGHT + "\n# done", WRONG, REUSING, BROKEN)]
        assert executor.count == 0
        judge(metric, ILL_TYPED)
        assert executor.count == 1
    again.close()
    assert [(r.score, r.stage, r.feedback) for r in first] == [(r.score, r.stage, r.feedback) for r in second]
    assert [r.seconds for r in second] == [0.0] * 4


def test_verdicts_of_other_code_are_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed verifier starts again."""
    store = VerdictStore(tmp_path)
    judge(Metric(None, store), RIGHT)
    store.close()
    monkeypatch.setattr(cache, "verifier_version", lambda: "another")
    other = VerdictStore(tmp_path)
    with Counting(1) as executor:
        judge(Metric(executor, other), RIGHT)
        assert executor.count == 1
    other.close()


def test_runs_share_a_folder_at_once(tmp_path: Path) -> None:
    """Two stores write and read the same verdicts, from several threads each."""
    stores = [VerdictStore(tmp_path) for _ in range(2)]
    verdict = Verdict(False, "value", (Diagnostic("value", "value", "differs", Span(1, 2, 3, 4), ("where",), "hint"),))
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: stores[n % 2].put("task", str(n // 2), "text", verdict), range(400)))
    assert all(store.get("task", str(n)) == ("text", verdict) for n in range(200) for store in stores)
    for store in stores:
        store.close()


def test_verdicts_that_depend_on_the_machine_are_not_kept(tmp_path: Path) -> None:
    """A faster one may do what this one could not in time."""
    store = VerdictStore(tmp_path)
    store.put("task", "key", "text", Verdict(False, "run", (Diagnostic("run", "time-limit", "too long"),)))
    assert store.get("task", "key") is None
    store.close()


def test_a_pass_is_confirmed_by_the_text_itself(executor: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a wrong program to share a right one's verdict, it would still not be kept as a solution."""
    metric = Metric(executor)
    monkeypatch.setattr("pipeline.step.language.skeleton", lambda text: "one key for all")
    monkeypatch.setattr("pipeline.verification.metric.relocated", lambda verdict, *_: verdict)
    assert judge(metric, RIGHT) and judge(metric, WRONG)
    assert metric.confirmed(EXAMPLE, dspy.Prediction(impl=RIGHT))
    kept = metric.confirmed(EXAMPLE, dspy.Prediction(impl=WRONG))
    assert (kept.score, kept.stage) == (0.0, "value")


def test_only_the_latest_verdicts_are_kept(metric: Metric, executor: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many programs a run samples, its memory is bounded; one that was forgotten gets its verdict again."""
    monkeypatch.setattr("pipeline.verification.metric.MAX_VERDICTS", 2)
    renamed = RIGHT.replace("squares", "other")
    first = [judge(metric, text).stage for text in (RIGHT, renamed, WRONG, REUSING)]
    assert executor.count == 3
    assert [judge(metric, text).stage for text in (REUSING, WRONG)] == first[:1:-1]
    assert executor.count == 3
    assert [judge(metric, text).stage for text in (RIGHT, renamed)] == first[:2]
    assert executor.count == 4


RENAMED = "# mine\nleft, right = step.Copy().apply(E0)\n\na, b = step.Copy().apply(left)  # again\nreturn a"
WRAPPED = "def body(x):\n    E1, E2 = step.Copy().apply(x)\n    E3, E4 = step.Copy().apply(E1)\n    return E3"


@pytest.mark.parametrize("text", [RENAMED, WRAPPED, WRONG])
def test_feedback_is_what_the_text_alone_would_get(text: str) -> None:
    """Whichever of the texts was judged first, and without a second run."""
    executor = Counting()
    metric = Metric(executor)
    example = dspy.Example(task=task())
    metric(example, dspy.Prediction(impl=WRONG))
    reward = metric(example, dspy.Prediction(impl=text))
    assert reward.feedback == verify(task(), text).render(text, "square/0")
    assert text.split("\n")[-1].strip() in reward.feedback
    assert executor.count == 1


SCOPES = known_scopes(task())


def test_places_follow() -> None:
    """A finding without a place stays one; one at a place that the graph does not have is not moved."""
    found = [Diagnostic("run", "x", "one", Span(2, 10, 2, 31)), Diagnostic("run", "y", "two")]
    moved = relocated(Verdict(False, "run", tuple(found)), WRONG, RENAMED, SCOPES)
    assert moved is not None
    assert [diagnostic.span for diagnostic in moved.diagnostics] == [Span(4, 8, 4, 31), None]
    nowhere = Verdict(False, "run", (Diagnostic("run", "x", "one", Span(9, 1, 9, 2)),))
    assert relocated(nowhere, WRONG, RENAMED, SCOPES) is None


def test_what_a_program_costs_is_said_at_its_own_place() -> None:
    """At the same primitive, or at the results where no single primitive costs most."""
    for there in (Span(4, 8, 4, 31), None):
        costs = Diagnostic("cost", "cost-memory", "too much", Span(2, 10, 2, 31) if there else None)
        moved = relocated(Verdict(False, "cost", (costs,)), WRONG, RENAMED, SCOPES)
        assert moved is not None and moved.diagnostics[0].span == there


def test_a_place_that_may_be_several_is_not_moved() -> None:
    """One primitive in a comprehension is several elsewhere."""
    one = "E1, E2 = step.Copy().apply(E0)\nE3, E4 = [step.Map(fn=fn_a).apply(x) for x in [E1, E2]]\nreturn E3"
    other = (
        "E1, E2 = step.Copy().apply(E0)\nE3 = step.Map(fn=fn_a).apply(E1)\nE4 = step.Map(fn=fn_a).apply(E2)\nreturn E3"
    )
    given = task().model_copy(
        update={"fns": [task().fns[0].model_copy(update={"func_name": "fn_a", "input_dtype": "fp32"})]}
    )
    known = known_scopes(given)
    assert known is not None
    both = graphs(one, known)
    assert both == graphs(other, known)
    assert both is not None
    span = both[0].nodes[1].span
    assert relocated(Verdict(False, "run", (Diagnostic("run", "x", "m", span),)), one, other, known) is None
    assert relocated(Verdict(True), one, other, known) == Verdict(True)


@pytest.mark.parametrize("text", ["return E0", "(", f"{WRONG}\nreturn E4"])
def test_other_programs_have_verdicts_of_their_own(text: str) -> None:
    """Then the text is judged itself."""
    assert relocated(Verdict(False, "value"), WRONG, text, SCOPES) is None
    assert relocated(Verdict(True), WRONG, text, SCOPES) is None
