"""Names that a package loads when they are first asked for, so that nobody waits for, or needs, what isn't used."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

EXTRAS = {"PIL": "plots", "matplotlib": "plots", "diffrax": "references", "exponax": "references"}
"""The extra of `pip install 'seponet[...]'` that brings a package."""


def attach(package: str, homes: Mapping[str, Sequence[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package.

    **Arguments:**

    - `package`: its `__name__`.
    - `homes`: for each module of the package the names that it has; none if the module itself is meant.
    """
    modules = {name: module for module, names in homes.items() for name in names or [module]}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            home = importlib.import_module(f"{package}.{modules[name]}")
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing not in EXTRAS:
                raise
            raise ImportError(
                f"{package}.{name} needs {missing}, which is not installed: pip install 'seponet[{EXTRAS[missing]}]'"
            ) from error
        return getattr(home, name) if homes[modules[name]] else home

    return get, lambda: sorted({*vars(importlib.import_module(package)), *modules})
