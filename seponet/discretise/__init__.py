"""Discretisations: trial and test functions, quadrature, ranks for a tolerance; solving for given inputs."""

from .discretisation import Discretisation
from .resolution import Resolution, resolve
from .solve import Solution, solve_functions

__all__ = ["Discretisation", "Resolution", "Solution", "resolve", "solve_functions"]
