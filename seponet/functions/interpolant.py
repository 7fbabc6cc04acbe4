"""Interpolants of values on a grid: functions that a user gives, where a space would draw them."""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..bases.base import Basis
from ..derivatives import MultiIndex
from ..domain import Domain
from ..locations import Location
from .sampled import Sampled
from .space import Functions, Space, expand


@dataclass(frozen=True)
class Interpolant(Space):
    """The space of interpolants, with coefficients `[functions, *components, *sizes]` of one basis for each axis.

    It holds no values, so it equals any other one on the same grid: new data of the same shape are given to a program
    that is compiled already.
    """

    domain: Domain
    bases: tuple[Basis, ...]
    components: int | None = None

    def draw(self, key: PRNGKeyArray, n: int) -> Array:
        raise ValueError("these functions were given, so there is no distribution to draw from; sample the problem")

    def evaluate(self, parameters: Array, where: Location, alpha: MultiIndex) -> Float[Array, "..."]:
        return expand(parameters, self.bases, where, alpha)


def interpolate(space: Space, values: Float[Array | np.ndarray, "functions *_"]) -> Functions:
    """The functions through `values` on a uniform grid (see `Space.sensors`), for one of a problem's inputs.

    Linear in `values` and written in JAX for JAX arrays, so it may be differentiated and compiled.
    """
    if not len(space.domain):
        return Functions(space, jnp.asarray(values))
    xp: Any = np if isinstance(values, np.ndarray) else jnp
    first = values.ndim - len(space.domain)
    bases: list[Basis] = []
    for name, count in zip(space.domain, values.shape[first:], strict=True):
        basis, coefficients = cardinal(space.domain[name], count)
        # Contracts the first remaining axis and appends the basis, so the axes end up in order.
        precision = {} if xp is np else {"precision": "highest"}
        values = xp.tensordot(values, xp.asarray(coefficients, values.dtype), ((first,), (0,)), **precision)
        bases.append(basis)
    return Functions(
        Interpolant(space.domain, tuple(bases), space.components),
        values if isinstance(values, Array) else jax.device_put(values),
    )


@functools.cache
def cardinal(line: Domain, count: int) -> tuple[Basis, np.ndarray]:
    """The basis of one axis, and the coefficients `[points, size]` of its cardinal functions: one at one point, zero at
    the others."""
    space = Sampled(line, np.eye(count))
    return space.bases[0], space.coefficients
