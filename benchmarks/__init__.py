"""Measurements and searches that are too long for the test run; `python -m benchmarks.NAME --help` tells each."""
