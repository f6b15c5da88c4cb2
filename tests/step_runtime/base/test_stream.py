"""Programs written in Python and run as Python: the public API of `import step_runtime as step`.

Invariants: types and shapes are always computed, data where every input has some; Figure 19's use works as
the paper prints it.
"""

from typing import Any

import pytest
import torch
from sympy import Symbol

import step_runtime as step

M, N, D = Symbol("M"), Symbol("N"), Symbol("D")
CTX = {M: 5, N: 7, D: 11}
BUFFER = step.Buffer(step.Scalar("float"), [D])


class MaxSum(step.Fn):
    """Figure 19's function, as printed there."""

    def __init__(self, input: Any, output: Any) -> None:  # noqa: A002
        super().__init__("MaxSum", input, output)

    def getInit(self) -> Any:
        return [torch.tensor(float("-inf")), torch.tensor(0), torch.zeros(11)]

    def apply(self, state: Any, input: Any) -> Any:  # type: ignore[override]  # noqa: A002
        m_t, l_t, o_t = state
        s_t, v_t = input
        m_next = torch.max(m_t, s_t)
        l_prim_t = torch.exp(m_t - m_next) * l_t
        p_t = torch.exp(s_t - m_next)
        l_next = p_t + l_prim_t
        o_next = l_prim_t * o_t / l_next + p_t * v_t / l_next
        return [m_next, l_next, o_next]


class GetThird(step.Fn):
    """Takes the third component."""

    def apply(self, input: Any) -> Any:  # type: ignore[override]  # noqa: A002
        return [input[2]]


PAIR = step.STuple((step.Scalar("float"), BUFFER))
STATE = step.STuple((step.Scalar("float"), step.Scalar("float"), BUFFER))


def body(E0: step.Stream, E1: step.Stream) -> step.Stream:
    E3 = step.Zip().apply((E0, E1))
    E4 = step.Accum(fn=MaxSum(PAIR, STATE), b=1).apply(E3)
    E5 = step.Map(fn=GetThird("GetThird", STATE, BUFFER)).apply(E4)
    E2: step.Stream = step.Streamify().apply(E5)
    return E2


def prepared(with_data: bool) -> tuple[step.Stream, step.Stream]:
    E0 = step.Stream("E0", step.Scalar("float"), 1, [M, N])
    E1 = step.Stream("E1", BUFFER, 1, [M, N])
    for one, shape in ((E0, (7, 5)), (E1, (7, 5, 11))):
        one.ctx = dict(CTX)
        if with_data:
            one.data = [torch.rand(shape)]
    return E0, E1


def test_the_papers_unit_test_passes() -> None:
    """Figure 19: shapes compare as lists of symbols, types by structure, data within torch's tolerances."""
    E0, E1 = prepared(True)
    S0 = body(E0, E1)
    assert S0.shape == [D, N] and S0.dtype == step.Scalar("float") and S0.rank == 1
    assert E0.data and E1.data and S0.data
    expected = torch.bmm(torch.softmax(E0.data[0], 1).unsqueeze(1), E1.data[0]).squeeze(1)
    torch.testing.assert_close(S0.data[0], expected)
    assert S0.ctx == CTX


def test_without_data_types_and_shapes_are_computed() -> None:
    """A program runs on declared streams alone; where one input has no data, no result has."""
    S0 = body(*prepared(False))
    assert S0.shape == [D, N] and S0.data is None
    E0, E1 = prepared(True)
    E1.data = None
    assert step.Zip().apply((E0, E1)).data is None


def test_without_sizes_shapes_stay_symbolic() -> None:
    """Where no size is known only the sizes themselves go unchecked."""
    E0 = step.Stream("E0", step.Scalar("float"), 1, [M, N])
    assert step.Repeat(n=M * N).apply(E0).shape == [M * N, M, N]
    with pytest.raises(step.RuleError, match="rank"):
        step.Bufferize(a=2).apply(E0)


def test_configuration_by_keyword_or_position_and_a_name_for_the_result() -> None:
    """`apply` takes a name for its result, as the paper's frontend does."""
    E0, _ = prepared(True)
    assert step.Promote(0).apply(E0).shape == step.Promote(b=0).apply(E0).shape == [1, M, N]
    assert step.Promote(b=0).apply(E0, "E9").name == "E9"


def test_data_is_left_as_it_was() -> None:
    """No primitive writes into its input, even where its function does."""

    class Spoil(step.Fn):
        def apply(self, input: Any) -> Any:  # type: ignore[override]  # noqa: A002
            input[0].mul_(2)
            return [input[0]]

    E0, _ = prepared(True)
    assert E0.data
    before = E0.data[0].clone()
    scalar = step.Scalar("float")
    after = step.Map(fn=Spoil("Spoil", scalar, scalar)).apply(E0)
    assert torch.equal(E0.data[0], before)
    torch.testing.assert_close(after.data[0], 2 * before)


def test_functions_without_code_are_reported() -> None:
    """A function that is declared only is an error of the task, by its name."""
    E0, _ = prepared(True)
    with pytest.raises(step.TaskCodeError, match="function Nothing"):
        step.Map(fn=step.Fn("Nothing", step.Scalar("float"), step.Scalar("float"))).apply(E0)
