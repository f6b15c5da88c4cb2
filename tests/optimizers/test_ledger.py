"""The ledger: every request is counted once, on the predictor that made it, as the engine counted it."""

import asyncio
import threading
import time
from dataclasses import replace
from typing import Any

import dspy
import pytest
from dspy import lm15

from optimizers import AdaptiveFewShot, Budget, Domain, TokenCount
from optimizers.attempt import JUDGE
from optimizers.budget import Spending
from optimizers.demonstrations import prompt_tokens
from optimizers.ledger import Ledger, Price, Request, _truncated, no_answer, reported
from optimizers.requests import Deadline, DeadlineReached
from tests.support.scripted_program import ScriptedEngine, Solver, answer, by_task, is_right, learn, some, tasks

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


# What a request used holds these: a report that cannot be right is estimated and labelled, and loses no answer.


def counted(usage: dict[str, Any] | None, *, cost: float | None = None, **lm: Any) -> TokenCount:
    """Of a request of 300 characters, answered with 30."""
    request = Request("1", type("LM", (), lm)(), {})
    messages = [{"content": "x" * 200}, {"content": [{"text": "y" * 100}]}]
    outputs = [{"text": "z" * 30}]
    entry = {"response": object(), "messages": messages, "prompt": None, "outputs": outputs, "cost": cost}
    request.history.append(entry)
    if usage is not None:
        request.add_usage("m", usage)
    return request.count(outputs)


def test_pictures_count_as_tokens() -> None:
    """As many as providers count, about; so a report of them is believed, and a prompt with many does not fit."""

    class Look(dspy.Signature):
        pictures: list[dspy.Image] = dspy.InputField()
        name: str = dspy.OutputField()

    example = dspy.Example(pictures=[dspy.Image("https://a.test/1.png")] * 20).with_inputs("pictures")
    bare = example.copy(pictures=[]).with_inputs("pictures")
    predictor = dspy.Predict(Look)
    assert 1300 * 20 <= prompt_tokens(predictor, [], example) - prompt_tokens(predictor, [], bare) <= 1400 * 20
    request = Request("1", object(), {})
    messages = dspy.ChatAdapter().format(Look, [], dict(example.inputs()))
    request.history.append({"response": object(), "messages": messages, "prompt": None, "outputs": [], "cost": None})
    request.add_usage("m", {"prompt_tokens": 21_000, "completion_tokens": 5})
    assert (request.count([]).prompt, request.count([]).estimated) == (21_000, 0)


