"""Parsers derived from configs hold these:

- every field is an option, with its type, default and help text; only options that are given are reported;
- a value is refused in one line that names the option, what was expected and what was found;
- argparse's errors never print the usage text, and never exit.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from pipeline.base.config import AblationConfig, ProgramConfig, RunConfig
from pipeline.base.errors import Exit, LMUnavailable, UsageError, run_command
from pipeline.cli.options import Parser
from tests.support.paths import PROJECT


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


@pytest.mark.parametrize("model", [RunConfig, ProgramConfig, AblationConfig])
def test_help_shows_every_field_with_its_default(
    model: type[RunConfig | ProgramConfig | AblationConfig], capsys: pytest.CaptureFixture[str]
) -> None:
    """Derived from the fields, so that no option lacks a text or states another default."""
    with pytest.raises(SystemExit):
        Parser("pipeline.example", "An example.", "", model).given(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert all(f"--{name.replace('_', '-')}" in text for name in model.model_fields)
    assert all(f"(default: {shown})" in text for shown in ("4096", "600", "64", "0.4,0.7,1.0", "0"))


def raising(error: BaseException) -> Callable[[Sequence[str] | None], int]:
    def main(argv: Sequence[str] | None) -> int:
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (UsageError("x.yaml:3: unknown dtype"), 2, "pipeline.example: x.yaml:3: unknown dtype\n"),
        (LMUnavailable("no key"), 3, "pipeline.example: no key\n"),
        (KeyboardInterrupt(), 130, "pipeline.example: interrupted\n"),
    ],
)
def test_errors_become_a_message_and_an_exit_code(
    error: BaseException, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a person can repair is one line on stderr, without a traceback."""
    assert run_command("pipeline.example", raising(error)) == code
    assert capsys.readouterr() == ("", message)


def test_an_unforeseen_error_keeps_its_traceback() -> None:
    """A bug is not presented as a user's mistake."""
    with pytest.raises(ZeroDivisionError):
        run_command("pipeline.example", raising(ZeroDivisionError()))


def test_a_warning_is_a_line_like_any_message() -> None:
    """With the word, and without the position in our code, in a command that is the main program."""
    code = (
        "import warnings; from pipeline.base.errors import start; start('pipeline.x', lambda _: warnings.warn('slow'))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("", "pipeline.x: warning: slow\n")


def test_success_is_exit_code_zero() -> None:
    """The code that a command returns is the process's."""
    assert run_command("pipeline.example", lambda argv: Exit.NO) == 1
    assert run_command("pipeline.example", lambda argv: Exit.OK) == 0
