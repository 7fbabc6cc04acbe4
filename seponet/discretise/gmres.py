r"""Square linear systems $A x = b$ of many functions at once, matrix-free, by GMRES (Saad and Schultz 1986).

Why not a library's: every product with A is one contraction for all functions together, while a vectorised single solve
would keep them in step but repeat what they share; and each function stops at its own tolerance.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def gmres(
    apply: Callable[[Float[Array, "functions n"]], Float[Array, "functions n"]],
    target: Float[Array, "functions n"],
    tolerance: float | Float[Array, " functions"],
    most: int,
) -> tuple[Float[Array, "functions n"], Float[Array, " functions"]]:
    """The solution of every function, from zero, without restarts.

    **Arguments:**

    - `apply`: the product with A, which acts on each function by itself.
    - `target`: the right-hand side b.
    - `tolerance`: the part of |b| that may be left of the residual, of all functions or of each.
    - `most`: the largest number of iterations, and of directions that are held.

    **Returns:** x, and the part of |b| that is left.
    """
    count, n = target.shape
    norm = jnp.linalg.norm(target, axis=1)
    tiny = jnp.finfo(target.dtype).tiny
    directions = jnp.zeros((most + 1, count, n), target.dtype).at[0].set(target / jnp.maximum(norm, tiny)[:, None])
    # H V = V_+ (rotated to a triangle), column by column; g is |b| e_1 under the same rotations.
    triangle = jnp.zeros((most, count, most), target.dtype)
    rotations = jnp.zeros((most, 2, count), target.dtype)
    g = jnp.zeros((most + 1, count), target.dtype).at[0].set(norm)

    def unfinished(state: Any) -> Array:
        *_, g, j = state
        return (j < most) & jnp.any(jnp.abs(g[j]) > tolerance * norm)

    def iterate(state: Any) -> Any:
        directions, triangle, rotations, g, j = state

        def remove(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            image, column = state
            direction = directions[i % (j + 1)]
            part = jnp.sum(direction * image, axis=1)
            return image - part[:, None] * direction, column.at[i % (j + 1)].add(part)

        # Twice is enough: once leaves what rounding has mixed in again. One by one, since most directions are not there
        # yet, and reading all of them took as long as the products with A.
        first = apply(directions[j]), jnp.zeros((most + 1, count), target.dtype)
        image, column = jax.lax.fori_loop(0, 2 * (j + 1), remove, first)
        length = jnp.linalg.norm(image, axis=1)
        directions = directions.at[j + 1].set(image / jnp.maximum(length, tiny)[:, None])
        column = column.at[j + 1].set(length)

        def rotate(i: Array, column: Array) -> Array:
            c, s = rotations[i]
            upper, lower = column[i], column[i + 1]
            return column.at[i].set(c * upper + s * lower).at[i + 1].set(c * lower - s * upper)

        column = jax.lax.fori_loop(0, j, rotate, column)
        radius = jnp.maximum(jnp.hypot(column[j], column[j + 1]), tiny)
        c, s = column[j] / radius, column[j + 1] / radius
        rotations = rotations.at[j].set(jnp.stack([c, s]))
        triangle = triangle.at[:, :, j].set(column[:-1].at[j].set(radius))
        g = g.at[j + 1].set(-s * g[j]).at[j].set(c * g[j])
        return directions, triangle, rotations, g, j + 1

    directions, triangle, _, g, j = jax.lax.while_loop(
        unfinished, iterate, (directions, triangle, rotations, g, jnp.asarray(0))
    )
    # Columns that were not reached get a unit diagonal and weight zero.
    reached = jnp.arange(most) < j
    square = jnp.swapaxes(triangle, 0, 1)
    square = jnp.where(reached[None, None], square, 0.0) + jnp.diag(jnp.where(reached, 0.0, 1.0))[None]
    weights = jnp.where(reached[:, None], g[:-1], 0.0).T
    y = jax.scipy.linalg.solve_triangular(square, weights[..., None], lower=False)[..., 0]
    add = lambda i, x: x + y[:, i, None] * directions[i]  # noqa: E731
    x = jax.lax.fori_loop(0, j, add, jnp.zeros_like(target))
    return x, jnp.abs(g[j]) / jnp.maximum(norm, tiny)
