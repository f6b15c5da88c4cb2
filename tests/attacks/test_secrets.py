"""Secrets hold these:

- a key in the environment, user and password of an address, and either echoed by a server, are found nowhere in what
  a run wrote or printed;
- what is no secret is printed and recorded as it is.
"""

import base64
import gzip
import html
import json
import logging
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote, quote_plus

import pytest
from rich.table import Table
from rich.text import Text

from pipeline import compile as compile_
from pipeline import load_program, report, ui
from pipeline.base import text
from pipeline.base.config import RunConfig
from pipeline.base.errors import LMUnavailable, UsageError, print_message, run_command, safe_output
from pipeline.base.files import write_text
from pipeline.base.text import MASK, console, redacted, redacted_value
from pipeline.lms.factory import make_lm
from pipeline.record import store
from pipeline.record.recorder import recorded
from pipeline.record.request import Request
from tests.pipeline.conftest import empty_store, store_folder, unrendered
from tests.support import answering_lm
from tests.support.lm_server import fault
from tests.support.scripted_runs import tasks
from tests.support.server_compile import Job, job, server, waits
from tests.support.tracking_server import tracking_server

__all__ = ["empty_store", "job", "server", "store_folder", "unrendered", "waits"]

KEY = 'sk-planted/9f8e7d"quoted"6c5b'
USER, PASSWORD = "planted-user", "planted-pass%21word"


@pytest.fixture(autouse=True)
def _planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(text, "_told", set())


def everything(folder: Path) -> dict[str, bytes]:
    """The content of all files below, compressed ones unpacked."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            found[str(path)] = gzip.decompress(data) if path.suffix == ".gz" and data else data
    return found


def test_a_planted_key_is_found_nowhere(
    job: Job, waits: list[float], tmp_path: Path, store_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server echoes it, alone and with an address that has a user and a password, in one refusal after another."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    address = f"http://{USER}:{PASSWORD}@127.0.0.1/v1"
    echo = f"Incorrect API key provided: {KEY} at {address} (token {json.dumps(KEY)})"
    refusals = [fault("status", 400, at=[4, 5]), fault("status", 500, at=[6]), fault("status", 401, start=20)]
    job.server.set(faults=[replace(each, message=echo) for each in refusals])
    assert job.run("--max-iterations", "1", "--threads", "1") == 3
    assert {request["status"] for request in job.server.requests()} == {200, 400, 401, 500}
    written = everything(tmp_path)
    assert any("attempts" in name for name in written)
    found_nowhere(written | {"stderr": job.messages.encode(), "stdout": json.dumps(job.result).encode()})


def test_user_and_password_of_an_address_are_found_nowhere(
    tmp_path: Path, store_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In parameters, tags, the request and messages, also where a message names them without their address."""
    address = f"http://{USER}:{PASSWORD}@127.0.0.1:1/v1"
    with pytest.raises(LMUnavailable) as failure:
        make_lm("openai/x", address, num_retries=0)
    request = Request(RunConfig(optimizer="adaptive", api_base=address), "openai/x", tasks())
    with recorded("adaptive x", {"api_base": address, "command": f"--api-base {address}"}, tasks(), request):
        pass

    def main(_: object) -> int:
        print_message("x", f"failed to connect to {USER}:{PASSWORD}@127.0.0.1:1")
        raise failure.value

    assert run_command("x", main) == 3
    out, err = capsys.readouterr()
    found_nowhere(everything(tmp_path) | {"stderr": err.encode(), "stdout": out.encode()})


def test_user_and_password_of_a_tracking_server_are_found_nowhere(
    empty_store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    unrendered: None,
) -> None:
    """On the server, in local files and in messages: a run, its report, the UI's address, a server that is gone."""
    folders = {name: tmp_path / name for name in ("server", "tasks", "runs")}
    folders["server"].mkdir()
    monkeypatch.setattr(store, "MLRUNS", folders["runs"])
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setattr(store, "time", SimpleNamespace(sleep=lambda seconds: None))
    answering_lm.use(answering_lm.Engine(), monkeypatch)
    options = ["--tasks", str(answering_lm.write_tasks(folders["tasks"])), "--optimizer", "none", "--samples", "2"]
    with tracking_server(folders["server"], empty_store) as port:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://{USER}:{PASSWORD}@127.0.0.1:{port}")
        output = ["-o", str(tmp_path / "program.json"), "--json"]
        assert run_command("compile", compile_.main, [*options, *output]) == 0
        out, err = capsys.readouterr()
        run_id = json.loads(out)["run_id"]
        assert run_command("report", report.main, [run_id, "-o", str(tmp_path / "report")]) == 0
        assert run_command("ui", ui.main, []) == 0
        program = load_program(f"runs:/{run_id}/program")
        program.save(tmp_path / "loaded.json")
    assert run_command("compile", compile_.main, options) == 2
    shown = out, err, *capsys.readouterr()
    assert "127.0.0.1" in shown[-1]
    found_nowhere(everything(tmp_path) | {f"shown {number}": text.encode() for number, text in enumerate(shown)})


def found_nowhere(written: dict[str, bytes]) -> None:
    assert any(name.endswith("mlflow.db") for name in written)
    assert any(b"127.0.0.1" in data for data in written.values()), "the control: the address itself is on record"
    for secret in (KEY, json.dumps(KEY)[1:-1], USER, PASSWORD, "planted-pass!word"):
        assert not [name for name, data in written.items() if secret.encode() in data], secret


