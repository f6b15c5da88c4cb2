"""No completion runs as Python: not in the verifier, not in a generated script, not out of a compiled program."""

import ast
import time
from pathlib import Path
from types import ModuleType

import pytest

from pipeline.agent.agent import ProgramVerifier, ToolContext, tool_context, verify_on_example
from step_runtime import Verifier, load_task
from step_runtime.base.errors import Diagnostic
from step_runtime.codegen import generate_test
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import SolvedTask
from step_runtime.verification.verdict import Verdict
from step_runtime.verification.verify import verify
from tests.attacks.test_verdicts import PLAIN, SAME, TASK
from tests.support.paths import PROJECT

BODY = "\n".join(f"    {line}" for line in PLAIN.split("\n"))

HARM = "open('HARMED', 'w')"

ATTACKS = {
    "an annotation": f"def body(E0: {HARM}, E1):\n{BODY}",
    "an annotation in one line": f"def body(E0: {HARM}, E1): return step.Map(fn=fn_inc).apply(E0)",
    "a default": f"def body(E0, E1={HARM}):\n{BODY}",
    "a keyword default": f"def body(E0, *, E1={HARM}):\n{BODY}",
    "a return annotation": f"def body(E0, E1) -> {HARM}:\n{BODY}",
    "a decorator": f"@{HARM}.write\ndef body(E0, E1):\n{BODY}",
    "a docstring that ends": f'"""a\n"""; {HARM}\n{PLAIN}',
    "a docstring in three quotes of the other kind": f"'''\n\"\"\"\n{HARM}\n'''\n{PLAIN}",
    "a docstring in the body": f'def body(E0, E1):\n    """a\n{HARM}\n    """\n{BODY}',
    "a carriage return": f"{PLAIN}\n# \r{HARM}",
    "a carriage return before an import": f"# x\rimport os\n{PLAIN}",
    "a form feed": f"{PLAIN}\n# \f{HARM}",
    "a vertical tab": f"{PLAIN}\n# \v{HARM}",
    "a next-line character": f"{PLAIN}\n# \x85{HARM}",
    "a line separator": f"{PLAIN}\n# \u2028{HARM}",
    "a group separator": f"# \x1d{HARM}\n{PLAIN}",
    "code after the return": f"{PLAIN}\n{HARM}",
    "a yield after the return": f"{PLAIN}\nyield {HARM}",
    "a nested function": f"def body(E0, E1):\n    def f(a={HARM}): pass\n{BODY}",
    "a class": f"class A:\n    x = {HARM}\n{PLAIN}",
    "a lambda": f"x = (lambda a={HARM}: a)\n{PLAIN}",
    "a walrus": f"x = (y := {HARM})\n{PLAIN}",
    "an f-string": f'x = f"{{{HARM}}}"\n{PLAIN}',
    "a comprehension's condition": f"x = [a for a in [E0] if {HARM}]\n{PLAIN}",
    "an argument": PLAIN.replace("fn=fn_inc", f"fn={HARM}"),
    "an index": f"x = [E0][{HARM}]\n{PLAIN}",
    "a global statement": f"global E0\n{PLAIN}",
    "a delete": f"del E0, {HARM}\n{PLAIN}",
    "an import": f"import os; {HARM}\n{PLAIN}",
    "a match": f"match {HARM}:\n    case _:\n        pass\n{PLAIN}",
    "a try": f"try:\n    {HARM}\nfinally:\n    pass\n{PLAIN}",
    "a with": f"with {HARM}:\n    pass\n{PLAIN}",
    "an encoding": f"# -*- coding: utf-7 -*-\n# +AAo-{HARM}\n{PLAIN}",
    "a byte order mark": f"\ufeff{HARM}\n{PLAIN}",
    "a fence": f"```python\n{PLAIN}\n```\n{HARM}",
    "a function of the runtime": f"x = step.load_task({HARM})\n{PLAIN}",
    "a dunder": f"x = E0.__class__.__init__.__globals__['os'].system('touch HARMED')\n{PLAIN}",
}


def outcome(script: str) -> bool:
    """Whether a script's tests pass, run in this process at its first set of sizes."""
    module = ModuleType("generated")
    exec(compile(script, "generated", "exec"), module.__dict__)
    if hasattr(module, "test_parse"):
        return False
    try:
        for sizes in module.SIZES:
            for test in (module.test_affine, module.test_shape, module.test_data):
                module.torch.manual_seed(0)
                test(module.make_case(**sizes))
    except Exception:
        return False
    return True


