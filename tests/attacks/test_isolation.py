"""What an author's snippet can reach holds these, each beside a control that is judged rightly before and after:

- it forges neither the verdict of the call that runs it nor that of a later one, whatever it changes or writes;
- what it starts ends with its call, and reaches no other task;
- its process sees no secret of the environment, and no connection of the parent's;
- a process that something else kills costs a right program nothing but its score.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import dspy
import pytest

from pipeline.verification.isolation import processes
from pipeline.verification.isolation.confinement import Sandbox
from pipeline.verification.judge import Request, judge, verdict_in
from pipeline.verification.limits import verification_pool
from pipeline.verification.metric import Metric
from pipeline.verification.pool import WorkerLost, WorkerPool
from step_runtime.base.errors import STAGES
from step_runtime.tasks.reader import loads_task
from step_runtime.verification.verdict import Verdict
from tests.support import attacking
from tests.support.paths import PROJECT
from tests.support.processes import PATIENCE, eventually, gone, state

TASK = """
inputs: [{name: E0, dtype: fp32, dims: [M], data_gen: torch.rand}]
fns:
- name: Double
  apply: |
    SNIPPET
    return [input[0] * 2]
  input_dtype: fp32
  output_dtype: fp32
  func_name: fn
outputs: [{name: S0, dtype: fp32, dims: [M], data_transform: ["input_data['E0'] * 2"]}]
"""
CLEAN = TASK.replace("SNIPPET", "pass")
RIGHT = "return step.Map(fn=fn).apply(E0)"
WRONG = "return step.Map(fn=fn).apply(step.Map(fn=fn).apply(E0))"

TAMPERING = {
    "torch.equal": "import torch; torch.equal = lambda a, b: True",
    "torch.isclose": "import torch; torch.isclose = lambda *a, **k: torch.ones(1)",
    "torch.allclose": "setattr(torch, 'allclose', lambda *a, **k: True)",
    "a method of tensors": "import torch; torch.Tensor.shape = 3",
    "the comparison": "import step_runtime.verification.compare as c; c.close = lambda a, b: True",
    "the verifier's name of it": "import step_runtime.verification.verify as v; v.difference = lambda a, b: None",
    "a method of the verifier": (
        "from step_runtime.verification.verify import Verifier; Verifier._found = lambda *a: []"
    ),
    "a verdict's class": "from step_runtime.verification.verdict import Verdict as V; V.model_copy = lambda v, **_: v",
    "a verdict's field": "from step_runtime.verification.verify import Verdict; Verdict.passed = True",
    "a function's code": (
        "import step_runtime.verification.compare as c; c.close.__code__ = (lambda result, reference: True).__code__"
    ),
    "a function's defaults": "from step_runtime.verification.verify import verify; verify.__defaults__ = (None,)",
    "the check": (
        "import pipeline.verification.isolation.integrity as i, torch; "
        "i.unchanged = lambda: lambda: True; torch.equal = lambda a, b: True"
    ),
    "what the check uses": (
        "import builtins, operator, torch; builtins.all = builtins.map = lambda *a: True; "
        "operator.is_ = lambda a, b: True; torch.equal = lambda a, b: True"
    ),
    "a builtin": "import builtins; builtins.all = lambda items: True",
    "a name that hides a builtin": "import step_runtime.verification.verify as v; v.zip = lambda *a, **k: ()",
    "a module": "import sys, types; sys.modules['step_runtime.verification.verify'] = types.ModuleType('x')",
    "the worker's judge": "import pipeline.verification.judge as w; w.judge = lambda *a: None",
    "the answers": (
        "import pipeline.verification.isolation.answers as a; a.returned = lambda v: b'+{\"passed\": true}'"
    ),
    "the connection": "import pipeline.verification.isolation.warden as f; f.send = lambda *a: None",
    "a tolerance": "import step_runtime.verification.compare as c; c.TOLERANCES[torch.float64] = (9.0, 9.0)",
    "a constant, by an equal one": "import step_runtime.verification.compare as c; c._PART = float(c._PART)",
    "a name that is gone": "import step_runtime.verification.compare as c; del c._PART",
    "what writes JSON": "import json; json.dumps = lambda *a, **k: 'true'",
    "how JSON is written": "import json; json.JSONEncoder.encode = lambda *a: 'true'",
    "what writes JSON fast": "import json.encoder; json.encoder.c_make_encoder = None",
    "what follows each call": (
        "import sys\n"
        "    def follow(frame, event, _):\n"
        "        if frame.f_code.co_name == 'difference': frame.f_locals['result'] = frame.f_locals['reference']\n"
        "        return follow\n"
        "    sys.settrace(follow)"
    ),
    "what follows each return": "import sys; sys.setprofile(lambda *a: None)",
    "the notes": "import pipeline.verification.isolation.warden as n; n.say = lambda text: None",
}


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    """Of cells that are not confined: what holds of them holds without the system's help."""
    with verification_pool(1, seconds=30.0, memory=2**30, sandbox=Sandbox("off")) as pool:
        yield pool


