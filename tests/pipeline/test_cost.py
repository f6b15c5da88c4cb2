"""`pipeline.cost` shows what programs cost: as a table, side by side, as JSON and as a picture."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pipeline import cost
from pipeline.base.errors import run_command
from tests.support.paths import PROJECT

ORACLE = str(PROJECT / "data/oracles/norm/2.step")
RECIPROCAL = """\
E1, E2 = step.Copy().apply(E0)
E3 = step.Bufferize(a=1).apply(E1)
E4 = step.Streamify().apply(E3)
E5 = step.Accum(fn=fn_add, b=1).apply(step.Map(fn=fn_square).apply(E4))
E6 = step.Map(fn=fn_sqrt).apply(step.Map(fn=fn_addeps).apply(step.Map(fn=fn_divbyd).apply(E5)))
return step.Map(fn=fn_div).apply((E2, step.Repeat(n=D).apply(E6)))
"""
"""RMSNorm with a buffer that it does not need."""


def run(*argv: str) -> int:
    return run_command(cost.NAME, cost.main, argv)


@pytest.fixture
def buffered(tmp_path: Path) -> str:
    path = tmp_path / "buffered.step"
    path.write_text(RECIPROCAL)
    return str(path)


def test_figures_come_with_their_bound(capsys: pytest.CaptureFixture[str]) -> None:
    """And then the primitives, the queues and the critical path."""
    assert run("norm/2", ORACLE) == 0
    out, err = capsys.readouterr()
    assert "memory         68  bytes\n" in out
    assert "time          133  cycles           112    84%\n" in out
    assert "queue of E2 before Zip: 15 elements, 60 bytes" in out
    assert "critical path: E1 = Copy > E3 = Map(fn=fn_square) > E4 = Accum(fn=fn_add, b=1) > " in out
    assert "roofline: the critical path binds; off-chip transfers take 14 cycles, 11% of the time" in out
    assert err == ""


def test_a_chip_is_fitted_to_measured_cycles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file of a chip, with each kernel's error; too few kernels are refused."""
    measured = tmp_path / "measured.csv"
    measured.write_text("kernel,cycles,loaded,tile\nadd,213,12288,1024\ngemm,789,49152,1024\ncopy,557,32768,4096\n")
    assert run("--calibrate", str(measured)) == 0
    out = capsys.readouterr().out
    assert "# gemm         789    789  +0 (+0.0%)\n" in out and out.endswith("latency: 13\ndrain: 128\n")
    measured.write_text("kernel,cycles,loaded,tile\nadd,213,12288,1024\n")
    assert run("--calibrate", str(measured)) == 2
    assert "expected three kernels or more, found 1" in capsys.readouterr().err


def test_other_sizes_and_a_small_memory(capsys: pytest.CaptureFixture[str]) -> None:
    """What does not fit is named, with the traffic that it causes."""
    assert run("norm/2", ORACLE, "--sizes", "D=64,N=2", "--sram", "100") == 0
    out = capsys.readouterr().out
    assert "at N=2, D=64" in out
    assert "off chip: the queue of E2 before Zip, 252 bytes; 1,024 bytes written and read instead" in out


def test_a_chip_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a chip of one operation a cycle, the division decides the time."""
    (tmp_path / "slow.yaml").write_text("name: slow\nrate: 1\n")
    assert run("norm/2", ORACLE, "--chip", str(tmp_path / "slow.yaml"), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["chip"] == "slow" and found["figures"]["time"]["value"] > 4 * 112


def test_json_is_one_object_with_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("norm/2", ORACLE, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["figures"]["queue"] == {"value": 15, "unit": "elements", "at_least": None}
    assert found["figures"]["traffic"] == {"value": 896, "unit": "bytes", "at_least": 896}
    result = {"name": "E4", "type": "fp32 [N]"}
    assert found["nodes"][2] == {
        "primitive": "Accum(fn=fn_add, b=1)", "line": 3, "results": [result], "memory": 4,
        "operations": 112, "busy": 112, "critical": True, "added": 1,
    }  # fmt: skip
    assert found["queues"] == [{"before": "Zip", "node": 7, "stream": "E2", "length": 15, "bytes": 60}]
    assert found["bounded"] is False and found["spills"] == []


def test_programs_side_by_side(buffered: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Figures, and the others as multiples of the first."""
    assert run("norm/2", "--compare", ORACLE, buffered) == 0
    out = capsys.readouterr().out
    assert next(line.split()[1:3] for line in out.splitlines() if line.startswith(buffered)) == ["200", "2.94x"]
    assert next(line.split()[1:3] for line in out.splitlines() if line.startswith(ORACLE)) == ["68", "896"]
    assert run("norm/2", "--compare", ORACLE, buffered, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["program"] for each in found["programs"]] == [ORACLE, buffered]


def test_a_picture_needs_no_system_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cost.svg"
    assert run("norm/2", ORACLE, "--svg", str(path)) == 0
    text = "".join(ElementTree.fromstring(path.read_text(encoding="utf-8")).itertext())
    assert "Accum(fn=fn_add, b=1)" in text and "queue of 15, 60 bytes" in text
    assert run("norm/2", ORACLE, "--svg", str(tmp_path / "new" / "cost.svg")) == 0, "folders are made"
    assert run("norm/2", ORACLE, "--svg", str(path / "cost.svg")) == 2, "a file is no folder"
    assert "cannot write the file" in capsys.readouterr().err


def test_a_program_that_fails_a_check_has_no_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its findings go to stderr."""
    path = tmp_path / "wrong.step"
    path.write_text("return step.Zip().apply((E0, E0))")
    assert run("norm/2", str(path), "--json") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{path}:1:8: affine: stream E0 is consumed 2 times" in err


@pytest.mark.parametrize(
    ("argv", "quoted"),
    [
        (["--sizes", "D=0"], "expected sizes such as D=16,M=5, got 'D=0'"),
        (["--sizes", "16"], "expected sizes such as"),
        (["--sizes", "Q=3"], "no dim Q; expected one of"),
        (["--sram", "0"], "expected a whole number of 1 or more"),
        (["--chip", "/none/chip.yaml"], "cannot read the chip"),
        (["--compare", ORACLE], "leave out IMPL"),
    ],
)
def test_bad_options_end_in_one_line(argv: list[str], quoted: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("norm/2", ORACLE, *argv) == 2
    err = capsys.readouterr().err
    assert quoted in err and err.count("\n") == 1
