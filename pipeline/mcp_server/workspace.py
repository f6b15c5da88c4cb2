"""The task files that a client may name: those below one folder, which the user names at the start."""

from __future__ import annotations

from pathlib import Path

from pipeline.base.errors import UsageError
from pipeline.base.text import natural_order, visible
from pipeline.verification.task_files import FUNCTIONS_SUFFIXES, TASK_SUFFIXES

_LISTED = 20
"""Names that an error lists at most."""
_LONGEST_NAME = 1000
"""Characters of a name that is looked up."""


class Workspace:
    """A folder with task files.

    Raises:
        UsageError: There is no such folder.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()
        if not self.folder.is_dir():
            raise UsageError(f"{folder}: expected a folder with task files")

    def names(self) -> list[str]:
        """The tasks by their paths below the folder, without suffix, sorted; links that lead out are left out."""
        return sorted(self._shown(), key=natural_order)

    def _shown(self) -> dict[str, Path]:
        found = [path for path in self.folder.rglob("*") if path.suffix in TASK_SUFFIXES and self._holds(path)]
        return {str(path.relative_to(self.folder).with_suffix("")): path for path in found}

    def path(self, name: str) -> Path:
        """The file of a task, named by its path below the folder, the suffix optional, as shown or not, or absolute.

        Raises:
            UsageError: There is no such task file below the folder.
        """
        if 0 < len(name) <= _LONGEST_NAME and "\0" not in name:
            for ending in ("", *TASK_SUFFIXES):
                path = self.folder / f"{name}{ending}"
                if path.name.endswith(TASK_SUFFIXES) and self._holds(path):
                    return path.resolve()
        shown = self._shown()
        if name in shown:
            return shown[name].resolve()
        known = sorted(shown, key=natural_order)
        listed = ", ".join(known[:_LISTED]) + (f" and {len(known) - _LISTED} more" if len(known) > _LISTED else "")
        raise UsageError(
            f"{visible(name[:100], line=True)}: no task file below {self.folder}; there are: {listed or 'none'}"
        )

    def _holds(self, path: Path) -> bool:
        """Whether a path is a task file that lies below the folder once its links are followed."""
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError):
            return False
        inside = target.is_relative_to(self.folder) and target.is_file()
        return inside and not path.name.endswith(FUNCTIONS_SUFFIXES)
