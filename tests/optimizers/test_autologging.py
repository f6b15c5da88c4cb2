"""MLflow's autologging sees compiling, whichever of the two is imported first, and no calls but real ones."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.utils.callback import BaseCallback

from tests.support import forked, quick_stores
from tests.support.paths import PROJECT
from tests.support.scripted_program import ScriptedEngine, learn, some

SCRIPT = """
import os
import mlflow

os.chdir({folder!r})

def switch_on():
    mlflow.set_tracking_uri("sqlite:///mlflow.db")
    mlflow.dspy.autolog(log_traces_from_compile=True, log_compiles=True)

def import_ours():
    import optimizers

for step in {order}:
    step()
from tests.support.scripted_program import learn, some
learn("ab", some, n=2)
mlflow.flush_trace_async_logging()
runs = mlflow.search_runs(output_format="list")
traces = mlflow.search_traces(return_type="list", include_spans=True)
roots = {{trace.data.spans[0].name for trace in traces}}
print(len([run for run in runs if "mlflow.parentRunId" not in run.data.tags]), len(runs), len(traces), *roots)
"""


@pytest.mark.parametrize("order", ["switch_on, import_ours", "import_ours, switch_on"])
def test_compiling_is_logged_in_either_order(order: str, tmp_path: Path) -> None:
    """One run; a trace for each sample, and none of a prompt that is only measured."""
    script = SCRIPT.format(order=f"({order})", folder=str(tmp_path))
    (tmp_path / "mlflow.db").write_bytes(quick_stores.empty_store())
    if order.startswith("import_ours"):  # as a fork has already done
        done = forked.run("-c", script)
    else:
        command = [sys.executable, "-W", "ignore", "-c", script]
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outer, runs, traces, root = done.stdout.splitlines()[-1].split()
    assert (outer, runs, traces, root) == ("1", "1", "4", "Solver.forward")


class Counting(BaseCallback):
    """Counts the events."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def on_lm_start(self, *_: Any, **__: Any) -> None:
        self.counts["lm"] += 1

    def on_adapter_format_start(self, *_: Any, **__: Any) -> None:
        self.counts["format"] += 1

    def on_adapter_parse_start(self, *_: Any, **__: Any) -> None:
        self.counts["parse"] += 1

    def on_module_start(self, *_: Any, **__: Any) -> None:
        self.counts["module"] += 1


@pytest.mark.parametrize("place", ["settings", "adapter"])
@pytest.mark.parametrize("selection", ["adaptive", "coverage"])
def test_callbacks_hear_of_real_calls_only(place: str, selection: str) -> None:
    """One formatting for each request, wherever the callbacks are registered; sizes of prompts are found in silence."""
    engine, counting = ScriptedEngine(some, 4), Counting()
    adapter = dspy.ChatAdapter(callbacks=[counting] if place == "adapter" else [])
    with dspy.context(callbacks=[counting] if place == "settings" else [], adapter=adapter):
        compiled = learn("abx", some, engine=engine, selection=selection)
    assert counting.counts["format"] == counting.counts["parse"] == engine.calls == len(compiled.experience.attempts)
    if place == "settings":
        assert counting.counts["lm"] == engine.calls and counting.counts["module"] == 2 * engine.calls