@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_of_a_completion_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither when it is verified nor when its script is run, which agrees with the verifier; nothing is made."""
    monkeypatch.chdir(tmp_path)
    verdict = Verifier(TASK).verify(ATTACKS[name])
    script = generate_test(TASK, ATTACKS[name], dtype="float32")
    passed = outcome(script)
    assert list(tmp_path.iterdir()) == []
    assert passed == verdict.passed
    assert verdict.passed or verdict.stage in ("parse", "value")
    code = ast.unparse([node for node in ast.parse(script).body if not isinstance(node, ast.Assign | ast.Expr)])  # type: ignore[arg-type]
    assert "HARMED" not in code


@pytest.mark.parametrize("name", SAME)
def test_control_a_right_program_s_script_passes(name: str) -> None:
    """However it is written."""
    assert outcome(generate_test(TASK, SAME[name], dtype="float32"))


ALIASES = {
    "an element of a zip": (
        "a = zip([E0], [E1])[0]\nreturn step.Map(fn=fn_twice).apply(step.Map(fn=fn_inc).apply(a[0]))"
    ),
    "a zip used twice": (
        "p = zip([E0, E1], [fn_inc, fn_inc])\nx = [step.Map(fn=f).apply(s) for s, f in p]\n"
        "y = [f for s, f in p]\nreturn step.Map(fn=fn_twice).apply(x[0])"
    ),
    "a reversed list, indexed": "a = reversed([E1, E0])[0]\n"
    "return step.Map(fn=fn_twice).apply(step.Map(fn=fn_inc).apply(a))",
    "an enumerate's length": "n = len(enumerate([E0]))\n"
    "return step.Map(fn=fn_twice).apply(step.Map(fn=fn_inc).apply([E0][n - 1]))",
    "a body for each set of sizes": (
        "a = E0\nfor i in range(M_value - M_value + 1):\n    a = step.Map(fn=fn_inc).apply(a)\n"
        "return step.Map(fn=fn_twice).apply(a)"
    ),
    "a graph that depends on the sizes": (
        "a = E0\nfor i in range(M_value):\n    a = step.Identity().apply(a)\n"
        "return step.Map(fn=fn_twice).apply(step.Map(fn=fn_inc).apply(a))"
    ),
}


@pytest.mark.parametrize("name", ALIASES)
def test_a_script_means_what_the_verifier_means(name: str) -> None:
    """Where Python itself would do otherwise."""
    assert Verifier(TASK).verify(ALIASES[name]).passed
    assert outcome(generate_test(TASK, ALIASES[name], dtype="float32"))


@pytest.mark.parametrize("name", ['"""\nopen("HARMED", "w")\n"""', "a\nb", "\u202e", "a'", "\\", "\ud800"])
def test_a_task_s_name_is_not_code(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a script's first line it is text."""
    monkeypatch.chdir(tmp_path)
    for program in (PLAIN, "("):
        script = generate_test(TASK.named(name), program, dtype="float32")
        script.encode("ascii")
        outcome(script)
    assert list(tmp_path.iterdir()) == []


def test_an_example_from_elsewhere_is_not_run(tmp_path: Path) -> None:
    """Its `global` would write a file; the task of this run, the control, is verified."""
    harm = SolvedTask(TASK.model_copy(update={"global_": f"open({str(tmp_path / 'HARMED')!r}, 'w')"}), PLAIN)
    own = SolvedTask(TASK, PLAIN)
    task = load_task(PROJECT / "data" / "tasks" / "gemm" / "1.yaml")
    with tool_context(ToolContext(task, {"harm": harm, "own": own}, ProgramVerifier(), frozenset({"own"}))):
        assert "can't be run" in verify_on_example("harm", PLAIN)
        assert verify_on_example("own", PLAIN) == "It passes."
    assert list(tmp_path.iterdir()) == []


COPIED = """
inputs: [{name: E0, dtype: fp32, dims: [M], data_gen: torch.rand}]
outputs: [{name: S0, dtype: fp32, dims: [M], data_transform: ["input_data['E0']"]}]
"""


def doubling(times: int) -> str:
    """Zips whose tuples have twice the components of the last."""
    lines = []
    for number in range(times):
        source = f"E{number}"
        lines.append(f"A{number}, B{number} = step.Copy().apply({source})")
        lines.append(f"E{number + 1} = step.Zip().apply((A{number}, B{number}))")
    return "\n".join([*lines, f"return E{times}"])


@pytest.mark.parametrize("times", [7, 16, 40, 200])
def test_tuples_that_double_are_refused_at_once(times: int) -> None:
    """By the number of components, at the line that has one too many; a few doublings are a matter of types."""
    start = time.monotonic()
    verdict = verify(loads_task(COPIED), doubling(times))
    assert time.monotonic() - start < 10
    assert (verdict.stage, verdict.diagnostics[0].code) == ("limits", "components")
    assert verdict.diagnostics[0].span is not None
    assert len(verdict.render(doubling(times))) < 1000
    assert verify(loads_task(COPIED), doubling(6)).stage == "shape"


def test_feedback_is_bounded() -> None:
    """Of each finding, and of all; that of a few short ones is whole."""
    long = Diagnostic("type", "x", "m" * 10**6, details=("d" * 10**6,) * 2, hint="h")
    assert len(long.render("")) < 10_000
    many = Verdict(passed=False, stage="type", diagnostics=(Diagnostic("type", "x", "m" * 100),) * 10_000)
    assert len(many.render("")) < 25_000
    assert "more findings" in many.render("")
    assert Verdict(passed=False, stage="type", diagnostics=(Diagnostic("type", "x", "short"),) * 3).render(
        "", "t"
    ) == "\n".join(["t: x: short"] * 3)
