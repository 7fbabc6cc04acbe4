"""The log of a training run, `metrics.jsonl`: a line for each block of steps."""

import json
from pathlib import Path
from typing import Any

from .._files import read_text, write_text

METRICS = "metrics.jsonl"
LIMIT = 2**30
"""Bytes that a log may have."""


def append_entry(path: Path, entry: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(entry) + "\n")


def read_history(path: str | Path) -> list[dict[str, Any]]:
    """The entries in their order; a last line that was cut off by a crash is left out."""
    path = Path(path)
    entries: list[dict[str, Any]] = []
    for line in read_text(path, LIMIT).splitlines() if path.exists() else []:
        try:
            entry = json.loads(line)
        except ValueError:
            break
        if not isinstance(entry, dict) or not isinstance(entry.get("step"), int):
            break
        entries.append(entry)
    return entries


def forget_after(path: Path, step: int) -> None:
    """Drop what was logged after a step: it is done again."""
    if path.exists():
        kept = [entry for entry in read_history(path) if entry["step"] <= step]
        write_text(path, "".join(json.dumps(entry) + "\n" for entry in kept))
