"""Programs of a language that runs them reach neither their judge, nor what is expected, nor a later verdict.

The language here has no list of what a program may be: each attack stands for a program that has escaped from one.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.verification.isolation.confinement import Means
from pipeline.verification.judge import Request, judge, verdict_of
from pipeline.verification.limits import verification_pool
from pipeline.verification.pool import WorkerPool
from step_runtime.verification.verdict import Verdict
from tests.support.languages import install

pytestmark = pytest.mark.skipif(bool(Means.here().missing), reason=Means.here().missing)
LANGUAGE = """
import torch

from pathlib import Path
from pipeline.languages import Diagnostic, Language, Verdict, read_text_task
from pipeline.verification.apart import Crashed, apart


def run(text, numbers):
    space = {"numbers": numbers}
    exec(text, space)
    return torch.as_tensor(space["result"]).double().numpy().tobytes()


class Escaping(Language):
    name = "escaping"
    stages = ("run", "value")
    executes = True
    folder = Path(__file__).parent

    def task(self, text, name, source):
        return read_text_task(text, name, source, {"goal": str, "reference": str})

    def judge(self, task, text, limits):
        numbers = torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        try:
            answer = torch.frombuffer(bytearray(apart(run, text, numbers)), dtype=torch.float64)
        except (Crashed, ValueError) as error:
            return Verdict(passed=False, stage="run", diagnostics=(Diagnostic("run", "crashed", str(error)),))
        expected = eval(task.content["reference"], {"numbers": numbers})
        if answer.shape == expected.shape and torch.isclose(answer, expected).all():
            return Verdict(passed=True)
        return Verdict(passed=False, stage="value", diagnostics=(Diagnostic("value", "value", "other numbers"),))


LANGUAGE = Escaping()
"""
TASK = "goal: square the numbers\nreference: numbers ** 2\n"
RIGHT, WRONG = "result = numbers * numbers", "result = numbers * 3"
HARM = {
    "what compares": "import torch\ntorch.isclose = torch.allclose = lambda a, b, **_: torch.ones(1)",
    "the judge": "import pipeline.verification.judge as j\nj.judge = j._judged = lambda *a: print('passed')",
    "the language": "import escaping_language as e\ne.Escaping.judge = lambda *a: e.Verdict(passed=True)",
    "the class of verdicts": (
        "from step_runtime.verification.verify import Verdict\nVerdict.__init__ = lambda v, *a, **k: v.__dict__.update("
        "passed=True, stage=None, diagnostics=(), seconds=0.0, exact=None)"
    ),
    "what writes answers": (
        "import pipeline.verification.isolation.answers as a, json\na.returned = json.dumps = lambda *_, **__: b'+true'"
    ),
    "a process left behind": "import os, time\nif not os.fork(): time.sleep(60)",
    "a thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    "what it can send": (
        "import os\nfor number in range(64):\n    try: os.write(number, b'\\x00' * 12 + b'+' + b'{\"passed\": true}')\n"
        "    except OSError: pass"
    ),
    "its judge's life": "import os, signal\ntry: os.kill(os.getppid(), signal.SIGSTOP)\nexcept OSError: pass",
}
SPIES = {
    "the expected values in memory": (
        "import gc, torch\nfound = [t for t in gc.get_objects() if isinstance(t, torch.Tensor) and t.shape == (4,)]\n"
        "result = next((t for t in found if torch.allclose(t.double(), numbers ** 2)), numbers)"
    ),
    "the task's file": "result = eval(open(TASK_FILE).read().split('reference: ')[1])",
    "the oracle's file": "exec(open(ORACLE).read())",
    "any file of the packages": "import torch\nopen(torch.__file__).close()\nresult = numbers * numbers",
    "what an earlier program left": "import builtins\nresult = builtins.kept\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(tmp_path, monkeypatch, "escaping", LANGUAGE)
    (tmp_path / "square.yaml").write_text(TASK)
    (tmp_path / "square.py").write_text(RIGHT)
    return tmp_path


@pytest.fixture
def pool(folder: Path) -> Iterator[WorkerPool]:
    with verification_pool(1, seconds=60, language="escaping") as pool:
        yield pool


def verdict(pool: WorkerPool, folder: Path, text: str) -> Verdict:
    request = Request(path=str(folder / "square.yaml"), text=text, language="escaping")
    return verdict_of(request, pool.submit(judge, request))


def test_no_program_forges_its_own_verdict_or_a_later_one(pool: WorkerPool, folder: Path) -> None:
    """Whatever it changes, leaves or sends; a right program passes before, between and after."""
    assert verdict(pool, folder, RIGHT).passed
    for name, harm in HARM.items():
        own = verdict(pool, folder, f"{harm}\n{WRONG}")
        assert not own.passed and own.error is None, name
        assert verdict(pool, folder, WRONG).stage == "value", name
        assert verdict(pool, folder, RIGHT).passed, name


def test_what_is_expected_is_out_of_a_programs_reach(pool: WorkerPool, folder: Path) -> None:
    """In memory and in files; the control computes it."""
    places = [repr(str(folder / name)) for name in ("square.yaml", "square.py")]
    verdict(pool, folder, f"import builtins\nbuiltins.kept = numbers ** 2\n{WRONG}")
    for name, spy in SPIES.items():
        text = spy.replace("TASK_FILE", places[0]).replace("ORACLE", places[1])
        assert not verdict(pool, folder, text).passed, name
    assert verdict(pool, folder, RIGHT).passed


def test_what_is_no_answer_is_no_verdict_on_the_program(pool: WorkerPool, folder: Path) -> None:
    """A crash, an exit, and more bytes than an answer may have."""
    for text in ("import ctypes\nctypes.string_at(0)", "import os\nos._exit(0)", "import os\nos._exit(3)",
                 "import torch\nresult = torch.zeros(2**24)"):  # fmt: skip
        found = verdict(pool, folder, text)
        assert (found.stage, found.unknown) in (("run", True), ("value", False)) and not found.passed, text
    raised = verdict(pool, folder, "1 / 0")
    assert raised.stage == "run" and raised.diagnostics[0].message == "ZeroDivisionError: division by zero"
    assert verdict(pool, folder, RIGHT).passed
