"""Files that are replaced whole or not at all: a reader finds the old one or the new one, whenever a writer stops."""

import json
import os
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
    """A document whose mappings are tables; mappings inside of tables are written inline."""
    plain = {key: value for key, value in tables.items() if not isinstance(value, Mapping)}
    blocks = ["".join(_line(key, value) for key, value in plain.items())]
    for name, table in tables.items():
        if isinstance(table, Mapping):
            blocks.append(f"[{_key(name)}]\n" + "".join(_line(key, value) for key, value in table.items()))
    return "\n".join(block for block in blocks if block)


def _line(key: str, value: Any) -> str:
    return f"{_key(key)} = {_value(value)}\n"


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if bare else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        # JSON strings are TOML strings but for the escapes of DEL and of characters beyond the basic plane.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    raise ValueError(
        f"{value!r} is a {type(value).__name__}, which TOML can't hold; use numbers, text and lists of them"
    )
