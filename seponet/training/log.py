"""The log of a training run, `metrics.jsonl`: a line for each block of steps."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._files import DIGEST, read_text, record_digest, write_text

logger = logging.getLogger(__name__)

METRICS = "metrics.jsonl"
LIMIT = 2**30
"""Bytes that a log may have."""


def append_entry(path: Path, entry: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(_line(entry))


def read_history(path: str | Path) -> list[dict[str, Any]]:
    """The entries in their order, up to the first line that is damaged, which is told.

    A last line that was cut off by a crash is left out; lines of earlier versions have no digest.
    """
    path = Path(path)
    entries: list[dict[str, Any]] = []
    lines = read_text(path, LIMIT).splitlines(keepends=True) if path.exists() else []
    for number, line in enumerate(lines, 1):
        entry = _entry(line)
        if entry is None:
            if line.endswith("\n"):
                logger.warning("%s is damaged in line %d, from which on it is left out", path, number)
            break
        entries.append(entry)
    return entries


def _line(entry: Mapping[str, Any]) -> str:
    return json.dumps({**entry, DIGEST: record_digest(entry)}) + "\n"


def _entry(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("step"), int):
        return None
    return entry if entry.pop(DIGEST, None) in (None, record_digest(entry)) else None


def forget_after(path: Path, step: int) -> None:
    """Drop what was logged after a step: it is done again."""
    if path.exists():
        kept = [entry for entry in read_history(path) if entry["step"] <= step]
        write_text(path, "".join(map(_line, kept)))
