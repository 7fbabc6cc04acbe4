"""Quadrature rules of one axis."""

import functools

import numpy as np
from jaxtyping import Float64

from ..domain import Interval

_gauss = functools.cache(np.polynomial.legendre.leggauss)


def gauss(axis: Interval, n: int) -> tuple[Float64[np.ndarray, " n"], Float64[np.ndarray, " n"]]:
    """The `n` Gauss-Legendre points of an axis and their weights, which sum to its length."""
    points, weights = _gauss(n)
    return axis.lower + axis.length * (points + 1) / 2, axis.length * weights / 2


def quadrature(axis: Interval, n: int) -> tuple[Float64[np.ndarray, " n"], Float64[np.ndarray, " n"]]:
    """The best points and weights for smooth functions: Gauss-Legendre on an interval, uniform on a periodic axis."""
    if axis.periodic:
        return axis.lower + axis.length * np.arange(n) / n, np.full(n, axis.length / n)
    return gauss(axis, n)