TEXTS = {
    "a key": (f"with {KEY}.", f"with {MASK}."),
    "a key in JSON": (json.dumps({"k": KEY}), json.dumps({"k": MASK})),
    "an address": ("at http://a:b@host/v1 and", f"at http://{MASK}@host/v1 and"),
    "a token as user": ("https://tok@host", f"https://{MASK}@host"),
    "a database": ("postgresql+psycopg://me:pw@db:5432/x", f"postgresql+psycopg://{MASK}@db:5432/x"),
    "a password with an @": ("at http://a:b@c@host/v1", f"at http://{MASK}@host/v1"),
    "a query": ("http://host/v1?a=b&api_key=abcdef&c=d", f"http://host/v1?a=b&api_key={MASK}&c=d"),
    "a database's query": ("postgresql://db/x?user=me&password=pw", f"postgresql://db/x?user=me&password={MASK}"),
    "a login": (f"Authorization: Basic {base64.b64encode(KEY.encode()).decode()}", f"Authorization: Basic {MASK}"),
    "two": (f"{KEY} {KEY}", f"{MASK} {MASK}"),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_is_redacted(kind: str) -> None:
    """Wherever it comes from."""
    text, expected = TEXTS[kind]
    assert redacted(text) == expected
    assert redacted_value({"a": [text], text: (text,)}) == {"a": [expected], expected: (expected,)}


@pytest.mark.parametrize(
    "text",
    [
        "E0 = step.Map(fn=fn).apply(E1)", "http://127.0.0.1:8000/v1", "a@b.c", "user@host", "x @ y", "https://h/@x",
        "http://h/?monkey=x@y", "a?key=value", "",
    ],
)  # fmt: skip
def test_what_is_not_secret_stays(text: str) -> None:
    """Programs, addresses without a user, and mail addresses."""
    assert redacted(text) == text


@pytest.mark.parametrize("name", ["KEYBOARD", "TOKENIZERS_PARALLELISM", "GIT_AUTHOR_NAME", "PATH", "XAUTHORITY"])
def test_variables_that_only_look_so_are_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are values that are too short to be secret, or files."""
    monkeypatch.setenv(name, "an ordinary word")
    monkeypatch.setenv("SHORT_API_KEY", "none")
    monkeypatch.setenv("SSH_KEY", __file__)
    assert redacted(f"an ordinary word, none, {__file__}") == f"an ordinary word, none, {__file__}"


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "API_KEY_2", "DB_PASSWORD", "my_api_key", "TOKENS", "GITHUB_PAT"]
)
def test_variables_that_are_called_so_are_secret(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the end of a word of theirs."""
    monkeypatch.setenv(name, "planted-in-a-variable")
    assert redacted("x planted-in-a-variable y") == f"x {MASK} y"


def test_messages_warnings_and_files_are_redacted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The sinks: stderr, stdout, logging, and files that commands write."""

    def main(_: object) -> int:
        print_message("x", KEY)
        print(KEY)
        handler = logging.StreamHandler(sys.stderr)
        logger = logging.getLogger("attacks")
        logger.addHandler(handler)
        logger.error("%s", KEY)
        logger.removeHandler(handler)
        write_text(tmp_path / "file", f"{KEY} and more")
        raise UsageError(KEY)

    assert run_command("x", main) == 2
    out, err = capsys.readouterr()
    assert KEY not in out + err
    assert (out + err).count(MASK) == 4
    assert (tmp_path / "file").read_text() == f"{MASK} and more"


WRITTEN = {
    "in JSON": json.dumps,
    "in JSON within JSON": lambda text: json.dumps(json.dumps(text)),
    "in Python": repr,
    "in HTML": html.escape,
    "in an address": quote,
    "in an address' query": quote_plus,
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_secret_is_recognized_however_it_is_written(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As servers echo it, and as pages show it."""
    monkeypatch.setenv("STORE_PASSWORD", secret := """p<l&a"n't e+d/""")
    text = WRITTEN[kind](secret)
    assert redacted(f"a {text} b").replace('"', "").replace("'", "").replace("\\", "") == f"a {MASK} b"
    assert redacted(WRITTEN[kind]("p<l&a")) == WRITTEN[kind]("p<l&a")


@pytest.mark.parametrize("width", [30, 200])
def test_a_secret_is_recognized_before_it_is_divided(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into lines, cells or styles; what is around it is printed."""
    monkeypatch.setattr("pipeline.base.text.WIDTH", width)
    styled = Text("denied ")
    styled.append(KEY[:9], style="bold")
    styled.append(KEY[9:])
    table = Table("what", "why")
    table.add_row("one", f"denied {KEY}")
    for shown in (f"denied {KEY}", styled, table):
        console().print(shown)
        out = "".join(char for char in capsys.readouterr().out if not char.isspace() and char not in "│┃")
        assert "denied" in out
        assert not [start for start in range(len(KEY) - 6) if KEY[start : start + 6] in out]


def test_an_address_from_the_record_has_to_be_given_again() -> None:
    """One whose password was taken out would be refused by the server, and nobody would know why."""
    with pytest.raises(UsageError, match="give the whole address again"):
        make_lm("openai/x", f"http://{MASK}@127.0.0.1:1/v1")


def test_output_is_what_it_was_after_a_command() -> None:
    """The streams are put back, also where they are safe already."""
    before = sys.stdout
    with safe_output():
        one = sys.stdout
        with safe_output():
            assert sys.stdout is one
    assert sys.stdout is before