def test_usage_is_read_under_the_names_of_either_api() -> None:
    chat = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    responses = {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": None}
    assert reported(chat) == TokenCount(prompt=9, completion=2, provider_cached=4)
    assert reported(responses) == TokenCount(prompt=9, completion=2)
    assert reported({}) == TokenCount()


def test_completions_that_were_cut_off_are_counted_in_whatever_form() -> None:
    ended = type("Response", (), {"finish_reason": "length"})()
    chosen = {"choices": [{"finish_reason": "length"}, {"finish_reason": "stop"}, {"finish_reason": "length"}]}
    assert (_truncated(ended), _truncated((ended, ended)), _truncated(chosen), _truncated(object())) == (1, 2, 2, 0)


@pytest.mark.parametrize(
    ("usage", "prompt", "completion", "estimated"),
    [
        ({"prompt_tokens": 80, "completion_tokens": 9}, 80, 9, 0),
        ({"prompt_tokens": "80", "completion_tokens": "9"}, 80, 9, 0),
        ({}, 100, 10, 110),
        ({"prompt_tokens": 80, "completion_tokens": -9}, 80, 10, 10),
        ({"prompt_tokens": 10**12, "completion_tokens": 9}, 100, 9, 100),
        ({"prompt_tokens": 80, "completion_tokens": 10**9}, 80, 10, 10),
        ({"prompt_tokens": 80, "completion_tokens": 500}, 80, 500, 0),  # reasoning is not in the text
    ],
)
def test_what_cannot_be_right_is_estimated_dimension_by_dimension(
    usage: dict[str, Any], prompt: int, completion: int, estimated: int
) -> None:
    count = counted(usage)
    assert (count.prompt, count.completion, count.estimated, count.short) == (prompt, completion, estimated, 0)


def test_an_answer_from_the_cache_whose_usage_was_not_kept_is_estimated_and_free() -> None:
    count = counted(None)
    assert (count.cached_prompt, count.cached_completion, count.total, count.usd) == (100, 10, 0, 0.0)
    assert count.cache_hits == 1


def test_a_price_is_used_where_none_is_known_and_one_that_is_given_always() -> None:
    usage = {"prompt_tokens": 80, "completion_tokens": 9}
    fallback, given = Price(1e6, 2e6), Price(1e6, 2e6, given=True)
    assert (counted(usage).usd, counted(usage).unpriced) == (0.0, 1)
    assert (counted(usage, cost=0.5).usd, counted(usage, cost=0.5, price=fallback).usd) == (0.5, 0.5)
    assert counted(usage, price=fallback).usd == 98.0
    assert counted(usage, cost=0.5, price=given).usd == 98.0
    assert counted({}, cost=0.5, price=fallback).usd == 120.0, "the cost is computed from the absurd report"


def test_what_the_provider_s_cache_reads_and_writes_has_prices_of_its_own() -> None:
    """As with Anthropic, where a write costs more than other input; without these prices it is input."""
    cache = {"cached_tokens": 40, "cache_creation_tokens": 30}
    usage = {"prompt_tokens": 80, "completion_tokens": 9, "prompt_tokens_details": cache}
    count = counted(usage, price=Price(1e6, 2e6, 0.1e6, 1.25e6))
    assert (count.prompt, count.provider_cached, count.provider_written) == (80, 40, 30)
    assert count.usd == pytest.approx(10 * 1 + 40 * 0.1 + 30 * 1.25 + 9 * 2)
    assert counted(usage, price=Price(1e6, 2e6)).usd == 98.0


def test_a_report_below_what_the_text_can_take_is_kept_and_counts_in_budgets_as_the_least_possible() -> None:
    """A token has 16 characters at most: of a prompt of 300 characters a server can't have read fewer than 18."""
    count = counted({"prompt_tokens": 1, "completion_tokens": 1})
    assert (count.prompt, count.completion, count.short, count.total, count.budgeted) == (1, 1, 17, 2, 19)


def test_a_server_that_reports_one_token_gets_no_more_requests_than_its_budget_allows() -> None:
    class Modest(ScriptedEngine):
        def complete(self, request: lm15.Request) -> lm15.Response:
            return replace(super().complete(request), usage=lm15.Usage(input_tokens=1, output_tokens=1))

    engine = Modest(lambda *_: 0, 64)
    record = learn(["a" * 16_000], some, n=64, engine=engine, threads=1, budget=Budget(tokens=2_000)).experience
    assert (engine.calls, record.stopped) == (2, "budget")
    assert sum(count.total for count in record.tokens.values()) == 4, "the record has what was reported"


@pytest.mark.parametrize(
    ("response", "why"),
    [
        ({"choices": []}, "no choices"),
        ({"choices": [{"finish_reason": "content_filter"}]}, "content_filter"),
        ({"choices": [{"finish_reason": "content_filter"}, {"finish_reason": "stop"}]}, None),
        ({"choices": [{"finish_reason": "length"}]}, None),
        (type("R", (), {"finish_reason": "stop", "provider_data": {"choices": []}})(), "no choices"),
        (type("R", (), {"finish_reason": "stop", "provider_data": {"choices": [{}]}})(), None),
        (type("R", (), {"finish_reason": "content_filter", "provider_data": None})(), "content_filter"),
    ],
)
def test_a_reply_without_an_answer_says_why(response: Any, why: str | None) -> None:
    found = no_answer(response)
    assert (found is None) if why is None else (found is not None and why in found)


# A budget, of time too: a limit is reached by what equals it, and failures are too many only beyond their share.


@pytest.mark.parametrize(
    ("budget", "below", "exactly"),
    [
        (Budget(tokens=10), (TokenCount(prompt=6, completion=3), 0), (TokenCount(prompt=6, completion=4), 0)),
        (Budget(usd=0.5), (TokenCount(usd=0.4999), 0), (TokenCount(usd=0.5), 0)),
        (Budget(minutes=2), (TokenCount(), 119.999), (TokenCount(), 120.0)),
    ],
)
def test_a_limit_is_reached_exactly_at_its_value(
    budget: Budget, below: tuple[TokenCount, float], exactly: tuple[TokenCount, float]
) -> None:
    assert budget.reached(*below) is None
    assert budget.reached(*exactly) is not None


def test_a_limit_of_zero_is_reached_at_once_and_none_never() -> None:
    for limit in ("tokens", "usd", "minutes"):
        assert Budget(**{limit: 0}).reached(TokenCount(), 0.0) is not None
    assert Budget().reached(TokenCount(prompt=10**12, usd=1e9), 1e9) is None


def test_failures_are_too_many_beyond_their_share_and_not_at_it() -> None:
    budget = Budget(failures=0.25)
    assert not budget.too_many_failures(8, 32, 100) and budget.too_many_failures(9, 32, 100)
    assert not budget.too_many_failures(8, 1, 100), "judged on 32 samples at least"
    assert budget.too_many_failures(2, 1, 4) and not budget.too_many_failures(1, 1, 4), "or all of a smaller iteration"
    assert not budget.too_many_failures(25, 100, 100) and budget.too_many_failures(26, 100, 100)


def test_a_limit_of_iterations_allows_exactly_that_many() -> None:
    counts = [
        len(learn("ax", lambda task, demos, visit: task == "a", budget=Budget(iterations=limit)).experience.iterations)
        for limit in (0, 1, 2)
    ]
    assert counts == [0, 1, 2]


@pytest.mark.parametrize(
    ("minutes", "seconds", "message"),
    [(0.02, 1.2, "0.020 minutes of 0.02"), (90, 5430.5, "90.5 minutes of 90"), (0, 0.0, "0.000 minutes of 0")],
)
def test_the_message_on_a_budget_of_minutes_has_digits_enough(minutes, seconds, message):
    assert Budget(minutes=minutes).reached(TokenCount(), seconds) == message


def test_bad_budgets_are_refused():
    with pytest.raises(ValueError, match="tokens: expected greater than or equal to 0, found -1"):
        Budget(tokens=-1)
    with pytest.raises(ValueError, match="failures: expected less than or equal to 1"):
        Budget(failures=2)


def test_a_budget_is_limited_if_any_limit_ends_a_run() -> None:
    """Limits on prompts end none."""
    assert not Budget(context=10, demo_tokens=10).limited
    for limit in ("iterations", "tokens", "usd", "minutes"):
        assert Budget(**{limit: 1}).limited


def test_samples_and_overhead_add_up_per_predictor() -> None:
    """A predictor that both use has one count; the overhead's own count stays as it is."""
    overhead = Ledger()
    overhead.merge({"propose": TokenCount(calls=1, prompt=10), JUDGE: TokenCount(calls=1, prompt=100)})
    spending = Spending(Budget(), overhead)
    spending.add({"propose": TokenCount(calls=1, prompt=5, completion=2)})
    assert spending.tokens["propose"] == TokenCount(calls=2, prompt=15, completion=2)
    assert spending.tokens[JUDGE].prompt == 100
    assert spending.overhead_input == 10
    assert overhead.counts["propose"].prompt == 10


FAR = 10_000.0


def after(seconds: float) -> Deadline:
    return Deadline(time.monotonic() + seconds)


def test_a_call_in_time_gives_its_result_and_its_error_in_the_callers_context() -> None:
    with dspy.context(trace=["mine"]):
        assert after(FAR).run(lambda: dspy.settings.trace) == ["mine"]
    with pytest.raises(ZeroDivisionError):
        after(FAR).run(lambda: 1 // 0)


def test_a_coroutine_ends_with_it() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlineReached):
        asyncio.run(after(0.05).arun(never))


def test_a_run_whose_lm_does_not_answer_ends_by_its_budget() -> None:
    """One of eight requests lasts forever; the run waits for it until its time is over."""
    going = threading.Event()

    class Stuck(ScriptedEngine):
        asked = 0

        def complete(self, request: lm15.Request) -> lm15.Response:
            with self.lock:
                self.asked += 1
                stuck = self.asked == 3
            if stuck:
                going.wait(600)
            return super().complete(request)

    compiled = learn("ab", lambda *_: 4, engine=Stuck(lambda *_: 4, 4), budget=Budget(minutes=0.02), threads=2)
    going.set()
    experience = compiled.experience
    assert experience.stopped == "budget" and "minutes of 0.02" in experience.message
    unscored = [attempt for attempt in experience.attempts if not attempt.scored]
    assert {str(attempt.error).partition(":")[0] for attempt in unscored} == {"DeadlineReached"}
