"""The MLflow record of a run: written during the run, resumed, and read back."""