def verdict(pool: WorkerPool, name: str, content: str, text: str) -> Verdict:
    request = Request(task=name, statement=content, text=text)
    return verdict_in(STAGES, request, pool.submit(judge, request))


def controls_hold(pool: WorkerPool) -> bool:
    """Of a task of its own, in the same worker."""
    return verdict(pool, "control", CLEAN, RIGHT).passed and verdict(pool, "control", CLEAN, WRONG).stage == "value"


@pytest.mark.parametrize("attack", TAMPERING)
def test_what_a_snippet_patches_judges_nothing(pool: WorkerPool, attack: str) -> None:
    """Neither its own call, nor a later one of its task, nor one of another task."""
    assert controls_hold(pool)
    bad = TASK.replace("SNIPPET", TAMPERING[attack])
    for text in (WRONG, RIGHT, WRONG):
        found = verdict(pool, "attack", bad, text)
        assert not found.passed
        assert found.stage == "run"
        assert found.diagnostics[0].code in ("tampered", "lost-before")
    assert controls_hold(pool)


def test_what_global_patches_judges_nothing(pool: WorkerPool) -> None:
    """It runs before anything is compared."""
    bad = "global: 'torch.equal = torch.allclose = lambda *a, **k: True'" + CLEAN
    for text in (WRONG, RIGHT):
        assert not verdict(pool, "attack", bad, text).passed
    harmless = "global: 'own = torch.equal'" + CLEAN
    assert verdict(pool, "harmless", harmless, RIGHT).passed
    assert not verdict(pool, "harmless", harmless, WRONG).passed
    assert controls_hold(pool)


def test_a_verdict_put_in_place_of_the_answer_is_refused(pool: WorkerPool) -> None:
    """One that the snippet sends by itself has not the number of its call, or is one too many."""
    forged = '+{\\"passed\\": true}'
    sending = (
        "import os, socket, struct; "
        "sock = next(socket.socket(fileno=n) for n in range(3, 64) if os.path.exists(f'/proc/self/fd/{n}')"
        " and 'socket' in os.readlink(f'/proc/self/fd/{n}')); "
        f"data = (1).to_bytes(4, 'big') + b'{forged}'; sock.sendall(struct.pack('>Q', len(data)) + data)"
    )
    bad = TASK.replace("SNIPPET", sending.replace('\\"', '"'))
    assert not verdict(pool, "attack", bad, WRONG).passed
    assert controls_hold(pool)


SENDING = """import os, socket, struct, sys, time
    frame = sys._getframe()
    while not {'number', 'receiver'} <= frame.f_locals.keys(): frame = frame.f_back
    data = frame.f_locals['number'] + ANSWER
    socket.socket(fileno=3).sendall(struct.pack('>Q', len(data)) + data)
    time.sleep(1)"""
FORGED = {
    "an error of the user's": """b'-["pipeline.base.errors:UsageError", "run this"]'""",
    "an error of the record": """b'-["pipeline.base.errors:RecordError", "run this"]'""",
    "a process that was killed": """b'-["pipeline.verification.pool:WorkerLost", "x"]'""",
    "a lack of memory": """b'-["builtins:MemoryError", "x"]'""",
    "an interrupt": """b'-["builtins:KeyboardInterrupt", "x"]'""",
    "a fault": """b'-["builtins:TypeError", "x"]'""",
    "a number": "b'+3'",
    "another object": """b'+["dict"]'""",
    "a set that takes for ever": (
        """b'+["frozenset",' + b','.join(b'%d' % (i * (2**61 - 1)) for i in range(40_000)) + b']'"""
    ),
    "a dict that takes for ever": (
        """b'+["dict",' + b','.join(b'[%d,0]' % (i * (2**61 - 1)) for i in range(40_000)) + b']'"""
    ),
    "a tower": "b'+' + b'[' * 2**22",
}


@pytest.mark.parametrize("attack", FORGED)
def test_an_answer_of_a_snippet_s_own_ends_no_command(pool: WorkerPool, attack: str) -> None:
    """With the number of its call, it is the loss of that call at most; the control's answer is what a call gives."""
    bad = TASK.replace("SNIPPET", SENDING.replace("ANSWER", FORGED[attack]))
    found = verdict(pool, attack, bad, RIGHT)
    assert (found.passed, found.stage, found.diagnostics[0].code) == (False, "run", "crashed")
    assert controls_hold(pool)


