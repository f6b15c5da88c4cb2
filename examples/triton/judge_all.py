"""Judges all programs of the Triton language, on the processor or on a GPU, and says which verdicts are not as stated.

How to run: python examples/triton/judge_all.py [cpu | cuda]

It needs this checkout, torch, triton, numpy, pydantic and PyYAML, and no installed package of this project. On a GPU,
programs run with your rights; those of `attacks/` that run at all are therefore left out.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]
device = os.environ["ADAPTIVE_STEP_DEVICE"] = sys.argv[1] if sys.argv[1:] else "cpu"

from triton_language import TRITON  # noqa: E402


def main() -> int:
    """Prints a line for each program."""
    assert TRITON.device == device, f"expected one of {', '.join(TRITON.devices)}"
    print(f"triton language {TRITON.version}")
    tasks = {each.stem: TRITON.task(each.read_text(), each.stem, each.name) for each in TRITON.folder.glob("tasks/*")}
    wrong = 0
    for kind in ("oracles", "also", "same", "near-misses/parse", "near-misses/static", "near-misses/run",
                 "near-misses/value"):  # fmt: skip
        for path in sorted((TRITON.folder / kind).glob("*.triton")):
            start = time.monotonic()
            verdict = TRITON.judge(tasks[path.stem], path.read_text(), None)
            seconds = time.monotonic() - start
            expected = Path(kind).name if kind.startswith("near-misses") else None
            as_stated = verdict.stage == expected
            # Out of bounds is found by the interpreter alone: a GPU may read there, and then values tell, or nothing.
            undefined = device != "cpu" and expected == "run"
            wrong += not as_stated and not undefined
            why = "; ".join(f"{each.code}: {each.message[:90]}" for each in verdict.diagnostics[:1])
            mark = "ok " if as_stated else "?? " if undefined else "BAD"
            print(f"{mark} {kind}/{path.stem:12} {verdict.stage or 'passed':7} {seconds:6.2f} s  {why}", flush=True)
    for name, task in tasks.items():
        held = TRITON.hold_out(task, (TRITON.folder / f"oracles/{name}.triton").read_text(), 1)
        wrong += not held.passed
        print(f"{'ok ' if held.passed else 'BAD'} held out {name:12} {held.reason}", flush=True)
    print(f"{wrong} not as stated")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
