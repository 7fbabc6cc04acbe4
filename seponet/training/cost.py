"""What a training step will cost, known before it runs: its products, counted by tracing.

Its memory is the compiler's own figure, `TrainStep.memory`: what is held at once is decided by the compiler's fusions
and its schedule, and a formula for these was up to five times wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp

from ..calculus.assembly import Assembly
from ..calculus.basis_values import requested_derivatives
from ..derivatives import order_along
from ..nn.model import OperatorNetwork
from .sampling import Sampler

ARRAY_BYTES = 1 << 20
"""What one array of a slab may take. With twice as much, 2-D nonlinear diffusion takes 1.2 times as long on a core with
1 MiB of cache of its own and Burgers' equation on 128^2 points 1.07 times, with half as much neither is faster."""

SLAB_BYTES = 13 << 20
"""What all arrays of a slab may take."""


@dataclass(frozen=True)
class StepCost:
    """The cost of one evaluation of the loss and its gradient.

    - `orders`: the highest derivative along each axis.
    - `contractions`: for each term the number of large products of coefficients and basis functions.
    - `flops`: floating point operations in those products, forward and backward; `flops_interior` those of equations.
    - `slab`: points in a slab.
    """

    orders: Mapping[str, int]
    contractions: Mapping[str, int]
    flops: int
    flops_interior: int
    slab: int

    def __str__(self) -> str:
        orders = ", ".join(f"{name} {n}" for name, n in self.orders.items())
        count = sum(self.contractions.values())
        return (
            f"{count} contractions a step, {self.flops / 1e9:.2f} GFLOP "
            f"in slabs of {self.slab} points (highest derivatives: {orders})"
        )


def estimate_cost(
    model: OperatorNetwork,
    functions: int,
    points: int | str | Mapping[str, int],
    slab: int = 0,
) -> StepCost:
    """The cost of a step for `functions` functions on `points` points along each axis. Nothing is computed.

    **Arguments:**

    - `model`: the model, whose problem is asked.
    - `functions`: functions in a batch.
    - `points`: points along each axis, a number or a mapping from axes.
    - `slab`: points in a slab; 0 chooses them.
    """
    functions = functions if model.problem.inputs else 1
    method = "stratified" if model.separable else "uniform"
    sampler = Sampler.of(model.problem.domain, points, method, not model.separable)
    terms = model.problem.terms(model.exact)
    request = requested_derivatives(terms)
    contractions: dict[str, int] = {}
    costs = {"flops": 0, "interior": 0}
    slab = slab or choose_slab(model, functions)

    def trace() -> None:
        collocation = sampler.draw(jax.random.key(0), sampler.density())
        inputs = model.problem.sample(jax.random.key(0), functions)
        for piece in Assembly(model, inputs, collocation, functions).pieces:
            contractions[piece.term.name] = len(piece.contractions())
            # Forward, and backward to the coefficients and to the basis functions.
            flops = 3 * functions * piece.flops()
            costs["flops"] += flops
            costs["interior"] += flops if piece.term.face is None else 0

    eqx.filter_eval_shape(trace)
    highest = {n: max(order_along(a, n) for alphas in request.values() for a in alphas) for n in model.problem.domain}
    return StepCost(highest, contractions, costs["flops"], costs["interior"], slab)


def choose_slab(model: OperatorNetwork, functions: int) -> int:
    """As many points as keep a slab in the cache: for each derivative in an equation the values of all functions, and
    the products of basis functions that the decoder lays out for them."""
    functions = functions if model.problem.inputs else 1
    item = jnp.result_type(float).itemsize
    derivatives = max(len(term.expression.fields) for term in model.problem.equations)
    array = max(functions, model.materialised_rank) * item
    return max(1, min(ARRAY_BYTES // array, SLAB_BYTES // ((functions + model.materialised_rank) * derivatives * item)))
