"""Wrong values are shown at the first stream that the reference has nothing like, whatever order that stream is in."""

from step_runtime import Verifier
from tests.support.small_tasks import of_scalars

FNS = {
    "square": ("input[0] * input[0]", 1),
    "abs": ("input[0].abs()", 1),
    "shift": ("input[0] + 1", 1),
    "back": ("input[0] - 1", 1),
    "add": ("state[0] + input[0]", 0),
    "sqrt": ("input[0].sqrt()", 1),
}
TASK = of_scalars(FNS, "input_data['E0'].square().sum(1).sqrt()", out="[N]").model_copy(
    update={"sizes": {"D": [3, 4], "N": [2, 5]}}
)


def explained(text: str) -> list[str]:
    found = Verifier(TASK).explain_values(text)
    assert found is not None
    return found.splitlines()


def test_the_first_wrong_stream_is_shown_with_its_numbers() -> None:
    """Streams before it are named by what they are like in the reference; those after it are left out."""
    lines = explained(
        "a = step.Map(fn=fn_square).apply(E0)\nb = step.Map(fn=fn_abs).apply(a)\nc = step.Map(fn=fn_shift).apply(b)\n"
        "d = step.Accum(fn=fn_add, b=1).apply(c)\nreturn step.Map(fn=fn_sqrt).apply(d)"
    )
    assert lines[0].startswith("values at N=2, D=3, seed 0")
    assert lines[1].startswith("  a: fp32 [D, N] = Map(fn=fn_square) (line 1): as torch.")
    assert lines[2].startswith("  b: ") and ": as torch." in lines[2]
    assert lines[3] == "  c: fp32 [D, N] = Map(fn=fn_shift) (line 3): not in the reference"
    assert lines[4] == "c, torch shape (2, 3):" and [line[:4] for line in lines[5:]] == ["  0:", "  1:"]


def test_what_a_known_stream_is_made_of_is_taken_for_right() -> None:
    """A detour that comes back to the reference is no fault."""
    lines = explained(
        "a = step.Map(fn=fn_shift).apply(step.Map(fn=fn_square).apply(E0))\nb = step.Map(fn=fn_back).apply(a)\n"
        "c = step.Accum(fn=fn_add, b=1).apply(b)\nreturn step.Map(fn=fn_abs).apply(c)"
    )
    assert any("a: " in line and "not in the reference, used for what is" in line for line in lines)
    assert lines[-1] == "every stream is like something in the reference, but the results are not"


def test_other_programs_have_no_such_explanation() -> None:
    """One that passes, and one that fails before it runs."""
    right = (
        "a = step.Accum(fn=fn_add, b=1).apply(step.Map(fn=fn_square).apply(E0))\nreturn step.Map(fn=fn_sqrt).apply(a)"
    )
    assert Verifier(TASK).verify(right).passed and Verifier(TASK).explain_values(right) is None
    assert Verifier(TASK).explain_values("return E0") is None
