r"""Gauss-Newton on strong residuals: least squares in the coefficients of single functions, for any model.

With the residuals r(c) on a quadrature grid and J = dr/dc, a step solves

$$\min_\delta\; |r(c) + J \delta|^2,\qquad c \leftarrow c + \delta,$$

so a linear problem is solved in one, and any other one is driven to the best that its basis functions can do. There are
two ways to solve it:

- "iterative": conjugate gradients on the outputs of the branch, before they are whitened: there all directions count
  alike. Products with J and its transpose are contractions, as in training.
- "direct": by the normal equations. As in `linearised.py`, J comes from the elementwise bodies: J = sum_a D_a Phi_a
  with D_a = db/da one number for each point, and Phi_a the derivatives of the basis functions in the atom a.

Either squares the condition number of J, so all is in float64, inside a local context: a program in float32 stays one.
"""

import logging
import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as linalg
import numpy as np
from jaxtyping import Array, Bool, Float

from ..calculus.assembly import Assembly
from ..calculus.collocation import Collocation, Nodes, make_collocation
from ..calculus.model import FixedCoefficients, Model
from ..functions import Functions
from ..losses.linearised import normal_equations
from ..losses.pointwise import physics_loss
from ..nn.model import OperatorNetwork
from .conjugate_gradients import conjugate_gradients

logger = logging.getLogger(__name__)

LENGTHS = (1.0, 0.5, 0.25, 0.0625, 0.0)
"""Parts of a Gauss-Newton step that are tried; the last one makes sure that no function gets worse."""

TOLERANCE, ITERATIONS = 1e-8, 2000
"""Conjugate gradients: the factor by which the gradient falls, and the largest number of iterations."""

RIDGE = 1e-13
"""Added to the normal equations scaled to a unit diagonal: directions that no residual sees stay as they are."""


METHODS = ("iterative", "direct")
"""The ways to solve the linear system of a Gauss-Newton step."""


