"""Files that are replaced whole or not at all: a reader finds the old one or the new one, whenever a writer stops."""

import hashlib
import json
import os
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomli_w

HELD = (signal.SIGINT, signal.SIGTERM)

LIMIT = 2**26
"""Bytes that a description, a configuration or a report may have: far more than any of ours."""

DIGEST = "digest"


def read_file(path: Path, limit: int = LIMIT) -> bytes:
    """The content of a regular file; a pipe or a device, which might never end, and a file beyond `limit` are refused.

    An `OSError` is that of opening it, so that a file which is missing is known by its kind.
    """
    # A pipe without a writer would wait for one already when it is opened.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path} is not a regular file")
        if status.st_size > limit:
            raise ValueError(f"{path} has {status.st_size:,} bytes, and at most {limit:,} are read")
        return file.read(limit + 1)[:limit]


def read_text(path: Path, limit: int = LIMIT) -> str:
    """The text of a regular file, in UTF-8; see `read_file`."""
    try:
        return read_file(path, limit).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8 ({error})") from None


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


def write_record(path: Path, entries: Mapping[str, Any]) -> None:
    """Write entries as JSON for people and programs to read, with a digest of them as the last one."""
    write_text(path, json.dumps({**entries, DIGEST: record_digest(entries)}, indent=1, allow_nan=False) + "\n")


def read_record(path: Path) -> dict[str, Any]:
    """What `write_record` wrote, without the digest; a `ValueError` if that is another one than the entries'.

    Files of earlier versions have none, and are read as they are.
    """
    try:
        entries = json.loads(read_text(path))
        if not isinstance(entries, dict):
            raise ValueError(f"it holds a {type(entries).__name__} instead of entries")
        digest = entries.pop(DIGEST, None)
        if digest is not None and digest != record_digest(entries):
            raise ValueError("its digest is that of other entries")
    except RecursionError as error:
        raise ValueError(str(error)) from None
    return entries


def record_digest(entries: Mapping[str, Any]) -> str:
    """Of what entries say, whatever their layout; short, since it guards against damage and not against people."""
    return hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()[:16]


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
