"""The servers of workers have what they take imported, and their garbage collectors on."""

import subprocess
import sys

from tests.support.paths import PROJECT


def test_the_language_is_imported_and_frozen() -> None:
    """Workers that are forked find it, and collect what they make themselves.

    Neither they nor the embedded LM's import DSPy, which would take seconds in every process.
    """
    facts = "'torch' in sys.modules, gc.isenabled(), gc.get_freeze_count() > 0, 'dspy' not in sys.modules"
    code = f"import gc, sys, pipeline.verification.preload, pipeline.lms.embedded.answering; print({facts})"
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 4
