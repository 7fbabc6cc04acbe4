r"""What is shown of a solution: each field, or for an incompressible flow in the plane the vorticity $q_x - p_y$."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from ..domain import Interval
from ..equations.flow import flow_axes
from ..equations.problem import Problem

VORTICITY, SPEED = "vorticity", "speed"


def quantities_of(problem: Problem, points: Mapping[str, Float[np.ndarray, " _"]]) -> tuple[str, ...]:
    """What is worth a picture: the fields, or the vorticity if they are a velocity (its speed on a degenerate grid)."""
    axes = flow_axes(problem)
    if axes is None:
        return tuple(problem.fields)
    return (VORTICITY,) if all(points[axis].shape[0] > 2 for axis in axes) else (SPEED,)


def compute_quantity(
    problem: Problem,
    points: Mapping[str, Float[np.ndarray, " _"]],
    fields: Mapping[str, Float[np.ndarray, "*grid"]],
    quantity: str,
) -> Float[np.ndarray, "*grid"]:
    """A field, or the "vorticity" or "speed" of a velocity, of one function on the whole grid."""
    if quantity in problem.fields:
        return np.asarray(fields[quantity], np.float64)
    known = problem.fields if flow_axes(problem) is None else (*problem.fields, VORTICITY, SPEED)
    if quantity not in known:
        raise ValueError(f"{type(problem).__name__} has the quantities {', '.join(known)}; got {quantity!r}")
    velocity = [np.asarray(fields[name], np.float64) for name in problem.fields]
    return derive(problem, points, tuple(problem.domain), velocity, quantity)


def derive(
    problem: Problem,
    points: Mapping[str, Float[np.ndarray, " _"]],
    axes: tuple[str, ...],
    velocity: list[np.ndarray],
    quantity: str,
) -> np.ndarray:
    """The vorticity or speed of a velocity on the grid of `axes`."""
    p, q = velocity
    if quantity == SPEED:
        return np.hypot(p, q)
    x, y = flow_axes(problem) or ("x", "y")

    def slope(values: np.ndarray, axis: str) -> np.ndarray:
        return _differentiate(values, points[axis], problem.domain.axis(axis), axes.index(axis))

    return slope(q, x) - slope(p, y)


def _differentiate(values: np.ndarray, points: np.ndarray, interval: Interval, axis: int) -> np.ndarray:
    """The derivative along an axis: spectral on a uniform grid of a periodic axis, with or without its upper end; by
    second-order differences elsewhere."""
    closed = interval.periodic and bool(np.isclose(points[-1] - points[0], interval.length))
    n = points.shape[0] - closed
    if interval.periodic and np.allclose(np.diff(points), interval.length / n, rtol=1e-4):
        one = np.take(values, range(n), axis)
        multipliers = 2j * np.pi * np.fft.rfftfreq(n, interval.length / n)
        if n % 2 == 0:
            multipliers[-1] = 0
        shape = [1] * values.ndim
        shape[axis] = multipliers.shape[0]
        slope = np.fft.irfft(np.fft.rfft(one, axis=axis) * multipliers.reshape(shape), n, axis)
        return np.concatenate([slope, np.take(slope, [0], axis)], axis) if closed else slope
    return np.gradient(values, points, axis=axis, edge_order=2)
