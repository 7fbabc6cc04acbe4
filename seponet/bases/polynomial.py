"""Polynomial bases: Legendre and Chebyshev."""

from abc import abstractmethod
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .base import Basis


class _Polynomial(Basis):
    """Polynomials p_0, p_1, ... of xi = 2 (x - lower) / L - 1 whose derivatives obey three-term recurrences.

    The derivatives of Legendre and Chebyshev polynomials are ultraspherical polynomials, so for every order m

        p_n^(m) = a_nm xi p_{n-1}^(m) - b_nm p_{n-2}^(m) + c_nm,    a = b = 0 for n <= m,    c = 0 for n != m,

    a recurrence as stable as that of the polynomials themselves; it runs for all orders at once.
    """

    @abstractmethod
    def recurrence(self, n: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """a (n - m), b (n - m) and p_m^(m) as functions of n (a column) and m (a row)."""

    @abstractmethod
    def scale(self, n: np.ndarray) -> np.ndarray:
        """The factor of p_n."""

    def evaluate(self, points: Any, order: int, xp: ModuleType) -> Any:
        n, m = np.arange(self.size, dtype=float)[:, None], np.arange(order + 1, dtype=float)[None]
        a, b, start = self.recurrence(n, m)
        step = np.maximum(n - m, 1)
        rows = (np.where(n > m, a / step, 0), np.where(n > m, b / step, 0), np.where(n == m, start, 0))
        a, b, c = (xp.asarray(row, points.dtype)[:, :, None] for row in rows)
        xi = (2 * (points - self.axis.lower) / self.axis.length - 1)[None]

        def advance(last: tuple[Any, Any], row: tuple[Any, Any, Any]) -> tuple[tuple[Any, Any], Any]:
            a, b, c = row
            new = a * xi * last[0] - b * last[1] + c
            return (new, last[0]), new

        zero = xp.zeros((order + 1, points.shape[0]), points.dtype)
        values = _scan(advance, (zero, zero), (a, b, c), xp)
        factor = self.scale(n.T) * (2 / self.axis.length) ** m.T
        return xp.transpose(values, (1, 2, 0)) * xp.asarray(factor, points.dtype)[:, None]


def _scan(advance: Any, state: Any, rows: Any, xp: ModuleType) -> Any:
    if xp is jnp:
        return jax.lax.scan(advance, state, rows, unroll=4)[1]
    values = []
    for row in zip(*rows, strict=True):
        state, value = advance(state, row)
        values.append(value)
    return np.stack(values)


@dataclass(frozen=True)
class Legendre(_Polynomial):
    """sqrt((2n + 1) / L) P_n(xi), n = 0..size-1: L2-orthonormal polynomials."""

    def recurrence(self, n: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        # P_m^(m) = (2m - 1)!!
        return 2 * n - 1, n + m - 1, np.cumprod(np.maximum(2 * m - 1, 1), axis=1)

    def scale(self, n: np.ndarray) -> np.ndarray:
        return np.sqrt((2 * n + 1) / self.axis.length)


@dataclass(frozen=True)
class Chebyshev(_Polynomial):
    """T_n(xi), n = 0..size-1: bounded by one, equally good all along the axis, not L2-orthogonal."""

    def recurrence(self, n: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        # From T_n^(m) = 2^(m-1) (m-1)! n C_{n-m}^(m); for m = 0 the usual recurrence, begun by T_1 = xi T_0.
        a = np.where(m > 0, 2 * n, np.where(n > 1, 2 * n, n))
        b = n * np.where(m > 0, (n + m - 2) / np.maximum(n - 2, 1), 1)
        # T_m^(m) = 2^(m-1) m!
        return a, b, np.cumprod(np.maximum(m, 1) * np.where(m > 1, 2, 1), axis=1)

    def scale(self, n: np.ndarray) -> np.ndarray:
        return np.ones_like(n)
