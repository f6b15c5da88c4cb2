"""A confined cell reaches nothing: each attack beside a control, the same code in a cell that is not confined.

What a task's code may do, it does in both; what would lead to other tasks' answers is refused in both.
"""

import os
import platform
import socket
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.verification import limits
from pipeline.verification.isolation.confinement import Means, Mode, Sandbox
from pipeline.verification.judge import Request, judge
from pipeline.verification.limits import verification_pool
from pipeline.verification.pool import WorkerLost, WorkerPool
from tests.attacks.test_isolation import CLEAN, RIGHT, WRONG
from tests.support import reaching
from tests.support.processes import PATIENCE, eventually

pytestmark = pytest.mark.skipif(
    bool(Means.here().missing) or platform.machine() != "x86_64", reason="needs Landlock and seccomp, of x86_64"
)

Task = tuple[str, str]


@pytest.fixture(scope="module")
def confined() -> Iterator[WorkerPool]:
    with verification_pool(1, seconds=30.0, memory=2**30, sandbox=Sandbox("require")) as pool:
        yield pool


@pytest.fixture(scope="module")
def free() -> Iterator[WorkerPool]:
    with verification_pool(1, seconds=30.0, memory=2**30, sandbox=Sandbox("off")) as pool:
        yield pool


@pytest.fixture
def task(tmp_path: Path) -> Task:
    """The attack's, whose cell no other test has."""
    return (tmp_path.name, CLEAN)


@pytest.fixture
def places(tmp_path: Path, task: Task) -> Iterator[dict[str, Any]]:
    """What there is to reach: a user's file and folder, a file beside the task, addresses, and this process."""
    folder, task_folder, spare = tmp_path / "user", tmp_path / "task", tmp_path / "spare"
    for each in (folder, task_folder, spare):
        each.mkdir()
    (folder / "file").write_text("private")
    (task_folder / "data").write_text("public")
    limits.remember_folder(*task, task_folder)
    stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
    sockets = {
        "tcp": reaching.listening(stream, ("127.0.0.1", 0)),
        "udp": reaching.listening(datagram, ("127.0.0.1", 0)),
        "unix": reaching.listening(stream, str(tmp_path / "socket")),
        "abstract": reaching.listening(stream, f"\0adaptive-step-{os.getpid()}"),
        "datagrams": reaching.listening(datagram, str(tmp_path / "datagrams")),
    }
    addresses = {name: each.getsockname() for name, each in sockets.items()}
    yield {
        **{name: where.decode() if isinstance(where, bytes) else where for name, where in addresses.items()},
        "file": str(folder / "file"),
        "folder": str(folder),
        "readable": str(task_folder / "data"),
        "spare": str(spare),
        "command": os.getpid(),
    }
    for each in sockets.values():
        each.close()


