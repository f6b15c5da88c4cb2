"""Processes that run authors' code, held to limits from outside; their answers are data."""
