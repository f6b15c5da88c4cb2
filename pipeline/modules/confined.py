"""Completes a task file that has `fns: auto`, in a process that has given up all rights that its code does not need.

How to run: python -m pipeline.modules.confined TASK SCRATCH (prints `Completed`, or an error, as JSON)
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ValidationError

from pipeline.base.errors import UsageError

MOST_SECONDS = 120
"""By the clock."""
_MOST_BYTES = 16 << 20
"""What may be written to one file."""
_MOST_MEMORY = 8 << 30
"""Bytes of data."""


class Completed(BaseModel):
    """A task's text with its functions, or an error; see `Imported`."""

    text: str = ""
    derived: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    error: str = ""


def completed(path: Path) -> Completed:
    """The completed task.

    Raises:
        UsageError: The task can't be completed, or its code takes too long.
    """
    # A file, not a pipe: a process that the code has started may keep a pipe open.
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile() as printed:
        command = [sys.executable, "-m", __name__, str(path), scratch]
        process = subprocess.Popen(command, stdout=printed, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            with suppress(subprocess.TimeoutExpired):
                process.wait(MOST_SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        printed.seek(0)
        text = printed.read(_MOST_BYTES)
    try:
        found = Completed.model_validate_json(text)
    except ValidationError:
        raise UsageError(f"{path}: its code ended the process, or took more than {MOST_SECONDS} s") from None
    if found.error:
        raise UsageError(found.error)
    return found


def main(path: Path, scratch: Path) -> Completed:
    """Confines this process for good, and completes the task."""
    from pipeline.modules.importing import taken_apart
    from pipeline.verification.isolation.confinement import Confinement, Sandbox
    from pipeline.verification.isolation.processes import end_with_parent
    from step_runtime.base.errors import TaskError

    end_with_parent()
    limits = {"CPU": MOST_SECONDS, "FSIZE": _MOST_BYTES, "DATA": _MOST_MEMORY}
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    Confinement(Sandbox()).enter(scratch, [str(path), str(path.absolute().parent)])
    try:
        return taken_apart(path)
    except (TaskError, UsageError) as error:
        cause = error.__cause__ if isinstance(error.__cause__, TaskError) else error
        return Completed(error=str(cause))


if __name__ == "__main__":
    sys.stdout.write(main(*map(Path, sys.argv[1:])).model_dump_json())
