"""What a user writes: problems, their equations and conditions, and the symbols that these are made of."""

from .chart import Chart
from .conditions import Condition, Derivative, Residual, Robin, Value
from .expression import Expression
from .normal import Normal
from .problem import Derived, Problem
from .symbols import Symbol, Vocabulary
from .terms import Face, LinearCondition, Term

__all__ = [
    "Chart",
    "Condition",
    "Derivative",
    "Derived",
    "Expression",
    "Face",
    "LinearCondition",
    "Normal",
    "Problem",
    "Residual",
    "Robin",
    "Symbol",
    "Term",
    "Value",
    "Vocabulary",
]
