"""What commands write: tables and sentences for people, JSON for machines."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from .._text import plain

NOT_REACHED = 3
"""The exit code of an answer that is less accurate than was asked for, or than anyone would want."""


def write_json(content: Any) -> None:
    sys.stdout.write(json.dumps(plain(content), indent=1, allow_nan=False) + "\n")


def write_line(text: str) -> None:
    sys.stdout.write(text + "\n")


def write_table(title: str, columns: Sequence[str] | None, rows: Sequence[Sequence[str]]) -> None:
    """A table on standard output; as wide as it needs to be where that is not a terminal."""
    headed = columns is not None
    table = Table(show_header=headed, box=None, pad_edge=False)
    for column in columns or [""] * len(rows[0]):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=200)
    console.print(title, style="bold")
    console.print(table)
