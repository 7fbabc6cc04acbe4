"""How many uniform sensors along each axis resolve the functions of a space."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from ..domain import Interval
from ..locations import Grid
from .interpolant import cardinal
from .sampled import Sampled
from .space import Functions, Space

STEPS = 960
"""Steps of the fine grid along an axis. It has many divisors, so that coarser grids are among its points."""

DIVISORS = tuple(d for d in range(3, STEPS + 1) if STEPS % d == 0)

LEAST = (64, 16, 8)
"""The fewest sensors along an axis for functions of one, two and more axes: so few cost next to nothing, and the state
at the end of a window of time, which may be finer than the inputs, is read there too."""

MOST = 4096
"""The most sensors of an input in all: 64 x 64 or 16 x 16 x 16. Each step encodes all of them; a thousand functions
take 32 MiB, and so do a thousand principal components."""

LINES = 4
"""Points along each other axis: lines on which the functions are looked at."""


@dataclass(frozen=True)
class Resolution:
    """Uniform grids that resolve functions: how many points along each axis, and the relative error (root mean square,
    against the deviation from the mean function) of interpolation between the points of each axis alone. `limited` says
    whether more points were needed than were allowed."""

    counts: Mapping[str, int]
    errors: Mapping[str, float]
    limited: bool


def resolve(space: Space, tolerance: float = 1e-3, most: int = MOST, functions: int = 16) -> Resolution:
    """The coarsest uniform grid from which the functions of a space can be interpolated.

    The interpolant is that of `interpolate`: trigonometric on periodic axes, quintic splines on intervals. Its error is
    measured on sampled functions, so it holds for every space, those of users included; `Sampled` data take no more
    points than they have. If more than `most` points would be needed in all, the axis that loses least gives some up.

    **Arguments:**

    - `space`: the functions.
    - `tolerance`: the relative error along each axis.
    - `most`: the largest number of points in all.
    - `functions`: how many functions to sample.
    """
    sample = jax.jit(lambda key: space.sample(key, functions))(jax.random.key(0))
    least = LEAST[min(max(len(space.domain), 1), 3) - 1]
    errors = {name: _errors(sample, name, tolerance, least) for name in space.domain}
    wanted = {name: max(of_axis) for name, of_axis in errors.items()}
    counts = dict(wanted)
    while math.prod(counts.values()) > most:
        coarser = {name: max((n for n in errors[name] if n < count), default=0) for name, count in counts.items()}
        possible = {name: count for name, count in coarser.items() if count}
        if not possible:
            break
        name = min(possible, key=lambda axis: errors[axis][possible[axis]])
        counts[name] = possible[name]
    return Resolution(counts, {name: errors[name][count] for name, count in counts.items()}, counts != wanted)


def _errors(functions: Functions, name: str, tolerance: float, least: int) -> dict[int, float]:
    """The errors of interpolation along one axis by the number of points, in increasing order: up to the first one that
    is within the tolerance and not less than `least`."""
    axis = functions.space.domain.axis(name)
    fine = _uniform(axis, STEPS + (not axis.periodic))
    exact = _along(functions, name, fine)
    deviation = exact - exact.mean(axis=1, keepdims=True)
    # A single given function does not deviate from the mean.
    scale = max(np.sqrt(np.mean(deviation**2)), 1e-6 * np.sqrt(np.mean(exact**2)), np.finfo(float).tiny)
    own_points = functions.space.bases[_index(functions, name)].size if isinstance(functions.space, Sampled) else None
    errors: dict[int, float] = {}
    for steps in DIVISORS:
        count = steps + (not axis.periodic)
        values = exact[:: STEPS // steps]
        if own_points is not None and count >= own_points:
            count, values = own_points, _along(functions, name, _uniform(axis, own_points))
        basis, coefficients = cardinal(functions.space.domain[name], count)
        interpolated = np.tensordot(basis.table(fine)[0] @ coefficients.T, values, 1)
        errors[count] = float(np.sqrt(np.mean((interpolated - exact) ** 2)) / scale)
        if (errors[count] <= tolerance and count >= least) or count == own_points:
            break
    return errors


def _along(functions: Functions, name: str, points: np.ndarray) -> np.ndarray:
    """Values `[points, functions, lines]` along an axis, on lines at random positions along the others."""
    space, random = functions.space, np.random.default_rng(0)
    others = {other: axis.lower + axis.length * random.random(LINES) for other, axis in space.domain.axes}
    where = Grid.of(space.domain, {other: jnp.asarray(x) for other, x in {**others, name: points}.items()})
    values = np.asarray(functions(where), np.float64)
    if space.components is not None:
        values = np.moveaxis(values, 0, -1)
    along = np.moveaxis(values, 1 + _index(functions, name), 0)
    return along.reshape(len(points), len(functions), -1)


def _index(functions: Functions, name: str) -> int:
    return functions.space.domain.names.index(name)


def _uniform(axis: Interval, count: int) -> np.ndarray:
    return np.linspace(axis.lower, axis.upper, count, endpoint=not axis.periodic)
