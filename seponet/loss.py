"""The physics loss, in flat memory.

The squared residuals of the interior are summed over slabs of rows (points of the first axis). Their gradient with
respect to the coefficients and the basis functions is accumulated in the same sweep: every slab is differentiated as
soon as it is computed, so nothing of the size functions x points is stored, nothing is computed twice, and what flows
on to the networks are cotangents of the size of the factors. Faces are smaller by one axis and are differentiated as
usual.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .calculus import Known, Model, evaluate_term, fuse_term, known_parts
from .conditions import Face, Term
from .constraints import Evaluator
from .features import Features, Weighted, places_of, request_of
from .locations import Where


class Collocation(eqx.Module):
    """Where residuals are asked to vanish.

    **Arguments:**

    - `where`: the interior locations.
    - `weights`: quadrature weights that sum to one, for each axis of a grid (or one array for points); None is uniform.
    - `boundary`: locations for the faces, with their weights; None takes those of the interior.
    """

    where: Where
    weights: tuple[Float[Array, " _"] | None, ...]
    boundary: Where | None = None

    def volume(self, face: Face | None, shape: tuple[int, ...]) -> Float[Array, "*shape"]:
        """The weight of every location, in the interior or on a face; they sum to one."""
        weights = self.weights if face is None else self.face_weights(face.axis)
        product = jnp.ones((1,) * len(shape))
        for i, (n, w) in enumerate(zip(shape, weights, strict=True)):
            row = jnp.full((n,), 1 / n) if w is None else w
            product = product * row.reshape([-1 if i == j else 1 for j in range(len(shape))])
        return product

    def face_weights(self, axis: str) -> tuple[Float[Array, " _"] | None, ...]:
        """The weights on a face across `axis`."""
        if self.boundary is not None or len(self.weights) == 1:
            return (None,) * len(self.weights)
        return tuple(None if n == axis else w for n, w in zip(self.where.names, self.weights, strict=True))


class Losses(eqx.Module):
    """Mean squared residuals.

    - `total`: their weighted sum, which is differentiated.
    - `table`: of each term and function, `[terms, functions]`.
    """

    total: Float[Array, ""]
    table: Float[Array, "terms functions"]


def physics_loss(
    model: Model,
    inputs: Mapping[str, Evaluator],
    collocation: Collocation,
    weights: Float[Array, "terms functions"],
    rows: int | None = None,
    causality: float = 0.0,
) -> Losses:
    """sum over terms e and functions f of weights[e, f] times the mean squared residual.

    **Arguments:**

    - `model`, `inputs`, `collocation`: whose residuals, for which functions, where.
    - `weights`: for each term of `model.problem.terms(model.exact)` and each function; not differentiated.
    - `rows`: how many rows of the first axis make a slab; None takes all at once.
    - `causality`: if positive, a row counts exp(-causality * (relative loss of the rows before it)) times: what happens
        later is learned once what happens earlier is (Wang et al. 2024). The first axis is then time, in ascending
        order.
    """
    terms = model.problem.terms(model.exact)
    where = collocation.where
    boundary = where if collocation.boundary is None else collocation.boundary
    features = model.features(where, boundary, request_of(terms))
    coefficients = model.coefficients(model.encode(inputs))
    lifts = model.lifts(inputs)
    equations = [term for term in terms if term.face is None]
    faces = [term for term in terms if term.face is not None]
    count = len(equations)
    functions = coefficients.shape[0]
    interior = _Interior(equations, model, inputs, lifts, collocation, functions, rows or where.shape[0], causality)
    inner, inner_table = interior(coefficients, features[None], weights[:count])
    outer_table: list[Array] = []
    for term in faces:
        local = features[term.face]
        places = places_of(term.face, boundary)
        fused = fuse_term(term, (coefficients.shape[0], *local.shape), places, inputs, coefficients.dtype)
        known = known_parts(term, fused, places, inputs, lifts)
        residual = evaluate_term(term, fused, known, model.problem.fields, coefficients, local)
        outer_table.append(_average(residual**2, collocation.face_weights(term.face.axis)))  # pyright: ignore
    if not faces:
        return Losses(inner, inner_table)
    outer = jnp.stack(outer_table)
    table = jnp.concatenate([inner_table, jax.lax.stop_gradient(outer)])
    return Losses(inner + jnp.sum(weights[count:] * outer), table)


def lift_losses(
    model: Model, inputs: Mapping[str, Evaluator], collocation: Collocation, functions: int
) -> Float[Array, "terms functions"]:
    """The mean squared residuals of the lift alone, without the network: how much there is to do for each function."""
    terms = model.problem.terms(model.exact)
    lifts = model.lifts(inputs)
    made: list[Array] = []
    for term in terms:
        inside = term.face is None
        where = collocation.where if inside or collocation.boundary is None else collocation.boundary
        places = places_of(term.face, where)
        nothing = _Nothing((functions, *places[0][1].shape), jnp.result_type(float))
        fused = fuse_term(term, nothing.values, places, inputs, nothing.dtype)
        known = known_parts(term, fused, places, inputs, lifts)
        coefficients = jnp.zeros((functions, 1), nothing.dtype)
        residual = evaluate_term(term, fused, known, model.problem.fields, coefficients, nothing)
        weights = collocation.weights if inside else collocation.face_weights(term.face.axis)  # pyright: ignore
        made.append(_average(residual**2, weights))
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

    def split(self) -> tuple[tuple[Array, ...], Features]:
        return (), self

    def join(self, rows: tuple[Array, ...]) -> Features:
        return self


class _Interior:
    """The sum over slabs of the equations' residuals."""

    def __init__(
        self,
        terms: Sequence[Term],
        model: Model,
        inputs: Mapping[str, Evaluator],
        lifts: Mapping[str, Evaluator | None],
        collocation: Collocation,
        functions: int,
        rows: int,
        causality: float,
    ) -> None:
        self.terms, self.model, self.inputs, self.lifts = terms, model, inputs, lifts
        self.where, self.functions, self.causality = collocation.where, functions, causality
        total = self.where.shape[0]
        self.rows = min(rows, total)
        self.slabs = -(-total // self.rows)
        self.padding = self.slabs * self.rows - total
        first, *self.other_weights = collocation.weights
        first = jnp.full((total,), 1 / total) if first is None else first
        self.row_weights = jnp.pad(first, (0, self.padding))
        self.where = _pad(self.where, self.padding)
        # Whatever does not vary along the rows is computed once, outside of the sweep.
        self.fixed = [self._known(term, self.where) for term in terms]

    def __call__(
        self, coefficients: Array, features: Features, weights: Float[Array, "equations functions"]
    ) -> tuple[Float[Array, ""], Float[Array, "equations functions"]]:
        moving, shared = features.split()
        moving = tuple(jnp.pad(r, [(0, self.padding)] + [(0, 0)] * (r.ndim - 1), mode="edge") for r in moving)
        arrays, static = eqx.partition((coefficients, shared), eqx.is_inexact_array)

        @jax.custom_vjp
        def accumulate(arrays: Any, moving: Any, weights: Array) -> tuple[Array, Array]:
            return self._sweep(static, arrays, moving, weights, None)[:2]

        def forward(arrays: Any, moving: Any, weights: Array) -> tuple[Any, Any]:
            total, table, gradients = self._sweep(static, arrays, moving, weights, jax.value_and_grad)
            return (total, table), (gradients, weights)

        def backward(saved: Any, cotangents: tuple[Array, Array]) -> Any:
            (of_arrays, of_moving), weights = saved
            scale = partial(jax.tree.map, lambda g: cotangents[0] * g)
            return scale(of_arrays), scale(of_moving), jnp.zeros_like(weights)

        accumulate.defvjp(forward, backward)
        return accumulate(arrays, moving, weights)

    def _sweep(self, static: Any, arrays: Any, moving: Any, weights: Array, differentiate: Any) -> tuple[Any, ...]:
        def slab_loss(arrays: Any, moving: Any, slab: tuple[Array, Array], before: Array) -> tuple[Array, Array]:
            coefficients, shared = eqx.combine(arrays, static)
            start, row_weights = slab
            table = self._slab(coefficients, shared.join(moving), start)
            sums = jnp.sum(table * row_weights[None, None], axis=-1)
            if self.causality > 0:
                row_weights = self._causal(table, row_weights, weights, before)
                return jnp.sum(weights * jnp.sum(table * row_weights[None, None], axis=-1)), sums
            return jnp.sum(weights * sums), sums

        def step(carry: Any, slab: Any) -> Any:
            total, table, gradient = carry
            start, row_weights, moving = slab
            before = jnp.sum(weights * table)
            if differentiate is None:
                (value, sums), of_moving = slab_loss(arrays, moving, (start, row_weights), before), None
            else:
                both = differentiate(slab_loss, argnums=(0, 1), has_aux=True)
                (value, sums), (of_arrays, of_moving) = both(arrays, moving, (start, row_weights), before)
                gradient = jax.tree.map(jnp.add, gradient, of_arrays)
            return (total + value, table + sums, gradient), of_moving

        split = partial(jax.tree.map, lambda r: r.reshape(self.slabs, self.rows, *r.shape[1:]))
        starts = jnp.arange(self.slabs) * self.rows
        zero = (jnp.zeros((), weights.dtype), jnp.zeros_like(weights), jax.tree.map(jnp.zeros_like, arrays))
        slabs = (starts, split(self.row_weights), split(moving))
        (total, table, of_arrays), of_moving = jax.lax.scan(step, zero, slabs)
        if differentiate is None:
            return total, table
        return total, table, (of_arrays, jax.tree.map(lambda g: g.reshape(-1, *g.shape[2:]), of_moving))

    def _slab(self, coefficients: Array, features: Features, start: Array) -> Float[Array, "equations functions rows"]:
        """The mean squares over all axes but the first."""
        where = self.where.rows(start, self.rows)
        made: list[Array] = []
        for term, fixed in zip(self.terms, self.fixed, strict=True):
            fused, moving = self._known(term, where)
            known = jax.tree.map(lambda f, m: f if f.shape == m.shape else m, fixed[1], moving)
            residual = evaluate_term(term, fused, known, self.model.problem.fields, coefficients, features)
            made.append(_average(residual**2, (None, *self.other_weights), keep=2))
        return jnp.stack(made)

    def _known(self, term: Term, where: Where) -> tuple[Any, Known]:
        places = [(1.0, where)]
        fused = fuse_term(term, (self.functions, *where.shape), places, self.inputs, where.points[0].dtype)
        return fused, known_parts(term, fused, places, self.inputs, self.lifts)

    def _causal(self, table: Array, row_weights: Array, weights: Array, before: Array) -> Array:
        rows = jnp.sum(weights[:, :, None] * table, axis=(0, 1)) * row_weights
        earlier = before + jnp.concatenate([jnp.zeros(1), jnp.cumsum(rows)[:-1]])
        return row_weights * jax.lax.stop_gradient(jnp.exp(-self.causality * earlier))


def _average(squares: Array, weights: Sequence[Array | None], keep: int = 1) -> Array:
    """The weighted mean over all axes from `keep` on."""
    axes = range(keep, squares.ndim)
    count = 1
    for axis in axes:
        w = weights[axis - 1]
        if w is None:
            count *= squares.shape[axis]
        else:
            squares = squares * w.reshape([-1 if i == axis else 1 for i in range(squares.ndim)])
    return jnp.sum(squares, tuple(axes)) / count


def _pad(where: Where, count: int) -> Where:
    if not count:
        return where
    moving = 1 if len(where.shape) == len(where.points) else len(where.points)
    points = tuple(jnp.pad(p, (0, count), mode="edge") if i < moving else p for i, p in enumerate(where.points))
    return type(where)(where.names, points)
