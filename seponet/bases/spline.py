"""B-splines as a basis of one variable."""

import functools
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from ..domain import Interval
from .base import Basis


@dataclass(frozen=True)
class Spline(Basis):
    """B-splines whose knots are those of not-a-knot interpolation at given points: polynomials between the knots.

    Their tables hold, for each knot interval, the Taylor coefficients of the `degree + 1` splines that don't vanish
    there. Outside the axis the last polynomials continue.

    **Arguments:**

    - `axis`: the interval.
    - `size`: the number of points.
    - `points`: where the splines interpolate.
    - `degree`: odd; derivatives up to `degree - 1` are continuous.
    """

    points: tuple[float, ...]
    degree: int

    @classmethod
    def through(cls, axis: Interval, points: tuple[float, ...]) -> "Spline":
        """The quintic splines for interpolation at `points`; cubic ones if there are fewer than six."""
        return cls(axis, len(points), points, 5 if len(points) >= 6 else 3)

    def interpolate(self, values: Float64[np.ndarray, "n *rest"]) -> Float64[np.ndarray, "size *rest"]:
        """The coefficients of the splines through `values` at the points."""
        from scipy.interpolate import make_interp_spline

        return make_interp_spline(self.points, values, k=self.degree).c

    def evaluate(self, points: Any, order: int, xp: ModuleType) -> Any:
        starts, widths, local = _pieces(self)
        cell = xp.clip(xp.searchsorted(xp.asarray(starts, points.dtype), points, side="right") - 1, 0, len(starts) - 1)
        width = xp.asarray(widths, points.dtype)[cell]
        fraction = (points - xp.asarray(starts, points.dtype)[cell]) / width
        taylor = xp.asarray(local, points.dtype)[cell]
        derivatives = []
        for m in range(order + 1):
            values = xp.zeros_like(taylor[:, :, 0])
            for power in range(self.degree, m - 1, -1):
                falling = float(np.prod(np.arange(power - m + 1, power + 1)))
                values = values * fraction[:, None] + falling * taylor[:, :, power]
            derivatives.append(values / width[:, None] ** m)
        # Spline number cell + j is the j-th of its cell.
        columns = cell[:, None] + xp.arange(self.degree + 1)[None]
        return _scatter(xp.stack(derivatives), columns, self.size, xp)


def _scatter(values: Any, columns: Any, size: int, xp: ModuleType) -> Any:
    orders, n, _ = values.shape
    rows = xp.arange(n)[:, None]
    dense = xp.zeros((orders, n, size), values.dtype)
    if xp is jnp:
        return jax.vmap(lambda zeros, value: zeros.at[rows, columns].set(value))(dense, values)
    dense[:, rows, columns] = values
    return dense


@functools.cache
def _pieces(basis: Spline) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the knot intervals start, their widths, and the Taylor coefficients `[interval, spline, power]`."""
    from scipy.interpolate import BSpline, PPoly, make_interp_spline

    k = basis.degree
    knots = make_interp_spline(basis.points, np.zeros(basis.size), k=k).t
    starts, widths = knots[k : -k - 1], np.diff(knots[k:-k])
    local = np.empty((len(starts), k + 1, k + 1))
    for j in range(k + 1):
        # Splines j, j + k + 1, j + 2 (k + 1), ... have no interval in common, so their sum shows all of them.
        comb = (np.arange(basis.size) % (k + 1) == j).astype(float)
        powers = PPoly.from_spline(BSpline(knots, comb, k)).c[::-1, k : -k or None]
        cells = np.arange(len(starts))
        local[cells, (j - cells) % (k + 1)] = (powers[:, : len(starts)] * widths ** np.arange(k + 1)[:, None]).T
    return starts, widths, local
