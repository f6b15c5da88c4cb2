"""`python -m pipeline.mcp FOLDER`: the checks as tools for a coding agent, by the Model Context Protocol.

A client names task files below FOLDER and gives programs as text. They are judged, and a task's own code runs, in
isolated workers, with the limits given here. Nothing is written.
"""

from collections.abc import Sequence
from importlib.util import find_spec

from pipeline.base.errors import Exit, UsageError, require, start
from pipeline.base.languages import LanguageName
from pipeline.base.settings import Config, option
from pipeline.cli.options import Parser
from pipeline.verification.isolation.confinement import SandboxOptions
from pipeline.verification.limits import ProgramLimits

NAME = "pipeline.mcp"
EPILOG = """\
examples:
  python -m pipeline.mcp my_tasks/                     # a client starts this and speaks over stdin and stdout
  claude mcp add step -- python -m pipeline.mcp my_tasks/
  python -m pipeline.mcp kernels/ --language ttlang    # another language

tools: check, verify, examples. docs/mcp.md describes them.

exit codes: 0 the client ended the session, 2 a bad option or folder, 130 interrupted"""


class ServerOptions(Config):
    """The content of the server."""

    folder: str = option(..., "the folder with the task files that clients may name", "FOLDER", positional=True)
    program: str | None = option(None, "a compiled program, whose demonstrations are shown as examples", "FILE")
    language: LanguageName = None


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until the client ends the session, or Ctrl-C."""
    given = Parser(NAME, "Serves the checks as tools for coding agents (Model Context Protocol).", EPILOG,
                   ServerOptions, ProgramLimits, SandboxOptions).given(argv)  # fmt: skip
    options = ServerOptions.of(given)
    if find_spec("mcp") is None:
        raise UsageError("mcp is not installed; pip install 'adaptive-step[mcp]'")
    require("torch", "sympy", "numpy", "yaml", "dspy")
    import anyio

    from pipeline.mcp_server.server import opened
    from pipeline.mcp_server.workspace import Workspace

    with opened(Workspace(options.folder), ProgramLimits.of(given), options.program, options.language) as server:
        anyio.run(server.run_stdio_async)
    return Exit.OK


if __name__ == "__main__":
    start(NAME, main)
