"""The example of an agent holds these.

- Demonstrations of its own calls let it solve more than it does without, on tools that it knows nothing about.
- What the LM is shown holds no answer that was not earned.
- It runs as its docstring says, and its record is in MLflow's store.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dspy import lm15
from mlflow import MlflowClient

from examples import agent
from tests.support.paths import PROJECT


def test_the_agent_learns_from_its_own_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is shown which tools it called, and not only how it finished; gold answers never leave the metric."""
    asked: list[lm15.Request] = []
    complete = agent.Imitator.complete

    def listen(self: Any, request: lm15.Request) -> lm15.Response:
        asked.append(request)
        return complete(self, request)

    monkeypatch.setattr(agent.Imitator, "complete", listen)
    compiled = agent.learn()
    record = compiled.experience
    assert 0 < record.iterations[0].solved_total < record.iterations[-1].solved_total
    assert {demo.next_tool_name for demo in compiled.react.demos} >= {"capital", "finish"}
    earned = {attempt.task_key for attempt in record.attempts if attempt.passed}
    questions = [str(example.question) for example in agent.make_tasks()]
    for request in asked:
        texts = [message.text or "" for message in request.messages]
        assert {question for question in questions for text in texts[:-1] if f"\n{question}\n" in text} <= earned
        assert "gold" not in "".join(texts)


@pytest.mark.slow
def test_it_runs_as_a_script_and_is_recorded(tmp_path: Path) -> None:
    """In the store that MLflow's settings name."""
    store = {"MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db"}
    words = [sys.executable, str(PROJECT / "examples" / "agent.py")]
    done = subprocess.run(words, cwd=tmp_path, env=os.environ | store, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("1: None    0 demonstrations, solved ")
    run_id = done.stdout.partition("recorded as run ")[2].partition(";")[0]
    run = MlflowClient(store["MLFLOW_TRACKING_URI"]).get_run(run_id)
    assert run.info.status == "FINISHED" and run.data.metrics["total_solved"] >= 1


@pytest.mark.slow
def test_it_leaves_the_current_folder_as_it_is(tmp_path: Path) -> None:
    """Without settings, the record is in a temporary folder, which its last line names."""
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    words = [sys.executable, str(PROJECT / "examples" / "agent.py")]
    done = subprocess.run(
        words, cwd=here, env=environment | {"TMPDIR": str(elsewhere)}, check=True, capture_output=True, text=True
    )
    store = done.stdout.partition("--backend-store-uri ")[2].split()[0]
    assert [*here.iterdir()] == [] and store.startswith(f"sqlite:///{elsewhere}/agent-")
    assert Path(store.removeprefix("sqlite:///")).is_file()
