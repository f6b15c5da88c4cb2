"""The command-line options that several commands share, each said once, and the values they accept.

A bad value ends the command with one line on stderr (exit code 2); the usage text is for `--help` only.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NoReturn

from pipeline.base.errors import UsageError

GUARDIANS = ("gated", "paper", "compiler", "none")
PROPOSERS = ("predict", "cot", "react")
SEARCH = "search"
"""No proposer of the agent's but classical synthesis, in its place."""
FREE_ON_RESUME = {
    *("api_base", "timeout", "batch_n", "threads", "verdict_cache"),
    *("max_iterations", "max_tokens_total", "max_usd", "max_minutes"),
}
_ABSENT = object()


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are `UsageError`s of one line."""

    def __init__(self, prog: str, description: str, epilog: str | None = None) -> None:
        super().__init__(
            prog=f"python -m {prog}",
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        """Raises `UsageError`, where argparse would print the usage and exit."""
        raise UsageError(f"{message} (--help shows the options)")


def at_least(minimum: int) -> Callable[[str], int]:
    """A converter for whole numbers from `minimum` on."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if value < minimum:
            raise argparse.ArgumentTypeError(f"expected a whole number from {minimum} on, got {text!r}")
        return value

    return convert


def one_of(known: Sequence[str], elsewhere: Mapping[str, str]) -> Callable[[str], str]:
    """A converter for one of some words; `elsewhere` tells of words that only other commands know."""

    def convert(text: str) -> str:
        if text not in known:
            reason = f" ({elsewhere[text]})" if text in elsewhere else ""
            raise argparse.ArgumentTypeError(f"expected one of {', '.join(known)}, got {text!r}{reason}")
        return text

    return convert


def positive(text: str) -> float:
    """A converter for finite numbers above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return value


def temperature(text: str) -> float:
    """A converter for one sampling temperature, from 0 to 2."""
    values = temperatures(text)
    if len(values) > 1:
        raise argparse.ArgumentTypeError(f"expected one number from 0 to 2, got {text!r}")
    return values[0]


def temperatures(text: str) -> tuple[float, ...]:
    """A converter for distinct sampling temperatures, `0.4,0.7,1.0`; each from 0 to 2."""
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = ()
    if not values or len(set(values)) < len(values) or not all(0 <= value <= 2 for value in values):
        raise argparse.ArgumentTypeError(f"expected distinct numbers from 0 to 2 with commas between, got {text!r}")
    return values


def writable_file(text: str) -> str:
    """A converter for the path of a file, which is there or not; its folder is."""
    path = Path(text)
    folder = path.absolute().parent
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {folder}")
    if (path.exists() and not path.is_file()) or not os.access(folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"can't write the file {path}")
    return text


def writable_folder(text: str) -> str:
    """A converter for the path of a folder, which is there or can be made."""
    path = Path(text).absolute()
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    if not existing.is_dir():
        raise argparse.ArgumentTypeError(f"{existing} is no folder")
    if not os.access(existing, os.W_OK):
        raise argparse.ArgumentTypeError(f"can't write to the folder {existing}")
    return text


def add_lm(parser: argparse.ArgumentParser, default: str | None = "embedded", *, several: bool = False) -> None:
    """Which LM writes the programs, or which `several` do; without a default it is the compiled program's."""
    group = parser.add_argument_group("the LM")
    told = default or "the one that the program was compiled with, else embedded"
    group.add_argument(
        "--lm",
        metavar="MODEL",
        nargs="+" if several else None,
        default=[default] if several else default,
        help=f"a DSPy/LiteLLM model string such as openai/gpt-4o, or `embedded`: offline, no key (default: {told})",
    )
    group.add_argument("--api-base", metavar="URL", help="the address of an OpenAI-compatible server")
    group.add_argument(
        "--max-tokens",
        metavar="N",
        type=at_least(1),
        default=4096,
        help="of an answer, thoughts included; what is cut off is counted (default: %(default)s)",
    )
    group.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=positive,
        default=600.0,
        help="without a byte of an answer; the request is then made again (default: %(default)g)",
    )
    group.add_argument(
        "--batch-n",
        metavar="N",
        type=at_least(1),
        default=1,
        help="answers that one request asks for, where the provider has `n`: the prompt is then paid once"
        " (default: %(default)s)",
    )


def of_lm(args: argparse.Namespace) -> dict[str, Any]:
    """The settings of `pipeline.lms.factory.make_lm` that the options name, beside the model and its address."""
    return {"max_tokens": args.max_tokens, "timeout": args.timeout, "n": args.batch_n}


def add_agent(parser: argparse.ArgumentParser, *, compiled: bool = False, proposers: Sequence[str] = PROPOSERS) -> None:
    """How the agent is made; a compiled program says so itself, and then there are no defaults."""
    told = "the agent (that of a compiled program is in its file)" if compiled else "the agent"
    group = parser.add_argument_group(told)
    group.add_argument(
        "--guardian",
        choices=GUARDIANS,
        default=None if compiled else "gated",
        help="what mends a proposal that reuses a stream: `gated`, the LM, asked where the exact check says so;"
        " `paper`, the LM, asked about every proposal; `compiler`, a pass without an LM; `none` (default: gated)",
    )
    group.add_argument(
        "--proposer",
        metavar=f"{{{','.join(proposers)}}}",
        type=one_of(proposers, {SEARCH: "it runs what it tries, and has no part in pass@k: see pipeline.generate"}),
        default=None if compiled else "predict",
        help="`predict`, a program at once; `cot`, with reasoning first; `react`, in turns with tools that check types"
        " and shapes and verify on solved examples"
        + ("; `search`, no proposer of the agent's: see below" if SEARCH in proposers else "")
        + " (default: predict)",
    )
    group.add_argument(
        "--refine",
        metavar="K",
        type=at_least(0),
        default=None if compiled else 0,
        help="let the LM repair a refused answer up to K times by what the verifier says; it stays one answer"
        " (default: 0)",
    )
    group.add_argument(
        "--no-ir",
        action="store_true",
        default=None if compiled else False,
        help="prompts in bare Python, without the structural IR: an ablation of the paper's",
    )


