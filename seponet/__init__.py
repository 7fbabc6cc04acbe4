"""Physics-informed operator learning with separable networks: write a PDE once, learn its solution operator."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import functions, nn, plots, problems
    from .derivatives import multi_index
    from .domain import Domain, Interval, Periodic
    from .equations.conditions import Derivative, Residual, Robin, Value
    from .equations.problem import Derived, Problem
    from .functions.space import Functions
    from .locations import Grid, Points
    from .losses.supervised import Data
    from .nn.config import ModelConfig
    from .operator.evaluator import CompiledEvaluator
    from .operator.operator import Operator, load
    from .operator.refinement import Refined
    from .runs.train import train
    from .training.config import TrainConfig
    from .training.loop import Diverged
    from .training.recipe import Recipe

__version__ = "0.1.0"

__all__ = [
    "CompiledEvaluator",
    "Data",
    "Derivative",
    "Derived",
    "Diverged",
    "Domain",
    "Functions",
    "Grid",
    "Interval",
    "ModelConfig",
    "Operator",
    "Periodic",
    "Points",
    "Problem",
    "Recipe",
    "Refined",
    "Residual",
    "Robin",
    "TrainConfig",
    "Value",
    "functions",
    "load",
    "multi_index",
    "nn",
    "plots",
    "problems",
    "train",
]

# Loaded when first asked for, so that `seponet --help` does not wait for JAX.
_HOMES = {
    "CompiledEvaluator": "operator.evaluator",
    "Data": "losses.supervised",
    "Derivative": "equations.conditions",
    "Derived": "equations.problem",
    "Diverged": "training.loop",
    "Domain": "domain",
    "Functions": "functions.space",
    "Grid": "locations",
    "Interval": "domain",
    "ModelConfig": "nn.config",
    "Operator": "operator.operator",
    "Periodic": "domain",
    "Points": "locations",
    "Problem": "equations.problem",
    "Recipe": "training.recipe",
    "Refined": "operator.refinement",
    "Residual": "equations.conditions",
    "Robin": "equations.conditions",
    "TrainConfig": "training.config",
    "Value": "equations.conditions",
    "load": "operator.operator",
    "multi_index": "derivatives",
    "train": "runs.train",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    return importlib.import_module(f".{name}", __name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
