"""No text gets the verdict on another program, in whichever order they come."""

import random

import dspy
import pytest

from pipeline.verification.metric import Metric
from step_runtime import Verifier, loads_task
from step_runtime.language.canonical import canonical_key
from tests.support.text_edits import compare, graph_key, pairs

TASK = loads_task(
    """
inputs:
- {name: E0, dtype: fp32, dims: [M, N], data_gen: torch.rand}
- {name: E1, dtype: fp32, dims: [M, N], data_gen: torch.rand}
fns:
- {name: Inc, apply: "return [input[0] + 1]", input_dtype: fp32, output_dtype: fp32, func_name: fn_inc}
- {name: Twice, apply: "return [input[0] * 2]", input_dtype: fp32, output_dtype: fp32, func_name: fn_twice}
outputs:
- {name: S0, dtype: fp32, dims: [M, N], data_transform: ["(input_data['E0'] + 1) * 2"]}
""",
    "attack/0",
)
RIGHT = "n = E0\nfor f in [fn_inc, fn_twice]:\n    m = step.Map(fn=f).apply(n)\n    n = m\nreturn n"
PLAIN = "a = step.Map(fn=fn_inc).apply(E0)\nb = step.Map(fn=fn_twice).apply(a)\nreturn b"

BODY = "    a = step.Map(fn=fn_inc).apply(E0)\n    b = step.Map(fn=fn_twice).apply(a)\n    return b"

WRONG = {
    "the loop forgets what it made": RIGHT.replace("    n = m", "    k = m"),
    "the loop returns what it made last, of the input": RIGHT.replace("    n = m", "    k = m").replace(
        "return n", "return m"
    ),
    "functions in another order": RIGHT.replace("fn_inc, fn_twice", "fn_twice, fn_inc"),
    "an indentation that is not allowed": PLAIN.replace("b =", "  b ="),
    "an indented return": PLAIN.replace("return", "    return"),
    "a bare int": f"1\n{PLAIN}",
    "a bare ellipsis": f"...\n{PLAIN}",
    "a bare float": f"1.5\n{PLAIN}",
    "bare bytes": f"b'x'\n{PLAIN}",
    "a parameter's old name": f"def body(x, y):\n{BODY}",
    "parameters swapped": f"def body(E1, E0):\n{BODY}",
    "a parameter too many": f"def body(E0, E1, E2):\n{BODY}",
    "one parameter twice": f"def body(E0, E0):\n{BODY}",
    "the other input": PLAIN.replace("E0", "E1"),
    "a name bound before its use": PLAIN.replace("return b", "a = E1\nreturn a"),
    "a function under another's name": f"fn_inc = fn_twice\n{PLAIN}",
    "step bound to a stream": f"step = E0\n{PLAIN}",
    "a comprehension that leaks nothing": "b = E0\na = [b for b in [E1]]\nreturn b",
    "yield after the return": f"{PLAIN}\nyield b",
    "nonlocal after the return": f"{PLAIN}\nnonlocal b",
    "an assignment after the return": f"{PLAIN}\nM = 3",
    "an import after the return": f"{PLAIN}\nimport os",
    "a second return": f"{PLAIN}\nreturn a",
    "code after a loop that returns": f"for x in [E0]:\n    return x\n{PLAIN}",
    "a stream used twice": PLAIN.replace("return b", "c = step.Map(fn=fn_twice).apply(a)\nreturn b"),
    "a fullwidth name": PLAIN.replace("(a)", "(\uff42)"),
    "a line separator in a comment": PLAIN.replace("\n", " # x\u2028\n", 1).replace("fn_twice", "fn_inc"),
    "a carriage return in a comment": PLAIN.replace("return b", "# \rreturn a"),
    "a form feed before a statement": PLAIN.replace("b =", "\f  b ="),
    "a comment that ends in a backslash": PLAIN.replace("\nb =", " # \\\nb =").replace("apply(a)", "apply(E0)"),
    "a string with a hash": PLAIN.replace("return b", "'#'; return a"),
}
SAME = {
    "as it is": PLAIN,
    "other names": PLAIN.replace("a", "x").replace("xpply", "apply").replace("Mxp", "Map"),
    "comments": PLAIN.replace("\n", "  # text\n"),
    "a loop": RIGHT,
    "a body of other names": f"def body(x, y):\n{BODY}".replace("E0", "x"),
    "annotations": f"def body(E0: step.Stream, E1: 'x') -> y:\n{BODY}",
    "a chain": "return step.Map(fn=fn_twice).apply(step.Map(fn=fn_inc).apply(E0))",
}
VERIFIER = Verifier(TASK)


def judge(metric: Metric, text: str) -> tuple[bool, str | None, list[str]]:
    reward = metric(dspy.Example(task=TASK), dspy.Prediction(impl=text))
    return bool(reward), reward.stage, reward.codes


def alone(text: str) -> tuple[bool, str | None, list[str]]:
    verdict = VERIFIER.verify(text)
    return verdict.passed, verdict.stage, [diagnostic.code for diagnostic in verdict.diagnostics]


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("first", ["right", "wrong"])
def test_a_wrong_program_has_a_verdict_of_its_own(name: str, first: str) -> None:
    """Whichever of the two came first, and whatever the right one is written like."""
    metric = Metric()
    assert not alone(WRONG[name])[0]
    for right in (RIGHT, PLAIN):
        for text in (right, WRONG[name]) if first == "right" else (WRONG[name], right):
            assert judge(metric, text) == alone(text)
        assert graph_key(right, TASK) != graph_key(WRONG[name], TASK)


@pytest.mark.parametrize("name", SAME)
def test_control_a_right_program_passes_whatever_came_before(name: str) -> None:
    """The same program in other words is right after any wrong one."""
    metric = Metric()
    for text in [*WRONG.values(), SAME[name]]:
        assert judge(metric, text) == alone(text)
    assert judge(metric, SAME[name])[0]


def test_no_verdict_depends_on_what_was_verified_before() -> None:
    """Random programs, renamed, rebound and edited; see `benchmarks.text_edits` for more of them."""
    figures = compare(pairs(random.Random(0)), 1000)
    assert figures.disagreeing == []
    assert figures.of_one_graph > 10
    assert figures.of_one_tree > 20


@pytest.mark.parametrize("text", ["\ud800", "\0", "\u202e", "\x1b[2J", "x = 0x" + "f" * 4000, "(" * 9000, "#" * 30_000])
def test_both_keys_are_total(text: str) -> None:
    """No text makes one of them raise, and neither changes."""
    assert canonical_key(text) == canonical_key(text)
    assert graph_key(text, TASK) == graph_key(text, TASK)