def add_tasks(parser: argparse.ArgumentParser) -> None:
    """Which tasks to work on."""
    parser.add_argument(
        "--tasks",
        metavar="PATH|GLOB",
        nargs="+",
        help="task files, folders, patterns, or benchmark names such as gemm/1 and 'bmm/*' (default: the benchmark)",
    )


def add_sampling(parser: argparse.ArgumentParser, *, learning: bool = True) -> None:
    """How answers are drawn, by an optimizer that learns or by a command that asks a program as it is."""
    group = parser.add_argument_group("sampling")
    often = "in an iteration" if learning else "at most"
    group.add_argument(
        "--samples",
        metavar="N",
        type=at_least(1),
        default=64,
        help=f"answers per task and temperature, {often} (default: %(default)s)",
    )
    group.add_argument(
        "--temperatures",
        metavar="T,T",
        type=temperatures,
        default=(0.4, 0.7, 1.0),
        help="sampling temperatures, with commas between (default: 0.4,0.7,1.0)",
    )
    if learning:
        group.add_argument(
            "--granularity",
            metavar="M",
            type=at_least(1),
            default=3,
            help="levels of difficulty that solved tasks are sorted into (default: %(default)s)",
        )
    group.add_argument(
        "--threads",
        metavar="N",
        type=at_least(1),
        help="answers drawn at a time; the results don't depend on it (default: 16; embedded: one a core)",
    )
    group.add_argument(
        "--seed",
        metavar="N",
        type=at_least(0),
        default=0,
        help=f"the same seed gives the same {'run' if learning else 'answers'} (default: %(default)s)",
    )


def add_tuning(parser: argparse.ArgumentParser) -> None:
    """What only some optimizers need."""
    group = parser.add_argument_group("what only some optimizers need")
    group.add_argument(
        "--reflection-lm",
        metavar="MODEL",
        help="the LM by which `mipro`, `simba` and `gepa` write instructions (default: that of --lm)",
    )
    group.add_argument(
        "--validation",
        metavar="PATH|GLOB",
        nargs="+",
        help="the tasks by which `random-search`, `mipro` and `gepa` choose among programs (default: those of --tasks),"
        " and `adaptive` the level of its demonstrations (default: the hardest)",
    )


def add_budget(parser: argparse.ArgumentParser, *, learning: bool = True) -> None:
    """When to stop although tasks are unsolved; the answers until then are kept."""
    group = parser.add_argument_group("budget (none by default; a run that reaches one ends with what it has)")
    if learning:
        group.add_argument("--max-iterations", metavar="N", type=at_least(1))
    group.add_argument(
        "--max-tokens-total", metavar="N", type=at_least(1), help="prompt and completion tokens together"
    )
    group.add_argument("--max-usd", metavar="X", type=positive, help="needs an LM with a known price")
    group.add_argument("--max-minutes", metavar="X", type=positive)


def add_verdict_cache(parser: argparse.ArgumentParser) -> None:
    """Where verdicts are kept between runs."""
    parser.add_argument(
        "--verdict-cache",
        metavar="DIR",
        type=writable_folder,
        help="keep verdicts in this folder, and verify no program again that it knows; any number of runs may share it."
        " Not for tasks whose code reads what is not in their files (default: verdicts end with the run)",
    )


def add_earlier(parser: argparse.ArgumentParser) -> None:
    """Which run to go on with, or from."""
    group = parser.add_argument_group("earlier runs (RUN is an id, or the beginning of an id or of a run's name)")
    group.add_argument(
        "--resume",
        metavar="RUN",
        help="end a run that broke off, as if it never had: its own options and tasks, no answer on record asked for"
        " again; --threads, --api-base and the budget may differ",
    )
    group.add_argument(
        "--experience",
        metavar="RUN|FILE",
        help="begin with what a run learned (its experience.json), and ask only about the tasks that it did not solve",
    )


def given(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> set[str]:
    """The names of the options that are on a command line that the parser accepts, whatever their values."""
    bare = argparse.Namespace(**{action.dest: _ABSENT for action in parser._actions})
    parsed = vars(parser.parse_args(argv, namespace=bare))
    return {name for name, value in parsed.items() if value is not _ABSENT}


def restore(args: argparse.Namespace, recorded: Mapping[str, Any], given: Set[str]) -> None:
    """Sets the options to those of the run to go on with, but for those that may differ and were given.

    Raises:
        UsageError: an option that was given contradicts the run.
    """
    for name, plain in recorded.items():
        value = tuple(plain) if isinstance(plain, list) else plain
        if name in given and name not in FREE_ON_RESUME and getattr(args, name) != value:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option}: the run to go on with has {value}; leave the option out, or start a new run")
        if name not in given or name not in FREE_ON_RESUME:
            setattr(args, name, value)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Results for machines."""
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object on stdout")
