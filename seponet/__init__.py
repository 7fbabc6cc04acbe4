"""Physics-informed operator learning with separable networks: write a PDE once, learn its solution operator."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import functions as functions
    from . import nn as nn
    from . import problems as problems
    from .domain import Domain as Domain
    from .domain import Interval as Interval
    from .domain import Periodic as Periodic
    from .equations.conditions import Derivative as Derivative
    from .equations.conditions import Residual as Residual
    from .equations.conditions import Robin as Robin
    from .equations.conditions import Value as Value
    from .equations.problem import Problem as Problem
    from .locations import Grid as Grid
    from .locations import Points as Points
    from .operator.operator import Operator as Operator
    from .operator.operator import load as load
    from .runs.train import train as train

__version__ = "0.1.0"

# Loaded when first asked for, so that `seponet --help` does not wait for JAX.
_MODULES = ("functions", "nn", "problems")
_HOMES = {
    "Derivative": "equations.conditions",
    "Domain": "domain",
    "Grid": "locations",
    "Interval": "domain",
    "Operator": "operator.operator",
    "Periodic": "domain",
    "Points": "locations",
    "Problem": "equations.problem",
    "Residual": "equations.conditions",
    "Robin": "equations.conditions",
    "Value": "equations.conditions",
    "load": "operator.operator",
    "train": "runs.train",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_HOMES})
