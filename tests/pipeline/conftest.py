"""What tests of the pipeline share: a store of their own, an LM that answers by script, and tasks for it."""

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path

import pytest

from optimizers import Experience
from pipeline.record.recorder import recorded
from pipeline.reporting.runs import RecordedRun, read_runs
from pipeline.verification.pool import PoolSettings
from tests.support.answering_lm import Doubling, Engine, shared_tasks, use
from tests.support.scripted_runs import learn, tasks
from tests.support.unrendered import render_nothing
from tests.support.warm_pools import WarmPools


@pytest.fixture(scope="session", autouse=True)
def workers_start_fast() -> None:
    """A process has one server that forks its workers: whoever comes first, it imports what judging takes.

    Else a worker would, within the seconds of its first call.
    """
    preloaded = [
        "step_runtime",
        "pipeline.verification.judge",
        "pipeline.verification.proving",
        "pipeline.synthesis.parallel_search",
        "pipeline.lms.embedded.answering",
    ]
    forkserver.set_forkserver_preload(preloaded)
    forkserver.ensure_running()


@pytest.fixture(scope="session")
def all_warm_pools() -> Iterator[WarmPools]:
    pools = WarmPools()
    yield pools
    pools.close()


@pytest.fixture(autouse=True)
def warm_pools(all_warm_pools: WarmPools, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands in this process find workers that other tests have started; see the folders that have their own."""

    def start(settings: PoolSettings, workers: int) -> Executor:
        return all_warm_pools.start(settings, workers)

    monkeypatch.setattr(PoolSettings, "start", start)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with MLflow's tables in it."""
    from tests.support import quick_stores

    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    path.write_bytes(quick_stores.empty_store())
    return path


@pytest.fixture
def store_folder(empty_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an empty store, which MLFLOW_TRACKING_URI names."""
    folder = copied(empty_store, tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
    return folder


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, store_folder: Path) -> Engine:
    """The LM of every command in the test, whose runs are recorded in a store of their own."""
    engine = Engine()
    use(engine, monkeypatch)
    return engine


@pytest.fixture
def unrendered(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of runs whose pictures nobody looks at."""
    render_nothing(monkeypatch.setattr)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Task files `double`, `triple` and `halve`; for reading only."""
    folder = shared_tasks()
    before = {path: path.read_bytes() for path in folder.parent.rglob("*.*")}
    yield folder
    assert {path: path.read_bytes() for path in folder.parent.rglob("*.*")} == before, "others read them"


@dataclass(frozen=True)
class Recorded:
    """A run that nothing disturbed, its store, and what the optimizer says of it."""

    folder: Path
    experience: Experience


@pytest.fixture(scope="session")
def recorded_run(empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """The scripted run, recorded; for reading only."""
    folder = copied(empty_store, tmp_path_factory.mktemp("recorded"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
        with recorded(
            "adaptive scripted", {"samples": 2, "lm": "scripted", "temperatures": "1.0,0.4"}, tasks()
        ) as recorder:
            return Recorded(folder, learn([recorder]))


def copied(store: Path, parent: Path) -> Path:
    folder = parent / "mlruns"
    folder.mkdir()
    (folder / "mlflow.db").write_bytes(store.read_bytes())
    return folder


@pytest.fixture
def store_of_run(recorded_run: Recorded, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """The store that holds the scripted run, and nothing else."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{recorded_run.folder}/mlflow.db")
    return recorded_run


@pytest.fixture
def run_read(store_of_run: Recorded) -> RecordedRun:
    (run,) = read_runs([])
    return run


@pytest.fixture
def doubling(monkeypatch: pytest.MonkeyPatch, store_folder: Path) -> Doubling:
    """The LM of every run in the test, which learns to triple."""
    engine = Doubling()
    use(engine, monkeypatch)
    return engine
