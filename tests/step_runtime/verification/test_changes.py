"""A program is tried on each side of all sizes at which it changes, and passes nowhere by being tried elsewhere."""

import re
from collections.abc import Iterator

import pytest

from step_runtime import Verifier, loads_task
from step_runtime.tasks.reader import read_task
from tests.support import oracles

TASK = """
inputs:
- {{name: X, dtype: fp32, dims: [M, N], data_gen: torch.randn}}
fns:
- {{name: Twice, apply: "return [2 * input[0]]", input_dtype: fp32, output_dtype: fp32, func_name: fn_twice}}
- {{name: Same, apply: "return [input[0] + 0]", input_dtype: fp32, output_dtype: fp32, func_name: fn_same}}
- {{name: Add, apply: "return [state[0] + input[0]]", init: [0], input_dtype: fp32, output_dtype: fp32,
   func_name: fn_add}}
outputs:
- {{name: Y, dtype: fp32, dims: [M, N], data_transform: "input_data['X']"}}
sizes: {sizes}
"""
VERIFIER = Verifier(loads_task(TASK.format(sizes="{}"), "same"))


def loop(count: str, fn: str = "fn_twice") -> str:
    """A function of the stream as often as sizes say: right where that is not at all, or where it changes nothing."""
    return f"for i in range({count}):\n    X = step.Map(fn={fn}).apply(X)\nreturn X"


COUNTS = {
    7: ["M_value // 7", "M_value // 7 * (M_value - 7)", "7 // M_value - 1", "4 - M_value", "N_value // M_value - 1"],
    50: [
        "M_value // 50", "(M_value + 1) // 51", "M_value - 49", "2*M_value // 100", "M_value // 25 // 2",
        "N_value // 50", "(M_value // 50) * (M_value // 50 - 1)", "(M_value // 50) * (N_value // 50)",
        "(M_value + N_value) // 100",
        "M_value * N_value // 2500", "M_value // 50 * 3 - 2", "M_value - 50 + 1", "M_value // 10 // 5",
        "(N_value - M_value) // 50", "(M_value - N_value) // 50", "M_value // 50 + N_value // 50",
        "0, M_value // 50", "50, M_value", "M_value, 0, -50", "49, M_value, 50", "(M_value - 20) // 30",
        "(M_value - 3) * (M_value - 4) * (M_value - 5) * (M_value - 6) * (M_value - 7) // 100000000",
        "len(range(M_value)) // 50", "len([i for i in range(M_value)]) - 49", "M_value // 50 * (M_value // 100)",
        "len(list(zip(range(M_value), range(N_value)))) // 50", "len(range(0, M_value, 50)) - 1",
    ],
    1000: [
        "M_value // 1000", "M_value - 999", "N_value // 1000", "M_value * N_value // 4000",
        "(M_value * M_value) // 1000000", "M_value // 500 // 2", "(M_value + N_value) // 1000",
        "M_value * M_value * M_value // 1000000000",
        "len(range(M_value)) - 999", "1000, M_value + 1", "(M_value // 10) * (M_value // 100) // 1000",
    ],
    1_000_000: ["M_value // 1000000"],
    "between": [
        "(M_value - 12345) * (12347 - M_value)", "1 - (M_value - 777 - N_value) * (M_value - 777 - N_value)",
        "(M_value // 100 - 122) * (124 - M_value // 100)", "(M_value - N_value - 600) * (602 + N_value - M_value)",
        "(M_value - M_value // 1000 * 1000 - 700) * (702 + M_value // 1000 * 1000 - M_value)",
        "M_value // 1000 - M_value // 1001", "M_value // 700 * (701 // M_value)",
    ],
}  # fmt: skip


@pytest.mark.parametrize("count", [count for counts in COUNTS.values() for count in counts])
def test_a_program_that_is_right_below_a_threshold_fails_at_it(count: str) -> None:
    verdict = VERIFIER.verify(loop(count))
    assert not verdict.passed and not verdict.unknown, count


