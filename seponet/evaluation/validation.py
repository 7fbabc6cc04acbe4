"""The error that is watched while a model is trained, on functions that are neither trained nor tested on."""

import logging

import jax.numpy as jnp
import numpy as np

from ..calculus.model import FixedCoefficients
from ..equations.problem import Problem
from ..nn.model import OperatorNetwork
from .errors import measure
from .testset import TestSet, find_testset

logger = logging.getLogger(__name__)

FUNCTIONS, POINTS = 20, 33
"""How many functions are validated on, and the most points along an axis."""


class Validation:
    """The mean relative error over a few functions on a coarse grid.

    **Arguments:**

    - `testset`: the functions and their solutions.
    """

    def __init__(self, testset: TestSet) -> None:
        self.testset = testset

    def __call__(self, model: OperatorNetwork) -> float:
        return float(np.mean(measure(model, self.testset).relative_l2))

    def of_lift(self, model: OperatorNetwork) -> float:
        """The error of the data of the exact conditions alone, which nothing had to be learned for."""
        nothing = FixedCoefficients(model, jnp.zeros((len(self.testset), *model.coefficient_shape())))
        return float(np.mean(measure(nothing, self.testset).relative_l2))


def find_validation(problem: Problem, tolerance: float = 0.0) -> Validation | None:
    """The validation of a problem: against its reference, or else against solutions of its own discretisation. None, as
    `find_testset` tells, if it has neither, or no inputs.

    **Arguments:**

    - `tolerance`: the error that is asked for; own solutions have a quarter of it. 0 asks for none.
    """
    if not problem.inputs:
        return None
    logger.info("solving %d functions to validate on, or reading them from the cache", FUNCTIONS)
    points = {name: _thin(values) for name, values in problem.grid().items()}
    testset = find_testset(problem, "validation", FUNCTIONS, points=points, tolerance=tolerance / 4 or None)
    return None if testset is None else Validation(testset)


def _thin(points: np.ndarray) -> np.ndarray:
    count = min(len(points), POINTS)
    return points[np.round(np.linspace(0, len(points) - 1, count)).astype(int)]
