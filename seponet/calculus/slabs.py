"""Sums over slabs of points, differentiated as they are computed.

The gradient of a sum of squared residuals with respect to the coefficients and the basis functions is accumulated in
the sweep that computes the sum: every slab is differentiated as soon as it is there, so nothing of the size functions x
points is stored, nothing is computed twice, and what flows on to the networks are cotangents of the size of the
factors.

A slab is some rows (points of the first axis); where one row is too large, it is a part of one, and the sweep over
rows is repeated for every strip of the second axis. More axes go on in the same way.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..equations.terms import Term
from ..locations import Evaluable, Location
from .basis_values import BasisValues, Places
from .evaluate import Known, evaluate_term, fuse_term, known_parts
from .model import Model

Quadrature = Sequence[Float[Array, " _"] | None]
"""Weights for each axis; None is uniform."""

Sums = tuple[Float[Array, ""], Float[Array, "terms functions"]]
"""The weighted sum, which is differentiated, and the mean squares of each term and function."""


def slab_sizes(shape: Sequence[int], points: int) -> tuple[int, ...]:
    """How many points along each axis make a slab of about `points` points: few along the first axes, all along the
    last ones, and along the one between them as many as fit, or as few as half of that to pad less."""
    sizes = list(shape)
    for axis, total in enumerate(shape):
        most = max(1, min(total, points // math.prod(shape[axis + 1 :])))
        sizes[axis] = min(range(-(-most // 2), most + 1), key=lambda n, t=total: (-(-t // n) * n, -n))
        if math.prod(shape[axis + 1 :]) <= points:
            break
    return tuple(sizes)


def average(squares: Array, weights: Quadrature, keep: int = 1) -> Array:
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


class Sweep:
    """The squared residuals of terms that live at the same place, in slabs.

    **Arguments:**

    - `terms`, `model`, `inputs`, `lifts`: whose residuals.
    - `weights`: for each term and function; not differentiated.
    - `points`: in a slab; None takes all at once.
    - `causality`: if positive, a row counts exp(-causality * (relative loss of the rows before it)) times, and rows are
        never divided.
    """

    def __init__(
        self,
        terms: Sequence[Term],
        model: Model,
        inputs: Mapping[str, Evaluable],
        lifts: Mapping[str, Evaluable | None],
        weights: Float[Array, "terms functions"],
        points: int | None = None,
        causality: float = 0.0,
    ) -> None:
        self.terms, self.model, self.inputs, self.lifts = terms, model, inputs, lifts
        self.weights = jax.lax.stop_gradient(weights)
        self.points, self.causality = points, causality

    def __call__(self, coefficients: Array, features: BasisValues, places: Places, quadrature: Quadrature) -> Sums:
        shape = features.shape
        most = math.prod(shape) if self.points is None else self.points
        sizes = slab_sizes(shape, max(most, math.prod(shape[1:])) if self.causality > 0 else most)
        before = jnp.zeros_like(self.weights)
        return self._along(len(shape) - 1, sizes, coefficients, features, places, quadrature, before)

    def _along(
        self,
        axis: int,
        sizes: tuple[int, ...],
        coefficients: Array,
        features: BasisValues,
        places: Places,
        quadrature: Quadrature,
        before: Array,
    ) -> Sums:
        """The sum over slabs along an axis, and within each along the axes before it."""
        size, total = sizes[axis], features.shape[axis]
        if axis and size == total:
            return self._along(axis - 1, sizes, coefficients, features, places, quadrature, before)
        count = -(-total // size)
        padding = count * size - total
        cut = partial(_cut, count=count, padding=padding)
        moving, shared = features.split(axis)
        arrays, static = eqx.partition((coefficients, shared), eqx.is_inexact_array)
        uniform = jnp.full((total,), 1 / total)
        own = quadrature[axis]
        # Points that only fill the last slab count nothing.
        weights = jnp.pad(uniform if own is None else own, (0, padding)).reshape(count, size)
        places = [(c, where.pad(padding, axis)) for c, where in places]
        # Whatever does not vary along the rows is computed once, outside of the sweep.
        fixed = [] if axis else [self._known(term, places)[1] for term in self.terms]

        def slab(arrays: Any, moving: Any, index: Array, before: Array) -> Sums:
            coefficients, shared = eqx.combine(arrays, static)
            local = shared.join(moving, axis)
            here = [(c, where.rows(index * size, size, axis)) for c, where in places]
            rule = (*quadrature[:axis], weights[index], *quadrature[axis + 1 :])
            if axis:
                return self._along(axis - 1, sizes, coefficients, local, here, rule, before)
            return self._evaluate(coefficients, local, here, rule, weights[index], fixed, before)

        return streamed_sum(slab, arrays, tuple(cut(r) for r in moving), before)

    def _evaluate(
        self,
        coefficients: Array,
        features: BasisValues,
        places: Places,
        quadrature: Quadrature,
        weights: Float[Array, " rows"],
        fixed: Sequence[Known],
        before: Array,
    ) -> Sums:
        made: list[Array] = []
        for term, known in zip(self.terms, fixed, strict=True):
            fused, moving = self._known(term, places)
            known = jax.tree.map(lambda f, m: f if f.shape == m.shape else m, known, moving)
            residual = evaluate_term(term, fused, known, self.model.problem.fields, coefficients, features)
            made.append(average(residual**2, quadrature, keep=2))
        rows: Float[Array, "terms functions rows"] = jnp.stack(made)
        table = jnp.sum(rows * weights[None, None], axis=-1)
        if self.causality > 0:
            own = jnp.sum(self.weights[:, :, None] * rows, axis=(0, 1)) * weights
            earlier = jnp.sum(self.weights * before) + jnp.concatenate([jnp.zeros(1), jnp.cumsum(own)[:-1]])
            return jnp.sum(own * jax.lax.stop_gradient(jnp.exp(-self.causality * earlier))), table
        return jnp.sum(self.weights * table), table

    def _known(self, term: Term, places: Places) -> tuple[Any, Known]:
        where: Location = places[0][1]
        shape = (self.weights.shape[1], *where.shape)
        fused = fuse_term(term, shape, places, self.inputs, where.points[0].dtype)
        return fused, known_parts(term, fused, places, self.inputs, self.lifts)


def streamed_sum(slab: Callable[[Any, Any, Array, Array], Sums], shared: Any, moving: Any, before: Array) -> Sums:
    """The sum of slab(shared, moving[i], i, table so far) over i, its gradient accumulated in the forward sweep.

    **Arguments:**

    - `slab`: a value, which is differentiated with respect to `shared` and `moving[i]`, and a table, which is not.
    - `shared`, `moving`: arrays that all slabs have in common, and arrays with a slab in every row.
    - `before`: the table of what was summed earlier.
    """

    def sweep(shared: Any, moving: Any, differentiate: bool) -> tuple[Sums, Any]:
        def step(carry: Any, row: Any) -> Any:
            total, table, of_shared = carry
            index, own = row
            if differentiate:
                both = jax.value_and_grad(slab, argnums=(0, 1), has_aux=True)
                (value, part), (more, of_own) = both(shared, own, index, before + table)
                of_shared = jax.tree.map(jnp.add, of_shared, more)
            else:
                (value, part), of_own = slab(shared, own, index, before + table), None
            return (total + value, table + part, of_shared), of_own

        zero = (jnp.zeros((), before.dtype), jnp.zeros_like(before), jax.tree.map(jnp.zeros_like, shared))
        count = jax.tree.leaves(moving)[0].shape[0]
        (total, table, of_shared), of_moving = jax.lax.scan(step, zero, (jnp.arange(count), moving))
        return (total, table), (of_shared, of_moving)

    @jax.custom_vjp
    def accumulate(shared: Any, moving: Any) -> Sums:
        return sweep(shared, moving, False)[0]

    def backward(gradients: Any, cotangents: Sums) -> Any:
        return jax.tree.map(lambda g: cotangents[0] * g, gradients)

    accumulate.defvjp(partial(sweep, differentiate=True), backward)
    return accumulate(shared, moving)


def sum_over_rows(
    slab: Callable[[BasisValues, Location, Array], Any],
    features: BasisValues,
    where: Location,
    weights: Array,
    rows: int,
) -> Any:
    """The sum of slab(features, where, weights) over slabs of so many rows: points of the first axis."""
    total = features.shape[0]
    size = min(rows, total)
    if size == total:
        return slab(features, where, weights)
    count = -(-total // size)
    padding = count * size - total
    moving, shared = features.split()
    where = where.pad(padding)
    # Points that only fill the last slab count nothing.
    weights = jnp.pad(weights, [(0, padding)] + [(0, 0)] * (weights.ndim - 1)).reshape(count, size, *weights.shape[1:])
    parts = jnp.arange(count), tuple(_cut(r, count, padding) for r in moving), weights

    def one(part: Any) -> Any:
        index, own, weights = part
        return slab(shared.join(own), where.rows(index * size, size), weights)

    shapes = jax.eval_shape(one, jax.tree.map(lambda leaf: leaf[0], parts))
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    sums, _ = jax.lax.scan(lambda sums, part: (jax.tree.map(jnp.add, sums, one(part)), None), zero, parts)
    return sums


def _cut(rows: Array, count: int, padding: int) -> Array:
    padded = jnp.pad(rows, [(0, padding)] + [(0, 0)] * (rows.ndim - 1), mode="edge")
    return padded.reshape(count, -1, *rows.shape[1:])
