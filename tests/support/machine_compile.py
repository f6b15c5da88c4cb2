"""`python -m pipeline.compile` on a scripted LM, as on a machine of its own, which a test can make wait.

    python -m tests.support.machine_compile FOLDER CALLS RETRIES [argument of the command]...

FOLDER keeps what a machine keeps. Its file `requests` gets a line a request; at request number CALLS (0: never) a file
`reached` appears, and every later request waits for a file `go`. A call to the store is tried RETRIES times more, half
a second apart.
"""

import itertools
import os
import sys
import time
from pathlib import Path
from unittest.mock import patch

import dspy
from dspy import lm15

from pipeline import compile as command
from pipeline.base.errors import start
from pipeline.lms import factory
from pipeline.record import store
from tests.support.answering_lm import Engine
from tests.support.unrendered import render_nothing


class Waiting(Engine):
    """Waits from one of its requests on."""

    def __init__(self, folder: Path, calls: int) -> None:
        super().__init__()
        self.log = os.open(folder / "requests", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.folder, self.last, self.numbers = folder, calls, itertools.count(1)

    def complete(self, request: lm15.Request) -> lm15.Response:
        if 0 < self.last <= next(self.numbers):
            (self.folder / "reached").touch()
            while not (self.folder / "go").exists():
                time.sleep(0.02)
        os.write(self.log, f"{request.config.seed}\n".encode())
        return super().complete(request)


if __name__ == "__main__":
    folder, calls, retries, *argv = sys.argv[1:]
    place = Path(folder)
    place.mkdir(exist_ok=True)
    scripted = dspy.LM("scripted", engine=Waiting(place, int(calls)), cache=False, num_retries=0)
    render_nothing()
    patch.object(factory, "make_lm", lambda model, api_base=None, **_: scripted).start()
    patch.multiple(store, MLRUNS=place / "mlruns", RETRY_SECONDS=(0.5,) * int(retries)).start()
    sys.argv[1:] = argv
    start(command.NAME, command.main)