def gauss_newton(
    model: OperatorNetwork,
    inputs: Mapping[str, Functions],
    coefficients: Float[Array, "functions fields *_"],
    weights: Mapping[str, float],
    nodes: Nodes,
    steps: int,
    memory: int,
    method: str | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gauss-Newton steps on the coefficients of every function, in float64.

    **Arguments:**

    - `inputs`, `coefficients`: the functions, and where to start.
    - `weights`: those of the terms, by name; 1 for those left out.
    - `nodes`: the number of quadrature nodes along each axis.
    - `steps`: how many Gauss-Newton steps.
    - `memory`: the working memory in bytes, approximately: it bounds the functions and the points that are linearised
        at a time.
    - `method`: how the linear systems are solved, "iterative" or "direct"; by default what the model allows.

    **Returns:** the refined coefficients, and the mean squared residuals `[terms, functions]` before and after.
    """
    scaled = model.whitening is not None and model.whitening.complete
    method = method or ("iterative" if scaled else "direct")
    with jax.enable_x64(True):
        model, inputs, coefficients = to_double(model), to_double(dict(inputs)), to_double(coefficients)
        shape = make_collocation(model, nodes).where.shape
        terms = model.problem.terms(model.exact)
        term_weights = jnp.asarray([weights.get(term.name, 1.0) for term in terms], float)
        atoms = max(len(term.expression.fields) for term in terms)
        rows, held = None, 3 * (atoms + 2) * math.prod(shape)
        if method == "direct":
            rows = int(np.clip(memory / 2 // (8 * (atoms + 2) * model.size * math.prod(shape[1:])), 1, shape[0]))
            held = 3 * model.size**2
        batch = int(np.clip(memory / 2 // (8 * held), 1, len(coefficients)))
        parts: list[tuple[Any, Any, Any]] = []
        unsolved = 0
        for start in range(0, len(coefficients), batch):
            functions = {name: f[start : start + batch] for name, f in inputs.items()}
            c = coefficients[start : start + batch]
            tables = [] if steps else [_table(model, functions, nodes, c)]
            for _ in range(steps):
                c, solved, before, after = _step(model, functions, nodes, term_weights, c, rows)
                tables.extend((before, after))
                unsolved += int(np.sum(~np.asarray(solved)))
            parts.append((np.asarray(c), np.asarray(tables[0]), np.asarray(tables[-1])))
    if unsolved:
        advice = ': method = "direct" does not mind badly conditioned bases' if method == "iterative" else ""
        logger.warning("%d Gauss-Newton steps were not solved to their end and help less%s", unsolved, advice)
    refined, befores, afters = zip(*parts, strict=True)
    return np.concatenate(refined), np.concatenate(befores, axis=1), np.concatenate(afters, axis=1)


def mean_squares(
    model: Model, inputs: Mapping[str, Functions], nodes: Nodes, coefficients: np.ndarray, memory: int
) -> Float[np.ndarray, "terms functions"]:
    """The mean squared residuals of given coefficients. To be called in double precision."""
    atoms = max(len(term.expression.fields) for term in model.problem.terms(model.exact))
    held = 3 * (atoms + 2) * math.prod(n for _, n in nodes)
    batch = int(np.clip(memory / 2 // (8 * held), 1, len(coefficients)))
    tables: list[np.ndarray] = []
    for first in range(0, len(coefficients), batch):
        rows = slice(first, first + batch)
        functions = {name: f[rows] for name, f in inputs.items()}
        tables.append(np.asarray(_table(model, functions, nodes, jnp.asarray(coefficients[rows]))))
    return np.concatenate(tables, axis=1)


def to_double(tree: Any) -> Any:
    """The same in float64, integers left as they are. To be called in double precision."""
    return jax.tree.map(lambda leaf: leaf.astype(float) if eqx.is_inexact_array(leaf) else leaf, tree)


@eqx.filter_jit
def _table(model: Any, inputs: Any, nodes: Nodes, c: Array) -> Float[Array, "terms functions"]:
    ones = jnp.ones((len(model.problem.terms(model.exact)), len(c)))
    return physics_loss(FixedCoefficients(model, c), inputs, make_collocation(model, nodes), ones).table


@eqx.filter_jit
def _step(
    model: OperatorNetwork, inputs: Any, nodes: Nodes, weights: Array, c: Array, rows: int | None
) -> tuple[Array, Bool[Array, " functions"], Float[Array, "terms functions"], Float[Array, "terms functions"]]:
    """The next coefficients, whether their system was solved, and the mean squared residuals before and after; without
    `rows`, by iteration."""
    collocation = make_collocation(model, nodes)
    if rows is None:
        delta, solved = _iterate(model, inputs, collocation, weights, c)
    else:
        pairs = normal_equations(model, inputs, collocation, weights, c, rows)
        delta = jax.lax.map(lambda pair: _solve(*pair), pairs)
        solved = jnp.ones(len(c), bool)
    # Where the factorisation failed, a function stays as it is.
    finite = jnp.all(jnp.isfinite(delta), axis=1)
    delta = jnp.where(finite[:, None], delta, 0.0).reshape(c.shape)
    lengths = jnp.asarray(LENGTHS)
    tables = jax.lax.map(lambda length: _table(model, inputs, nodes, c - length * delta), lengths)
    totals = jnp.sum(weights[None, :, None] * tables, axis=1)
    best = jnp.argmin(jnp.where(jnp.isfinite(totals), totals, jnp.inf), axis=0)
    chosen = lengths[best].reshape(-1, *(1,) * (c.ndim - 1))
    after = jnp.take_along_axis(tables, best[None, None], axis=0)[0]
    return c - chosen * delta, solved & finite, tables[-1], after


def _iterate(
    model: OperatorNetwork, inputs: Any, collocation: Collocation, weights: Array, c: Array
) -> tuple[Float[Array, "functions k"], Bool[Array, " functions"]]:
    """The Gauss-Newton step by conjugate gradients on the outputs of a branch, before they are scaled."""
    scaled = model.whitening
    if scaled is None or not scaled.complete:
        raise ValueError('method = "iterative" needs a model that was trained with whitening; take "direct"')

    pieces = Assembly(model, inputs, collocation, len(c)).pieces
    roots = [jnp.sqrt(weight * piece.volume())[None] for weight, piece in zip(weights, pieces, strict=True)]

    def weighted(outputs: Array) -> list[Array]:
        coefficients = c + scaled(outputs).reshape(c.shape)
        return [root * piece.residual(coefficients) for root, piece in zip(roots, pieces, strict=True)]

    start = jnp.zeros((len(c), model.size))
    residual, push = jax.linearize(weighted, start)
    pull = jax.linear_transpose(push, start)
    outputs, solved = conjugate_gradients(push, lambda r: pull(r)[0], residual, TOLERANCE, ITERATIONS)
    return scaled(outputs), solved


def _solve(matrix: Float[Array, "k k"], slope: Float[Array, " k"]) -> Float[Array, " k"]:
    diagonal = jnp.diagonal(matrix)
    scale = jnp.where(diagonal > 0, jax.lax.rsqrt(jnp.where(diagonal > 0, diagonal, 1.0)), 0.0)
    scaled = scale[:, None] * matrix * scale[None] + RIDGE * jnp.eye(len(scale))
    return scale * linalg.cho_solve(linalg.cho_factor(scaled), scale * slope)
