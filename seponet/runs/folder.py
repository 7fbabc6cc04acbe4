"""A run folder: what was asked for, what happened, and what came of it.

config.toml     all that is needed to do it again: `seponet train --config config.toml`
metrics.jsonl   losses and validation errors, a line for each block of steps
checkpoints/    the newest few and the best
operator/       the trained operator, for `seponet.load`
report.json     errors, residuals, time, memory, versions and machine
figures/        pictures
"""

import logging
import re
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from .._files import read_record, read_text, write_record, write_text
from .._lock import LOCK, locked
from ..operator.estimate import Calibration
from ..operator.saving import save_model
from ..training.checkpoints import Checkpoints
from ..training.log import METRICS, read_history

logger = logging.getLogger(__name__)

CONFIG, REPORT = "config.toml", "report.json"
FOLDERS = ("checkpoints", "operator", "figures")
LEFTOVER = re.compile(r"\.(config|report|metrics|operator|arrays|arrays-2|[0-9]+|lock)-\w+(\.\w+)?")
"""Temporary files of ours, which a process that was killed has left."""


class RunFolder:
    """The files of one run. Each is written whole or not at all, and a run is never replaced unless that is asked for.

    **Arguments:**

    - `path`: the folder; it need not exist.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def config(self) -> Path:
        return self.path / CONFIG

    @property
    def report(self) -> Path:
        return self.path / REPORT

    @property
    def operator(self) -> Path:
        return self.path / "operator"

    def lock(self) -> AbstractContextManager[None]:
        """The right to write; a run that another process is writing is refused."""
        return locked(self.path)

    def check_free(self, *, resume: bool = False, overwrite: bool = False) -> None:
        """Refuse a place where this run may not be written."""
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} is a file; choose a folder for the run")
        if not self.path.exists() or all(_is_ours(path) for path in self.path.iterdir()):
            return
        if not self.config.exists():
            raise ValueError(f"{self.path} holds other things than a run; choose another folder")
        if not (resume or overwrite):
            raise ValueError(
                f"{self.path} exists already; go on with it (resume), replace it (overwrite), or choose another folder"
            )

    def create(self, config: str) -> None:
        """Make the folder with its `config.toml`; the files of an earlier run are removed, and only those."""
        for name in (METRICS, REPORT):
            (self.path / name).unlink(missing_ok=True)
        for name in FOLDERS:
            shutil.rmtree(self.path / name, ignore_errors=True)
        self.path.mkdir(parents=True, exist_ok=True)
        write_text(self.config, config)

    def remove_leftovers(self) -> None:
        """Remove what a process that was killed has left half written; for whoever holds the lock."""
        folders = [self.path, *(self.path / name for name in FOLDERS)]
        for path in [path for folder in folders if folder.is_dir() for path in folder.iterdir()]:
            if path.name != LOCK and LEFTOVER.fullmatch(path.name):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def read_config(self) -> str | None:
        """The text of the configuration that the run was made with; None if there is no run.

        The checkpoints know it too, under a digest. If `config.toml` says something else, they are right: it has been
        damaged, or edited, and the run can only go on as it began.
        """
        if not self.config.exists():
            return None
        try:
            text, problem = read_text(self.config), None
        except ValueError as error:
            text, problem = "", error
        kept = Checkpoints(self.path / "checkpoints").configuration()
        if kept is None and problem is not None:
            raise problem
        if kept is not None and kept != text:
            logger.warning("%s is not what the checkpoints were made with, which counts", self.config)
            return kept
        return text

    @property
    def resumable(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        checkpoints = self.path / "checkpoints"
        if any(path.is_dir() for path in checkpoints.glob("[0-9]*")):
            raise ValueError(
                f"the checkpoints in {self.path} are those of an earlier version, in Orbax's format, which this one "
                "doesn't read; finish the run with that version, or replace it (overwrite)"
            )
        return self.config.exists() and any(checkpoints.glob("[0-9]*.npz"))

    def read_report(self) -> dict[str, Any]:
        """The report so far; empty if there is none."""
        if not self.report.exists():
            return {}
        try:
            return read_record(self.report)
        except ValueError as error:
            raise ValueError(f"{self.report} is damaged ({error}); remove it and evaluate again") from None

    def add_to_report(self, entries: Mapping[str, Any]) -> dict[str, Any]:
        """Write the report with `entries` added or replaced."""
        report = {**self.read_report(), **entries}
        write_record(self.report, report)
        return report

    def last_metrics(self) -> dict[str, Any]:
        """The last whole line of the metrics; empty if there is none."""
        entries = read_history(self.path / METRICS)
        return entries[-1] if entries else {}

    def save_operator(self, model: Any, calibration: Calibration | None = None) -> None:
        save_model(self.operator, model, overwrite=True, calibration=calibration)


def _is_ours(path: Path) -> bool:
    """Whether a file is a lock or a temporary file of ours, and so no part of anything."""
    return path.name == LOCK or LEFTOVER.fullmatch(path.name) is not None
