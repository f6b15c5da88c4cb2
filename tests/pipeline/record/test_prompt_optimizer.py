"""The learning algorithm as an optimizer of MLflow's prompts, offline: what MLflow registers and records."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.genai.optimize.types import EvaluationResultRecord
from mlflow.genai.scorers import Scorer, scorer

from optimizers import Budget
from pipeline import AdaptivePromptOptimizer
from pipeline.record.prompt_optimizer import Evaluations, with_demonstrations
from tests.support.mlflow_settings import tracking_to

COLORS = {"rose": "red", "leaf": "green", "sea": "blue", "coal": "black"}


@pytest.fixture
def store(store_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)  # where MLflow keeps artifacts by default
    monkeypatch.setenv("MLFLOW_GENAI_EVAL_SKIP_TRACE_VALIDATION", "true")
    with tracking_to(f"sqlite:///{store_folder}/mlflow.db", "prompts"):
        yield


@pytest.fixture(name="right")
def right_scorer() -> Scorer:
    @scorer(name="right")
    def right(outputs: Any, expectations: dict[str, Any]) -> bool:
        return bool(outputs == expectations["expected_response"])

    return right


class Painter:
    """Knows the rose; with one color in the prompt, the leaf too; with two, the sea too, and so on."""

    def __init__(self, prompt: str) -> None:
        self.prompt, self.asked = prompt, list[str]()

    def __call__(self, thing: str) -> str:
        text = str(mlflow.genai.load_prompt(f"prompts:/{self.prompt}/1").format(thing=thing))  # type: ignore[attr-defined]
        self.asked.append(text)
        known = 1 + sum(color in text for color in COLORS.values())
        return COLORS[thing] if list(COLORS).index(thing) < known else "grey"


def records(*things: str) -> list[dict[str, Any]]:
    return [{"inputs": {"thing": thing}, "expectations": {"expected_response": COLORS[thing]}} for thing in things]


def optimized(template: Any, optimizer: AdaptivePromptOptimizer, right: Scorer, things: tuple[str, ...]) -> Any:
    mlflow.genai.register_prompt(name="colors", template=template)  # type: ignore[attr-defined]
    return mlflow.genai.optimize_prompts(  # type: ignore[attr-defined]
        predict_fn=Painter("colors"),
        train_data=records(*things),
        prompt_uris=["prompts:/colors/1"],
        optimizer=optimizer,
        scorers=[right],
    )


@pytest.mark.filterwarnings("ignore")  # MLflow's, about its own types, data sets and tables
@pytest.mark.usefixtures("store")
def test_records_that_were_answered_rightly_become_demonstrations_of_a_text_prompt(right: Scorer) -> None:
    """As a new version in the registry; MLflow's run has the curves, and scores of the records that are not shown."""
    optimizer = AdaptivePromptOptimizer(2, num_threads=2, max_demos=1)
    result = optimized("Color of {{thing}}?", optimizer, right, ("rose", "leaf"))
    (prompt,) = result.optimized_prompts
    assert (prompt.name, prompt.version) == ("colors", 2)
    assert prompt.template == "Examples:\n\nthing: rose\nresponse: red\n\n---\n\nColor of {{thing}}?"
    assert prompt.variables == {"thing"}
    assert (result.initial_eval_score, result.final_eval_score) == (0.0, 1.0)
    assert result.final_eval_score_per_scorer == {"right": 1.0}
    assert optimizer.experience is not None and optimizer.experience.stopped == "solved"
    (run,) = mlflow.search_runs(output_format="list")
    assert run.info.status == "FINISHED" and run.data.metrics["solved"] == 2
    assert [point.value for point in mlflow.MlflowClient().get_metric_history(run.info.run_id, "solved")] == [1, 2]


@pytest.mark.filterwarnings("ignore")  # MLflow's, about its own types, data sets and tables
@pytest.mark.usefixtures("store")
def test_a_chat_prompt_gets_pairs_of_messages(right: Scorer) -> None:
    """Before its last message, whose variables are the demonstration's inputs."""
    template = [{"role": "system", "content": "Colors."}, {"role": "user", "content": "{{thing}}?"}]
    result = optimized(template, AdaptivePromptOptimizer(1, num_threads=1), right, ("rose", "leaf", "sea"))
    first, *shown, last = result.optimized_prompts[0].template
    assert (first, last) == (template[0], template[1])
    asked, answers = shown[::2], shown[1::2]
    assert {message["content"].removesuffix("?") for message in asked} <= {"rose", "leaf", "sea"}
    assert [message["content"] for message in answers] == [COLORS[message["content"][:-1]] for message in asked]
    assert {message["role"] for message in asked} == {"user"} and {each["role"] for each in answers} == {"assistant"}


