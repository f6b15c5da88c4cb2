"""Imported by the server of worker processes before it forks them: what judges, without the garbage collector.

Collections while torch is imported find nothing to free and take a sixth of the import's time; what it leaves is kept
out of later ones, so that workers share its pages.
"""

import gc

gc.disable()
import step_runtime  # noqa: E402
import step_runtime.verification.doubts  # noqa: E402
import step_runtime.verification.explain  # noqa: E402
import step_runtime.verification.held_out  # noqa: E402, F401

gc.freeze()
gc.enable()
