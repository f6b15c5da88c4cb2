"""The main job's wall time by part. Options are those of `pipeline.compile`; the record goes to a temporary store.

How to run: python -m benchmarks.compile --optimizer adaptive
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.parts import Parts, Place

START = time.perf_counter()


def places() -> Mapping[str, Sequence[Place]]:
    """What to measure, imported here so that the import's time counts."""
    import pipeline.running.job
    from optimizers import sampling
    from pipeline.cli.progress import ProgressDisplay
    from pipeline.lms.embedded.engine import EmbeddedEngine
    from pipeline.record.recorder import Recorder
    from pipeline.step.language import Step
    from pipeline.verification.metric import Metric
    from signatures import YAMLAdapter

    recording = ("run_started", "iteration_started", "sample_done", "iteration_finished", "run_finished", "close")
    return {
        "the embedded LM": [(EmbeddedEngine, "complete")],
        "adapter": [(YAMLAdapter, "format"), (YAMLAdapter, "parse")],
        "the guardian's gate": [(Step, "repaired")],
        "metric, waiting for verdicts": [(Metric, "__call__")],
        "DSPy, accounting": [(sampling.Sampler, "_ask")],
        "recording": [(Recorder, name) for name in recording],
        "simplifying solutions": [(pipeline.running.job, "simplified_solutions")],
        "progress": [(ProgressDisplay, "sample_done")],
    }


def main(arguments: Sequence[str]) -> int:
    """Runs the job, and prints seconds by part."""
    from pipeline import compile as command

    with tempfile.TemporaryDirectory() as folder:
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
        parts = Parts(time.perf_counter)
        watched = places()
        imported = time.perf_counter() - START
        with parts.watching(watched):
            code = command.main([*arguments, "-o", str(Path(folder, "program.json"))])
        total = time.perf_counter() - START
    print(f"wall time {total:.1f} s, of which {imported:.1f} s imports; by part, seconds summed over threads:")
    for part in watched:
        if parts.seconds[part]:
            print(f"{part:30} {parts.seconds[part]:8.1f}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
