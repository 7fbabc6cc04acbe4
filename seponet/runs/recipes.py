"""The recipes that come with the package, and those in files of a user's."""

import tomllib
from pathlib import Path

from .._text import did_you_mean
from ..training.recipe import Recipe

PACKAGED = Path(__file__).parent.parent / "recipes"


def load_recipe(recipe: "str | Path | Recipe", problem: str | None = None) -> Recipe:
    """A recipe by name ("quick", "best", "paper": the one of the problem, else the general one) or from a file."""
    if isinstance(recipe, Recipe):
        return recipe
    name = str(recipe)
    candidates = [PACKAGED / problem / f"{name}.toml"] if problem else []
    candidates += [PACKAGED / f"{name}.toml", Path(name)]
    for path in candidates:
        if path.is_file() and path.suffix == ".toml":
            try:
                return Recipe.from_dict(tomllib.loads(path.read_text()), str(path.name))
            except tomllib.TOMLDecodeError as error:
                raise ValueError(f"{path} is not valid TOML: {error}") from None
    known = recipes_of(problem)
    hint = did_you_mean(name, known)
    raise ValueError(f"there is no recipe {name!r}{hint}; choose one of {', '.join(known)}, or give a .toml file")


def recipes_of(problem: str | None) -> list[str]:
    """The names of the packaged recipes for a problem."""
    special = {path.stem for path in (PACKAGED / problem).glob("*.toml")} if problem else set()
    return sorted(special | {path.stem for path in PACKAGED.glob("*.toml")})
