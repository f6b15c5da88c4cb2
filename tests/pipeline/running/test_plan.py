"""Settings become agents, LMs and limits as they say."""

from dataclasses import dataclass
from pathlib import Path

import dspy
import pytest

from optimizers import MetricError
from optimizers.errors import UnavailableError
from pipeline import save_program
from pipeline.agent.agent import Agent
from pipeline.base.config import ProgramConfig, RunConfig
from pipeline.base.errors import ClusterUnavailable, UsageError
from pipeline.lms import factory
from pipeline.running.plan import REMOTE_THREADS, Plan, budget, new_agent, resolved, trusted
from pipeline.verification.metric import Reward
from pipeline.verification.pool import KillableExecutor, PoolSettings, cores
from step_runtime.base.errors import TaskError


def config(**settings: object) -> ProgramConfig:
    return ProgramConfig.of({"program": "none", **settings})


def test_an_agent_is_built_as_the_settings_say() -> None:
    """Guardian, proposer, repairs and the structural IR."""
    agent = new_agent(config(guardian="paper", proposer="cot", refine=2))
    assert (agent.guardian.mode, agent.proposer.kind, agent.refine, agent.ir) == ("paper", "cot", 2, True)


def test_a_compiled_program_fills_in_the_settings_that_are_not_given(tmp_path: Path) -> None:
    """The recorded settings are then those of the agent; only a contradiction is refused."""
    save_program(
        Agent("paper", refine=1, prompts={"proposer": "P.", "guardian": "G.", "refiner": "R."}), tmp_path / "p"
    )
    plan = Plan.of_program(config(program=str(tmp_path / "p"), refine=1))
    assert (plan.config.guardian, plan.config.refine, plan.agent.guardian.mode) == ("paper", 1, "paper")
    assert (plan.lm.model.partition("/")[0], plan.threads()) == ("embedded", 2 * cores())
    with pytest.raises(UsageError, match="--guardian: this program was compiled with paper; omit the option"):
        Plan.of_program(config(program=str(tmp_path / "p"), guardian="gated"))


def test_limits_and_lm_settings_are_the_config_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a program that does not learn there is no limit on iterations."""
    made = RunConfig(optimizer="none", lm="openai/gpt-4o", max_usd=2, max_minutes=3, batch_n=4, max_tokens=100)
    limits = budget(made)
    assert (limits.iterations, limits.tokens, limits.usd, limits.minutes) == (None, None, 2, 3)
    asked: dict[str, object] = {}
    monkeypatch.setattr(factory, "make_lm", lambda model, api_base, **settings: asked.update(settings))
    Plan.of(made, resumed=True)
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


@pytest.mark.parametrize(
    ("lm", "workers", "threads"),
    [
        ("embedded/50", None, 2 * cores()),
        ("embedded", 1, 32),
        ("embedded", 20, 80),
        ("embedded", 10_000, 512),
        ("openai/gpt-4o", None, REMOTE_THREADS),
        ("openai/gpt-4o", 20, REMOTE_THREADS),
    ],
)
def test_requests_in_flight_keep_every_worker_busy(lm: str, workers: int | None, threads: int) -> None:
    """On this machine one is computed while another is prepared; a cluster has some for nodes that join later."""
    plan = Plan(config(lm=lm), dspy.LM("scripted"), new_agent(config()))
    assert plan.threads(None if workers is None else Many(workers)) == threads


@dataclass(frozen=True)
class Many:
    """Workers of a cluster."""

    count: int

    def pool(self, settings: PoolSettings, most: int | None = None) -> KillableExecutor:
        raise AssertionError("counting requests starts no workers")


def test_lines_are_chosen_one_at_a_time_by_lms_that_choose() -> None:
    """The embedded LM chooses none, nor does it read Python; a batch would choose for several samples at once."""
    with pytest.raises(UsageError, match="--no-ir: the embedded LM reads the structural IR alone"):
        resolved(RunConfig(optimizer="none", no_ir=True, lm="embedded/8"))
    with pytest.raises(UsageError, match="--proposer typed: the embedded LM chooses no lines"):
        resolved(config(proposer="typed", lm="embedded/8"))
    with pytest.raises(UsageError, match="--batch-n: `--proposer typed` asks for one line at a time"):
        Plan.of(RunConfig(optimizer="none", lm="openai/m", proposer="typed", batch_n=2), resumed=True)
