"""`python -m pipeline.mcp FOLDER`: the checks as tools for a coding agent, by the Model Context Protocol.

A client names task files below FOLDER and gives programs as text. Programs are parsed and never run; a task's own code
runs in isolated workers, with the limits given here. Nothing is written.
"""

import os
from collections.abc import Sequence

from pipeline.base.errors import Exit, UsageError, print_message, start
from pipeline.base.languages import LanguageName, step_only
from pipeline.base.settings import Config, Natural, Positive, option
from pipeline.cli.options import Parser
from pipeline.verification.limits import ProgramLimits
from pipeline.verification.sandbox import SandboxOptions

NAME = "pipeline.mcp"
TOKEN = "ADAPTIVE_STEP_MCP_TOKEN"
"""The environment variable with the token that HTTP requests must bring."""
EPILOG = f"""\
examples:
  python -m pipeline.mcp my_tasks/                     # a client starts this and speaks over stdin and stdout
  claude mcp add step -- python -m pipeline.mcp my_tasks/
  python -m pipeline.mcp my_tasks/ --http --port 8765  # HTTP, on this machine only

tools: check, verify, explain, cost, examples, generate. docs/mcp.md describes them.

With --http anyone who is logged in to this machine can use the tools, unless {TOKEN} is set: then each
request must bring `Authorization: Bearer` with its value.

exit codes: 0 the client ended the session, 2 a bad option or folder, 130 interrupted"""


class ServerOptions(Config):
    """The content and the transport of the server."""

    folder: str = option(..., "the folder with the task files that clients may name", "FOLDER", positional=True)
    language: LanguageName = None
    http: bool = option(False, "serve HTTP on 127.0.0.1 in place of stdin and stdout")
    port: Natural | None = option(None, "with --http, the port to listen on; 0 for a free one (default: 8765)", "N")
    program: str | None = option(
        None, "a compiled program, whose demonstrations are shown as examples, and which `generate` samples", "FILE"
    )
    max_minutes: Positive = option(2.0, "maximum time of a call of `generate`", "X")


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until the client ends the session, or Ctrl-C."""
    given = Parser(NAME, "Serves the checks as tools for coding agents (Model Context Protocol).", EPILOG,
                   ServerOptions, ProgramLimits, SandboxOptions).given(argv)  # fmt: skip
    options, limits = ServerOptions.of(given), ProgramLimits.of(given)
    if options.port is not None and not options.http:
        raise UsageError("--port: only --http listens on a port; add --http, or omit the option")

    step_only(options.language, NAME)
    try:
        from pipeline.mcp_server import server as serving
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("mcp", "mcp_types", "uvicorn", "starlette"):
            raise
        raise UsageError(f"{package} is not installed; pip install 'adaptive-step[mcp]'") from None
    from pipeline.mcp_server.workspace import Workspace

    serving.check_packages()
    pool = serving.new_pool(limits, options.language)
    # The default's modules are imported after the client's first words.
    server = serving.make_server(Workspace(options.folder), pool, limits, options.max_minutes, options.program)
    try:
        if options.http:
            port = 8765 if options.port is None else options.port
            serving.serve_http(server, port, os.environ.get(TOKEN), lambda line: print_message(NAME, line))
        else:
            serving.serve_stdio(server)
    finally:
        pool.close()
    return Exit.OK


if __name__ == "__main__":
    start(NAME, main)
