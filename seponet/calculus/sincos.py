"""Sine and cosine together, in one sweep that the compiler vectorises."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# pi/2 in three parts, the first two short enough that their products with small whole numbers are exact (Cody and
# Waite), and minimax polynomials on |r| <= pi/4 (Moshier, Cephes library).
HALF_PI = (1.5703125, 4.837512969970703125e-4, 7.54978995489188216e-8)
SINE = (-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4)
COSINE = (4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5)


@jax.custom_jvp
def sin_cos(x: Float[Array, "*shape"]) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Sine and cosine of every entry, to about 1e-7 for |x| < 8000 in float32. Other types take the compiler's
    functions, which are exact everywhere but five times slower on CPUs.

    The barrier keeps both in memory: without it the compiler computes them again in every loop that reads them.
    """
    both = _reduced(x) if x.dtype == np.float32 else (jnp.sin(x), jnp.cos(x))
    return jax.lax.optimization_barrier(both)


@sin_cos.defjvp
def _sin_cos_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    s, c = sin_cos(*primals)
    (dx,) = tangents
    return (s, c), (c * dx, -s * dx)


def _reduced(x: Array) -> tuple[Array, Array]:
    turns = jnp.round(x * np.float32(2 / math.pi))
    r = x
    for part in HALF_PI:
        r = r - turns * np.float32(part)
    square = r * r
    s = r + r * square * _polynomial(SINE, square)
    c = 1 - square / 2 + square * square * _polynomial(COSINE, square)
    quarter = turns.astype(np.int32)
    odd = (quarter & 1) == 1
    sine = jnp.where(odd, c, s)
    cosine = jnp.where(odd, s, c)
    return (
        jnp.where((quarter & 2) == 2, -sine, sine),
        jnp.where(((quarter + 1) & 2) == 2, -cosine, cosine),
    )


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    result = jnp.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = result * x + np.float32(c)
    return result
