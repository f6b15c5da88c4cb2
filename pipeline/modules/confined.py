"""A task file with `fns: auto` is taken apart in a process that has given up what a task's own code does not need.

How to run: python -m pipeline.modules.confined TASK SCRATCH (prints `Completed`, or an error, as JSON)
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from pydantic import BaseModel, ValidationError

from pipeline.base.errors import UsageError

MOST_SECONDS = 120
"""Of processor time."""
_MOST_BYTES = 16 << 20
"""What may be printed."""


class Completed(BaseModel):
    """A task's text with its functions, or an error; see `Imported`."""

    text: str = ""
    derived: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    error: str = ""


def completed(path: Path) -> Completed:
    """What the process prints.

    Raises:
        UsageError: The task can't be taken apart, or its code takes too long.
    """
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", __name__, str(path), scratch]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout
            text = process.stdout.read(_MOST_BYTES)
            process.kill()
    try:
        found = Completed.model_validate_json(text)
    except ValidationError:
        raise UsageError(f"{path}: its code ended the process, or took more than {MOST_SECONDS} s") from None
    if found.error:
        raise UsageError(found.error)
    return found


def main(path: Path, scratch: Path) -> Completed:
    """Confines this process for good, and takes the task apart."""
    from pipeline.modules.importing import taken_apart
    from pipeline.verification.isolation.confinement import Confinement, Sandbox
    from pipeline.verification.isolation.processes import end_with_parent
    from step_runtime.base.errors import TaskError

    end_with_parent()
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    Confinement(Sandbox()).enter(scratch, [str(path), str(path.absolute().parent)])
    try:
        return taken_apart(path)
    except (TaskError, UsageError) as error:
        cause = error.__cause__ if isinstance(error.__cause__, TaskError) else error
        return Completed(error=str(cause))


if __name__ == "__main__":
    sys.stdout.write(main(*map(Path, sys.argv[1:])).model_dump_json())
