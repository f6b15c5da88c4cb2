"""The MLflow record of a run: written as it goes, resumed, read back."""
