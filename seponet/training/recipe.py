"""Recipes: what to train, as data. A recipe is a TOML file with the tables [model] and [train]."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from .._text import did_you_mean
from ..nn.config import ModelConfig
from .config import TrainConfig


@dataclass(frozen=True)
class Recipe:
    """A model and how to train it."""

    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    @classmethod
    def from_dict(cls, tables: Mapping[str, Any], source: str = "the recipe") -> "Recipe":
        """Check every key and type; `source` says in errors where they come from."""
        _known_keys(tables, ("model", "train"), source, "table")
        return cls(
            _make(ModelConfig, tables.get("model", {}), f"{source}, [model]"),
            _make(TrainConfig, tables.get("train", {}), f"{source}, [train]"),
        )

    def to_dict(self) -> dict[str, Any]:
        return {"model": _plain(self.model), "train": _plain(self.train)}

    def changed(self, changes: Mapping[str, Any]) -> "Recipe":
        """With `{"train.steps": 300}` and the like applied."""
        tables = self.to_dict()
        for key, value in changes.items():
            table, _, name = key.partition(".")
            if table not in tables or not name:
                raise ValueError(
                    f"a setting is written model.<key> or train.<key>, for instance train.steps; got {key!r}"
                )
            head, _, tail = name.partition(".")
            if tail:
                inner = tables[table].get(head)
                tables[table][head] = {**(inner if isinstance(inner, dict) else {}), tail: value}
            else:
                tables[table][head] = value
        return Recipe.from_dict(tables, "the settings")


def _make(kind: type, table: Any, source: str) -> Any:
    if not isinstance(table, Mapping):
        raise ValueError(f"{source} must be a table of settings; got {table!r}")
    fields = {f.name: f for f in dataclasses.fields(kind)}
    _known_keys(table, tuple(fields), source, "setting")
    values: dict[str, Any] = {}
    for name, value in table.items():
        kind_of = fields[name].type
        annotation = kind_of.__name__ if isinstance(kind_of, type) else str(kind_of)
        values[name] = _check_type(f"{source}: {name}", value, annotation)
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def _check_type(name: str, value: Any, annotation: str) -> Any:
    """A value as TOML or the command line gives it, as the setting wants it."""
    if isinstance(value, Mapping) and "Mapping" in annotation:
        return dict(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if annotation == "bool":
        fits = isinstance(value, bool)
    elif annotation.startswith("int"):
        fits = (number and isinstance(value, int)) or (value == "auto" and "str" in annotation)
    elif annotation.startswith("float"):
        fits = number
    elif isinstance(value, list | tuple):
        fits = "tuple" in annotation
    else:
        fits = isinstance(value, str) or value is None
    if not fits:
        raise ValueError(f"{name} must be {annotation}; got {value!r}")
    if annotation.startswith("float") and number:
        return 1.0 * cast("float", value)
    return tuple(value) if isinstance(value, list | tuple) else value


def _known_keys(table: Mapping[str, Any], known: tuple[str, ...], source: str, what: str) -> None:
    for key in table:
        if key not in known:
            hint = did_you_mean(key, known) or f"; known are {', '.join(known)}"
            raise ValueError(f"{source} has an unknown {what} {key!r}{hint}")


def _plain(config: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for f in dataclasses.fields(config):
        value = getattr(config, f.name)
        if value is not None:
            made[f.name] = (
                dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
            )
    return made


def flat(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, with keys like "train.steps"."""
    made: dict[str, Any] = {}
    for key, value in tables.items():
        name = f"{prefix}{key}"
        made |= flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return made
