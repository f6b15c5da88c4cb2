"""The one reader of a record's artifacts.

A record says where its artifacts are, and whoever can write to it can name another place. MLflow sends the user's
token, or name and password, to any place that it reads. A place is therefore refused, before anything is sent, unless
it is the store's own: below the folder of a SQLite store, or at the address of the server.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pipeline.base.errors import UsageError
from pipeline.base.files import MLRUNS
from pipeline.base.text import first_line, visible, without_secrets

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

TRIES = 3
"""Downloads of a folder: one fails if the run's process replaces a file that it has listed."""
LOCAL = ("", "file")
SERVED = ("http", "https")
PROGRAM = "program"
"""The model of a run in an address, `runs:/RUN/program`; its own name is the run's."""
_MOST_STEPS = 3
"""A registered model may name a logged one, which may name a run."""


def own_place(store: str, place: str) -> str:
    """The place of artifacts, if it is the store's own; `store` is its tracking URI.

    Raises:
        UsageError: It is not.
    """
    home, found = urlsplit(store), urlsplit(place)
    address = home.netloc.rpartition("@")[2].lower()
    if not place.isprintable():
        is_own = False  # What a control character means differs between parsers.
    elif found.scheme in LOCAL:
        root = MLRUNS if home.scheme in SERVED else Path(home.path.removeprefix("/")).absolute().parent
        is_own = not found.netloc and Path(unquote(found.path)).resolve().is_relative_to(root.resolve())
    else:
        # A place that names a user is refused whole: parsers differ in where a user with a backslash ends.
        own = {("mlflow-artifacts", ""), ("mlflow-artifacts", address), (home.scheme, address)}
        is_own = home.scheme in SERVED and (found.scheme, found.netloc.lower()) in own
    if not is_own:
        where = visible(without_secrets(place), line=True)
        raise UsageError(
            f"the record's artifacts are at {where}, which is no place of the store's own; nothing was read"
        )
    return place


def own_run(client: MlflowClient, run_id: str) -> Run:
    """A run, whose artifacts are in the store; raises as `own_place`."""
    run = client.get_run(run_id)
    own_place(client.tracking_uri, run.info.artifact_uri)
    return run


def listed(client: MlflowClient, run_id: str, path: str | None = None) -> list[str]:
    """The paths of a run's artifacts, or of those in a folder."""
    own_run(client, run_id)
    return [item.path for item in client.list_artifacts(run_id, path)]


def download(client: MlflowClient, run_id: str, path: str, folder: Path) -> Path:
    """Downloads an artifact, or a folder of them, below `folder`; returns its path there.

    Raises:
        UsageError: It cannot be read.
    """
    from mlflow.exceptions import MlflowException

    own_run(client, run_id)
    for _ in range(TRIES):
        try:
            return Path(client.download_artifacts(run_id, path, str(folder)))
        except (MlflowException, OSError) as error:
            failure = first_line(error)
    raise UsageError(f"run {run_id[:8]}: cannot read its artifacts: {failure}")


def read_text(client: MlflowClient, run_id: str, name: str) -> str | None:
    """The text of an artifact; None if there is none of the name."""
    if name not in listed(client, run_id, name.rpartition("/")[0] or None):
        return None
    with tempfile.TemporaryDirectory() as scratch:
        return download(client, run_id, name, Path(scratch)).read_text(encoding="utf-8")


def fetch(client: MlflowClient, address: str, folder: Path) -> Path:
    """Downloads what `runs:/…` or `models:/…` names below `folder`; returns its path there.

    Raises:
        UsageError: It cannot be read.
    """
    from mlflow.artifacts import download_artifacts
    from mlflow.exceptions import MlflowException

    try:
        place = address
        for _ in range(_MOST_STEPS):
            if place.startswith(("runs:/", "models:/")):
                place = _place(client, place)
        own_place(client.tracking_uri, place)
        return Path(download_artifacts(place, dst_path=str(folder), tracking_uri=client.tracking_uri))
    except UsageError as error:
        raise UsageError(f"{address}: cannot read the program: {error}") from None
    except (MlflowException, OSError) as error:
        raise UsageError(f"{address}: cannot read the program: {first_line(error)}") from None


def _place(client: Any, address: str) -> str:
    """Where the artifacts of an address are, or a further address."""
    scheme, _, rest = address.partition(":/")
    name, _, path = rest.strip("/").partition("/")
    if scheme == "runs":
        run, first = client.get_run(name).info, path.partition("/")
        models = client.search_logged_models([run.experiment_id], filter_string=f"source_run_id = '{name}'")
        for model in models:
            if first[0] in (PROGRAM, model.name):
                return f"{model.artifact_location}/{first[2]}".rstrip("/")
        return f"{run.artifact_uri}/{path}"
    if "@" in name:
        name, _, alias = name.partition("@")
        version = client.get_model_version_by_alias(name, alias).version
    elif not path:
        return str(client.get_logged_model(name).artifact_location)
    elif path == "latest":
        version = max(int(each.version) for each in client.search_model_versions(f"name = '{name}'"))
    else:
        version = path
    return str(client.get_model_version_download_uri(name, str(version)))
