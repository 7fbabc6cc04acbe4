"""What a run is: a problem with its constants, a recipe and a seed. As a file it is `config.toml`."""

import dataclasses
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from .hints import did_you_mean
from .origin import Origin, import_file
from .problem import Problem
from .problems import find_problem, name_of
from .recipe import Recipe, flat, load_recipe
from .toml import to_toml

KEYS = ("problem", "recipe", "seed", "constants", "model", "train")


@dataclass(frozen=True)
class Specification:
    """All that a run depends on.

    **Arguments:**

    - `problem`, `recipe`, `seed`: what is trained, how, and from which random numbers.
    - `label`: the name of the recipe that `recipe` was made from, for readers.
    """

    problem: Problem
    recipe: Recipe
    seed: int = 0
    label: str = "quick"

    @classmethod
    def make(
        cls,
        problem: str | type[Problem] | Problem,
        recipe: str | Path | Recipe = "quick",
        seed: int = 0,
        changes: Mapping[str, Any] | None = None,
    ) -> "Specification":
        """From names; `changes` are settings like `{"train.steps": 300, "constants.nu": 0.02}`."""
        constants, settings = _split(changes or {})
        made = make_problem(problem, constants)
        label = recipe if isinstance(recipe, str) else recipe.stem if isinstance(recipe, Path) else "custom"
        return cls(made, load_recipe(recipe, name_of(made)).changed(settings), seed, label)

    @classmethod
    def read(
        cls, path: str | Path, seed: int | None = None, changes: Mapping[str, Any] | None = None
    ) -> "Specification":
        """From a `config.toml`, with another seed or other settings if they are given."""
        content = read_tables(path)
        tables = {name: content[name] for name in ("model", "train") if name in content}
        constants, settings = _split(changes or {})
        return cls(
            make_problem(content["problem"], {**content.get("constants", {}), **constants}),
            Recipe.from_dict(tables, str(path)).changed(settings),
            content.get("seed", 0) if seed is None else seed,
            content.get("recipe", "custom"),
        )

    @property
    def name(self) -> str:
        """The problem's registered name, or else that of its class."""
        return name_of(self.problem) or type(self.problem).__name__

    def to_dict(self) -> dict[str, Any]:
        constants = {f.name: getattr(self.problem, f.name) for f in dataclasses.fields(self.problem)}  # pyright: ignore[reportArgumentType]
        head = {"problem": address_of(self.problem), "recipe": self.label, "seed": self.seed}
        return {**head, "constants": constants, **self.recipe.to_dict()}

    def to_toml(self) -> str:
        return to_toml(self.to_dict())

    def differences(self, tables: Mapping[str, Any]) -> list[str]:
        """What the tables of another one have different, in words; the label doesn't matter."""
        mine, theirs = flat(self.to_dict()), flat(tables)
        keys = [key for key in {**mine, **theirs} if key != "recipe"]
        return [
            f"{key} = {theirs.get(key)!r} instead of {mine.get(key)!r}"
            for key in keys
            if mine.get(key) != theirs.get(key)
        ]


def read_tables(path: str | Path) -> dict[str, Any]:
    """The tables of a `config.toml`; the problem that it names is not looked up."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no configuration {path}; a run folder has one, called config.toml")
    try:
        content = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None
    unknown = [key for key in content if key not in KEYS]
    if unknown or not isinstance(content.get("problem"), str):
        wrong = f"it has an unknown entry {unknown[0]!r}" if unknown else "it doesn't name its problem"
        raise ValueError(f"{path} is not the configuration of a run: {wrong}")
    return content


def make_problem(problem: str | type[Problem] | Problem, constants: Mapping[str, Any] | None = None) -> Problem:
    """A problem by its registered name, as `path/to/file.py:ClassName`, as a class or as it is; with constants."""
    if isinstance(problem, str):
        file, colon, name = problem.rpartition(":")
        in_file = problem.endswith(".py") or file.endswith(".py")
        problem = _from_file(*((file, name) if colon else (problem, ""))) if in_file else find_problem(problem)
    known = {f.name: f for f in dataclasses.fields(problem)}  # pyright: ignore[reportArgumentType]
    given = dict(constants or {})
    for key, value in given.items():
        if key not in known:
            listed = ", ".join(known) or "none"
            raise ValueError(f"{_name(problem)} has no constant {key!r}{did_you_mean(key, known)}; it has {listed}")
        default = known[key].default
        numbers = isinstance(default, int | float) and not isinstance(default, bool)
        if numbers and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ValueError(f"constants.{key} must be a number; got {value!r}")
        given[key] = type(default)(value) if isinstance(default, float) else value
    if isinstance(problem, Problem):
        return dataclasses.replace(problem, **given) if given else problem  # pyright: ignore[reportArgumentType]
    missing = [n for n, f in known.items() if f.default is dataclasses.MISSING and n not in given]
    if missing:
        raise ValueError(f"{_name(problem)} needs the constants {', '.join(missing)}: set constants.{missing[0]}, ...")
    return problem(**given)


def address_of(problem: Problem) -> str:
    """A name or `path/to/file.py:ClassName` that `make_problem` finds the class by."""
    name = name_of(problem)
    if name is not None:
        return name
    origin = Origin.of(type(problem))
    return f"{origin.file}:{origin.name}"


def _from_file(file: str, name: str) -> type[Problem]:
    path = Path(file)
    if not path.is_file():
        raise ValueError(f"there is no file {path}; a problem is given as path/to/file.py:ClassName")
    module = _loaded(path) or import_file(path)
    here = {n: v for n, v in vars(module).items() if _is_problem(v) and v.__module__ == module.__name__}
    if not name and len(here) == 1:
        return next(iter(here.values()))
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not _is_problem(found):
        listed = ", ".join(here) or "none (a problem is a subclass of seponet.Problem)"
        what = f"no problem {name!r}" if name else "not exactly one problem"
        raise ValueError(f"{path} has {what}; its problems are {listed}")
    return found


def _loaded(path: Path) -> ModuleType | None:
    """The module of a file that this process has already, its main script for instance: it must not run twice."""
    path = path.resolve()
    files = {module: getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return next((module for module, file in files.items() if file and Path(file).resolve() == path), None)


def _is_problem(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Problem) and value is not Problem


def _name(problem: type[Problem] | Problem) -> str:
    return (problem if isinstance(problem, type) else type(problem)).__name__


def _split(changes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Constants of the problem, and settings of the recipe."""
    prefix = "constants."
    constants = {key.removeprefix(prefix): value for key, value in changes.items() if key.startswith(prefix)}
    return constants, {key: value for key, value in changes.items() if not key.startswith(prefix)}
