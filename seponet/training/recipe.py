"""Recipes: what to train, as data. A recipe is a TOML file with the tables [model] and [train].

Values are checked by msgspec: it loads in 4 ms without dependencies (cattrs takes 70 ms, pydantic 60 ms) and knows
unions, mappings and literals. Its sentences are replaced by ours, which name the source and what came.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from .._text import nearest
from ..nn.config import ModelConfig
from .config import TrainConfig
from .flat_keys import PATHS, current_path, with_tables

HOLD = 0.4
"""The part of a run under a budget in which its rate is held: its length is known only then."""


@dataclass(frozen=True)
class Recipe:
    """A model and how to train it, as data: the tables `[model]` and `[train]` of a TOML file.

    **Arguments:**

    - `model`: what is made.
    - `train`: how it is trained.
    """

    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    @classmethod
    def from_dict(cls, tables: Mapping[str, Any], source: str = "the recipe") -> "Recipe":
        """Check every key and type; `source` says in errors where they come from.

        Flat keys of [train], as recipes had them before it had tables, are read too.
        """
        _known_keys(tables, ("model", "train"), source, "table")
        model, train = (_as_table(tables.get(name, {}), f"{source}, [{name}]") for name in ("model", "train"))
        train = with_tables(train, f"{source}, [train]")
        return cls(_make(ModelConfig, model, source, "model"), _make(TrainConfig, train, source, "train"))

    def to_dict(self) -> dict[str, Any]:
        """The tables, with every key that has a value."""
        return _plain(self)

    def timed(self) -> "Recipe":
        """With as many steps as fit into a budget, if the schedule has an end and nothing else depends on it."""
        optimizer = self.train.optimizer
        ends = optimizer.schedule == "cosine" and "steps" not in optimizer.schedule_options
        if not ends or self.train.rollout.windows > 1:
            return self
        hold = {"train.optimizer.schedule_options.hold": optimizer.hold or HOLD}
        return self.changed(hold).changed({"train.steps": "auto"})

    def changed(self, changes: Mapping[str, Any]) -> "Recipe":
        """With `{"train.steps": 300, "train.optimizer.rate": 1e-3}` and the like applied; a mapping for a table changes
        the settings that it names."""
        tables = self.to_dict()
        for key, value in changes.items():
            table, _, name = key.partition(".")
            if table not in tables or not name:
                raise ValueError(
                    f"a setting is written model.<key> or train.<key>, for instance train.steps; got {key!r}"
                )
            path = tuple(name.split("."))
            _set(tables[table], current_path(path, value) if table == "train" else path, value)
        return Recipe.from_dict(tables, "the settings")


def _set(table: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    *parents, name = path
    for parent in parents:
        if not isinstance(table.get(parent), dict):
            table[parent] = {}
        table = table[parent]
    if not parents and isinstance(value, Mapping) and _is_table(name):
        table[name] = {**table.get(name, {}), **value}
    else:
        table[name] = value


def _is_table(name: str) -> bool:
    return dataclasses.is_dataclass(typing.get_type_hints(TrainConfig).get(name))


def _make(kind: type, settings: Mapping[str, Any], source: str, path: str) -> Any:
    """A configuration from the settings of the table `path`."""
    hints = typing.get_type_hints(kind)
    where = f"{source}, [{path}]"
    _known_keys(settings, tuple(hints), where, "setting", PATHS if kind is TrainConfig else {})
    values: dict[str, Any] = {}
    for name, value in settings.items():
        if dataclasses.is_dataclass(hints[name]):
            inner = _as_table(value, f"{source}, [{path}.{name}]")
            values[name] = _make(hints[name], inner, source, f"{path}.{name}")
            continue
        try:
            values[name] = msgspec.convert(value, hints[name])
        except msgspec.ValidationError:
            raise ValueError(f"{where}: {name} must be {_in_words(hints[name])}; got {value!r}") from None
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _as_table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} must be a table of settings; got {value!r}")
    return value


def _in_words(hint: Any) -> str:
    """A type as an error names it: "int or "auto" or a table of int"."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_in_words(argument) for argument in arguments if argument is not type(None))
    if origin is Literal:
        return " or ".join(f'"{value}"' for value in arguments)
    if origin is tuple:
        return f"a list of {_in_words(arguments[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a table" if arguments[1] is Any else f"a table of {_in_words(arguments[1])}"
    return hint.__name__


def _known_keys(
    table: Mapping[str, Any], known: tuple[str, ...], source: str, what: str, moved: Mapping[str, str] | None = None
) -> None:
    """Refuse a key that is not known, with the nearest one that is; `moved` are keys that stand elsewhere now."""
    now = {**(moved or {}), **{name: name for name in known}}
    for key in table:
        if key not in known:
            near = nearest(key, now)
            hint = f" (did you mean {now[near]!r}?)" if near else f"; known are {', '.join(known)}"
            raise ValueError(f"{source} has an unknown {what} {key!r}{hint}")


def _plain(value: Any) -> Any:
    """Configurations and mappings as tables, tuples as lists; settings that are None are left out."""
    if dataclasses.is_dataclass(value):
        entries = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {name: _plain(entry) for name, entry in entries.items() if entry is not None}
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    return list(value) if isinstance(value, tuple) else value


def flat(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, with keys like "train.optimizer.rate"."""
    entries: dict[str, Any] = {}
    for key, value in tables.items():
        name = f"{prefix}{key}"
        entries |= flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return entries