INDEXED = {
    "a list beyond its end": "xs = [fn_same, fn_same]\nreturn step.Map(fn=xs[M_value // 50]).apply(X)",
    "a wrong element": "xs = [fn_same, fn_twice]\nreturn step.Map(fn=xs[M_value // 50 - M_value // 100]).apply(X)",
    "a slice": "for fn in [fn_twice, fn_twice][: M_value // 50]:\n    X = step.Map(fn=fn).apply(X)\nreturn X",
    "a slice from there": "for i in list(range(M_value))[49:]:\n    X = step.Map(fn=fn_twice).apply(X)\nreturn X",
    "an inner loop": "for i in range(M_value // 50):\n    for j in range(N_value // 50):\n"
    "        X = step.Map(fn=fn_twice).apply(X)\nreturn X",
    "a loop by the outer's turn": "for i in range(M_value):\n    for j in range(i // 50):\n"
    "        X = step.Map(fn=fn_twice).apply(X)\nreturn X",
    "a pair too many": "for i, j in zip(range(M_value - 49), range(3)):\n"
    "    X = step.Map(fn=fn_twice).apply(X)\nreturn X",
    "a dim that is none": "Y = step.Repeat(n=60 - M).apply(X)\nreturn step.Accum(fn=fn_max, b=1).apply(Y)",
    "a function handed on": "fn = fn_same\nfor i in range(M_value // 50):\n    fn = fn_twice\n"
    "return step.Map(fn=fn).apply(X)",
    "a rank": "return step.Flatten(L=[1]).apply(step.Promote(b=M_value // 50).apply(X))",
}  # fmt: skip
MAXIMUM = """- {{name: Max, apply: "return [torch.maximum(state[0], input[0])]", init: [-inf], input_dtype: fp32,
   output_dtype: fp32, func_name: fn_max}}
outputs:"""


@pytest.mark.parametrize("name", INDEXED)
def test_indices_slices_and_dims_count_as_loops_do(name: str) -> None:
    task = loads_task(TASK.replace("outputs:", MAXIMUM).format(sizes="{}"), "same")
    verdict = Verifier(task).verify(INDEXED[name])
    assert not verdict.passed and not verdict.unknown, name


LOST = {
    "counted": "n = 0\nfor i in range(M_value):\n    n = n + 1\n" + loop("n // 50"),
    "appended": "xs = []\nfor i in range(M_value):\n    xs.append(i)\n" + loop("len(xs) // 50"),
    "handed on": "A, X = step.Copy().apply(X)\nB, X = step.Copy().apply(X)\n"
    "for i in range(M_value // 5 - 1):\n    A, B = B, A\nreturn X",
    "a billion": loop("M_value // 1000000000"),
    "a billion at once": loop("M_value * N_value // 1000000000000"),
    "a billion and one": loop("M_value - 1000000000"),
    "between billions": loop("(M_value - 1000000000) * (1000000002 - M_value)"),
    "a remainder of a million": loop("M_value - M_value // 1000000 * 1000000 - 999990"),
    "between products": loop("(M_value * N_value - 100000) * (100002 - M_value * N_value)"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOST)
def test_what_cannot_be_tried_is_unknown_and_says_why(name: str) -> None:
    """Sizes that are too large to run, what turns of a loop hand on, and forms that turn back out of sight."""
    verdict = VERIFIER.verify(LOST[name])
    (found,) = verdict.diagnostics
    assert verdict.unknown and (found.code, found.stage) == ("untried-sizes", "run")
    assert ("too large to run" in found.message) is name.startswith("a ")
    assert "M=1000000000" in found.message or name not in ("a billion", "a billion and one")


RIGHT = [loop(count, "fn_same") for count in (*COUNTS[7], *COUNTS[50])] + [
    "X, Y = step.Copy().apply(X)\nfor i in range(M_value // 50):\n    X = step.Map(fn=fn_same).apply(X)\nreturn X",
    "xs = [fn_same for i in range(M_value)]\nreturn step.Map(fn=xs[-1]).apply(X)".replace("xs[-1]", "fn_same"),
]


@pytest.mark.parametrize("text", RIGHT)
def test_a_program_that_is_right_on_both_sides_passes(text: str) -> None:
    verdict = VERIFIER.verify(text)
    assert verdict.passed, verdict.render(text)


def test_sizes_keep_what_the_task_relies_on() -> None:
    verifier = Verifier(loads_task(TASK.format(sizes="{M: [8, 16], N: [4, 8]}"), "even"))
    (found,) = verifier.verify(loop("N_value // 50")).diagnostics
    (sizes,) = re.findall(r"at M=(\d+), N=(\d+)", found.details[0])
    m, n = map(int, sizes)
    assert n >= 50 and m % 8 == n % 4 == m % n == 0


def _every() -> Iterator[tuple[str, str]]:
    for folder in ("", "-extra", "-field", "-formats", "-layers", "-modern"):
        for name in oracles.names(f"tasks{folder}"):
            yield f"tasks{folder}", name


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "name"), [*_every()])
def test_no_oracle_becomes_unknown(folder: str, name: str) -> None:
    path = oracles.DATA / folder.replace("tasks", "oracles") / f"{name}.step"
    if path.exists():
        verifier = Verifier(read_task(oracles.DATA / folder / f"{name}.yaml"))
        assert verifier.verify(path.read_text(encoding="utf-8")).passed
