"""The ledger: every request is counted once, on the predictor that made it, as the engine counted it."""

import asyncio
from typing import Any

import dspy
import pytest
from dspy import lm15

from optimizers import AdaptiveFewShot, Domain, TokenCount
from optimizers.ledger import Ledger
from tests.support.scripted_program import ScriptedEngine, Solver, answer, by_task, is_right, learn, tasks

pytestmark = pytest.mark.usefixtures("no_waiting")


@pytest.fixture
def memory_cache():
    before = dspy.cache
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=True)
    yield
    dspy.cache = before


def half(task: str, demos: tuple[str, ...], visit: int) -> int:
    return 2 if task in "ab" else 0


class Guarded(dspy.Module):
    """Two predictors: one solves, one checks."""

    def __init__(self) -> None:
        super().__init__()
        self.solve = dspy.ChainOfThought("task -> answer")
        self.check = dspy.Predict("task, draft -> answer")

    def forward(self, task: str) -> dspy.Prediction:
        draft = self.solve(task=task).answer
        return self.check(task=task, draft=draft) if draft == "wrong" else dspy.Prediction(answer=draft)


def guarded_say(request: lm15.Request, task: str, right: bool) -> str:
    text = answer(f"right {task}" if right else "wrong")
    asked_to_check = "[[ ## draft ## ]]" in str(request.messages[-1].text)
    return text if asked_to_check else f"[[ ## reasoning ## ]]\nso\n\n{text}"


def total(compiled: dspy.Module) -> TokenCount:
    return TokenCount.sum(compiled.experience.tokens.values())


def test_calls_and_tokens_per_predictor_equal_the_engines_counts():
    engine = ScriptedEngine(half, 4, guarded_say)
    compiled = learn("abx", half, engine=engine, student=Guarded(), threads=4)
    tokens = compiled.experience.tokens
    assert list(tokens) == ["check", "solve.predict"]
    assert tokens["solve.predict"].calls == len(compiled.experience.attempts)
    spent = total(compiled)
    assert (spent.calls, spent.prompt, spent.completion) == (engine.calls, engine.prompt, engine.completion)
    assert (spent.failed, spent.cached, spent.cost, spent.unpriced) == (0, 0, None, engine.calls)


def test_iterations_and_attempts_add_up_to_the_run():
    compiled = learn("abx", half, student=Guarded(), engine=ScriptedEngine(half, 4, guarded_say))
    record = compiled.experience
    for parts in (record.iterations, record.attempts):
        ledger = Ledger()
        for part in parts:
            ledger.merge(part.tokens)
        assert ledger.counts == record.tokens


def test_failed_parses_and_the_second_try_in_json_are_counted():
    engine = ScriptedEngine(half, 4, lambda request, task, right: "no fields here")
    compiled = learn("a", half, engine=engine)
    assert engine.calls == 8  # the chat adapter's call, and the JSON adapter's after it
    assert (total(compiled).calls, total(compiled).prompt) == (8, engine.prompt)
    assert {(a.score, a.text, a.error) for a in compiled.experience.attempts} == {
        (0.0, "no fields here", "AdapterParseError")
    }


def test_retries_of_transient_failures_are_counted():
    class Shaky(ScriptedEngine):
        asked = 0

        def complete(self, request: Any) -> Any:
            with self.lock:
                self.asked += 1
                if self.asked % 2:
                    raise lm15.ServerError("500")
            return super().complete(request)

    engine = Shaky(half, 4)
    compiled = learn("a", half, engine=engine, threads=1)
    assert (engine.asked, engine.calls) == (8, 4)
    assert (total(compiled).calls, total(compiled).failed, total(compiled).prompt) == (8, 4, engine.prompt)
    assert compiled.experience.iterations[0].failures == 0


def test_answers_from_the_cache_have_their_own_columns_and_cost_nothing(memory_cache):
    engine = ScriptedEngine(half, 4)
    first = learn("ax", half, engine=engine, lm={"cache": True})
    again = learn("ax", half, engine=engine, lm={"cache": True})
    assert engine.calls == total(first).calls == total(again).calls == 12  # each sample its own, none twice
    assert (total(first).cache_hits, total(again).cache_hits) == (0, 12)
    assert (total(again).prompt, total(again).completion, total(again).usd) == (0, 0, 0.0)
    assert (total(again).cached_prompt, total(again).cached_completion) == (engine.prompt, engine.completion)
    curve = [result.tokens_prompt_per_task for result in first.experience.iterations]
    assert curve == [result.tokens_prompt_per_task for result in again.experience.iterations]


