"""Where the project's files lie."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
