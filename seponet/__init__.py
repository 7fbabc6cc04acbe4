"""Physics-informed operator learning with separable networks: write a PDE once, learn its solution operator."""

from typing import TYPE_CHECKING

from ._lazy import attach

if TYPE_CHECKING:
    from . import frozen, functions, maps, nn, plots, problems
    from .derivatives import multi_index
    from .domain import Domain, Interval, Periodic
    from .equations.conditions import Derivative, Residual, Robin, Value
    from .equations.normal import Normal
    from .equations.problem import Derived, Problem
    from .functions.space import Functions
    from .locations import Grid, Points
    from .losses.supervised import Data
    from .mapped import Mapped
    from .nn.config import ModelConfig
    from .operator.calibrate import NotCalibrated
    from .operator.estimate import Calibration, Ratios
    from .operator.evaluator import CompiledEvaluator
    from .operator.input_range import InputRange
    from .operator.operator import Operator, load
    from .operator.points import PointEvaluator
    from .runs.solve import solve
    from .runs.train import train
    from .training.config import (
        LossConfig,
        OptimizerConfig,
        RolloutConfig,
        SamplingConfig,
        TargetsConfig,
        TrainConfig,
    )
    from .training.diagnosis import Diverged
    from .training.recipe import Recipe
    from .vtk import write_vtk

__version__ = "0.2.0"

__all__ = [
    "Calibration",
    "CompiledEvaluator",
    "Data",
    "Derivative",
    "Derived",
    "Diverged",
    "Domain",
    "Functions",
    "Grid",
    "InputRange",
    "Interval",
    "LossConfig",
    "Mapped",
    "ModelConfig",
    "Normal",
    "NotCalibrated",
    "Operator",
    "OptimizerConfig",
    "Periodic",
    "PointEvaluator",
    "Points",
    "Problem",
    "Ratios",
    "Recipe",
    "Residual",
    "Robin",
    "RolloutConfig",
    "SamplingConfig",
    "TargetsConfig",
    "TrainConfig",
    "Value",
    "frozen",
    "functions",
    "load",
    "maps",
    "multi_index",
    "nn",
    "plots",
    "problems",
    "solve",
    "train",
    "write_vtk",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "frozen": [],
        "functions": [],
        "maps": [],
        "nn": [],
        "plots": [],
        "problems": [],
        "derivatives": ["multi_index"],
        "domain": ["Domain", "Interval", "Periodic"],
        "equations.conditions": ["Derivative", "Residual", "Robin", "Value"],
        "equations.normal": ["Normal"],
        "equations.problem": ["Derived", "Problem"],
        "functions.space": ["Functions"],
        "locations": ["Grid", "Points"],
        "mapped": ["Mapped"],
        "losses.supervised": ["Data"],
        "nn.config": ["ModelConfig"],
        "operator.calibrate": ["NotCalibrated"],
        "operator.estimate": ["Calibration", "Ratios"],
        "operator.evaluator": ["CompiledEvaluator"],
        "operator.input_range": ["InputRange"],
        "operator.operator": ["Operator", "load"],
        "operator.points": ["PointEvaluator"],
        "runs.solve": ["solve"],
        "runs.train": ["train"],
        "training.config": [
            "LossConfig",
            "OptimizerConfig",
            "RolloutConfig",
            "SamplingConfig",
            "TargetsConfig",
            "TrainConfig",
        ],
        "training.diagnosis": ["Diverged"],
        "training.recipe": ["Recipe"],
        "vtk": ["write_vtk"],
    },
)
