"""An LM that doubles alone and triples once it is shown how, and the command that compiles with it."""

from pipeline import compile as command
from pipeline.base.errors import run_command
from tests.support import answering_lm as answering


class Engine(answering.Engine):
    """Doubles alone, triples once it has seen a demonstration and never before, and can't halve."""

    def solves(self, task: str, shown: bool, turn: int) -> bool:
        return "'] * 2" in task or ("'] * 3" in task and shown)


def run(*argv: str) -> int:
    return run_command(command.NAME, command.main, ["--optimizer", *argv, "--samples", "2", "--threads", "2"])
