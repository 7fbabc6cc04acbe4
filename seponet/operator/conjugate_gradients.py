r"""Least squares for many functions at once, matrix-free: $\min_x |A x - b|^2$ for each, by conjugate gradients (CGLS).

Only products with A and its transpose are needed, so a function costs a few contractions for every iteration instead of
a factorisation that grows with the cube of its coefficients. Residuals never grow; the number of iterations grows with
the condition number of A, so scale its columns.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

ROUNDING = 1e-11
"""In float64, what is this small a part of its largest possible value can't be told from zero."""

Many = PyTree[Float[Array, "functions ..."]]


def conjugate_gradients(
    push: Callable[[Array], Many], pull: Callable[[Many], Array], target: Many, tolerance: float, most: int
) -> tuple[Float[Array, "functions ..."], Bool[Array, " functions"]]:
    """The x of every function, and whether it is done.

    **Arguments:**

    - `push`, `pull`: products with A and with its transpose; they act on each function alone.
    - `target`: b.
    - `tolerance`: a function is done when |A^T (A x - b)| has fallen by this factor, or is `ROUNDING` of |A| |A x - b|.
    - `most`: iterations, at the most.
    """
    slope = pull(target)
    length = _squares(slope)
    goal = tolerance**2 * length
    tiny = jnp.finfo(slope.dtype).tiny

    def unfinished(state: Any) -> Array:
        *_, busy, count = state
        return (count < most) & jnp.any(busy)

    def iterate(state: Any) -> Any:
        x, rest, direction, length, norm, busy, count = state
        seen = push(direction)
        squares = _squares(seen)
        step = jnp.where(busy, length / jnp.maximum(squares, tiny), 0.0)
        x = x + _spread(step, x) * direction
        rest = jax.tree.map(lambda r, q: r - _spread(step, q) * q, rest, seen)
        slope = pull(rest)
        new = _squares(slope)
        turn = jnp.where(busy, new / jnp.maximum(length, tiny), 0.0)
        norm = jnp.maximum(norm, squares / jnp.maximum(_squares(direction), tiny))
        busy = busy & (new > goal) & (new > ROUNDING**2 * norm * _squares(rest))
        return x, rest, slope + _spread(turn, slope) * direction, new, norm, busy, count + 1

    start = (jnp.zeros_like(slope), target, slope, length, jnp.zeros_like(length), length > 0, jnp.asarray(0))
    x, *_, busy, _ = jax.lax.while_loop(unfinished, iterate, start)
    return x, ~busy


def _squares(tree: Many) -> Float[Array, " functions"]:
    return sum(jnp.sum(leaf**2, axis=tuple(range(1, leaf.ndim))) for leaf in jax.tree.leaves(tree))  # pyright: ignore[reportReturnType]


def _spread(numbers: Float[Array, " functions"], like: Array) -> Array:
    return numbers.reshape(-1, *(1,) * (like.ndim - 1))
