"""PyTorch modules as task files.

NAME is a function in the file, whose arguments are dims with two sizes or more each. It returns the module, then its
inputs:

  def mlp(N=(3, 5), D=(6, 10), F=(11, 7)):
      return nn.Sequential(nn.Linear(D, F), nn.GELU(), nn.Linear(F, D)), torch.randn(N, D)

For example:
  python -m pipeline.task my_layers.py:mlp -o mlp.yaml
  python -m pipeline.generate my_layers.py:mlp -o solved     # where a command takes a task file, it takes a module

Exit codes: 0 the task is written, 2 a bad option or file, or a module that is no task: the message names its line
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from pipeline.base.errors import Exit, UsageError, print_message, require, start
from pipeline.base.files import new_file, write_text
from pipeline.base.settings import Config, option
from pipeline.base.text import counted
from pipeline.cli.options import Parser, output_option

NAME = "pipeline.task"


class TaskOptions(Config):
    """The module, and where its task goes."""

    module: str = option(
        ...,
        "a file of Python code and a function in it, or a task file with `fns: auto`",
        "MODULE.py:NAME",
        positional=True,
    )
    output: str | None = output_option("where to write the task (default: stdout)", "FILE", new_file)


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the task; what the reader should know of it goes to stderr."""
    options = TaskOptions.of(
        Parser(
            NAME, "Writes a PyTorch module as a task.", str(__doc__).partition("\n\n")[2].strip(), TaskOptions
        ).given(argv)
    )
    require("torch", "sympy")

    from pipeline.modules.importing import complete, import_module
    from step_runtime.base.errors import TaskError

    try:
        found = import_module(options.module) if ".py:" in options.module else complete(Path(options.module))
    except TaskError as error:
        raise UsageError(str(error)) from None
    if options.output is None:
        sys.stdout.write(found.text)
    else:
        write_text(Path(options.output), found.text)
    shared = counted(len(found.task.fns) - len(found.derived), "function")
    differs = f"; differs from the module by {found.difference:.0e} at most" if found.difference is not None else ""
    print_message(NAME, f"{shared} of the catalogue{differs}")
    if found.derived:
        print_message(NAME, f"derived from operators, as the catalogue lacks them: {', '.join(found.derived)}")
    if found.missing:
        print_message(NAME, f"no function computes {', '.join(found.missing)}: write one, for programs need it")
    return Exit.OK


if __name__ == "__main__":
    start(NAME, main)