def test_what_a_template_would_take_for_its_own_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """MLflow has no way to quote a variable."""
    good, bad = {"thing": "rose", "response": {"color": "red"}}, {"thing": "{{ x }}", "response": "black"}
    text = 'Examples:\n\nthing: rose\nresponse: {"color": "red"}\n\n---\n\nOf {{thing}}?'
    assert with_demonstrations("Of {{thing}}?", [good, bad]) == text
    assert "1 demonstrations are left out" in caplog.text
    assert with_demonstrations("Of {{thing}}?", [bad]) == "Of {{thing}}?"
    chat = json.dumps([{"role": "user", "content": "{{thing}} {{day}}"}])
    assert json.loads(with_demonstrations(chat, [good]))[0] == {"role": "user", "content": "thing: rose"}


def made(inputs: dict[str, Any], score: float | None = 1.0) -> EvaluationResultRecord:
    nothing: Any = None
    return EvaluationResultRecord(inputs, "red", {}, score, nothing, {"right": "since it is"}, {"right": 1.0})


def test_requests_that_wait_share_a_call_of_the_thread_that_serves_them() -> None:
    """All that have the same prompts; a failed call fails for each."""
    calls: list[tuple[str, int, int]] = []
    everybody = threading.Barrier(4)

    def evaluate(prompts: dict[str, str], rows: list[dict[str, Any]]) -> list[EvaluationResultRecord]:
        calls.append((prompts["p"], len(rows), threading.get_ident()))
        if prompts["p"] == "bad":
            raise ValueError("no")
        return [made(row["inputs"]) for row in rows]

    evaluations = Evaluations(evaluate)
    failures: list[Exception] = []

    def ask(prompt: str, number: int) -> None:
        everybody.wait()
        try:
            assert evaluations.ask({"p": prompt}, {"inputs": {"number": number}}).inputs == {"number": number}
        except ValueError as error:
            failures.append(error)

    def work() -> str:
        threads = [threading.Thread(target=ask, args=(prompt, n)) for n, prompt in enumerate(["a", "a", "b", "bad"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return "done"

    assert evaluations.serve(work) == "done"
    assert len(failures) == 1 and {thread for *_, thread in calls} == {threading.get_ident()}
    assert sum(count for prompt, count, _ in calls if prompt == "a") == 2


def test_an_interrupt_ends_the_run() -> None:
    """It is raised where the optimizer was called, and nothing more is asked."""
    asked: list[int] = []

    def evaluate(prompts: dict[str, str], rows: list[dict[str, Any]]) -> list[EvaluationResultRecord]:
        asked.append(len(rows))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        AdaptivePromptOptimizer(4, num_threads=2).optimize(evaluate, records("rose", "leaf"), {"colors": "{{thing}}"})
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("options", "prompts", "scored", "message"),
    [
        ({}, {"a": "", "b": ""}, True, "prompts: the answers are those of the whole program; say which of a, b"),
        ({"prompts": ["c"]}, {"a": ""}, True, "prompts: no prompt c is optimized, only a"),
        ({}, {"a": ""}, False, "scorers: the optimizer learns from scores, and got none"),
    ],
)
def test_what_cannot_be_optimized_is_refused(
    options: dict[str, Any], prompts: dict[str, str], scored: bool, message: str
) -> None:
    """In one sentence, before or at the first answer."""

    def evaluate(_: dict[str, str], rows: list[dict[str, Any]]) -> list[EvaluationResultRecord]:
        return [made(row["inputs"], 1.0 if scored else None) for row in rows]

    with pytest.raises(ValueError, match=message):
        AdaptivePromptOptimizer(**options).optimize(evaluate, records("rose"), prompts)


def test_options_are_those_of_the_algorithm() -> None:
    """An unknown one is named at once; without records there is nothing to learn from."""
    with pytest.raises(TypeError, match="no option samples"):
        AdaptivePromptOptimizer(samples=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="AdaptivePromptOptimizer: no option temperatures: MLflow's records decide"):
        AdaptivePromptOptimizer(temperatures=(0.1,))
    with pytest.raises(ValueError, match="train_data: the optimizer learns from records, and got none"):
        AdaptivePromptOptimizer(budget=Budget(iterations=1)).optimize(None, [], {"a": ""})
