"""Sums over slabs of locations, differentiated as they are computed.

The gradient of a sum of squared residuals with respect to the coefficients and the basis functions is accumulated in
the sweep that computes the sum: every slab is differentiated as soon as it is there, so nothing of the size functions x
points is stored, nothing is computed twice, and what flows on to the networks are cotangents of the size of the
factors.

A slab is some rows (points of the first axis); where one row is too large, it is a part of one, and the sweep over
rows is repeated for every strip of the second axis. More axes go on in the same way.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .assembly import Piece, TermData
from .collocation import Quadrature

Sums = tuple[Float[Array, ""], Float[Array, "terms functions"]]
"""The weighted sum, which is differentiated, and the mean squares of each term and function."""


def slab_sizes(shape: Sequence[int], points: int) -> tuple[int, ...]:
    """How many points along each axis make a slab of about `points` points.

    Few along the first axes, all along the last ones. Along the one between them as many as fit, or as few as half of
    that if the last slab is then filled better.
    """
    sizes = list(shape)
    for axis, total in enumerate(shape):
        inner = math.prod(shape[axis + 1 :])
        most = max(1, min(total, points // inner))
        candidates = range(-(-most // 2), most + 1)
        # The least padded length; among equals the largest slab.
        sizes[axis] = min(candidates, key=partial(_padded_length, total))
        if inner <= points:
            break
    return tuple(sizes)


def _padded_length(total: int, size: int) -> tuple[int, int]:
    return -(-total // size) * size, -size


def weighted_mean(squares: Array, quadrature: Quadrature, keep: int = 1) -> Array:
    """The mean over all axes from `keep` on, with quadrature weights; axis 0 is that of the functions."""
    axes = range(keep, squares.ndim)
    count = 1
    for axis in axes:
        weights = quadrature[axis - 1]
        if weights is None:
            count *= squares.shape[axis]
        else:
            squares = squares * weights.reshape([-1 if i == axis else 1 for i in range(squares.ndim)])
    return jnp.sum(squares, tuple(axes)) / count


def sum_over_slabs(
    pieces: Sequence[Piece],
    coefficients: Float[Array, "functions fields *_"],
    weights: Float[Array, "terms functions"],
    points: int | None = None,
) -> Sums:
    """The weighted sum of the mean squared residuals of pieces that share their locations.

    **Arguments:**

    - `pieces`: the residuals.
    - `coefficients`: the sum is differentiated with respect to them and to the basis functions.
    - `weights`: for each piece and function; not differentiated.
    - `points`: in a slab; None takes all at once.
    """
    shape = pieces[0].shape
    sizes = slab_sizes(shape, math.prod(shape) if points is None else points)
    return _sum_along(len(shape) - 1, sizes, pieces, coefficients, jax.lax.stop_gradient(weights))


def _sum_along(axis: int, sizes: tuple[int, ...], pieces: Sequence[Piece], coefficients: Array, weights: Array) -> Sums:
    """The sum over slabs along an axis, and within each along the axes before it."""
    size, total = sizes[axis], pieces[0].shape[axis]
    if axis and size == total:
        return _sum_along(axis - 1, sizes, pieces, coefficients, weights)
    basis = pieces[0].basis
    if basis is None:
        raise ValueError("a sum over slabs needs basis functions; this assembly was made without the network")
    count = -(-total // size)
    padding = count * size - total
    moving, shared = basis.split(axis)
    arrays, static = eqx.partition((coefficients, shared), eqx.is_inexact_array)
    padded = [piece.padded(padding, axis) for piece in pieces]
    # What does not vary along the rows is evaluated here, once, instead of in every turn of the scan.
    whole = [] if axis else [piece.data for piece in padded]

    def slab(arrays: Any, moving: Any, index: Array) -> Sums:
        coefficients, shared = eqx.combine(arrays, static)
        local = shared.join(moving, axis)
        here = [piece.rows(local, index * size, size, axis) for piece in padded]
        if axis:
            return _sum_along(axis - 1, sizes, here, coefficients, weights)
        means = [_mean_square(piece, coefficients, data) for piece, data in zip(here, whole, strict=True)]
        table = jnp.stack(means)
        return jnp.sum(weights * table), table

    return streamed_sum(slab, arrays, tuple(_cut(rows, count, padding) for rows in moving), weights)


def _mean_square(piece: Piece, coefficients: Array, whole: TermData) -> Float[Array, " functions"]:
    """The part of the mean squared residual that a slab of rows has, where `whole` is the data of all rows."""
    rank = len(piece.shape)

    def choose(of_all: Array, of_these: Array) -> Array:
        # Locations are the last axes (components may lead): one entry along the rows is the same for all of them.
        return of_all if of_all.shape[of_all.ndim - rank] == 1 else of_these

    residual = piece.residual(coefficients, jax.tree.map(choose, whole, piece.data))
    along_rows = weighted_mean(residual**2, piece.quadrature, keep=2)
    return jnp.sum(along_rows * piece.quadrature[0][None], axis=-1)  # pyright: ignore[reportOptionalSubscript]


def streamed_sum(
    slab: Callable[[Any, Any, Array], Sums], shared: Any, moving: Any, like: Float[Array, "terms functions"]
) -> Sums:
    """The sum of slab(shared, moving[i], i) over i, its gradient accumulated in the forward sweep.

    **Arguments:**

    - `slab`: a value, which is differentiated with respect to `shared` and `moving[i]`, and a table, which is not.
    - `shared`, `moving`: arrays that all slabs have in common, and arrays with a slab in every row.
    - `like`: an array of the shape and type of the table.
    """

    def sweep(shared: Any, moving: Any, differentiate: bool) -> tuple[Sums, Any]:
        def step(carry: Any, row: Any) -> Any:
            total, table, of_shared = carry
            index, part = row
            if differentiate:
                both = jax.value_and_grad(slab, argnums=(0, 1), has_aux=True)
                (value, squares), (more, of_part) = both(shared, part, index)
                of_shared = jax.tree.map(jnp.add, of_shared, more)
            else:
                (value, squares), of_part = slab(shared, part, index), None
            return (total + value, table + squares, of_shared), of_part

        zero = (jnp.zeros((), like.dtype), jnp.zeros_like(like), jax.tree.map(jnp.zeros_like, shared))
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


def sum_over_rows(function: Callable[[Piece], Any], piece: Piece, rows: int) -> Any:
    """The sum of function(slab) over slabs of so many rows (points of the first axis) of a piece."""
    total = piece.shape[0]
    size = min(rows, total)
    if size == total or piece.basis is None:
        return function(piece)
    count = -(-total // size)
    padding = count * size - total
    moving, shared = piece.basis.split()
    padded = piece.padded(padding, 0)
    parts = jnp.arange(count), tuple(_cut(r, count, padding) for r in moving)

    def one(part: Any) -> Any:
        index, rows = part
        return function(padded.rows(shared.join(rows), index * size, size, 0))

    shapes = jax.eval_shape(one, jax.tree.map(lambda leaf: leaf[0], parts))
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    sums, _ = jax.lax.scan(lambda sums, part: (jax.tree.map(jnp.add, sums, one(part)), None), zero, parts)
    return sums


def _cut(rows: Array, count: int, padding: int) -> Array:
    padded = jnp.pad(rows, [(0, padding)] + [(0, 0)] * (rows.ndim - 1), mode="edge")
    return padded.reshape(count, -1, *rows.shape[1:])
