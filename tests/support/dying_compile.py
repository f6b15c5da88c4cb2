"""`python -m pipeline.compile` on a scripted LM that writes its requests down, in a process that may kill itself.

    python -m tests.support.dying_compile LOG CALLS DELAY [argument of the command]...

LOG gets a line a request. After so many CALLS (0: never) and DELAY seconds more the process is killed by SIGKILL;
after no DELAY at all, before the last of these CALLS is answered.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path
from unittest.mock import patch

import dspy
from dspy import lm15

from pipeline import compile as command
from pipeline.base.errors import start
from pipeline.lms import factory
from tests.support.answering_lm import Engine
from tests.support.unrendered import render_nothing


class Dying(Engine):
    """Answers a little late, and counts down to its end."""

    def __init__(self, log: Path, calls: int, delay: float) -> None:
        super().__init__()
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.last, self.delay = calls, delay

    def complete(self, request: lm15.Request) -> lm15.Response:
        os.write(self.log, f"{request.config.seed}\n".encode())
        response = super().complete(request)
        if 0 < self.last <= self.calls:  # another thread may have counted on
            if not self.delay:
                os.kill(os.getpid(), signal.SIGKILL)
            threading.Timer(self.delay, os.kill, [os.getpid(), signal.SIGKILL]).start()
        time.sleep(0.004)
        return response


if __name__ == "__main__":
    log, calls, delay, *argv = sys.argv[1:]
    scripted = dspy.LM("scripted", engine=Dying(Path(log), int(calls), float(delay)), cache=False, num_retries=0)
    render_nothing()
    patch.object(factory, "make_lm", lambda model, api_base=None, **_: scripted).start()
    sys.argv[1:] = argv
    start(command.NAME, command.main)
