"""The shared options hold these:

- a value is refused in one line that names the option, what was expected and what was found;
- errors of argparse never print the usage text, and never exit on their own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from pipeline.base.errors import Exit, LMUnavailable, UsageError, run_command
from pipeline.cli import options
from tests.support.paths import PROJECT


def parser() -> options.Parser:
    built = options.Parser("pipeline.example", "An example.")
    for add in (
        options.add_lm,
        options.add_agent,
        options.add_tasks,
        options.add_sampling,
        options.add_budget,
        options.add_json,
    ):
        add(built)
    return built


def test_the_defaults_are_those_of_the_paper() -> None:
    """Sampling follows the paper where nothing is said."""
    args = parser().parse_args([])
    assert (args.samples, args.temperatures, args.seed) == (64, (0.4, 0.7, 1.0), 0)
    assert (args.lm, args.guardian, args.tasks) == ("embedded", "gated", None)
    assert args.max_iterations is args.max_tokens_total is args.max_usd is args.max_minutes is None


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--samples", "0"], "--samples: expected a whole number from 1 on, got '0'"),
        (["--samples", "many"], "--samples: expected a whole number from 1 on, got 'many'"),
        (["--seed", "-1"], "--seed: expected"),
        (["--max-minutes", "nan"], "--max-minutes: expected a number above 0, got 'nan'"),
        (["--max-usd", "inf"], "--max-usd: expected a number above 0"),
        (["--temperatures", "0.4,,1"], "--temperatures: expected distinct numbers"),
        (["--temperatures", "0.4,0.4"], "--temperatures: expected distinct numbers"),
        (["--temperatures", "3"], "--temperatures: expected distinct numbers from 0 to 2"),
        (["--guardian", "angel"], "--guardian: invalid choice: 'angel'"),
        (["--sample", "3"], "unrecognized arguments: --sample 3"),
    ],
)
def test_a_bad_value_is_refused_in_one_line(argv: Sequence[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the option and what it accepts; nothing else is printed."""
    with pytest.raises(UsageError) as caught:
        parser().parse_args(argv)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert capsys.readouterr() == ("", "")


def test_temperatures_are_read_in_their_order() -> None:
    """The order given is the order sampled in."""
    assert options.temperatures("1.0,0.4") == (1.0, 0.4)
    with pytest.raises(argparse.ArgumentTypeError):
        options.temperatures("nan")


def raising(error: BaseException) -> Callable[[Sequence[str] | None], int]:
    def main(argv: Sequence[str] | None) -> int:
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (UsageError("x.yaml:3: unknown dtype"), 2, "pipeline.example: x.yaml:3: unknown dtype\n"),
        (LMUnavailable("no key"), 3, "pipeline.example: no key\n"),
        (KeyboardInterrupt(), 130, "pipeline.example: interrupted\n"),
    ],
)
def test_faults_become_a_message_and_an_exit_code(
    error: BaseException, code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a person can mend is told in a line on stderr, without a traceback."""
    assert run_command("pipeline.example", raising(error)) == code
    assert capsys.readouterr() == ("", told)


def test_a_fault_of_ours_keeps_its_traceback() -> None:
    """An exception that nobody foresaw is not dressed up as a user's mistake."""
    with pytest.raises(ZeroDivisionError):
        run_command("pipeline.example", raising(ZeroDivisionError()))


def test_a_warning_is_a_line_like_any_message() -> None:
    """Without the place in our code that warns, in a command that is a process's own."""
    code = (
        "import warnings; from pipeline.base.errors import start; start('pipeline.x', lambda _: warnings.warn('told'))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("", "pipeline.x: told\n")


def test_success_is_exit_code_zero() -> None:
    """The code that a command returns is the process's."""
    assert run_command("pipeline.example", lambda argv: Exit.NO) == 1
    assert run_command("pipeline.example", lambda argv: Exit.OK) == 0


def test_a_compiled_program_s_options_have_no_defaults() -> None:
    """So that a command can tell what was said from what was not; the others have the same in every command."""
    plain, compiled = options.Parser("a", "b"), options.Parser("a", "b")
    options.add_agent(plain)
    options.add_agent(compiled, compiled=True)
    assert vars(plain.parse_args([])) == {"guardian": "gated", "proposer": "predict", "refine": 0, "no_ir": False}
    assert set(vars(compiled.parse_args([])).values()) == {None}
    assert vars(compiled.parse_args(["--no-ir", "--refine", "2"]))["no_ir"] is True


def test_a_run_s_options_come_back_but_for_those_that_may_differ() -> None:
    """A contradiction is told with what the run has."""
    args = argparse.Namespace(samples=8, threads=4, max_usd=None)
    options.restore(args, {"samples": 64, "temperatures": [0.4, 1.0], "threads": 2, "max_usd": 5.0}, {"threads"})
    assert vars(args) == {"samples": 64, "temperatures": (0.4, 1.0), "threads": 4, "max_usd": 5.0}
    with pytest.raises(UsageError, match="--samples: the run to go on with has 16; leave the option out"):
        options.restore(args, {"samples": 16}, {"samples"})


def test_one_temperature_is_one_number() -> None:
    """From 0 to 2, as of several."""
    assert options.temperature("0.7") == 0.7
    for text in ("0.4,0.7", "3", ""):
        with pytest.raises(argparse.ArgumentTypeError):
            options.temperature(text)
