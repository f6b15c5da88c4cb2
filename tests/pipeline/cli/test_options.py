"""Parsers derived from configs hold these:

- every field is an option, with its type, default and help text; only options that are given are reported;
- a value is refused in one line that names the option, what was expected and what was found;
- argparse's errors never print the usage text, and never exit.
"""

from collections.abc import Sequence

import pytest

from pipeline.base.config import PlanOptions, ProgramConfig, RunConfig
from pipeline.base.errors import UsageError
from pipeline.cli.options import Parser


def parser() -> Parser:
    return Parser("pipeline.example", "An example.", "", RunConfig)


def test_only_what_is_given_is_reported() -> None:
    """With the field's type; the rest has the config's defaults."""
    given = parser().given(
        ["--temperatures", "1.0,0.4", "--no-ir", "--tasks", "a", "b", "--max-usd", "2", "--seed", "7"]
    )
    assert given == {"temperatures": (1.0, 0.4), "no_ir": True, "tasks": ["a", "b"], "max_usd": 2.0, "seed": 7}
    assert parser().given([]) == {}


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--samples", "0"], "--samples: expected a whole number of 1 or more, got '0'"),
        (["--samples", "many"], "--samples: expected a whole number of 1 or more, got 'many'"),
        (["--seed", "-1"], "--seed: expected"),
        (["--threads", "0"], "--threads: expected a whole number of 1 or more, got '0'"),
        (["--max-minutes", "nan"], "--max-minutes: expected a number greater than 0, got 'nan'"),
        (["--max-usd", "inf"], "--max-usd: expected a number greater than 0"),
        (["--temperatures", "0.4,,1"], "--temperatures: expected distinct numbers"),
        (["--temperatures", "0.4,0.4"], "--temperatures: expected distinct numbers"),
        (["--temperatures", "3"], "--temperatures: expected distinct numbers from 0 to 2"),
        (["--temperatures", "nan"], "--temperatures: expected distinct numbers from 0 to 2"),
        (["--guardian", "angel"], "--guardian: invalid choice: 'angel'"),
        (["--proposer", "tree"], "--proposer: invalid choice: 'tree'"),
        (["--sample", "3"], "unrecognized arguments: --sample 3"),
    ],
)
def test_a_bad_value_is_refused_in_one_line(
    argv: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the option and what it accepts; nothing else is printed."""
    with pytest.raises(UsageError) as caught:
        parser().given(argv)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("model", [RunConfig, ProgramConfig, PlanOptions])
def test_help_shows_every_field_with_its_default(
    model: type[RunConfig | ProgramConfig | PlanOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    """Derived from the fields, so that no option lacks a text or states another default."""
    with pytest.raises(SystemExit):
        Parser("pipeline.example", "An example.", "", model).given(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert all(f"--{name.replace('_', '-')}" in text for name in model.model_fields)
    assert all(f"(default: {shown})" in text for shown in ("4096", "64", "0.4,0.7,1.0", "0"))
