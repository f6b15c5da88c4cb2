"""Functions of a program: what they run, and what a declaration alone says."""

from typing import Any

import pytest

from step_runtime.base.functions import DeclaredFn, Fn
from step_runtime.base.types import Scalar

F = Scalar("float")


class Doubling(Fn):
    def apply(self, *args: Any) -> Any:
        return [2 * args[0][0]]


class Summing(Doubling):
    def getInit(self) -> Any:
        return [0]


def test_a_function_with_an_initial_state_is_stateful() -> None:
    """What runs decides, and is all that can be traced."""
    plain, folding = Doubling("d", F, F), Summing("s", F, F)
    assert (plain.stateful, folding.stateful) == (False, True)
    assert plain.sources() == (plain.apply,)
    assert folding.sources() == (folding.apply, folding.getInit)
    with pytest.raises(TypeError, match="function d carries no state"):
        plain.getInit()


@pytest.mark.parametrize("stateful", [False, True])
def test_a_declared_function_has_its_programs_name_and_no_code(stateful: bool) -> None:
    """Only the declaration says whether it folds."""
    fn = DeclaredFn("fn_sum", "Sum", (F, F), stateful=stateful)
    assert (fn.label, fn.stateful, repr(fn)) == ("fn_sum", stateful, "fn_sum: fp32 -> fp32")
    with pytest.raises(TypeError, match="function fn_sum has no code to run"):
        fn.apply([])
