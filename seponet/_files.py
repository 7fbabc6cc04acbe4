"""Files that are replaced whole or not at all: a reader finds the old one or the new one, whenever a writer stops."""

import os
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomli_w

HELD = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file to write to; it takes the place of `path` when the block ends, and is removed if that fails."""
    handle, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    fresh = Path(name)
    try:
        yield fresh
        with fresh.open("r+b") as file:
            os.fsync(file.fileno())
        fresh.chmod(0o666 & ~current_umask())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with replacing(path) as fresh:
        fresh.write_text(text, encoding="utf-8")


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C and a request to end wait until the block is done: its threads would go on writing what it left half."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python interrupts the main thread only.
        return
    came: list[int] = []
    before = {which: signal.signal(which, lambda which, _: came.append(which)) for which in HELD}
    try:
        yield
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)
        for which in dict.fromkeys(came):
            signal.raise_signal(which)


def current_umask() -> int:
    """The permissions that new files are denied; the only way to read them is to set them."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def to_toml(tables: Mapping[str, Any]) -> str:
    """A TOML document of these tables; `tomllib` reads it back."""
    try:
        return tomli_w.dumps(tables)
    except TypeError as error:
        raise ValueError(f"{error}: TOML can't hold that; use numbers, text and lists of them") from None
