r"""One step of Newton's method on the coefficients of many functions, with matrices or with iterations.

A step is shortened where $|J^{-1} G|$ would grow (Deuflhard's natural monotonicity: a norm that no scaling of the
equation changes); with GMRES the averaged Jacobian P stands for J.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..calculus.collocation import Nodes
from .discretisation import Discretisation
from .gmres import gmres
from .norms import increment_norms, solution_norms
from .preconditioner import AbstractPreconditioner
from .test_functions import is_square
from .tested import TestedResiduals

LENGTHS = (1.0, 0.5, 0.25, 0.0625)
"""Parts of a Newton step that are tried."""

CONTRACTED = 0.5
"""The part of a step that may be left after it, for that to be believed."""

ITERATIONS, FORCING = 60, 1e-4
"""Iterations of GMRES, and the part of the residual that they may leave."""


class Step(NamedTuple):
    """One step of Newton's method.

    - `coefficients`: the next ones.
    - `moved`: the length of the whole step: the error of those before, to first order.
    - `left`: that of the next ones, if it is known, or the same.
    - `norms`: the L2 norms of the solutions.
    """

    coefficients: Float[Array, "functions fields *_"]
    moved: Float[Array, " functions"]
    left: Float[Array, " functions"]
    norms: Float[Array, " functions"]


def newton_step(
    discretisation: Discretisation,
    nodes: Nodes,
    inputs: Any,
    c: Float[Array, "functions fields *_"],
    target: Float[Array, "functions rows"] | None,
    preconditioner: AbstractPreconditioner | None,
    forcing: float | None = None,
    iterations: int | None = None,
) -> Step:
    """One step, in any precision.

    **Arguments:**

    - `target`: the rows that shall be reached; None are zeros.
    - `preconditioner`: for GMRES; None factorises the matrix of every function.
    - `forcing`, `iterations`: the part of the residual that GMRES may leave, and its most iterations; by default
        `FORCING` and `ITERATIONS`.
    """
    forcing, iterations = FORCING if forcing is None else forcing, ITERATIONS if iterations is None else iterations
    tested = TestedResiduals(discretisation, nodes, inputs, len(c))
    rows, slopes = tested.linearise(c)
    aim = jnp.zeros_like(rows) if target is None else target
    if preconditioner is None:
        invert = _factorised(discretisation, tested, slopes)
        delta = invert(rows - aim)
        stalled = jnp.zeros(len(c))
    else:
        invert = preconditioner.at(tested, slopes)

        def apply(flat: Array) -> Array:
            return invert(tested.push(slopes, flat.reshape(c.shape))).reshape(flat.shape)

        first = invert(rows - aim).reshape(len(c), -1)
        solved, left = gmres(apply, first, forcing, iterations)
        delta = solved.reshape(c.shape)
        # Iterations that stall make short steps far from a solution: then the residual itself is the measure.
        stalled = jnp.where(
            left > 10 * forcing, increment_norms(discretisation, inputs, nodes, first.reshape(c.shape)), 0.0
        )
    # Where the matrix is singular a function stays as it is, and its change is told as infinite.
    finite = jnp.all(jnp.isfinite(delta), axis=tuple(range(1, delta.ndim)))
    delta = jnp.where(finite.reshape(-1, *(1,) * (delta.ndim - 1)), delta, 0.0)

    def merit(length: Array) -> Array:
        return size(invert(tested(c - length * delta) - aim))

    def size(increment: Array) -> Array:
        return increment_norms(discretisation, inputs, nodes, increment)

    lengths = jnp.asarray(LENGTHS)
    merits = jax.lax.map(merit, lengths)
    merits = jnp.where(jnp.isfinite(merits), merits, jnp.inf)
    # The whole step unless a shorter one is clearly better.
    best = jnp.argmin(merits.at[0].multiply(0.7), axis=0)
    chosen = lengths[best]
    new = c - chosen.reshape(-1, *(1,) * (c.ndim - 1)) * delta
    moved = jnp.where(finite, jnp.maximum(size(delta), stalled), jnp.inf)
    # With the matrix of the function itself, the merit of a whole step that contracts is what it leaves: no other
    # factorisation is needed to see that it was the last one.
    contracted = (best == 0) & (merits[0] < CONTRACTED * moved) & (preconditioner is None)
    left = jnp.where(contracted, merits[0], moved)
    return Step(new, moved, left, solution_norms(discretisation, inputs, nodes, new))


def _factorised(discretisation: Discretisation, tested: TestedResiduals, slopes: Any) -> Callable[[Array], Array]:
    """rows -> J^-1 rows for the matrix of every function; by least squares if there are more rows."""
    shape = discretisation.coefficient_shape()
    matrices = tested.jacobian(slopes)[:, 0]
    scale = 1 / jnp.maximum(jnp.max(jnp.abs(matrices), axis=2, keepdims=True), 1e-300)
    scaled = matrices * scale
    if is_square(discretisation, tested.tests):
        factors = jax.scipy.linalg.lu_factor(scaled)

        def solve(rows: Array) -> Array:
            matrix, pivots = (jnp.broadcast_to(f, (len(rows), *f.shape[1:])) for f in factors)
            return jax.vmap(lambda m, p, b: jax.scipy.linalg.lu_solve((m, p), b))(matrix, pivots, rows * scale[..., 0])

    else:
        columns = 1 / jnp.maximum(jnp.linalg.norm(matrices, axis=1, keepdims=True), 1e-300)
        normal = jnp.einsum("fij,fik->fjk", matrices * columns, matrices * columns, precision="highest")
        normal = normal + 1e-13 * jnp.eye(normal.shape[-1])[None]
        factor = jax.vmap(lambda m: jnp.linalg.cholesky(m))(normal)

        def solve(rows: Array) -> Array:
            slope = jnp.einsum("fij,fi->fj", matrices * columns, rows, precision="highest")
            solved = jax.vmap(lambda f, b: jax.scipy.linalg.cho_solve((f, True), b))(factor, slope)
            return solved * columns[:, 0]

    return lambda rows: solve(rows).reshape(-1, *shape)
