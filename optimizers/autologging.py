"""MLflow's autologging patches `compile` of the optimizers that exist when it is switched on; this adds the later ones.

Invariants: MLflow is not imported; where its autologging is off, nothing happens; its settings stay as they are.
"""

from __future__ import annotations

import inspect
import logging
import sys

logger = logging.getLogger(__name__)


def join_autologging() -> None:
    """Has `mlflow.dspy.autolog` patch all optimizers once more, if it is on; to be called after defining one."""
    switches, flavor = sys.modules.get("mlflow.utils.autologging_utils"), sys.modules.get("mlflow.dspy")
    settings = getattr(switches, "AUTOLOGGING_INTEGRATIONS", {}).get("dspy")
    if flavor is None or not settings or settings.get("disable", True):
        return
    accepted = inspect.signature(flavor.autolog).parameters
    try:
        flavor.autolog(**{name: value for name, value in settings.items() if name in accepted})
    except Exception as error:  # such as an import in a thread that may not change DSPy's settings
        logger.warning("MLflow does not log this package's optimizers; call mlflow.dspy.autolog again: %s", error)
