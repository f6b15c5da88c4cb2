"""`python -m pipeline COMMAND …`, or `adaptive-step COMMAND …` where the project is installed."""

from __future__ import annotations

import runpy
import sys

COMMANDS = {
    "compile": "optimize the agent on tasks",
    "evaluate": "measure a program: pass@k in total, by group and by class",
    "generate": "write verified programs for new tasks",
    "verify": "check one program against its task",
    "cost": "show the cost of a program on the chip",
    "optimize": "rewrite a program so that it costs less",
    "bundle": "put a program in a folder with all that a reviewer needs to trust it, and check it again",
    "report": "write the tables and figures of recorded runs",
    "ablate": "measure the contributions of the structural IR, the guardian and learning",
    "task": "write a PyTorch module as a task file",
    "sweep": "run every combination of settings",
    "language": "start a language of your own, and check its contract with the commands",
    "mcp": "serve the checks as tools for coding agents",
    "ui": "serve the record of the runs",
}


def run() -> None:
    """Runs the command that the first argument names; exits with its code."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in COMMANDS:
        sys.argv = [f"python -m pipeline.{name}", *sys.argv[2:]]
        runpy.run_module(f"pipeline.{name}", run_name="__main__", alter_sys=True)
        return
    width = max(map(len, COMMANDS))
    lines = [f"  {command:<{width}}  {what}" for command, what in COMMANDS.items()]
    usage = "\n".join(["usage: adaptive-step COMMAND …   (COMMAND --help shows its options)", "", *lines])
    if name in ("-h", "--help"):
        print(usage)
        sys.exit(0)
    print(f"adaptive-step: there is no command {name!r}; expected one of {', '.join(COMMANDS)}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    run()
