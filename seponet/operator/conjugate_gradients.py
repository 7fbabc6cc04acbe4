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
"""In float64 a gradient A^T r below this part of its largest possible size, |A| |r|, can't be told from zero."""

Many = PyTree[Float[Array, "functions ..."]]
"""Arrays with the functions as their leading axis."""


def conjugate_gradients(
    push: Callable[[Array], Many], pull: Callable[[Many], Array], target: Many, tolerance: float, most: int
) -> tuple[Float[Array, "functions ..."], Bool[Array, " functions"]]:
    """Conjugate gradients (CGLS) for every function at once, each until it has converged.

    **Arguments:**

    - `push`, `pull`: products with A and with its transpose; they act on each function by itself.
    - `target`: the right-hand side b.
    - `tolerance`: a function has converged when |A^T (A x - b)| has fallen by this factor, or is `ROUNDING` of
        |A| |A x - b|.
    - `most`: the largest number of iterations.

    **Returns:** the minimiser x of every function, and whether it has converged.
    """
    # As in textbooks: gamma = |A^T r|^2 is the squared gradient, beta = gamma_new / gamma turns the direction.
    gradient = pull(target)
    gamma = _squares(gradient)
    goal = tolerance**2 * gamma
    tiny = jnp.finfo(gradient.dtype).tiny

    def unfinished(state: Any) -> Array:
        *_, active, count = state
        return (count < most) & jnp.any(active)

    def iterate(state: Any) -> Any:
        x, residual, direction, gamma, norm_squared, active, count = state
        image = push(direction)
        image_squared = _squares(image)
        step = jnp.where(active, gamma / jnp.maximum(image_squared, tiny), 0.0)
        x = x + _spread(step, x) * direction
        residual = jax.tree.map(lambda r, q: r - _spread(step, q) * q, residual, image)
        gradient = pull(residual)
        new_gamma = _squares(gradient)
        beta = jnp.where(active, new_gamma / jnp.maximum(gamma, tiny), 0.0)
        # A lower bound of |A|^2, from all directions so far.
        norm_squared = jnp.maximum(norm_squared, image_squared / jnp.maximum(_squares(direction), tiny))
        active = active & (new_gamma > goal) & (new_gamma > ROUNDING**2 * norm_squared * _squares(residual))
        return x, residual, gradient + _spread(beta, gradient) * direction, new_gamma, norm_squared, active, count + 1

    start = (jnp.zeros_like(gradient), target, gradient, gamma, jnp.zeros_like(gamma), gamma > 0, jnp.asarray(0))
    x, *_, active, _ = jax.lax.while_loop(unfinished, iterate, start)
    return x, ~active


def _squares(tree: Many) -> Float[Array, " functions"]:
    return sum(jnp.sum(leaf**2, axis=tuple(range(1, leaf.ndim))) for leaf in jax.tree.leaves(tree))  # pyright: ignore[reportReturnType]


def _spread(numbers: Float[Array, " functions"], like: Array) -> Array:
    return numbers.reshape(-1, *(1,) * (like.ndim - 1))
