"""The work of the commands after their options are parsed; the import loads torch and DSPy."""
