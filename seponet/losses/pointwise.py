"""The physics loss, in flat memory.

The squared residuals of the interior and of every face are summed over slabs of points that fit in a cache, and
differentiated slab by slab; see `calculus/slabs.py`.
"""

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..calculus.assembly import Assembly
from ..calculus.collocation import Collocation
from ..calculus.model import Model
from ..calculus.slabs import sum_over_slabs, weighted_mean
from ..locations import Evaluable


class Losses(eqx.Module):
    """Mean squared residuals.

    - `total`: their weighted sum, which is differentiated.
    - `table`: of each term and function, `[terms, functions]`.
    """

    total: Float[Array, ""]
    table: Float[Array, "terms functions"]


def physics_loss(
    model: Model,
    inputs: Mapping[str, Evaluable],
    collocation: Collocation,
    weights: Float[Array, "terms functions"],
    slab: int | None = None,
) -> Losses:
    """sum over terms e and functions f of weights[e, f] times the mean squared residual.

    **Arguments:**

    - `model`, `inputs`, `collocation`: whose residuals, for which functions, where.
    - `weights`: for each term of `model.problem.terms(model.exact)` and each function; not differentiated.
    - `slab`: how many points make a slab; None takes all at once.
    """
    coefficients = model.coefficients(model.encode(inputs))
    assembly = Assembly(model, inputs, collocation, weights.shape[1])
    total, table = jnp.zeros(()), jnp.zeros_like(weights)
    for numbers in assembly.by_face():
        rows = np.array(numbers)
        pieces = [assembly.pieces[i] for i in numbers]
        value, squares = sum_over_slabs(pieces, coefficients, weights[rows], slab)
        total, table = total + value, table.at[rows].set(squares)
    return Losses(total, table)


def lift_losses(
    model: Model, inputs: Mapping[str, Evaluable], collocation: Collocation, functions: int
) -> Float[Array, "terms functions"]:
    """The mean squared residuals of the lift alone, without the network: how much there is to do for each function."""
    assembly = Assembly(model, inputs, collocation, functions, network=False)
    return jnp.stack([weighted_mean(piece.residual(None) ** 2, piece.quadrature) for piece in assembly.pieces])
