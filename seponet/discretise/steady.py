r"""The inverse Jacobian of each function where slopes do not depend on time: no iterations are needed.

An averaged Jacobian knows nothing of a coefficient that is an input. If an equation is linear in its fields, of first
order in time, and its coefficients are given functions of space alone (transport by a given speed, a potential), the
Jacobian of a function is a sum of two products,

$$J = T_1 \otimes B + T_0 \otimes A,$$

with small matrices T of the test and trial functions in time, the same for all functions, and A, B of a function's own
along the other axes. With the Schur form $T_0^{-1} T_1 = Q U Q^*$ (unitary, so that float32 is enough; eigenvectors of
a derivative with an initial value are nearly parallel) it is solved backwards in as many systems as there are functions
in time:

$$(A + u_{kk} B)\, x_k = (Q^* T_0^{-1} g)_k - B \sum_{j > k} u_{kj} x_j, \qquad c = Q x.$$

For slopes that do depend on time, or on the solution, the same with averages along time was tried as a preconditioner:
three to five times slower than the Jacobian averaged over functions (Burgers, KdV, FitzHugh-Nagumo, shallow water).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from ..bases.quadrature import quadrature
from ..calculus.collocation import Nodes
from ..derivatives import order_along
from ..locations import Evaluable
from .discretisation import Discretisation
from .preconditioner import AbstractPreconditioner, Inverse, make_preconditioner
from .test_functions import is_square, make_tests
from .tested import Along, Slopes, TestedResiduals, slope_variation

LARGEST = 160
"""Coefficients along the other axes, at most: a matrix of this size is factorised for every function in time."""

SAME = 1e-9
"""By how much slopes may differ along time, relative to their size."""


class SteadyInverse(AbstractPreconditioner):
    """The inverse of each function's Jacobian, whose slopes are the same everywhere along one axis.

    **Arguments:**

    - `axis`: the number of the axis.
    - `weights`: of its nodes, their sum is one.
    - `rotation`, `triangle`: Q and U above.
    - `inverse`: of T_0.
    """

    axis: int = eqx.field(static=True)
    weights: Float[Array, " nodes"]
    rotation: Complex[Array, "rank rank"]
    triangle: Complex[Array, "rank rank"]
    inverse: Float[Array, "rank rank"]

    def held(self, discretisation: Discretisation) -> int:
        return 4 * discretisation.size**2 // len(self.triangle)

    def at(self, tested: TestedResiduals, slopes: Sequence[Slopes]) -> Inverse:
        still, moving = (tested.jacobian(slopes, (), Along(self.axis, self.weights, order))[:, 0] for order in (0, 1))
        matrices = still[None] + jnp.diagonal(self.triangle)[:, None, None, None] * moving[None]
        scale = 1 / jnp.maximum(jnp.max(jnp.abs(matrices), axis=-1), jnp.finfo(still.dtype).tiny)
        factors = jax.scipy.linalg.lu_factor(matrices * scale[..., None])
        above = jnp.triu(self.triangle, 1)
        turn = jnp.einsum("ik,ij->kj", jnp.conj(self.rotation), self.inverse, precision="highest")

        def solve(matrix: Array, pivots: Array, rows: Array) -> Array:
            """Of each function, or of all of them where all have the same matrix."""
            if len(matrix) == 1:
                return jax.scipy.linalg.lu_solve((matrix[0], pivots[0]), rows.T).T
            return jax.vmap(lambda m, p, b: jax.scipy.linalg.lu_solve((m, p), b))(matrix, pivots, rows)

        def invert(rows: Float[Array, "functions rows"]) -> Float[Array, "functions fields *_"]:
            targets = jnp.einsum("kj,fjn->kfn", turn, tested.gather(rows, (self.axis,)), precision="highest")

            def backwards(x: Array, at: Any) -> tuple[Array, None]:
                k, target, row, scales, matrix, pivots = at
                coupled = jnp.einsum("j,jfn->fn", row, x, precision="highest")
                target = target - jnp.einsum("fmn,fn->fm", moving.astype(x.dtype), coupled, precision="highest")
                return x.at[k].set(solve(matrix, pivots, target * scales)), None

            places = (jnp.arange(len(targets)), targets, above, scale, *factors)
            x, _ = jax.lax.scan(backwards, jnp.zeros_like(targets), places, reverse=True)
            return tested.scatter(jnp.einsum("kj,jfn->fkn", self.rotation, x, precision="highest").real, (self.axis,))

        return invert


def make_inverse(
    discretisation: Discretisation,
    nodes: Nodes,
    inputs: Mapping[str, Evaluable],
    coefficients: Float[Array, "functions fields *_"],
) -> AbstractPreconditioner:
    """What to precondition Newton's method with: the inverse Jacobian of each function, where that is cheap, or else
    that of the Jacobian averaged over functions at given coefficients. To be called in double precision."""
    steady = make_steady(discretisation, nodes, inputs, len(coefficients))
    return make_preconditioner(discretisation, nodes, inputs, coefficients) if steady is None else steady


def make_steady(
    discretisation: Discretisation, nodes: Nodes, inputs: Mapping[str, Evaluable], functions: int
) -> SteadyInverse | None:
    """The inverse along an axis on which the slopes of all functions are constant, for any coefficients; None if there
    is none. To be called in double precision."""
    for axis in _first_order_axes(discretisation):
        if slope_variation(discretisation, nodes, inputs, functions, axis) < SAME:
            return _steady_along(axis, discretisation, nodes)
    return None


def is_narrow(discretisation: Discretisation) -> bool:
    """Whether `make_steady` may find an inverse, as far as the equations and the size can tell."""
    return bool(_first_order_axes(discretisation))


def _steady_along(axis: int, discretisation: Discretisation, nodes: Nodes) -> SteadyInverse:
    import scipy.linalg

    (trial, *_), (tests, *_) = discretisation.bases[axis], make_tests(discretisation)
    test: Any = tests.bases[axis]
    points, weights = quadrature(trial.axis, nodes[axis][1])
    values, derivatives = trial.table(points, 1)
    weighted = weights[:, None] * test.table(points)[0]
    inverse = np.linalg.inv(weighted.T @ values)
    triangle, rotation, *_ = scipy.linalg.schur((inverse @ weighted.T @ derivatives).astype(complex), output="complex")
    return SteadyInverse(axis, *map(jnp.asarray, (weights / np.sum(weights), rotation, triangle, inverse)))


def _first_order_axes(discretisation: Discretisation) -> tuple[int, ...]:
    """The axes along which all equations are of first order and all fields have the same functions, if there are only
    equations, as many rows as coefficients, and few enough of them along the other axes."""
    problem = discretisation.problem
    terms = problem.terms(discretisation.exact)
    if any(term.face is not None for term in terms):
        return ()
    tests = make_tests(discretisation)
    if not is_square(discretisation, tests):
        return ()
    symbols = [symbol for term in terms for symbol in term.expression.fields]
    found: list[int] = []
    for n, (name, axis) in enumerate(problem.domain.axes):
        same = len(set(discretisation.bases[n])) == 1 and len({test.bases[n] for test in tests}) == 1
        first = max(order_along(symbol.alpha, name) for symbol in symbols) == 1
        if same and first and not axis.periodic and discretisation.size // discretisation.shape[n] <= LARGEST:
            found.append(n)
    return tuple(found)
