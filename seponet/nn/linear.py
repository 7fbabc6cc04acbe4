"""Affine layers and their random starts."""

import math

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PRNGKeyArray

from .._program import compiled_briefly
from ..calculus import taylor
from ..calculus.decoders import matmul


class Linear(eqx.Module):
    r"""$x \mapsto x W + b$ on the last axis, whatever stands before it.

    Entries start uniform in $\pm 1/\sqrt{\text{in}}$; the same key gives the numbers of `equinox.nn.Linear`. The
    weight is stored `[in, out]`, so rows of data need no transposition.

    **Arguments:**

    - `in_size`, `out_size`: the sizes of the last axis.
    - `zero`: start from zero weight and bias.
    - `key`: for the initialisation.
    """

    weight: Float[Array, "in out"]
    bias: Float[Array, " out"]

    def __init__(self, in_size: int, out_size: int, *, zero: bool = False, key: PRNGKeyArray) -> None:
        limit = 0.0 if zero else 1 / math.sqrt(in_size)
        weight_key, bias_key = split(key, 2)
        self.weight = uniform(weight_key, (out_size, in_size), limit, transposed=True)
        self.bias = uniform(bias_key, (out_size,), limit)

    @property
    def in_size(self) -> int:
        return self.weight.shape[0]

    @property
    def out_size(self) -> int:
        return self.weight.shape[1]

    def __call__(self, x: Float[Array, "*n in"]) -> Float[Array, "*n out"]:
        y = self._rows(x) + self.bias[None]
        return y.reshape(*x.shape[:-1], -1)

    def taylor(self, series: Float[Array, "orders *n in"]) -> Float[Array, "orders *n out"]:
        """All orders go through one matrix product; the bias is a constant, so it enters at order zero."""
        y = self._rows(series).reshape(*series.shape[:-1], -1)
        return taylor.shift(y, self.bias.reshape((1,) * (y.ndim - 1) + (-1,)))

    def _rows(self, x: Array) -> Float[Array, "rows out"]:
        return matmul(x.reshape(-1, x.shape[-1]), self.weight)


def uniform(
    key: PRNGKeyArray, shape: tuple[int, ...], limit: float, *, transposed: bool = False
) -> Float[Array, "*shape"]:
    """Numbers between -limit and limit: those of `jax.random.uniform`, without its compilation for every shape.

    JAX's generator numbers its draws in row-major order, so a longer draw begins with the shorter one. Lengths rounded
    up to powers of four are compiled once, in a hurry, and serve all layers; setting up a model is then several times
    faster.
    """
    size = math.prod(shape)
    length = 1024
    while length < size:
        length *= 4
    drawn = _numbers(key, length, np.asarray(limit))
    numbers = (drawn if isinstance(drawn, Tracer) else np.asarray(drawn))[:size].reshape(shape)
    return jax.device_put(numbers.T if transposed else numbers)


@compiled_briefly
def split(key: PRNGKeyArray, count: int) -> tuple[PRNGKeyArray, ...]:
    """The keys of `jax.random.split`, by a program that is compiled in a hurry."""
    return tuple(jax.random.split(key, count))


@compiled_briefly
def _numbers(key: PRNGKeyArray, length: int, limit: Float[Array | np.ndarray, ""]) -> Float[Array, " length"]:
    return jax.random.uniform(key, (length,), minval=-limit, maxval=limit)
