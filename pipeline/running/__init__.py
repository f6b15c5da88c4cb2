"""Runs in progress: an LM session, an optimization on record, answers drawn until a task is solved."""
