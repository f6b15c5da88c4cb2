"""DSPy's own optimizers within a run, on a scripted agent whose success rates are known.

Invariants held here: the pass over the tasks is the one that every optimizer gets; every request is counted as the
engine counts it, on the predictor that made it; same seed, same run, whatever the threads; a budget, a metric that
fails and an LM that refuses end the optimizer, which would ignore them; where it fails itself, the record is complete
all the same, and the run can be resumed; the student stays untouched; stdout stays empty.
"""

import importlib.util
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import dspy
import pytest
from dspy import lm15
from dspy.utils.exceptions import LMAuthError

from optimizers import Budget, MetricError, OptimizerError, TokenCount
from optimizers import baselines as registry
from optimizers.attempt import TaskExample
from optimizers.baselines import MAX_PAID_ANSWERS, _is_like
from optimizers.demonstrations import demonstrated_tasks
from optimizers.ledger import Ledger
from optimizers.requests import derive_seed
from tests.support.scripted_program import (
    FIELD,
    Heard,
    ScriptedEngine,
    Solver,
    answer,
    is_right,
    learn,
    respond,
    story,
    tasks,
)

THOUGHT = "Think twice."


def reflection(system: str, user: str) -> str:
    """A text for every field that a request asks for, as JSON where it asks for that."""
    if "JSON object" in user:
        return json.dumps(dict.fromkeys(re.findall(r"`(\w+)`", user.rpartition("JSON object")[2]), THOUGHT))
    fields = re.findall(r"`\[\[ ## (\w+) ## \]\]`", user) or re.findall(r"\[\[ ## (\w+) ## \]\]", system)
    return "\n\n".join(f"[[ ## {name} ## ]]\n{THOUGHT}" for name in dict.fromkeys(fields)) + f"\n\n```\n{THOUGHT}\n```"


class Reflective(ScriptedEngine):
    """Solves what it is shown or instructed to, by the request alone; fills every field of any other request.

    Of its first instructions, as many as `garbled` says can't be read.
    """

    garbled = 0

    def complete(self, request: lm15.Request) -> lm15.Response:
        users = [message.text or "" for message in request.messages if message.role == "user"]
        found = [FIELD.search(text) for text in users]
        system = request.system if isinstance(request.system, str) else "".join(p.text for p in request.system or ())
        if "[[ ## answer ## ]]" not in system or not found or found[-1] is None:
            text = reflection(system, users[-1])
            if self.garbled and "[[ ## proposed_instruction ## ]]" in system:
                text, self.garbled = "I would rather\nnot.", self.garbled - 1
        else:
            task = found[-1].group(1).strip()
            luck = derive_seed(request.config.seed, task) % 100
            odds = {"a": 90, "b": 60}.get(task, 40 if len(users) > 1 or THOUGHT in system else 0)
            text = answer(f"right {task}" if luck < odds else f"wrong {luck}")
        usage = lm15.Usage(input_tokens=sum(map(len, users)), output_tokens=len(text))
        with self.lock:
            self.calls += 1
            self.prompt += usage.input_tokens or 0
            self.completion += usage.output_tokens or 0
        return respond(request, text, usage)


def tuned(name: str, engine: Any = None, **options: Any) -> dspy.Module:
    return learn(
        "abcx",
        lambda *_: 0,
        engine=engine or Reflective(lambda *_: 0, 4),
        optimizer=registry.OPTIMIZERS[name],
        **options,
    )


SHOWING = ["bootstrap", "random-search"]
NAMES = [*SHOWING, "simba", "gepa"]


pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


@cache
def whole(name: str) -> dspy.Module:
    """A run that several tests look at."""
    return tuned(name)


@pytest.mark.parametrize("name", NAMES)
def test_the_program_is_measured_by_a_pass_and_every_request_is_counted(name, capsys):
    engine = Reflective(lambda *_: 0, 4)
    student = Solver()
    compiled = tuned(name, engine, student=student)
    record = compiled.experience
    (result,) = record.iterations
    assert (result.label, result.samples, len(record.attempts)) == (name, 16, 16)
    assert set(record.solved) >= {"a", "b"}
    total = TokenCount.sum(record.tokens.values())
    assert (total.calls, total.prompt, total.completion) == (engine.calls, engine.prompt, engine.completion)
    assert total.failed == 0 and record.tokens["solve"].calls > 16
    assert result.tokens_prompt_per_task == pytest.approx(engine.prompt / 4)
    assert ("other" in record.tokens) == (name not in SHOWING)
    assert student.dump_state() == Solver().dump_state()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", SHOWING)
def test_solutions_become_demonstrations_without_labels(name):
    compiled = whole(name)
    assert compiled.solve.demos
    assert all(demo["answer"] == f"right {demo['task']}" for demo in compiled.solve.demos)
    assert vars(compiled).keys() == vars(learn("a", lambda *_: 1)).keys()


@pytest.mark.parametrize("name", SHOWING)
def test_the_demonstrations_of_the_program_are_on_record(name):
    """By the tasks that they are of, in the iteration, in what is announced and at the end."""
    heard = Heard()
    compiled = tuned(name, observers=[heard])
    carried = tuple(demo["task"] for demo in compiled.solve.demos)
    (result,) = compiled.experience.iterations
    assert carried
    assert result.demos == compiled.experience.demos == heard.started[0].demos == carried


