"""Files of others hold these:

- what isn't a task file, or is too much of one, is a message of one line and exit code 2, at once;
- nothing is written through a link that somebody has planted;
- what is left over in the store's folder stops no command.
"""

import os
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pipeline import load_program, load_task, verify
from pipeline.base.errors import UsageError, run_command
from pipeline.base.files import write_text
from pipeline.cli.options import read_text
from pipeline.modules import confined
from pipeline.record import store
from pipeline.record.resume import load_experience
from step_runtime.tasks.reader import loads_task, read_task
from tests.pipeline.conftest import all_warm_pools, empty_store, store_folder, warm_pools
from tests.support.processes import eventually
from tests.support.scripted_runs import RIGHT, TASK

__all__ = ["all_warm_pools", "empty_store", "store_folder", "warm_pools"]


def fifo(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**30)


def loop(path: Path) -> None:
    other = path.with_name("other.yaml")
    path.symlink_to(other)
    other.symlink_to(path)


BAD: dict[str, Callable[[Path], object]] = {
    "a FIFO": fifo,
    "an endless device": endless,
    "a file of 1 GiB": huge,
    "a loop of links": loop,
    "a folder": lambda path: path.mkdir(),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "binary": lambda path: path.write_bytes(os.urandom(1000) + b"\xff\xfe"),
    "NUL": lambda path: path.write_bytes(b"inputs: \0"),
    "empty": lambda path: path.write_text(""),
    "many characters": lambda path: path.write_text("#" * 200_001),
    "nested lists": lambda path: path.write_text("[" * 100_000),
    "nested mappings": lambda path: path.write_text("{a: " * 50_000),
    "nested blocks": lambda path: path.write_text("".join(" " * n + "a:\n" for n in range(500))),
    "nested sequences": lambda path: path.write_text("- " * 50_000),
    "an alias bomb": lambda path: path.write_text(
        "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
    ),
    "an alias of itself": lambda path: path.write_text("a: &a [*a]"),
    "a Python tag": lambda path: path.write_text("inputs: !!python/object/apply:os.mkdir [executed]"),
    "an unknown tag": lambda path: path.write_text("inputs: !x 1"),
    "a huge number": lambda path: path.write_text(f"test_name: {'9' * 10_000}"),
    "parentheses in code": lambda path: path.write_text(TASK + f"global: x = {'(' * 5000}\n"),
    "signs in code": lambda path: path.write_text(TASK + f"global: x = {'-' * 50_000}1\n"),
    "a long sum in code": lambda path: path.write_text(TASK + f"global: x = {'1+' * 60_000}1\n"),
    "attributes in code": lambda path: path.write_text(TASK + f"global: x = a{'.b' * 60_000}\n"),
    "calls in code": lambda path: path.write_text(TASK + f"global: x = a{'()' * 60_000}\n"),
    "a long path of functions": lambda path: path.write_text(TASK + f"fns_from: {'../' * 60_000}x\n"),
    "a nested type": lambda path: path.write_text(
        TASK.replace("dtype: fp32", f"dtype: '{'[' * 5000}fp32{']' * 5000}'", 1)
    ),
    "a type of many parts": lambda path: path.write_text(
        TASK.replace("dtype: fp32", f"dtype: [{', '.join(['fp32'] * 9000)}]", 1)
    ),
    "a nested Buffer": lambda path: path.write_text(
        TASK.replace("dtype: fp32", f"dtype: '{'Buffer(' * 90}fp32{', [M])' * 90}'", 1).replace("[M]", "[M, M]", 1)
    ),
    "a nested dim": lambda path: path.write_text(TASK.replace("dims: [M]", f"dims: ['{'-' * 20_000}M']", 1)),
    "a dim of many terms": lambda path: path.write_text(TASK.replace("dims: [M]", f"dims: ['{'M+' * 40_000}M']", 1)),
    "a dim of many digits": lambda path: path.write_text(TASK.replace("dims: [M]", f"dims: ['{'9' * 10_000}']", 1)),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_task_file_is_one_message(kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, no traceback, a bounded line that names the file, in seconds; nothing is executed."""
    BAD[kind](path := tmp_path / "bad.yaml")
    start = time.monotonic()
    assert run_command(verify.NAME, verify.main, [str(path), "-"]) == 2
    out, err = capfd.readouterr()
    assert time.monotonic() - start < 60
    assert out == ""
    assert err.startswith(f"{verify.NAME}: {path}")
    assert "Traceback" not in err
    assert len(err) < 20_000
    assert err.count("\n") <= 3
    assert not (tmp_path / "executed").exists()


def test_a_good_task_file_is_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The control, also through a link, with any line ends."""
    path, link, program = tmp_path / "good.yaml", tmp_path / "link.yaml", tmp_path / "program.txt"
    path.write_bytes(TASK.replace("\n", "\r\n").encode())
    link.symlink_to(path)
    program.write_text(RIGHT)
    assert read_task(link) == loads_task(TASK)
    assert run_command(verify.NAME, verify.main, [str(link), str(program)]) == 0
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "", "no/such/*", "[", "**/no.yaml"])
def test_a_name_that_stands_for_nothing_is_reported(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever a file system says of it."""
    assert run_command(verify.NAME, verify.main, [name, "-"]) == 2
    assert "no such task" in capfd.readouterr().err


READERS: dict[str, Callable[[Path], object]] = {
    "a program": lambda path: read_text(str(path)),
    "a compiled program": load_program,
    "an experience": lambda path: load_experience(str(path), ()),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ["a FIFO", "an endless device", "a file of 1 GiB", "a folder", "a loop of links"])
def test_only_bounded_regular_files_are_read(reader: str, kind: str, tmp_path: Path, store_folder: Path) -> None:
    """Programs, compiled ones and experiences: anything else is one line, at once; the control is read."""
    BAD[kind](path := tmp_path / "bad")
    with pytest.raises(UsageError, match=r"/bad: |no run or file") as error:
        READERS[reader](path)
    assert "\n" not in str(error.value)
    (tmp_path / "good").write_bytes(b"return E0\r\n")
    assert read_text(str(tmp_path / "good")) == "return E0\n"


def test_endless_input_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a pipe, for example."""
    with Path("/dev/zero").open(encoding="utf-8") as endless:
        monkeypatch.setattr("sys.stdin", endless)
        with pytest.raises(UsageError, match="more than"):
            read_text("-")


def test_nothing_is_written_through_a_planted_link(tmp_path: Path) -> None:
    """Neither at the place of the partial file, which nobody can guess, nor at the file's own."""
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (tmp_path / ".out.partial").symlink_to(victim)
    write_text(tmp_path / "out", "text")
    assert (tmp_path / "out").read_text() == "text"
    assert victim.read_text() == "untouched"
    assert (tmp_path / ".out.partial").is_symlink()


@pytest.mark.parametrize("target", ["/dev/null", "folder", "fifo"])
def test_a_link_to_what_is_not_a_file_is_not_followed(target: str, tmp_path: Path) -> None:
    """The message says so; a link to a file of one's own stays a link, and the file is replaced."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(UsageError, match="not a regular file"):
        write_text(tmp_path / "link", "text")
    (tmp_path / "own").write_text("old")
    (tmp_path / "good").symlink_to("own")
    write_text(tmp_path / "good", "new")
    assert ((tmp_path / "own").read_text(), (tmp_path / "good").is_symlink()) == ("new", True)
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".partial")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_link_to_a_file_of_somebody_else_is_not_followed(tmp_path: Path) -> None:
    """Nor a link that somebody else has made."""
    (tmp_path / "theirs").write_text("untouched")
    os.chown(tmp_path / "theirs", 12345, 12345)
    (tmp_path / "link").symlink_to("theirs")
    with pytest.raises(UsageError, match="another user's"):
        write_text(tmp_path / "link", "text")
    assert (tmp_path / "theirs").read_text() == "untouched"


def _precious(folder: Path) -> Path:
    (folder / "precious").write_text("untouched")
    return folder / "precious"


def _linked_partial(own: Path, folder: Path) -> None:
    (own / "attempts.jsonl.gz").write_text('{"task": 0, "temperature": 1, "sample": 0}\n')
    (own / "attempts.jsonl.gz.partial").symlink_to(_precious(folder))


def _linked_folder(own: Path, folder: Path) -> None:
    (folder / "precious").mkdir()
    (folder / "precious" / "file").write_text("untouched")
    own.symlink_to(folder / "precious")


LEFT: dict[str, Callable[[Path, Path], object]] = {
    "a file": lambda own, _: own.write_text("junk"),
    "a link to nothing": lambda own, _: own.symlink_to("nowhere"),
    "a link to a folder": _linked_folder,
    "a FIFO": lambda own, _: os.mkfifo(own),
}
LEFT_INSIDE: dict[str, Callable[[Path, Path], object]] = {
    "nothing": lambda own, _: None,
    "a folder as lock": lambda own, _: (own / ".lock").mkdir(),
    "a link as lock": lambda own, folder: (own / ".lock").symlink_to(_precious(folder)),
    "junk as attempts": lambda own, _: (own / "attempts.jsonl.gz").write_text("junk\n"),
    "binary attempts": lambda own, _: (own / "attempts.jsonl.gz").write_bytes(b"\xff\xfe\n"),
    "other JSON": lambda own, _: (own / "attempts.jsonl.gz").write_text('{"a": 1}\n[1]\n'),
    "deep JSON": lambda own, _: (own / "attempts.jsonl.gz").write_text("[" * 100_000 + "\n"),
    "a folder as attempts": lambda own, _: (own / "attempts.jsonl.gz").mkdir(),
    "a linked partial file": _linked_partial,
}


@pytest.mark.parametrize("kind", [*LEFT, *LEFT_INSIDE])
def test_what_is_left_over_stops_no_command(kind: str, store_folder: Path) -> None:
    """The store opens, now and later, and what a link names is not touched."""
    own = store_folder / "running" / "left"
    own.parent.mkdir()
    if kind in LEFT_INSIDE:
        own.mkdir()
    (LEFT | LEFT_INSIDE)[kind](own, store_folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store.open_store()
    client, _ = store.open_store()
    assert client.search_experiments()
    precious = store_folder / "precious"
    if precious.is_file():
        assert precious.read_text() == "untouched"
    if precious.is_dir():
        assert (precious / "file").read_text() == "untouched"


@pytest.mark.parametrize(
    "code",
    [
        "open({place!r}, 'w').write('x')",
        "open('/etc/passwd').read()",
        "__import__('socket').create_connection(('127.0.0.1', 9))",
        "__import__('os')._exit(0)",
        "__import__('time').sleep(1e6)",
        "import os, time; os._exit(0) if os.fork() else time.sleep(1e6)",
        "print('x' * (1 << 30))",
    ],
)
def test_a_task_that_leaves_its_functions_open_is_confined(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reference runs before any cell of a command does."""
    monkeypatch.setattr(confined, "MOST_SECONDS", 5 if "sleep" in code else 60)
    (path := tmp_path / "open.yaml").write_text(
        f"global: |\n  {code.format(place=str(tmp_path / 'executed'))}\nfns: auto\n"
        "inputs: [{name: E0, dtype: fp32, dims: [M], data_gen: torch.rand}]\n"
        "outputs: [{name: S0, dtype: fp32, dims: [M], data_transform: [\"input_data['E0'] * 2\"]}]\n"
    )
    with pytest.raises(UsageError, match=r"Error|ended the process"):
        load_task(path)
    assert not (tmp_path / "executed").exists()
    assert eventually(lambda: not runs_with(path)), "a process of it is left"


def runs_with(path: Path) -> bool:
    """Whether a process has the path in its command line."""
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # a process may end meanwhile
            if str(path).encode() in line.read_bytes():
                return True
    return False
