"""TOML written, as far as configurations need it; the standard library reads it."""

import json
from collections.abc import Mapping
from typing import Any


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