def state(places: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What an attack could have changed."""
    found = []
    for path in [Path(places["file"]), Path(places["readable"]), *Path(places["folder"]).iterdir()]:
        known = path.stat()
        found.append((path.name, path.read_bytes(), known.st_mode, known.st_mtime_ns, os.listxattr(path)))
    return found


def controls_hold(pool: WorkerPool) -> bool:
    asked = [Request(task="control", statement=CLEAN, text=text) for text in (RIGHT, WRONG)]
    right, wrong = (pool.submit(judge, each).result() for each in asked)
    return right.passed and wrong.stage == "value"


def cells_of(pool: WorkerPool) -> tuple[Path, set[str]]:
    """The folder of a worker's cells, and the names of those that are there."""
    folder = Path(pool.submit(reaching.leave_file, "looking", CLEAN).result(PATIENCE)).parent.parent
    return folder, {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("attack", [*reaching.FILES, *reaching.NETWORK, *reaching.PROCESSES])
def test_a_cell_reaches_nothing_beyond_it(
    confined: WorkerPool, free: WorkerPool, places: dict[str, Any], attack: str, task: Task
) -> None:
    """It is refused, and nothing has changed; the control does the same without being confined."""
    code = {**reaching.FILES, **reaching.NETWORK, **reaching.PROCESSES}[attack]
    before = state(places)
    refused = confined.submit(reaching.try_it, *task, code, places).result(PATIENCE)
    assert refused.startswith(("PermissionError", "AssertionError", "OSError 18", "OSError 38")), refused
    assert state(places) == before
    if attack not in reaching.UNCONTROLLED:
        control = free.submit(reaching.try_it, *task, code, places).result(PATIENCE)
        assert control == "done", "the attack would not work anyway"
    assert controls_hold(confined)


@pytest.mark.parametrize("attack", [*reaching.TAKING, *reaching.TRACING])
def test_no_cell_takes_what_its_warden_or_the_command_has(
    confined: WorkerPool, free: WorkerPool, places: dict[str, Any], attack: str, task: Task
) -> None:
    """Of the warden, neither a cell that is confined, nor another; the control's parent is a process like any."""
    code = {**reaching.TAKING, **reaching.TRACING}[attack]
    for pool in (confined, free) if attack in reaching.TAKING else (confined,):
        refused = pool.submit(reaching.try_it, *task, code, places).result(PATIENCE)
        assert refused.startswith("PermissionError"), refused
        assert controls_hold(pool)
    assert reaching.try_it_unguarded(code) == "done", "the attack would not work anyway"


@pytest.mark.parametrize("what", reaching.ALLOWED)
def test_a_cell_has_what_tasks_need(confined: WorkerPool, places: dict[str, Any], what: str, task: Task) -> None:
    """Python and its packages, the files beside its task, temporary files, threads and children."""
    assert confined.submit(reaching.try_it, *task, reaching.ALLOWED[what], places).result(PATIENCE) == "done"


def test_of_its_folder_a_task_reads_what_is_in_sight(confined: WorkerPool, tmp_path: Path, task: Task) -> None:
    """No hidden file, none that a link leads to, and no folder below it."""
    folder = tmp_path / "task"
    (folder / "below").mkdir(parents=True)
    for path in (tmp_path / "private", folder / ".env", folder / "below" / "file", folder / "data"):
        path.write_text("x")
    (folder / "link").symlink_to(tmp_path / "private")
    limits.remember_folder(*task, folder)
    for name, expected in (("data", "done"), (".env", "Perm"), ("link", "Perm"), ("below/file", "Perm")):
        found = confined.submit(reaching.try_it, *task, f"open({str(folder / name)!r}).read()", {}).result(PATIENCE)
        assert found.startswith(expected), name


@pytest.mark.parametrize(("text", "named"), [("fns_from: {}\n", True), ('test_name: "x\nfns_from: {}\n"\n', False)])
def test_the_file_of_functions_is_what_yaml_says(text: str, named: bool, tmp_path: Path) -> None:
    """A line in another text of a task lets its code read nothing; the control is the key itself."""
    (tmp_path / "t").mkdir()
    task, secret = tmp_path / "t" / "task.yaml", tmp_path / "secret"
    task.write_text(text.format("../secret"))
    assert (str(task.parent / "../secret") in limits.files_of(str(task))) is named
    assert str(secret) not in limits.files_of(str(task))


def test_what_is_allowed_to_be_read_is(tmp_path: Path, task: Task) -> None:
    """And no more than read; what lies beside it is not."""
    (tmp_path / "allowed").mkdir()
    for path in (tmp_path / "allowed" / "file", tmp_path / "file"):
        path.write_text("x")
    allowed = Sandbox("require", (str(tmp_path / "allowed"),))
    with verification_pool(1, seconds=30.0, memory=2**30, sandbox=allowed) as pool:
        for code, expected in (
            (f"open({str(tmp_path / 'allowed' / 'file')!r}).read()", "done"),
            (f"open({str(tmp_path / 'allowed' / 'file')!r}, 'a')", "Perm"),
            (f"open({str(tmp_path / 'file')!r}).read()", "Perm"),
        ):
            assert pool.submit(reaching.try_it, *task, code, {}).result(PATIENCE).startswith(expected)


def test_a_cell_has_no_environment_but_its_own(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control's cell has what this process has, in Python and below."""
    modes: tuple[Mode, ...] = ("off", "require")
    found = {}
    for mode in modes:
        with verification_pool(1, seconds=30.0, memory=2**30, sandbox=Sandbox(mode)) as pool:
            found[mode] = pool.submit(reaching.environment, *task).result(PATIENCE)
    free, own = found["off"], found["require"]
    assert free["HOME"] == free["C HOME"] == os.environ["HOME"]
    assert own["HOME"] == own["C HOME"] == own["TMPDIR"]
    harmless = {"PATH", "LANG", "LANGUAGE", "TZ", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE"}
    others = own.keys() - harmless - {"HOME", "TMPDIR", "C HOME"}
    assert all(name.startswith(("LC_", "OMP_", "MKL_", "OPENBLAS_")) for name in others)


def test_temporary_files_go_with_their_call(confined: WorkerPool, task: Task) -> None:
    """And with them the process that has made them; those of other tasks are out of reach."""
    left = Path(confined.submit(reaching.leave_file, *task).result(PATIENCE))
    assert not left.parent.exists()
    again = Path(confined.submit(reaching.leave_file, *task).result(PATIENCE))
    assert again.parent != left.parent
    around = f"import os; os.listdir({str(left.parent.parent)!r})"
    assert confined.submit(reaching.try_it, "other", CLEAN, around, {}).result(PATIENCE).startswith("Perm")


@pytest.mark.parametrize("attack", reaching.UNCOUNTED)
def test_what_a_listing_does_not_show_is_bounded(confined: WorkerPool, attack: str, task: Task) -> None:
    """It is counted, the call is killed, and what it left is removed; the control has little of it, and is done."""
    folder, before = cells_of(confined)
    code = reaching.UNCOUNTED[attack]
    if attack != "files below a long path":  # of which none can be counted
        assert confined.submit(reaching.try_it, *task, code, {"count": 2}).result(PATIENCE) == "done"
    waiting = f"{textwrap.dedent(code)}\nsignal.pause()"
    with pytest.raises(WorkerLost, match=r"temporary files and was killed|threads running and was killed"):
        confined.submit(reaching.try_it, *task, waiting, {"count": 26}).result(PATIENCE)
    assert eventually(lambda: {path.name for path in folder.iterdir()} <= before)
    assert controls_hold(confined)


@pytest.mark.parametrize(("size", "count"), [(2**23, 2**28 // 2**23 + 1), (0, 10_001)])
def test_temporary_files_are_bounded(confined: WorkerPool, size: int, count: int, task: Task) -> None:
    """In bytes, and in number; a call that exceeds that is killed, and what it wrote is removed."""
    folder, before = cells_of(confined)
    with pytest.raises(WorkerLost, match="temporary files and was killed"):
        confined.submit(reaching.fill, *task, size, count).result(PATIENCE)
    assert eventually(lambda: {path.name for path in folder.iterdir()} <= before)
    assert controls_hold(confined)
