"""Measurements and searches that are too long for the test run; see `python -m benchmarks.NAME --help`."""
