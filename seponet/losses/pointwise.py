"""The physics loss, in flat memory.

The squared residuals of the interior and of every face are summed over slabs of points that fit in a cache, and
differentiated slab by slab; see `calculus/slabs.py`.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..calculus.basis_values import BasisValues, Weighted, requested_derivatives, weighted_locations
from ..calculus.collocation import Collocation
from ..calculus.evaluate import evaluate_term, fuse_term, known_parts
from ..calculus.model import Model
from ..calculus.slabs import Sweep, average
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
    causality: float = 0.0,
) -> Losses:
    """sum over terms e and functions f of weights[e, f] times the mean squared residual.

    **Arguments:**

    - `model`, `inputs`, `collocation`: whose residuals, for which functions, where.
    - `weights`: for each term of `model.problem.terms(model.exact)` and each function; not differentiated.
    - `slab`: how many points make a slab; None takes all at once.
    - `causality`: if positive, a row of the first axis counts exp(-causality * (relative loss of the rows before it))
        times: what happens later is learned once what happens earlier is (Wang et al. 2024). The first axis is then
        time, in ascending order.
    """
    terms = model.problem.terms(model.exact)
    where = collocation.where
    boundary = where if collocation.boundary is None else collocation.boundary
    features = model.basis_values(where, boundary, requested_derivatives(terms))
    coefficients = model.coefficients(model.encode(inputs))
    lifts = model.lifts(inputs)
    total, table = jnp.zeros(()), jnp.zeros_like(weights)
    for face in dict.fromkeys(term.face for term in terms):
        own = np.array([i for i, term in enumerate(terms) if term.face == face])
        causal = causality if face is None else 0.0
        sweep = Sweep([terms[i] for i in own], model, inputs, lifts, weights[own], slab, causal)
        places = weighted_locations(face, where if face is None else boundary)
        value, rows = sweep(coefficients, features[face], places, collocation.quadrature(face))
        total, table = total + value, table.at[own].set(rows)
    return Losses(total, table)


def lift_losses(
    model: Model, inputs: Mapping[str, Evaluable], collocation: Collocation, functions: int
) -> Float[Array, "terms functions"]:
    """The mean squared residuals of the lift alone, without the network: how much there is to do for each function."""
    terms = model.problem.terms(model.exact)
    lifts = model.lifts(inputs)
    made: list[Array] = []
    for term in terms:
        inside = term.face is None
        where = collocation.where if inside or collocation.boundary is None else collocation.boundary
        places = weighted_locations(term.face, where)
        nothing = _Nothing((functions, *places[0][1].shape), jnp.result_type(float))
        fused = fuse_term(term, nothing.values, places, inputs, nothing.dtype)
        known = known_parts(term, fused, places, inputs, lifts)
        coefficients = jnp.zeros((functions, 1), nothing.dtype)
        residual = evaluate_term(term, fused, known, model.problem.fields, coefficients, nothing)
        made.append(average(residual**2, collocation.quadrature(term.face)))
    return jnp.stack(made)


class _Nothing(eqx.Module):
    """The features of a model without a network."""

    values: tuple[int, ...] = eqx.field(static=True)
    dtype: Any = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values[1:]

    def contract(self, coefficients: Array, field: int, combination: Weighted) -> Array:
        return jnp.zeros(self.values, self.dtype)

    def flops(self, field: int, combination: Weighted) -> int:
        return 0

    def split(self, axis: int = 0) -> tuple[tuple[Array, ...], BasisValues]:
        return (), self

    def join(self, rows: tuple[Array, ...], axis: int = 0) -> BasisValues:
        return self
