"""Random starts for weights."""

import math
from functools import partial

import jax
from jaxtyping import Array, Float, PRNGKeyArray


def uniform(key: PRNGKeyArray, shape: tuple[int, ...], limit: float) -> Float[Array, "*shape"]:
    """Numbers between -limit and limit: those of `jax.random.uniform`, without its compilation for every shape.

    JAX's generator numbers its draws in row-major order, so a longer draw begins with the shorter one. Lengths rounded
    up to powers of four are compiled once and serve all layers; setting up a model is then several times faster.
    """
    size = math.prod(shape)
    length = 1024
    while length < size:
        length *= 4
    return _cut(jax.random.uniform(key, (length,), minval=-limit, maxval=limit), shape)


@partial(jax.jit, static_argnames="shape")
def _cut(numbers: Array, shape: tuple[int, ...]) -> Array:
    return numbers[: math.prod(shape)].reshape(shape)
