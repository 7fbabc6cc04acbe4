"""Physics-informed operator learning with separable networks: write a PDE once, learn its solution operator."""

from . import functions as functions
from . import nn as nn
from .conditions import Derivative as Derivative
from .conditions import Residual as Residual
from .conditions import Robin as Robin
from .conditions import Value as Value
from .domain import Domain as Domain
from .domain import Interval as Interval
from .domain import Periodic as Periodic
from .locations import Grid as Grid
from .locations import Points as Points
from .problem import Problem as Problem

__version__ = "0.1.0"
