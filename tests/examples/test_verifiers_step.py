"""The environment for the package `verifiers`, with a scripted client; that package has its own Python environment."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.paths import PROJECT

pytest.importorskip("verifiers.v1", reason="verifiers pins other versions than the extra mcp")


def test_the_verdict_is_the_reward_and_no_verdict_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A right program, a wrong one, an answer without a program; one that no limit lets run to its end."""
    from examples import verifiers_step as environment

    (task,) = environment.StepTaskset(environment.StepConfig(id="step", tasks=["gemm/1"]))
    assert task.data.system_prompt and "E0" in str(task.data.prompt)
    right = Path(PROJECT, "data/oracles/gemm/1.step").read_text()
    replies = {f"```python\n{right}\n```": 1.0, "```python\nE1 = E0\n```": 0.0, "I cannot.": 0.0}
    for reply, reward in replies.items():
        assert asyncio.run(task.verdict(SimpleNamespace(last_reply=reply))) == reward

    class Unknown(dict[str, bool]):
        feedback = "the limit of time"

    monkeypatch.setattr(environment, "judge", lambda: lambda *_: Unknown(unscored=True))
    with pytest.raises(environment.UnknownVerdict, match="the limit of time"):
        asyncio.run(task.judged("x"))
