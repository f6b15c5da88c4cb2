"""The main job against a server that fails and answers with attacks, for as many samples as asked.

How to run: python -m benchmarks.soak [--samples 3000] [option of pipeline.compile]...
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.support.soaking import soak


def main(arguments: list[str] | None = None) -> int:
    """Prints what was found; exit code 1 where a check fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=3000, help="in all (default: %(default)s)")
    options, extra = parser.parse_known_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder, here = Path(name), Path.cwd()
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
        os.environ["DSPY_CACHEDIR"] = str(folder / "cache")
        os.environ.setdefault("OPENAI_API_KEY", "none")
        os.chdir(folder)
        try:
            report = soak(options.samples, folder, extra)
        finally:
            os.chdir(here)
    print(report)
    return int(not all(report.checks.values()))


if __name__ == "__main__":
    sys.exit(main())
