"""Checks that all reference solvers share: double precision, finite samples, ordered times."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from .._precision import double_precision


def sample(function: Callable, *points: Float[np.ndarray, " _"]) -> Float[np.ndarray, "*leading"]:
    """The values of `function` on the grid of `points`, one array per axis: `[functions, n_1, ..., n_d]`, in float64.

    The function may be NumPy or JAX; JAX runs in double precision here, so that a user in float32 still gets a
    reference that is not limited by rounding.
    """
    with double_precision():
        values = np.array(function(*points), dtype=np.float64)
    shape = tuple(p.shape[0] for p in points)
    if values.ndim <= len(shape) or values.shape[-len(shape) :] != shape:
        raise ValueError(
            f"a function sampled at {shape} points must return the shape (functions, {', '.join(map(str, shape))}); "
            f"got {values.shape}. Put the functions on the leading axis."
        )
    if not np.all(np.isfinite(values)):
        raise ValueError("a sampled function returned values that are not finite; check it on its whole interval")
    return values


def check_times(times: Float[np.ndarray, " t"]) -> None:
    if times.shape[0] == 0 or times[0] < 0 or np.any(np.diff(times) <= 0):
        raise ValueError(f"output times must increase strictly from t >= 0; got {times}. Sort them first.")


def check_within(points: Float[np.ndarray, " n"], interval: tuple[float, float]) -> None:
    slack = 1e-12 * (interval[1] - interval[0])
    if points.shape[0] == 0 or points.min() < interval[0] - slack or points.max() > interval[1] + slack:
        raise ValueError(f"output points must lie in the interval {interval}; got {points}")
