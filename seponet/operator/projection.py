"""Functions of any model as sums of classical ones: the nearest in L2."""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from .._program import compiled_briefly
from ..calculus.collocation import Nodes, make_collocation
from ..calculus.decoders import contract_axis
from ..calculus.evaluate import evaluate
from ..calculus.model import FixedCoefficients, Model
from ..discretise.discretisation import Discretisation
from ..equations.symbols import Symbol
from ..functions import Functions


def project(
    model: Model,
    discretisation: Discretisation,
    nodes: Nodes,
    inputs: Mapping[str, Functions],
    coefficients: Float[Array, "functions *_"],
) -> Float64[np.ndarray, "functions fields *_"]:
    """The coefficients of the functions of a discretisation that are nearest to the solutions of any model, in L2."""
    return np.asarray(_project(model, discretisation, nodes, dict(inputs), coefficients), np.float64)


@compiled_briefly
def _project(
    model: Model, discretisation: Discretisation, nodes: Nodes, inputs: Mapping[str, Functions], coefficients: Array
) -> Float[Array, "functions fields *_"]:
    collocation = make_collocation(discretisation, nodes)
    symbols = [Symbol("field", field) for field in model.problem.fields]
    count = coefficients.shape[0]
    zero = jnp.zeros((count, *discretisation.coefficient_shape()))
    ours = evaluate(FixedCoefficients(model, coefficients), inputs, collocation.where, symbols)
    lifts = evaluate(FixedCoefficients(discretisation, zero), inputs, collocation.where, symbols)
    fields = []
    for number, symbol in enumerate(symbols):
        values = jnp.moveaxis(jnp.broadcast_to(ours[symbol] - lifts[symbol], (count, *collocation.where.shape)), 0, -2)
        for axis, (bases, weights, points) in enumerate(
            zip(discretisation.bases, collocation.weights, collocation.where.points, strict=True)
        ):
            basis = bases[number]
            assert weights is not None
            table = basis(points, 0)[0] * weights[:, None] * basis.axis.length
            values = contract_axis(values, table, axis)
        fields.append(jnp.moveaxis(values, -2, 0))
    return jnp.stack(fields, axis=1)