def test_a_demonstration_of_no_known_task_counts_too():
    student = Solver()
    student.solve.demos = [dspy.Example(task="b", answer="right b"), dspy.Example(answer="?"), {"task": "z"}]
    known = [TaskExample(index, example.task, example) for index, example in enumerate(tasks("ab"))]
    assert demonstrated_tasks(student, known) == ("b", "?", "?")


def test_gepa_writes_instructions_by_another_lm_if_there_is_one():
    engine = Reflective(lambda *_: 0, 4)
    compiled = tuned("gepa", reflection_lm=dspy.LM("scripted", engine=engine, cache=False))
    assert THOUGHT in compiled.solve.signature.instructions
    assert engine.calls == compiled.experience.tokens["other"].calls > 0


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_run_whatever_the_threads(name):
    def outcome(compiled: dspy.Module) -> Any:
        attempts = [(a.task, a.sample, a.seed, a.outputs, a.score) for a in compiled.experience.attempts]
        return attempts, compiled.dump_state()

    once = outcome(tuned(name, threads=1, seed=3))
    assert once == outcome(tuned(name, threads=6, seed=3)) != outcome(whole(name))


def test_an_interrupted_run_is_resumed():
    before = whole("bootstrap").experience
    engine = Reflective(lambda *_: 0, 4)
    again = tuned("bootstrap", engine, compiling={"resume": before.attempts[:10]}).experience
    assert again.to_dict()["attempts"] == before.to_dict()["attempts"][:10] + again.to_dict()["attempts"][10:]
    assert [(a.outputs, a.score) for a in again.attempts] == [(a.outputs, a.score) for a in before.attempts]
    assert engine.calls == TokenCount.sum(before.tokens.values()).calls - 10


@pytest.mark.parametrize("name", NAMES)
def test_an_optimizer_that_was_done_before_the_run_was_interrupted_is_not_run_again(name):
    """Its program is sampled, and what it had spent counts."""
    done, overhead, engine = whole(name), Ledger(), Reflective(lambda *_: 0, 4)
    before = done.experience
    overhead.merge(before.overhead)
    again = tuned(name, engine, tuned=done, overhead=overhead, compiling={"resume": before.attempts[:10]})
    assert [(a.outputs, a.score) for a in again.experience.attempts] == [(a.outputs, a.score) for a in before.attempts]
    assert engine.calls == len(before.attempts) - 10
    assert (again.experience.tokens, again.experience.overhead) == (before.tokens, before.overhead)
    assert again.dump_state() == done.dump_state()


def test_what_a_process_that_was_killed_had_spent_adds_up():
    overhead, before = Ledger(), {"solve": TokenCount(calls=7, prompt=70)}
    overhead.merge(before)
    again = tuned("bootstrap", overhead=overhead).experience
    undisturbed = whole("bootstrap").experience
    assert again.overhead["solve"] == undisturbed.overhead["solve"] + before["solve"]
    assert again.tokens["solve"] == undisturbed.tokens["solve"] + before["solve"]


def test_an_optimizer_that_fails_ends_the_run_and_says_which_and_why(monkeypatch):
    """Whatever it raised: what it had spent is on record, and the student comes back as it was."""

    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("no\nscores")

    monkeypatch.setattr(dspy.BootstrapFewShot, "_train", fail)
    compiled = tuned("bootstrap")
    assert (compiled.experience.stopped, compiled.experience.iterations) == ("failed", ())
    assert compiled.experience.message.startswith("bootstrap failed: ZeroDivisionError: no; ")
    assert compiled.dump_state() == Solver().dump_state()


def test_a_validation_set_is_taken_where_the_optimizer_has_use_for_one():
    seen = set()

    def metric(example: dspy.Example, prediction: dspy.Prediction, trace: Any = None) -> bool:
        seen.add(example.task)
        return is_right(example, prediction)

    tuned("random-search", metric=metric, compiling={"valset": tasks("v")})
    assert "v" in seen
    with pytest.raises(ValueError, match="Bootstrap takes no validation set"):
        tuned("bootstrap", compiling={"valset": tasks("v")})


@pytest.mark.skipif(importlib.util.find_spec("optuna") is not None, reason="optuna is installed")
def test_mipro_without_its_package_says_what_to_install():
    with pytest.raises(OptimizerError, match="pip install optuna"):
        tuned("mipro")


@pytest.mark.parametrize("name", NAMES)
def test_its_program_is_sampled_until_the_budget_is_spent(name):
    """The search is as large as half of the budget allows; unsolved tasks are then sampled again, as in the control."""
    limits = Budget(calls=120)
    compiled = tuned(name, Reflective(lambda *_: 0, 4), budget=limits, resample=True, metric=unreachable)
    record, spent = compiled.experience, TokenCount.sum(compiled.experience.overhead.values()).calls
    assert spent <= 60
    assert record.stopped == "budget" and record.message.endswith(" requests of 120")
    assert len(record.iterations) > 1 and {result.label for result in record.iterations} == {name}
    assert len({attempt.seed for attempt in record.attempts}) == len(record.attempts) >= 120 - spent


def unreachable(example: dspy.Example, prediction: dspy.Prediction, trace: Any = None) -> float:
    return 0.9 * is_right(example, prediction)


# Requests within DSPy's optimizers are counted, limited and repeated where they cannot be parsed.


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
def own_cache() -> Iterator[None]:
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
def test_a_run_that_ended_on_answers_that_cannot_be_parsed_asks_again_when_it_continues(no_second_form, own_cache):
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
