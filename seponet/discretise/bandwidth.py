"""The bandwidth of inputs: how many functions of one variable they need along each axis, and so how many nodes."""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from .._program import compiled_briefly
from ..bases.polynomial import Legendre
from ..bases.quadrature import quadrature
from ..bases.trigonometric import Fourier
from ..calculus.collocation import Nodes
from ..domain import Interval
from ..functions import Functions
from ..locations import Grid

FINEST = 193
"""Functions that are tried along an axis; odd, as Fourier functions come in pairs."""

ACROSS = 9
"""Points along the other axes of an input."""

CHUNK = 1 << 22
"""Values of an input that are held at a time, about."""


@dataclass(frozen=True)
class Bandwidth:
    """What one input needs along one axis.

    - `input`, `axis`: which.
    - `functions`: how many functions of the axis hold it to the tolerance.
    - `remainder`: the part of its L2 norm that the finest basis misses, for the roughest of the functions.
    """

    input: str
    axis: str
    functions: int
    remainder: float


def bandwidths(inputs: Mapping[str, Functions], tolerance: float) -> list[Bandwidth]:
    """The bandwidth of every input along each of its axes, to a relative L2 error. To be called in double precision."""
    return [
        _along(name, functions, axis, tolerance)
        for name, functions in inputs.items()
        for axis in functions.space.domain
    ]


def resolving_nodes(ranks: Nodes, needs: Sequence[Bandwidth], oversampling: float = 1.0) -> Nodes:
    """The number of quadrature nodes along each axis: enough for products of two trial functions, and for one times the
    inputs.

    **Arguments:**

    - `ranks`: the number of trial functions along each axis.
    - `needs`: what the inputs need.
    - `oversampling`: how many times as many nodes are taken.
    """
    nodes: list[tuple[str, int]] = []
    for name, rank in ranks:
        band = band_along(name, needs, ranks)
        nodes.append((name, math.ceil(oversampling * max(1.5 * rank + 3, rank + band))))
    return tuple(nodes)


def band_along(name: str, needs: Sequence[Bandwidth], ranks: Nodes) -> int:
    """How many functions inputs need along an axis of the box. One of a map's coordinates varies along all of them."""
    axes = (name, *(need.axis for need in needs if need.axis not in dict(ranks)))
    return max((need.functions for need in needs if need.axis in axes), default=0)


def _along(name: str, functions: Functions, axis: str, tolerance: float) -> Bandwidth:
    chunk = max(1, CHUNK // (2 * FINEST * ACROSS ** (len(functions.space.domain) - 1)))
    parts = [_remainders(functions[i : i + chunk], axis) for i in range(0, len(functions), chunk)]
    missed = np.max(parts, axis=0)
    # What cancels in the differences of `_remainders` can't be told from zero.
    needed = np.sum(missed > max(tolerance, 3e-8)) + 1
    return Bandwidth(name, axis, int(min(needed, FINEST)), float(missed[-1]))


def _remainders(functions: Functions, axis: str) -> Float64[np.ndarray, " functions"]:
    """The part of the L2 norm that the first 1, 2, .. functions of an axis miss, for the roughest of a batch."""
    domain = functions.space.domain
    rules = {n: quadrature(a, 2 * FINEST if n == axis else ACROSS) for n, a in domain.axes}
    values = np.asarray(_values(functions, {n: jnp.asarray(points) for n, (points, _) in rules.items()}))
    if functions.space.components is not None:
        values = np.concatenate(list(values))
    # `[functions, *grid]` -> `[functions, the other axes, the axis]`, the squares of the other axes weighted.
    along = list(domain).index(axis) + 1
    values = np.moveaxis(values, along, -1)
    for i, other in enumerate(n for n in domain if n != axis):
        shape = [-1 if j == i + 1 else 1 for j in range(values.ndim)]
        values = values * np.sqrt(rules[other][1]).reshape(shape)
    values = values.reshape(len(values), -1, values.shape[-1])
    coefficients = values @ _projection(domain.axis(axis))
    total = np.sum(values**2 @ rules[axis][1], axis=1)
    kept = np.cumsum(np.sum(coefficients**2, axis=1), axis=1)
    return np.max(np.sqrt(np.maximum(total[:, None] - kept, 0.0) / np.maximum(total[:, None], 1e-300)), axis=0)


@compiled_briefly
def _values(functions: Functions, points: Mapping[str, Array]) -> Float[Array, "functions *_"]:
    """On a grid. Compiled: operation by operation it takes longer than the predictions of the same functions."""
    return functions(Grid.of(functions.space.domain, dict(points)))


@functools.lru_cache(maxsize=16)
def _projection(axis: Interval) -> Float64[np.ndarray, "points functions"]:
    """From values at the nodes of an axis to coefficients."""
    basis = Fourier(axis, FINEST) if axis.periodic else Legendre(axis, FINEST)
    points, weights = quadrature(axis, 2 * FINEST)
    return weights[:, None] * basis.table(points)[0]
