r"""Accuracy on demand: Gauss-Newton on the coefficients of single functions, started from the network's answer.

With the residuals r(c) on a quadrature grid and J = dr/dc, a step solves

$$\min_\delta\; |r(c) + J \delta|^2,\qquad c \leftarrow c + \delta,$$

so a linear problem is solved in one, and any other one is driven to the best that its basis functions can do. There are
two ways to solve it:

- "iterative": conjugate gradients on the outputs of the branch, before they are whitened: there all directions count
  alike. Products with J and its transpose are contractions, as in training.
- "direct": by the normal equations. As in `conditioning.py`, J comes from the elementwise bodies: J = sum_a D_a Phi_a
  with D_a = db/da one number for each point, and Phi_a the derivatives of the basis functions in the atom a.

Either squares the condition number of J, so all is in float64, inside a local context: a program in float32 stays one.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as linalg
import numpy as np
from jaxtyping import Array, Bool, Float

from .basis import quadrature
from .calculus import Known, combine, contract_atom, fuse_term, known_parts, residuals
from .conditions import Term
from .features import Features, Separable, places_of, request_of
from .functions import Functions
from .fusion import Fused
from .least_squares import conjugate_gradients
from .locations import Grid, Where
from .loss import Collocation, physics_loss
from .nn.linear import matmul
from .nn.model import OperatorNetwork
from .nn.potentials import FromPotentials
from .solution import Solution
from .sweep import sum_over_rows

logger = logging.getLogger(__name__)

LENGTHS = (1.0, 0.5, 0.25, 0.0625, 0.0)
"""Parts of a Gauss-Newton step that are tried; the last one makes sure that no function gets worse."""

TOLERANCE, ITERATIONS = 1e-8, 2000
"""Of conjugate gradients: how far the slope falls, and how often it is tried."""

RIDGE = 1e-13
"""Added to the normal equations scaled to a unit diagonal: directions that no residual sees stay as they are."""


METHODS = ("iterative", "direct")

Nodes = tuple[tuple[str, int], ...]
"""The number of quadrature nodes along each axis."""


def quadrature_nodes(model: OperatorNetwork, oversampling: float = 2.0) -> Nodes:
    """How many quadrature nodes see all that the basis functions do: squared residuals of a quadratic equation are
    integrated exactly with twice as many nodes as functions."""
    names = model.problem.domain.names
    most = {1: 512, 2: 96, 3: 40}.get(len(names), 12)
    centre = Grid(names, tuple(jnp.full((1,), axis.lower + axis.length / 2) for _, axis in model.problem.domain.axes))
    table = jax.eval_shape(lambda: model.features(centre, centre, {None: frozenset({()})})[None])
    table = table.inner if isinstance(table, FromPotentials) else table
    if not isinstance(table, Separable):
        return tuple((name, most // 2) for name in names)
    ranks = [t.shape[-2] for t in table.tables if t is not None]
    return tuple((n, min(max(int(np.ceil(oversampling * r)), 8), most)) for n, r in zip(names, ranks, strict=True))


def make_collocation(model: OperatorNetwork, nodes: Nodes) -> Collocation:
    """Gauss-Legendre nodes on intervals and uniform ones on circles, with weights that sum to one.

    They are known while tracing, so that classical bases are tabulated there rather than computed by a program.
    """
    domain, counts = model.problem.domain, dict(nodes)
    rules = {name: quadrature(axis, counts[name]) for name, axis in domain.axes}
    with jax.ensure_compile_time_eval():
        weights = tuple(jnp.asarray(w / np.sum(w)) for _, w in rules.values())
        return Collocation(Grid.of(domain, {name: jnp.asarray(p) for name, (p, _) in rules.items()}), weights)


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
    """Refined coefficients, and the mean squared residuals `[terms, functions]` before and after.

    **Arguments:**

    - `inputs`, `coefficients`: the functions, and where to start.
    - `weights`: of the terms by name, those left out count once.
    - `nodes`: of the quadrature grid along each axis.
    - `steps`: how many Gauss-Newton steps.
    - `memory`: bytes to work with, about: it bounds the functions and the points that are linearised at a time.
    - `method`: how the linear systems are solved, "iterative" or "direct"; by default what the model allows.
    """
    method = method or ("direct" if model.whitening is None else "iterative")
    with jax.enable_x64(True):
        model, inputs, coefficients = _double(model), _double(dict(inputs)), _double(coefficients)
        shape = make_collocation(model, nodes).where.shape
        terms = model.problem.terms(model.exact)
        row = jnp.asarray([weights.get(term.name, 1.0) for term in terms], float)
        atoms = max(len(term.expression.fields) for term in terms)
        rows, held = None, 3 * (atoms + 2) * math.prod(shape)
        if method == "direct":
            rows = int(np.clip(memory / 2 // (8 * (atoms + 2) * model.size * math.prod(shape[1:])), 1, shape[0]))
            held = 3 * model.size**2
        batch = int(np.clip(memory / 2 // (8 * held), 1, len(coefficients)))
        parts: list[tuple[Any, Any, Any]] = []
        unsolved = 0
        for start in range(0, len(coefficients), batch):
            own = {name: f[start : start + batch] for name, f in inputs.items()}
            c = coefficients[start : start + batch]
            tables = [] if steps else [_table(model, own, nodes, c)]
            for _ in range(steps):
                c, solved, *found = _step(model, own, nodes, row, c, rows)
                tables.extend(found)
                unsolved += int(np.sum(~np.asarray(solved)))
            parts.append((np.asarray(c), np.asarray(tables[0]), np.asarray(tables[-1])))
    if unsolved:
        advice = ': method = "direct" does not mind badly conditioned bases' if method == "iterative" else ""
        logger.warning("%d Gauss-Newton steps were not solved to their end and help less%s", unsolved, advice)
    cs, befores, afters = zip(*parts, strict=True)
    return np.concatenate(cs), np.concatenate(befores, axis=1), np.concatenate(afters, axis=1)


def _double(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.astype(float) if eqx.is_inexact_array(leaf) else leaf, tree)


@eqx.filter_jit
def _table(model: Any, inputs: Any, nodes: Nodes, c: Array) -> Float[Array, "terms functions"]:
    ones = jnp.ones((len(model.problem.terms(model.exact)), len(c)))
    return physics_loss(Solution(model, c), inputs, make_collocation(model, nodes), ones).table


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
    terms, scaled = model.problem.terms(model.exact), model.whitening
    if scaled is None:
        raise ValueError('method = "iterative" needs a model that was trained with whitening; take "direct"')

    def weighted(outputs: Array) -> list[Array]:
        made = residuals(Solution(model, c + scaled(outputs).reshape(c.shape)), inputs, collocation.where)
        volumes = [collocation.volume(term.face, made[term.name].shape[1:]) for term in terms]
        return [jnp.sqrt(w * v)[None] * made[t.name] for w, v, t in zip(weights, volumes, terms, strict=True)]

    start = jnp.zeros((len(c), model.size))
    residual, push = jax.linearize(weighted, start)
    pull = jax.linear_transpose(push, start)
    found, done = conjugate_gradients(push, lambda r: pull(r)[0], residual, TOLERANCE, ITERATIONS)
    return scaled(found), done


def _solve(matrix: Float[Array, "k k"], slope: Float[Array, " k"]) -> Float[Array, " k"]:
    diagonal = jnp.diagonal(matrix)
    scale = jnp.where(diagonal > 0, jax.lax.rsqrt(jnp.where(diagonal > 0, diagonal, 1.0)), 0.0)
    scaled = scale[:, None] * matrix * scale[None] + RIDGE * jnp.eye(len(scale))
    return scale * linalg.cho_solve(linalg.cho_factor(scaled), scale * slope)


def normal_equations(
    model: OperatorNetwork, inputs: Any, collocation: Collocation, weights: Array, c: Array, rows: int
) -> tuple[Float[Array, "functions k k"], Float[Array, "functions k"]]:
    """J^T J and J^T r of every function, summed over terms and slabs of rows."""
    terms = model.problem.terms(model.exact)
    where, lifts = collocation.where, model.lifts(inputs)
    features = model.features(where, where, request_of(terms))
    sums = jnp.zeros((len(c), model.size, model.size)), jnp.zeros((len(c), model.size))
    for weight, term in zip(weights, terms, strict=True):
        local = features[term.face]
        root = jnp.sqrt(weight * collocation.volume(term.face, local.shape))
        slab = partial(_slab, model, inputs, lifts, term, c)
        sums = jax.tree.map(jnp.add, sums, sum_over_rows(slab, local, where, root, rows))
    return sums


def _slab(
    model: OperatorNetwork,
    inputs: Any,
    lifts: Any,
    term: Term,
    c: Array,
    local: Features,
    where: Where,
    root: Float[Array, "..."],
) -> tuple[Float[Array, "functions k k"], Float[Array, "functions k"]]:
    """J^T J and J^T r of one term on some rows, `root` being the square roots of the quadrature weights."""
    places = places_of(term.face, where)
    fused = fuse_term(term, (len(c), *local.shape), places, inputs, c.dtype)
    known = known_parts(term, fused, places, inputs, lifts)
    residual, slopes = _linearise(term, fused, known, model.problem.fields, c, local)
    basis = _basis(fused, model, local)
    scale = root.reshape(-1)

    def one(pair: tuple[Array, list[Array]]) -> tuple[Array, Array]:
        r, d = pair
        jacobian = reduce(jnp.add, [(s * scale)[None] * phi for s, phi in zip(d, basis, strict=True)])
        return matmul(jacobian, jacobian.T), matmul(jacobian, (scale * r)[:, None])[:, 0]

    return jax.lax.map(one, (residual, slopes))


def _basis(fused: Fused, model: OperatorNetwork, local: Features) -> list[Float[Array, "k points"]]:
    """The derivatives of all basis functions in every atom."""
    identity = jnp.eye(model.size).reshape(model.size, *model.coefficient_shape())
    return [contract_atom(atom, model.problem.fields, identity, local).reshape(model.size, -1) for atom in fused.atoms]


def _linearise(
    term: Term, fused: Fused, known: Known, fields: Sequence[str], c: Array, local: Features
) -> tuple[Float[Array, "functions points"], list[Float[Array, "functions points"]]]:
    """The residual b and db/da for every atom a, at the current coefficients."""
    shape = (len(c), *local.shape)
    atoms = [contract_atom(atom, fields, c, local) for atom in fused.atoms]
    atoms = [
        v if lift is None else v + jnp.broadcast_to(lift, shape) for v, lift in zip(atoms, known.lifted, strict=True)
    ]

    def body(*values: Array) -> Array:
        return jnp.broadcast_to(combine(term, fused, known, values), shape)

    residual, push = jax.linearize(body, *atoms)
    ones = [[jnp.full(shape, float(i == j)) for j in range(len(atoms))] for i in range(len(atoms))]
    return residual.reshape(len(c), -1), [push(*tangents).reshape(len(c), -1) for tangents in ones]
