r"""Weaker norms for residuals.

An error of wavenumber k leaves a residual that is k (or k^2) times as large, so a mean square counts fine structure far
more than the error of the solution does. With the coefficients of the residual in an orthonormal basis of each axis
(Fourier on circles, Legendre on intervals),

$$|r|_{-m}^2 = \sum_k (1 + |k|^2)^{-m}\, \hat r_k^2,$$

the norm dual to m derivatives: m = 0 is the mean square. Coefficients come from the quadrature on which the residual is
known, so the points must be those of `basis.quadrature`.
"""

from collections.abc import Sequence
from functools import reduce

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .basis import Fourier, Legendre, quadrature
from .domain import Domain, Interval


class WeakNorm(eqx.Module):
    """Squares of residuals `[functions, *points]` that sum to the squared norm.

    - `analysis`: for each axis the values to its coefficients, `[modes, points]`.
    - `weights`: (1 + |k|^2)^(-m/2) of all modes.
    """

    analysis: tuple[Float[Array, "_ _"], ...]
    weights: Float[Array, "*modes"]

    @classmethod
    def of(cls, domain: Domain, counts: Sequence[int], order: float) -> "WeakNorm":
        """The norm for `counts` quadrature points along each axis."""
        analysis, numbers = zip(
            *(_analyse(axis, n) for (_, axis), n in zip(domain.axes, counts, strict=True)), strict=True
        )
        total = 1 + reduce(np.add.outer, [k**2 for k in numbers])
        return cls(tuple(jnp.asarray(a) for a in analysis), jnp.asarray(total ** (-order / 2)))

    def squares(self, residual: Float[Array, "functions *points"]) -> Float[Array, "functions *modes"]:
        for axis, matrix in enumerate(self.analysis, start=1):
            moved = jnp.tensordot(residual, matrix, ((axis,), (1,)), precision="highest")
            residual = jnp.moveaxis(moved, -1, axis)
        return (residual * self.weights[None]) ** 2


def _analyse(axis: Interval, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The analysis of an axis, and the wavenumber or degree of each mode."""
    points, weights = quadrature(axis, n)
    weights = weights / axis.length
    values = (Fourier if axis.periodic else Legendre)(axis, n).table(points)[0]
    # Orthonormal on the points themselves: the last cosine of an even number counts half.
    values = values / np.sqrt(weights @ values**2)
    modes = np.arange(n)
    return (values * weights[:, None]).T, (modes + 1) // 2 if axis.periodic else modes
