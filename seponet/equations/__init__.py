"""What a user writes: problems, their equations and conditions, and the symbols that these are made of."""

from .conditions import Condition, Derivative, Residual, Robin, Value
from .expression import Expression
from .problem import Derived, Problem
from .symbols import Symbol, Vocabulary
from .terms import Face, LinearCondition, Term

__all__ = [
    "Condition",
    "Derivative",
    "Derived",
    "Expression",
    "Face",
    "LinearCondition",
    "Problem",
    "Residual",
    "Robin",
    "Symbol",
    "Term",
    "Value",
    "Vocabulary",
]