def test_predictors_bound_to_their_own_lm_are_sampled_and_counted_alike(memory_cache):
    own = ScriptedEngine(half, 4)
    student = Solver()
    student.solve.lm = lm = dspy.LM("own", engine=own)
    compiled = AdaptiveFewShot(is_right, 4, temperatures=(0.7,), domain=Domain(task_key=by_task)).compile(
        student, trainset=tasks("ax")
    )
    assert total(compiled).calls == own.calls == 12
    assert {request.config.temperature for request in own.requests} == {0.7}
    assert len({request.config.seed for request in own.requests}) == 12
    assert student.solve.lm is lm and compiled.solve.lm is lm and "seed" not in lm.kwargs


def test_an_outer_usage_tracker_still_hears_of_every_call():
    from dspy.utils.usage_tracker import track_usage

    engine = ScriptedEngine(half, 4)
    with track_usage() as tracker:
        learn("a", half, engine=engine)
    assert tracker.get_total_tokens()["scripted"]["prompt_tokens"] == engine.prompt


def test_what_else_a_module_calls_is_counted_as_other():
    class Direct(Solver):
        def forward(self, task: str) -> dspy.Prediction:
            dspy.settings.lm(f"[[ ## task ## ]]\n{task}\n\n")
            return super().forward(task)

    assert list(learn("a", half, student=Direct()).experience.tokens) == ["other", "solve"]


def test_counts_add_and_go_to_json_and_back():
    count = TokenCount(calls=2, prompt=5, usd=0.25)
    assert count + TokenCount(calls=1, unpriced=1) == TokenCount(calls=3, prompt=5, usd=0.25, unpriced=1)
    assert TokenCount.from_dict(count.to_dict()) == count
    assert (TokenCount().cost, TokenCount(unpriced=1).cost, count.cost) == (0.0, None, 0.25)


def test_a_module_that_copies_itself_and_its_lm_still_spends_from_the_one_purse(memory_cache):
    """Under the name of the predictor that was copied, also where two share a signature."""

    class Twice(Solver):
        def __init__(self) -> None:
            super().__init__()
            self.check = dspy.Predict(self.solve.signature)

        def forward(self, task: str) -> dspy.Prediction:
            return self.check(task=self.solve(task=task) and task)

    class Best(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.best = dspy.BestOfN(Twice(), N=3, reward_fn=lambda inputs, prediction: 0.0, threshold=1.0)

        def forward(self, task: str) -> dspy.Prediction:
            return self.best(task=task)

    engine = ScriptedEngine(half, 4)
    compiled = learn("a", half, engine=engine, student=Best(), lm={"cache": True})
    assert total(compiled).calls == engine.calls == 24
    assert {name: count.calls for name, count in compiled.experience.tokens.items()} == {
        "best.module.check": 12,
        "best.module.solve": 12,
    }


def test_parts_that_learn_nothing_count_under_their_names_and_a_run_within_a_run_in_both():
    """A compiled part, which DSPy leaves as it is, and a predictor in a list of lists, which DSPy does not find."""

    class Whole(Solver):
        def __init__(self) -> None:
            super().__init__()
            self.part, self.rows = part, [[dspy.Predict("task -> answer")]]

        def forward(self, task: str) -> dspy.Prediction:
            learn("a", half, engine=inner)
            AdaptiveFewShot(is_right, 1, temperatures=(0.7,)).compile(Solver(), trainset=tasks(["a"]))
            self.part(task=task)
            self.rows[0][0](task=task)
            return self.solve(task=task)

    part = learn("a", half)
    engine, inner = ScriptedEngine(half, 4), ScriptedEngine(half, 4)
    counted = learn("a", half, engine=engine, student=Whole(), threads=1).experience.tokens
    assert sum(count.calls for count in counted.values()) == engine.calls > 0 < inner.calls
    assert list(counted) == ["other", "part.solve", "rows[0][0]", "solve"]


def test_programs_that_await_their_predictors_are_retried_and_counted_alike():
    class Later:
        def __init__(self, engine: ScriptedEngine) -> None:
            self.engine, self.asked = engine, 0

        async def complete(self, request: lm15.Request) -> lm15.Response:
            self.asked += 1
            if self.asked == 1:
                raise lm15.ServerError("500")
            return self.engine.complete(request)

    class Awaiting(Solver):
        def forward(self, task: str) -> dspy.Prediction:
            return asyncio.run(self.solve.acall(task=task))

    engine = ScriptedEngine(half, 4)
    later = Later(engine)
    compiled = learn("a", half, engine=engine, student=Awaiting(), lm={"async_engine": later}, threads=1)
    spent = total(compiled)
    assert (spent.calls, spent.failed, spent.retried, engine.calls) == (5, 1, 1, 4)
