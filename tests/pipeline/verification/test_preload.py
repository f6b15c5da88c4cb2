"""The server of the workers has the language imported, and its garbage collector on."""

import subprocess
import sys

from tests.support.paths import PROJECT


def test_the_language_is_imported_and_frozen() -> None:
    """Workers that are forked find it, and collect what they make themselves."""
    facts = "'torch' in sys.modules, gc.isenabled(), gc.get_freeze_count() > 0"
    code = f"import gc, sys, pipeline.verification.preload; print({facts})"
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True"]
