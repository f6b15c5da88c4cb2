"""`pipeline.sweep` prints one JSON object of its schema, and reports a bad file in one line."""

import json
from pathlib import Path

import pytest

from pipeline import sweep as command
from pipeline.base.errors import run_command
from tests.support.answering_lm import ANSWER_TOKENS, Engine


@pytest.mark.usefixtures("unrendered")
def test_json_is_one_object_with_the_figures(
    engine: Engine, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Means and intervals over the seeds, and the address of the runs."""
    (spec := tmp_path / "seeds.yaml").write_text(
        f"base: {{optimizer: none, lm: scripted, samples: 2, temperatures: [1.0], tasks: [{folder}]}}\n"
        "sweep: {seed: [0, 1]}\n"
    )
    assert run_command(command.NAME, command.main, [str(spec), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    (row,) = result["configurations"]
    assert (result["sweep"], row["configuration"], row["runs"]) == ("seeds", "all", 2)
    assert row["figures"]["tokens"] == dict.fromkeys(("mean", "low", "high"), 6 * ANSWER_TOKENS), "six answers each"
    assert [each["values"] for each in result["runs"]] == [{"seed": 0}, {"seed": 1}]


def test_a_bad_file_is_one_line(
    engine: Engine, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where a combination of settings is wrong; nothing is asked."""
    spec, tasks = tmp_path / "bad.yaml", f"tasks: {folder}"
    for content, reason in (
        (
            f"base: {{optimizer: none, {tasks}}}\nsweep:\n  selection: [adaptive, coverage]\n",
            "selection=coverage: --selection: `none` does not select demonstrations; omit the option",
        ),
        (
            f"base: {{lm: embedded, {tasks}}}\nsweep:\n  optimizer: [adaptive, simba]\n",
            "optimizer=simba: --reflection-lm: `simba` needs an LM that writes instructions, but the embedded LM "
            "writes programs only; name another, such as openai/gpt-4o",
        ),
    ):
        spec.write_text(content)
        assert run_command(command.NAME, command.main, [str(spec)]) == 2
        assert capsys.readouterr().err == f"pipeline.sweep: {spec}: {reason}\n"
    assert engine.calls == 0
