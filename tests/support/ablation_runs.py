"""Ablations of the scripted agent."""

from pathlib import Path
from typing import Any

from pipeline import ablate as command
from pipeline.base.errors import run_command
from pipeline.record import store


def run(*argv: str) -> int:
    return run_command(command.NAME, command.main, argv)


def options(folder: Path, page: Path) -> list[str]:
    return ["--tasks", str(folder), "--lm", "scripted", "--samples", "4", "--threads", "2", "-o", str(page)]


def recorded() -> list[Any]:
    client, experiment = store.open_store()
    runs = client.search_runs([experiment], order_by=["attributes.start_time ASC"])
    return [run for run in runs if run.data.params.get("sweep", "").startswith("ablation ")]
