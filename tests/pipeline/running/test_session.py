"""Settings become agents, LMs and limits as they say."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from optimizers import MetricError
from optimizers.errors import UnavailableError
from pipeline import save_program
from pipeline.agent.agent import Agent
from pipeline.base.config import ProgramConfig, RunConfig
from pipeline.base.errors import ClusterUnavailable, UsageError
from pipeline.lms import factory
from pipeline.running.session import (
    REMOTE_THREADS,
    budget,
    default_threads,
    new_agent,
    open_lm,
    open_program,
    resolved,
    trusted,
)
from pipeline.verification.metric import Reward
from pipeline.verification.pool import KillableExecutor, LocalWorkers, PoolSettings, cores
from step_runtime.base.errors import TaskError


def config(**settings: object) -> ProgramConfig:
    return ProgramConfig.of({"program": "none", **settings})


def test_an_agent_is_built_as_the_settings_say() -> None:
    """Guardian, proposer, repairs and the structural IR."""
    agent = new_agent(config(guardian="paper", proposer="cot", refine=2, no_ir=True))
    assert (agent.guardian.mode, agent.proposer.kind, agent.refine, agent.ir) == ("paper", "cot", 2, False)


def test_a_compiled_program_fills_in_the_settings_that_are_not_given(tmp_path: Path) -> None:
    """The recorded settings are then those of the agent; only a contradiction is refused."""
    save_program(
        Agent("paper", refine=1, prompts={"proposer": "P.", "guardian": "G.", "refiner": "R."}), tmp_path / "p"
    )
    session = open_program(config(program=str(tmp_path / "p"), refine=1))
    assert (session.config.guardian, session.config.refine, session.agent.guardian.mode) == ("paper", 1, "paper")
    assert (session.lm.model.partition("/")[0], session.threads) == ("embedded", 2 * cores())
    with pytest.raises(UsageError, match="--guardian: this program was compiled with paper; omit the option"):
        open_program(config(program=str(tmp_path / "p"), guardian="gated"))


def test_an_lm_that_computes_gets_two_requests_per_core() -> None:
    """One is computed while another is prepared or verified; others wait for their provider."""
    assert default_threads("embedded/50") == 2 * cores()
    assert default_threads("openai/gpt-4o") == REMOTE_THREADS


def test_limits_and_lm_settings_are_the_config_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a program that does not learn there is no limit on iterations."""
    made = RunConfig(optimizer="none", max_usd=2, max_minutes=3, batch_n=4, max_tokens=100)
    limits = budget(made)
    assert (limits.iterations, limits.tokens, limits.usd, limits.minutes) == (None, None, 2, 3)
    asked: dict[str, object] = {}
    monkeypatch.setattr(factory, "make_lm", lambda model, api_base, **settings: asked.update(settings))
    open_lm(made, "openai/gpt-4o", made.temperatures)
    assert asked == {"max_tokens": 100, "timeout": 600.0, "n": 4, "temperatures": (0.4, 0.7, 1.0)}


def test_a_verification_that_fails_ends_the_run_at_once() -> None:
    """Unlike other users' metrics, of which an exception costs one attempt: no answer can make this one fail."""

    def verify(example: object, prediction: object) -> Reward:
        raise TaskError("no such function")

    with pytest.raises(MetricError, match="TaskError: no such function") as raised:
        trusted(verify)(None, None)
    assert raised.value.fatal and isinstance(raised.value.__cause__, TaskError)
    assert trusted(lambda *_: Reward(score=1.0))(None, None).score == 1.0


def test_a_lost_cluster_ends_the_run_and_is_not_a_failure_of_the_metric() -> None:
    """Attempts so far count; the reason is the cluster's own."""

    def verify(*_: object) -> Reward:
        raise ClusterUnavailable("the Dask scheduler is gone")

    with pytest.raises(UnavailableError, match="the Dask scheduler is gone"):
        trusted(verify)(None, None)


def test_a_cluster_has_four_requests_in_flight_for_each_worker() -> None:
    """Within limits: some for nodes that join later, and no thousands of threads; an LM elsewhere has its own."""
    found = [default_threads("embedded", Many(count)) for count in (1, 20, 10_000)]
    assert found == [32, 80, 512]
    assert default_threads("openai/gpt-4o", Many(20)) == REMOTE_THREADS
    assert default_threads("embedded", LocalWorkers(3)) == 6


@dataclass(frozen=True)
class Many:
    """Workers of a cluster."""

    count: int

    def pool(self, settings: PoolSettings, most: int | None = None) -> KillableExecutor:
        raise AssertionError("counting requests starts no workers")


def test_lines_are_chosen_one_at_a_time_by_lms_that_choose() -> None:
    """The embedded LM chooses none, nor does it read Python; a batch would choose for several samples at once."""
    with pytest.raises(UsageError, match="--no-ir: the embedded LM reads the structural IR alone"):
        resolved(config(no_ir=True), "embedded/8")
    with pytest.raises(UsageError, match="--proposer typed: the embedded LM chooses no lines"):
        resolved(config(proposer="typed"), "embedded/8")
    with pytest.raises(UsageError, match="--batch-n: `--proposer typed` asks for one line at a time"):
        open_lm(RunConfig(optimizer="none", proposer="typed", batch_n=2), "openai/m", [0.7])