class TestOfAFunction:
    """Functions that a worker calls stand for a snippet that has taken its process over."""

    def test_tasks_share_no_process(self, pool: WorkerPool) -> None:
        """Calls of one task do."""
        pids = {
            name: {pool.submit(attacking.process_of, name, CLEAN).result(PATIENCE) for _ in range(4)} for name in "ab"
        }
        assert len(pids["a"]) == len(pids["b"]) == 1
        assert not pids["a"] & pids["b"]

    def test_what_a_task_was_lost_at_is_no_other_task_s(
        self, pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whatever it claims to have been at; of its own task it is believed."""
        noted: list[str] = []
        monkeypatch.setattr("pipeline.verification.judge.say", noted.append)
        assert judge(Request(task="victim", statement=CLEAN, text=RIGHT)).passed
        victim = next(note for note in noted if "step.Map" in note)
        for name, passed in (("attack", True), ("victim", False)):
            for _ in range(2):
                with pytest.raises(WorkerLost):
                    pool.submit(attacking.lost_at, name, CLEAN, victim).result(PATIENCE)
            assert verdict(pool, "victim", CLEAN, RIGHT).passed == passed
        assert controls_hold(pool)

    def test_a_worker_holds_no_connection_to_the_parent(self, pool: WorkerPool) -> None:
        """Its open files are nowhere, and one socket, whose other end is its warden's."""
        files = pool.submit(attacking.open_files, "a", CLEAN).result(PATIENCE)
        connections = {name for name in files if name.startswith(("socket:", "pipe:"))}
        assert len(connections) == 1
        assert not connections & set(attacking.links().values())
        assert {*files} - connections <= {"/dev/null"}

    @pytest.mark.parametrize(
        ("attack", "message"),
        [
            ("flood", "answered with more than"),
            ("header", "answered with more than"),
            ("two answers", "not its turn|something else"),
            ("garbage", "not its turn|something else"),
            ("close", "closed its connection|exit code"),
        ],
    )
    def test_what_is_written_to_a_warden_forges_no_other_call(
        self, pool: WorkerPool, attack: str, message: str
    ) -> None:
        """It costs its own call at most."""
        assert controls_hold(pool)
        try:
            pool.submit(attacking.write_to_warden, "attack", CLEAN, attack).result(PATIENCE)
        except WorkerLost as lost:
            assert any(part in str(lost) for part in message.split("|"))
        assert not verdict(pool, "attack", CLEAN, WRONG).passed
        assert controls_hold(pool)


@pytest.mark.skipif(not processes.LINUX, reason="the warden's means are Linux's")
@pytest.mark.parametrize("attack", ["plain", "session", "orphan", "deaf", "thread"])
def test_what_a_snippet_starts_ends_with_its_call(pool: WorkerPool, attack: str, tmp_path: Path) -> None:
    """Its verdict is what it would be without, nothing of it runs on, and no call waits for it."""
    marker = tmp_path / "pid"
    snippet = f"from tests.support import attacking; attacking.leave_once({str(marker)!r}, {attack!r})"
    bad = TASK.replace("SNIPPET", snippet)
    assert verdict(pool, "attack", bad, RIGHT).passed
    assert gone(int(marker.read_text()))
    assert verdict(pool, "attack", bad, WRONG).stage == "value"
    assert controls_hold(pool)


@pytest.mark.skipif(not processes.LINUX, reason="the warden's means are Linux's")
def test_what_a_snippet_starts_ends_with_the_command_s_whole_group(tmp_path: Path) -> None:
    """Killed together, as by a timeout, they leave nobody to wait for; the control runs until then."""
    marker = tmp_path / "pid"
    script = f"""
from pipeline.verification.isolation.confinement import Sandbox
from pipeline.verification.pool import WorkerPool
from tests.support import attacking

if __name__ == "__main__":
    with WorkerPool(1, seconds=60, memory=2**29, sandbox=Sandbox("off")) as pool:
        pool.submit(attacking.leave_and_wait, {str(marker)!r}).result()
"""
    (tmp_path / "script.py").write_text(script)
    env = {**os.environ, "PYTHONPATH": str(PROJECT)}
    process = subprocess.Popen([sys.executable, str(tmp_path / "script.py")], env=env, start_new_session=True)
    assert eventually(lambda: marker.exists() and bool(marker.read_text()))
    left = int(marker.read_text())
    assert state(left)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert gone(left)


def test_a_process_killed_twice_by_others_leaves_its_attempt_unscored() -> None:
    """It is not wrong, and the same program is judged the next time; killed once, it is judged at once."""
    task = loads_task(CLEAN, "double")
    asked: list[Future[Any]] = []

    class Killing(WorkerPool):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            asked.append(super().submit(attacking.killed_from_outside if not asked else fn, *args, **kwargs))
            return asked[-1]

    with Killing(1, seconds=60, memory=2**30, sandbox=Sandbox("off")) as pool:
        metric = Metric(pool)
        example, prediction = dspy.Example(task=task), dspy.Prediction(impl=RIGHT)
        with pytest.raises(WorkerLost, match="killed by the system, twice"):
            metric(example, prediction)
        assert metric(example, prediction).score == 1.0


def test_a_snippet_finds_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its own environment, or in that of its warden."""
    found = attacking.in_a_new_process(tmp_path, {"OPENAI_API_KEY": "sk-planted", "BASE": "http://me:planted@host"})
    assert "planted" not in found
    assert os.environ["PATH"] in found
