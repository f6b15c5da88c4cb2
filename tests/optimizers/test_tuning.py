"""Requests within DSPy's optimizers are counted, limited and repeated where they cannot be parsed."""

import importlib.util
from collections.abc import Iterator

import dspy
import pytest
from dspy import lm15
from dspy.utils.exceptions import LMAuthError

from optimizers import Budget, MetricError, TokenCount
from optimizers.ledger import Ledger
from optimizers.tuning import MAX_PAID_ANSWERS, _is_like
from tests.support.reflective_engine import NAMES, Reflective, tuned
from tests.support.scripted_program import Solver, is_right, story

# DSPy's optimizers ask their own libraries for things that are on their way out.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

needs_optuna = pytest.mark.skipif(
    importlib.util.find_spec("optuna") is None, reason="mipro needs optuna, which is not installed"
)


@pytest.mark.parametrize("name", NAMES)
def test_a_budget_ends_the_optimizer_with_a_usable_program(name):
    compiled = tuned(name, budget=Budget(tokens=1), threads=1)
    assert (compiled.experience.stopped, story(compiled)) == ("budget", [])
    assert 0 < TokenCount.sum(compiled.experience.tokens.values()).total < 1000
    assert compiled.solve.demos == []


@pytest.mark.parametrize("name", NAMES)
def test_a_metric_that_fails_ends_the_optimizer(name):
    def metric(example: dspy.Example, prediction: dspy.Prediction) -> bool:
        raise ZeroDivisionError("boom")

    with pytest.raises(MetricError, match="boom"):
        tuned(name, metric=metric)


def test_a_metric_that_sometimes_fails_is_no_reason_to_end_the_optimizer_unless_max_errors_says_so():
    """Its exception is an answer without a score, as anywhere in DSPy."""

    def metric(example: dspy.Example, prediction: dspy.Prediction) -> bool:
        if example.task == "a":
            raise ZeroDivisionError("boom")
        return is_right(example, prediction)

    record = tuned("random-search", metric=metric, max_errors=100_000).experience
    assert "a" in record.unsolved and record.solved
    with pytest.raises(MetricError, match="boom") as raised:
        tuned("random-search", metric=metric, max_errors=2)
    assert raised.value.experience.overhead["solve"].calls > 0


@pytest.mark.parametrize("name", NAMES)
def test_an_lm_that_refuses_ends_the_optimizer_at_once(name):
    class Refusing(Reflective):
        def complete(self, request: lm15.Request) -> lm15.Response:
            self.calls += 1
            raise lm15.AuthError("bad key")

    engine = Refusing(lambda *_: 0, 4)
    with pytest.raises(LMAuthError):
        tuned(name, engine, threads=1)
    assert engine.calls <= 3


def test_an_lm_that_refuses_after_it_gave_answers_leaves_what_was_spent_on_record():
    class Refusing(Reflective):
        def complete(self, request: lm15.Request) -> lm15.Response:
            if self.calls >= 5:
                raise lm15.AuthError("the key was revoked")
            return super().complete(request)

    engine = Refusing(lambda *_: 0, 4)
    record = tuned("bootstrap", engine, threads=1).experience
    assert record.stopped == "failed"
    assert "the key was revoked" in record.message
    assert TokenCount.sum(record.tokens.values()).prompt == engine.prompt > 0


@pytest.fixture
def no_second_form() -> Iterator[None]:
    """Answers that can't be read are not asked for as JSON."""
    with dspy.context(adapter=dspy.ChatAdapter(use_json_adapter_fallback=False)):
        yield


@pytest.fixture
def cache() -> Iterator[None]:
    """A response cache of the test's own."""
    before = dspy.cache
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=True)
    yield
    dspy.cache = before


@needs_optuna
def test_an_instruction_that_cannot_be_parsed_is_requested_again(no_second_form):
    """And booked like any other; a wrong answer of the student's is none of these."""
    engine = Reflective(lambda *_: 0, 4)
    engine.garbled = MAX_PAID_ANSWERS - 1
    record = tuned("mipro", engine).experience
    assert (engine.garbled, [result.label for result in record.iterations]) == (0, ["mipro"])
    assert TokenCount.sum(record.tokens.values()).calls == engine.calls


@needs_optuna
def test_a_run_that_ended_on_answers_that_cannot_be_parsed_asks_again_when_it_continues(no_second_form, cache):
    """The bad answers are in the response cache, and don't pass for new ones; the good ones are not paid for twice."""
    engine, overhead = Reflective(lambda *_: 0, 4), Ledger()
    engine.garbled = 2 * MAX_PAID_ANSWERS + 1
    spent = []
    for left in (MAX_PAID_ANSWERS + 1, 1):
        record = tuned("mipro", engine, overhead=overhead, lm={"cache": True}).experience
        assert (record.stopped, engine.garbled) == ("failed", left)
        assert record.message.startswith("mipro failed: the LM's answers lack proposed_instruction; the last one is ")
        assert "'I would rather not.'" in record.message
        total = TokenCount.sum(record.tokens.values())
        assert (total.prompt, total.calls - total.cache_hits) == (engine.prompt, engine.calls)
        spent.append(engine.calls)
    assert spent[1] - spent[0] == MAX_PAID_ANSWERS
    assert tuned("mipro", engine, overhead=overhead, lm={"cache": True}).experience.iterations[0].label == "mipro"


def test_a_predictor_of_the_optimizers_own_is_not_a_copy_of_a_student_that_is_a_predictor() -> None:
    """They differ in their fields; instructions, optimizers change."""
    student = dspy.Predict("question -> answer")
    copied = dspy.Predict(student.signature.with_instructions("Be brief."))
    assert _is_like(copied, student) and not _is_like(dspy.Predict("program -> proposed_instruction"), student)
    assert _is_like(Solver(), Solver()) and not _is_like(student, Solver())
