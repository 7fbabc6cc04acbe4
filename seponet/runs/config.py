"""What a run is: a problem with its constants, a recipe and a seed. As a file it is `config.toml`."""

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._files import read_text, to_toml
from ..equations.problem import Problem
from ..operator.class_address import source_digest
from ..operator.trust import NOTHING, Trust
from ..problems import name_of
from ..training.recipe import Recipe, flat
from .problems import address_of, find_named, make_problem
from .recipes import load_recipe

KEYS = ("problem", "source", "recipe", "seed", "constants", "model", "train")


@dataclass(frozen=True)
class RunConfig:
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
        *,
        timed: bool = False,
    ) -> "RunConfig":
        """From names; `changes` are settings like `{"train.steps": 300, "constants.nu": 0.02}`. A run that is `timed`
        has a budget: as many steps as fit, unless `changes` say how many, or its schedule does not depend on them."""
        constants, settings = _split(changes or {})
        instance = make_problem(problem, constants)
        chosen = load_recipe(recipe, name_of(instance)).changed(settings)
        if timed and "train.steps" not in settings:
            chosen = chosen.timed()
        return cls(instance, chosen, seed, _label(recipe))

    @classmethod
    def read(
        cls,
        path: str | Path,
        seed: int | None = None,
        changes: Mapping[str, Any] | None = None,
        trust: Trust = NOTHING,
    ) -> "RunConfig":
        """From a `config.toml`, with another seed or other settings if they are given; `trust` says which code besides
        the package's may be used for the problem that it names."""
        return cls.parse(config_text(path), str(path), seed, changes, trust)

    @classmethod
    def parse(
        cls,
        text: str,
        path: str,
        seed: int | None = None,
        changes: Mapping[str, Any] | None = None,
        trust: Trust = NOTHING,
    ) -> "RunConfig":
        """From the text of a `config.toml`; `path` says in errors where it comes from."""
        content = parse_tables(text, path)
        constants, settings = _split(changes or {})
        return cls(
            find_named(content["problem"], {**content.get("constants", {}), **constants}, trust),
            Recipe.from_dict(_recipe_tables(content), str(path)).changed(settings),
            content.get("seed", 0) if seed is None else seed,
            content.get("recipe", "custom"),
        )

    @property
    def name(self) -> str:
        """The problem's registered name, or else that of its class."""
        return name_of(self.problem) or type(self.problem).__name__

    def to_dict(self) -> dict[str, Any]:
        constants = {f.name: getattr(self.problem, f.name) for f in dataclasses.fields(self.problem)}  # pyright: ignore[reportArgumentType]
        source = source_digest(type(self.problem))
        head = {"problem": address_of(self.problem), **({"source": source} if source else {})}
        return {**head, "recipe": self.label, "seed": self.seed, "constants": constants, **self.recipe.to_dict()}

    def to_toml(self) -> str:
        return to_toml(self.to_dict())

    def differences(self, text: str, path: str) -> list[str]:
        """What the `config.toml` of another run has different, in words; the label doesn't matter.

        The problem that it names is not looked up: its address, its constants and its source are compared.
        """
        mine, theirs = flat(self.to_dict()), flat(read_tables(text, path))
        # Earlier versions did not note the source.
        keys = [key for key in {**mine, **theirs} if key != "recipe" and (key != "source" or key in theirs)]
        different = [key for key in keys if mine.get(key) != theirs.get(key)]
        return [
            f"{key} = {theirs.get(key)!r} instead of {mine.get(key)!r}"
            if key != "source"
            else f"another source of {self.name} than {mine['problem']} has now"
            for key in different
        ]


def parse_tables(text: str, path: str) -> dict[str, Any]:
    """The tables of a `config.toml`; the problem that it names is not looked up."""
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None
    unknown = [key for key in content if key not in KEYS]
    if unknown or not isinstance(content.get("problem"), str):
        wrong = f"it has an unknown entry {unknown[0]!r}" if unknown else "it doesn't name its problem"
        raise ValueError(f"{path} is not the configuration of a run: {wrong}")
    if not isinstance(content.get("constants", {}), dict) or type(content.get("seed", 0)) is not int:
        raise ValueError(f"{path} is not the configuration of a run: constants must be a table, and seed a number")
    return content


def read_tables(text: str, path: str) -> dict[str, Any]:
    """What a `config.toml` says, with the defaults of what it leaves out; nothing that it names is imported."""
    tables = parse_tables(text, path)
    return {**tables, **Recipe.from_dict(_recipe_tables(tables), path).to_dict()}


def config_text(path: str | Path) -> str:
    """The text of a `config.toml`."""
    if not Path(path).exists():
        raise ValueError(f"there is no configuration {path}; a run folder has one, called config.toml")
    return read_text(Path(path))


def _label(recipe: str | Path | Recipe) -> str:
    """How a recipe is called in `config.toml`."""
    if isinstance(recipe, Recipe):
        return "custom"
    return recipe.stem if isinstance(recipe, Path) else recipe


def _recipe_tables(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: content[name] for name in ("model", "train") if name in content}


def _split(changes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Constants of the problem, and settings of the recipe."""
    prefix = "constants."
    constants = {key.removeprefix(prefix): value for key, value in changes.items() if key.startswith(prefix)}
    return constants, {key: value for key, value in changes.items() if not key.startswith(prefix)}
