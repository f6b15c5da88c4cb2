"""Shared parts of the commands: options, progress display, summaries."""
