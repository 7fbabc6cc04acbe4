"""User data: functions given by their values on a tensor grid."""

import functools
import warnings
from collections.abc import Mapping
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, PRNGKeyArray

from ..bases.base import Basis
from ..bases.spline import Spline
from ..bases.trigonometric import Fourier
from ..derivatives import MultiIndex
from ..domain import Domain, Interval, Periodic
from ..locations import Location
from .fitted import Resampling
from .space import Functions, Space, expand


class Sampled(Space):
    """Interpolants of data: trigonometric interpolation on periodic axes, quintic splines on intervals.

    An interpolant of smooth data with spacing h is right to h^6 and its m-th derivative to h^(6-m); on a periodic
    axis to every power of h. (Four or five points make a cubic spline.) `functions()` is the batch of all of them.

    Drawing a sample gives new functions like these, from a normal distribution with their mean and covariance
    (`fitted.py`), so that an operator trained on a few hundred functions holds for others of their kind. The data
    become constants of a compiled sampler.

    ```python
    space = Sampled(Domain(x=(0, 1)), values)  # values [functions, n], uniform, both ends included
    space = Sampled(Domain(x=(0, 1)), values, {"x": points})  # your own points
    ```

    **Arguments:**

    - `domain`: its axes.
    - `values`: `[functions, n_1, .., n_d]`, or `[functions, components, n_1, .., n_d]`.
    - `coordinates`: for each axis its points, increasing. Intervals must be covered from end to end. On a periodic axis
        the points must be uniform, and the end that repeats the beginning may be given or left out. By default the
        points are uniform: with both ends on an interval, without the upper end on a periodic axis.
    - `draw`: "fitted", the normal distribution; "given", functions of the data at random, with replacement; or "auto":
        the first where it is right, both half and half where the data are clearly not normal, and the second for fewer
        than 30 functions, or if all are positive and normal ones would not be. What is chosen instead of the first is
        told.
    """

    def __init__(
        self,
        domain: Domain,
        values: Float[Array | np.ndarray, "..."],
        coordinates: Mapping[str, Float[Array | np.ndarray, "..."]] | None = None,
        draw: Literal["auto", "fitted", "given"] = "auto",
    ) -> None:
        if draw not in ("auto", "fitted", "given"):
            raise ValueError(f'draw must be "auto", "fitted" or "given"; got {draw!r}')
        data = np.asarray(values, np.float64)
        rank = 1 + len(domain)
        if not len(domain) or data.ndim not in (rank, rank + 1) or 0 in data.shape:
            raise ValueError(
                f"values must be [functions, {', '.join(domain.names)}], with components after the functions if any; "
                f"got the shape {data.shape}"
            )
        if not np.all(np.isfinite(data)):
            index = tuple(int(i) for i in np.argwhere(~np.isfinite(data))[0])
            raise ValueError(f"values must be finite; got {data[index]} at index {index}: drop or repair that function")
        self.domain = domain
        self.components = data.shape[1] if data.ndim > rank else None
        # Far more components than functions is what the other order looks like.
        if self.components is not None and self.components > 2 * len(data) > 2:
            warnings.warn(
                f"the values are read as {len(data)} functions with {self.components} components each; if it is the "
                "other way round, swap the first two axes: functions come first",
                stacklevel=2,
            )
        unknown = sorted(set(coordinates or ()) - set(domain.names))
        if unknown:
            raise ValueError(f"coordinates are for the axes {', '.join(domain.names)}; got {', '.join(unknown)}")
        bases = []
        for i, (name, axis) in enumerate(domain.axes, start=data.ndim - len(domain)):
            along = np.moveaxis(data, i, 0)
            points = _coordinates(name, axis, along.shape[0], (coordinates or {}).get(name))
            basis, along = (
                _fit_circle(name, axis, points, along) if axis.periodic else _fit_line(name, axis, points, along)
            )
            bases.append(basis)
            data = np.moveaxis(along, 0, i)
        self.bases: tuple[Basis, ...] = tuple(bases)
        self.coefficients: Float64[np.ndarray, "..."] = data
        self._values, self._draw = np.asarray(values, np.float64), draw

    @functools.cached_property
    def resampling(self) -> Resampling:
        """How functions are drawn."""
        return Resampling(self.coefficients, self._values, self._draw)

    def functions(self) -> Functions:
        """The batch of all functions in the data."""
        return Functions(self, jnp.asarray(self.coefficients, float))

    def draw(self, key: PRNGKeyArray, n: int) -> Float[Array, "n *sizes"]:
        return self.resampling(key, n)

    def evaluate(self, parameters: Array, where: Location, alpha: MultiIndex) -> Float[Array, "..."]:
        return expand(parameters, self.bases, where, alpha)


def _coordinates(name: str, axis: Interval, count: int, given: Array | np.ndarray | None) -> np.ndarray:
    if given is None:
        return np.linspace(axis.lower, axis.upper, count, endpoint=not axis.periodic)
    points = np.asarray(given, np.float64)
    if points.shape != (count,):
        raise ValueError(f"the values have {count} points along {name!r}; got coordinates of shape {points.shape}")
    if not np.all(np.isfinite(points)) or np.any(np.diff(points) <= 0):
        raise ValueError(f"the coordinates of {name!r} must be finite and increasing; sort the data along that axis")
    return points


def _fit_line(name: str, axis: Interval, points: np.ndarray, values: np.ndarray) -> tuple[Basis, np.ndarray]:
    if len(points) < 4:
        raise ValueError(f"a spline along {name!r} needs at least 4 points; got {len(points)}")
    tolerance = 1e-6 * axis.length
    if abs(points[0] - axis.lower) > tolerance or abs(points[-1] - axis.upper) > tolerance:
        raise ValueError(
            f"the coordinates of {name!r} must cover the axis from {axis.lower} to {axis.upper}; "
            f"got {points[0]} to {points[-1]}"
        )
    basis = Spline.through(axis, tuple(points.tolist()))
    return basis, basis.interpolate(values)


def _fit_circle(name: str, axis: Interval, points: np.ndarray, values: np.ndarray) -> tuple[Basis, np.ndarray]:
    tolerance = 1e-6 * axis.length
    if abs(points[-1] - points[0] - axis.length) <= tolerance:
        gap = np.max(np.abs(values[-1] - values[0]))
        if gap > 1e-6 * np.max(np.abs(values)):
            raise ValueError(
                f"the first and the last point along the periodic axis {name!r} are the same; "
                f"got values that differ there by {gap:.3g}"
            )
        points, values = points[:-1], values[:-1]
    if len(points) < 3:
        raise ValueError(f"the periodic axis {name!r} needs at least 3 distinct points; got {len(points)}")
    n, start = len(points), float(points[0])
    if np.max(np.abs(points - start - axis.length * np.arange(n) / n)) > tolerance:
        raise ValueError(
            f"the coordinates of the periodic axis {name!r} must be uniform and go once round, "
            f"with the spacing {axis.length / n:.6g}; resample the data"
        )
    # The basis starts at the first point, so that the highest cosine of an even number of points is not zero on them.
    basis = Fourier(Periodic(start, start + axis.length), n)
    nodes = start + axis.length * np.arange(n) / n
    return basis, np.tensordot(np.linalg.inv(basis.table(nodes)[0]), values, 1)
