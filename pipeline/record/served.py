"""A program as MLflow serves it. The class is pickled by value, so that DSPy and MLflow alone can load it."""

from __future__ import annotations

from typing import Any

import dspy
from mlflow.dspy.wrapper import DspyModelWrapper


class ServedProgram:
    """A program with the LM and the adapter that it was compiled with.

    MLflow's own wrapper has DSPy's settings, and `mlflow.dspy.load_model` makes them those of the process.
    """

    def __init__(self, program: dspy.Module, settings: dict[str, Any], output_schema: Any) -> None:
        self.model = program
        self._wrapper = DspyModelWrapper(program, settings)
        self._wrapper.output_schema = output_schema

    @property
    def dspy_settings(self) -> dict[str, Any]:
        """The settings with which MLflow's loader configures the process: those that it has."""
        return {"callbacks": dspy.settings.callbacks}

    def predict(self, inputs: Any, params: Any = None) -> Any:
        """The program's outputs for one input."""
        return self._wrapper.predict(inputs, params)

    def predict_stream(self, inputs: Any, params: Any = None) -> Any:
        """The same in pieces."""
        return self._wrapper.predict_stream(inputs, params)
