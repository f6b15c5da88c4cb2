"""The scripted coding agent solves two tasks with the server's tools, over stdin and stdout."""

import anyio
import pytest

from examples import mcp_agent
from step_runtime import load_task, verify
from tests.support.paths import PROJECT


def test_it_solves_two_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    """By a second draft, and by a repair; a second verifier agrees, and docs/mcp.md shows the session."""
    agent = anyio.run(mcp_agent.session, mcp_agent.own_server())
    assert list(agent.solved) == ["gemm/0", "norm/0"]
    for name, program in agent.solved.items():
        assert verify(load_task(PROJECT / "data" / "tasks" / f"{name}.yaml"), program).passed
    out = capsys.readouterr().out
    for told in ("zip-shape: the two streams differ", "affine: stream E0 is consumed 2 times"):
        assert told in out
    assert out.endswith("solved: gemm/0, norm/0\n")
    shown = (PROJECT / "docs" / "mcp.md").read_text(encoding="utf-8").partition("```text\n> resource")[2]
    assert f"> resource{shown.partition('```')[0]}" == out


def test_a_copy_is_made_for_each_stream_that_is_consumed_twice() -> None:
    """Before the first use; each use takes one of them."""
    program = "E1 = step.Zip().apply((E0, E2))\nE3 = step.Map(fn=f).apply(E0)\nreturn E3\n"
    assert mcp_agent.with_copies(program, ["E0"]).splitlines() == [
        "E0_0, E0_1 = step.Copy().apply(E0)",
        "E1 = step.Zip().apply((E0_0, E2))",
        "E3 = step.Map(fn=f).apply(E0_1)",
        "return E3",
    ]
