"""What is written, and under which name, holds these; each attack has a control beside it:

- no output is written through a link that somebody else has planted, at its own place or as a folder above it;
- nothing but one module opens a file to write;
- reports for build servers and editors hold no control and no bidirectional character;
- a task of any name has its artifacts, and is no formula of a spreadsheet;
- a changed file is seen whatever its time says.
"""

import ast
import csv
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mlflow.utils.uri import validate_path_is_safe

from pipeline.agent.agent import Agent
from pipeline.agent.compiled import read_program, save_program
from pipeline.base.errors import UsageError
from pipeline.base.files import open_growing, write_bytes, write_text
from pipeline.base.text import name_of, path_of
from pipeline.charts.plots import Panel, plot
from pipeline.cli.junit import junit_text
from pipeline.reporting import tables
from step_runtime.base.errors import Diagnostic
from step_runtime.verification.verdict import Verdict
from tests.support.paths import PROJECT

OTHER = 12345
WRITERS: dict[str, Callable[[Path], object]] = {
    "text": lambda path: write_text(path, "written"),
    "bytes": lambda path: write_bytes(path, b"written"),
    "a picture": lambda path: plot(path.with_suffix(".png"), Panel({}, "y")),
    "a picture as text": lambda path: plot(path.with_suffix(".svg"), Panel({}, "y")),
    "a table": lambda path: tables.write(tables.of([{"a": 1}]), path),
    "a compiled program": lambda path: save_program(Agent("none"), path),
}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
@pytest.mark.parametrize("writer", WRITERS)
def test_no_writer_follows_a_planted_link(writer: str, tmp_path: Path) -> None:
    """Neither one of the file's name nor one of its folder's; one's own link is followed."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("untouched")
    (tmp_path / "folder").symlink_to(precious)
    os.lchown(tmp_path / "folder", OTHER, OTHER)
    with pytest.raises(UsageError, match="another user's"):
        WRITERS[writer](tmp_path / "folder" / "new" / "out")
    for suffix in ("", ".png", ".svg"):
        (link := tmp_path / f"out{suffix}").symlink_to(precious / "file")
        os.lchown(link, OTHER, OTHER)
    with pytest.raises(UsageError, match="another user's"):
        WRITERS[writer](tmp_path / "out")
    assert [path.read_text() for path in precious.iterdir()] == ["untouched"]
    (tmp_path / "mine").symlink_to(precious)
    WRITERS[writer](tmp_path / "mine" / "written")
    assert {path.stem for path in precious.iterdir()} == {"file", "written"}


def test_a_growing_file_is_no_link(tmp_path: Path) -> None:
    """Whoever has made it; the control grows."""
    (tmp_path / "target").write_text("untouched")
    (tmp_path / "link").symlink_to("target")
    with pytest.raises(OSError, match="symbolic link"):
        open_growing(tmp_path / "link")
    for line in (b"a", b"b"):
        with open_growing(tmp_path / "file") as file:
            file.write(line)
    assert [(tmp_path / name).read_text() for name in ("target", "file")] == ["untouched", "ab"]


WRITING = {"write_text", "write_bytes", "savefig", "touch", "symlink_to", "hardlink_to"}
OWN = {
    "pipeline/base/files.py",  # the writer
    "pipeline/charts/plots.py",  # draws to memory
    "pipeline/verification/isolation/processes.py",  # a setting of the kernel's, below /proc/self
    "pipeline/verification/probes.py",  # tries to write, in a cell that must refuse it
    "optimizers/experience.py",  # the optimizers are a package of their own
}


def writes(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls of methods that write a file, and of any `open` with a mode that can write."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        is_method = isinstance(node.func, ast.Attribute)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = [*node.args[is_method ^ 1 : 2], *(word.value for word in node.keywords if word.arg == "mode")]
        modes = [value.value for value in given if isinstance(value, ast.Constant) and isinstance(value.value, str)]
        writing = any(set(mode) <= set("rwaxbt+") and set(mode) & set("wax+") for mode in modes)
        if (is_method and name in WRITING) or (name == "open" and writing):
            yield node


def test_one_module_writes_files() -> None:
    """The packages open nothing else to write; the rule finds each way of it."""
    ways = ("open('x', 'w')", "path.open('ab')", "path.open(mode='r+')", "path.write_text('')", "figure.savefig(path)")
    assert all([*writes(ast.parse(way))] for way in ways)
    assert not any([*writes(ast.parse(way))] for way in ("open('x')", "path.open('rb')", "write_text(path, '')"))
    found = [
        f"{path.relative_to(PROJECT)}:{call.lineno}"
        for package in ("pipeline", "signatures", "optimizers", "step_runtime")
        for path in [*sorted((PROJECT / package).rglob("*.py")), PROJECT / "benchmarks" / "generated_tasks.py"]
        if str(path.relative_to(PROJECT)) not in OWN
        if any(word in (text := path.read_text()) for word in ("open(", *WRITING))
        for call in writes(ast.parse(text))
    ]
    assert not found


UNSEEN = ("\x9b", "\u202e", "\u2066", "\u200b", "\x1b", "\u2028", "\U000e0041", "\x7f")


@pytest.mark.parametrize("char", UNSEEN)
def test_reports_show_what_would_not_be_seen(char: str, tmp_path: Path) -> None:
    """In JUnit XML by name, message and detail, and in text files; letters stay as they are."""
    text = f"é{char}é"
    finding = Diagnostic("parse", "syntax", text, None, (text,), text)
    verdict = Verdict(
        task=text,
        task_file=text,
        program=text,
        passed=False,
        stage="parse",
        diagnostics=(finding,),
        warnings=(finding,),
    )
    unusable = Verdict(task=text, task_file=text, program=text, passed=False, stage=None, error=text)
    report = junit_text([each.model_copy(update={"feedback": text}) for each in (verdict, unusable)])
    write_text(tmp_path / "page.html", text)
    assert char not in report + (tmp_path / "page.html").read_text() and "é" in report


@pytest.mark.parametrize("char", UNSEEN)
def test_a_compiled_program_shows_what_would_not_be_seen(char: str, tmp_path: Path) -> None:
    """By escapes of JSON, which mean the same."""
    save_program(Agent("none"), path := tmp_path / "program.json", {"name": f"é{char}"})
    assert char not in path.read_text()
    assert "é" in path.read_text()
    assert read_program(path).metadata == {"name": f"é{char}"}


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "=cmd|' /C calc'!A0"], ids=ascii)
def test_a_table_holds_no_formula(name: str, tmp_path: Path) -> None:
    """A spreadsheet would compute it, or run what it names; numbers and other names stay as they are."""
    tables.write(tables.of({"run": run, "rate": -1} for run in (name, "gemm/1")), path := tmp_path / "table.csv")
    with path.open(newline="") as file:
        rows = [*csv.reader(file)]
    assert rows[1][0].startswith("'")
    assert rows[1][1:] + rows[2] == ["-1", "gemm/1", "-1"]


NAMES = (
    "gemm/0", "[bold]x", "a|b", "<img src=x>", "c#_gemm", "\x1b[2J", "100%", "%23", "%2523", "a=b", "=23", "=_", "=/a",
    "a\\b", "..", "../../x", "./x", ".hidden", "what?", "a?b#c", "/rooted", "a//b", "", "日本語", "é\u202eb", "x" * 255,
    "\x1b" * 255, "日" * 85, "C:/x", "file:/etc", "a;b", " ", "a.yaml", "\udcff",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_task_of_any_name_has_its_artifacts(name: str, tmp_path: Path) -> None:
    """Its path is safe for the store and a file system, and gives the name again."""
    path = path_of(name)
    assert name_of(path) == name
    assert validate_path_is_safe(f"tasks/{path}.yaml") == f"tasks/{path}.yaml"
    file = (tmp_path / f"{path}.yaml").absolute()
    assert file.resolve().is_relative_to(tmp_path.resolve())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("")
    names = [name_of(str(each.relative_to(tmp_path)).removesuffix(".yaml")) for each in tmp_path.rglob("*.yaml")]
    assert names == [name]


def test_no_two_names_share_artifacts() -> None:
    """However they were chosen."""
    assert len({path_of(name) for name in NAMES}) == len(NAMES)
