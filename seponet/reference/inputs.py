"""Input functions as the solvers take them."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ..domain import MultiIndex
from ..functions import Functions
from ..locations import Grid
from .arguments import double_precision


def as_callable(functions: Functions, alpha: MultiIndex = ()) -> Callable[..., np.ndarray]:
    """The derivative `alpha` of a batch as a callable of the points along each of its axes, in float64."""

    def evaluate(*points: np.ndarray) -> np.ndarray:
        with double_precision():
            exact = jax.tree.map(lambda leaf: jnp.asarray(leaf, np.float64), functions)
            grid = Grid(functions.space.domain.names, tuple(jnp.asarray(p, np.float64) for p in points))
            return np.asarray(exact(grid, alpha))

    return evaluate
