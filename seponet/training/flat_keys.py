"""Recipes as they were written before [train] had tables of its own: all keys in one table, some of them gone since."""

from collections.abc import Mapping, Sequence
from typing import Any

PATHS = {
    "points": "sampling.points",
    "sampling": "sampling.method",
    "resample": "sampling.resample",
    "residual": "loss.residual",
    "smoothing": "loss.smoothing",
    "weights": "loss.weights",
    "normalise": "loss.normalise",
    "cap": "loss.cap",
    "balance": "loss.balance",
    "data_weight": "loss.data_weight",
    "optimizer": "optimizer.name",
    "optimizer_options": "optimizer.options",
    "rate": "optimizer.rate",
    "schedule": "optimizer.schedule",
    "schedule_options": "optimizer.schedule_options",
    "clip": "optimizer.clip",
    "windows": "rollout.windows",
    "pool": "rollout.pool",
    "accept": "rollout.accept",
    "ramp": "rollout.ramp",
    "finish": "polish",
}
"""Where a flat key of [train] stands now."""

REMOVED = {"average": 0.0, "causality": 0.0, "rows": 0}
"""Settings that are gone, with the value that switched them off: so they are ignored, otherwise refused.

No recipe used them; `rows` of a slab are counted in points now (`slab`).
"""

TABLES = ("sampling", "loss", "optimizer", "rollout")


def current_path(path: Sequence[str], value: Any) -> tuple[str, ...]:
    """The path of a setting below [train], if it is given by its flat key: ("rate",) -> ("optimizer", "rate").

    Two flat keys are names of tables now: `optimizer = "soap"`, and `sampling = "gauss"` or `{ t = "gauss", ... }`.
    """
    first, *rest = path
    is_table = first in TABLES and (bool(rest) or (isinstance(value, Mapping) and not _by_axis(first, value)))
    if first not in PATHS or is_table:
        return tuple(path)
    return (*PATHS[first].split("."), *rest)


def with_tables(settings: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The settings of [train] with flat keys put into the tables where they belong."""
    tables: dict[str, Any] = {}
    for key, value in settings.items():
        if key in REMOVED:
            if value != REMOVED[key]:
                raise ValueError(f"{source} sets {key!r}, which no recipe used and which is gone; leave it out")
            continue
        path = current_path((key,), value)
        entries = {path: value}
        if path == (key,) and key in TABLES:
            if not isinstance(value, Mapping):
                raise ValueError(f"{source}: {key} must be a table of settings; got {value!r}")
            entries = {(key, name): content for name, content in value.items()}
        for (*parents, name), content in entries.items():
            inside = tables.setdefault(parents[0], {}) if parents else tables
            if name in inside:
                raise ValueError(f"{source} sets {'.'.join([*parents, name])} twice, once as a flat key; keep one")
            inside[name] = content
    return tables


def _by_axis(key: str, value: Mapping[str, Any]) -> bool:
    """Whether a mapping under "sampling" says the method of each axis, as it did before it was a table."""
    names_no_setting = not {"points", "method", "resample"} & set(value)
    return key == "sampling" and bool(value) and names_no_setting and all(isinstance(v, str) for v in value.values())
