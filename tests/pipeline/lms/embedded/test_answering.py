"""From a request's text to the answer's: by seed, and in processes that know no DSPy."""

from __future__ import annotations

import gc
import subprocess
import sys

from pipeline.lms.embedded.answering import EmbeddedRequest, answer, proposer_named, repair
from step_runtime.tasks.reader import loads_task
from tests.support.paths import PROJECT

TASK = (PROJECT / "data/tasks/norm/0.yaml").read_text()
SYSTEM = (PROJECT / "data/prompts/proposer.yaml").read_text()
ASK = "Respond with the corresponding output fields, starting with the field `[[ ## impl ## ]]`."


def test_equal_requests_get_equal_answers() -> None:
    """Whatever process or proposer object answers; another seed may give another."""
    messages = (("user", f"[[ ## task ## ]]\n{TASK.strip()}\n\n{ASK}"),)
    first, again, other = (
        answer(proposer_named("embedded"), EmbeddedRequest(SYSTEM, messages, seed)) for seed in (1, 1, 2)
    )
    assert first == again
    assert "step.Map" in first and "step.Map" in other


def test_a_missing_copy_is_inserted() -> None:
    task = loads_task(TASK, "norm/0")
    wrong = "E1 = step.Map(fn=fn_mean).apply(E0)\nreturn step.Map(fn=fn_minus).apply((E0, E1))"
    repaired = repair(task, wrong)
    assert repaired is not None and "step.Copy()" in repaired
    assert repair(task, "return E0(") is None


def test_a_worker_imports_no_dspy() -> None:
    """It would take seconds in every process."""
    code = "import sys, pipeline.lms.embedded.answering; sys.exit('dspy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=False).returncode == 0


def test_a_sample_leaves_no_garbage_in_cycles() -> None:
    """It would be kept for good with what a large sample leaves in caches."""
    task = (PROJECT / "data/tasks-modern/rwkv_wkv.yaml").read_text()
    messages = (("user", f"[[ ## task ## ]]\n{task.strip()}\n\n{ASK}"),)
    answer(proposer_named("embedded"), EmbeddedRequest(SYSTEM, messages, 1))
    gc.collect()
    gc.disable()
    try:
        answer(proposer_named("embedded"), EmbeddedRequest(SYSTEM, messages, 2))
        assert gc.collect() < 1000
    finally:
        gc.enable()
