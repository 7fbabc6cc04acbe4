"""Real Fourier series on products of periodic axes, by FFT over the last axes of an array."""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from ..derivatives import MultiIndex, order_along
from ..domain import Domain


@dataclass(frozen=True)
class FourierGrid:
    r"""Uniform grids on a product of periodic axes, and the series $\sum_k \hat v_k e^{i k x}$ through values on them.

    Half of the coefficients determine a real function, so the last axis holds $k \ge 0$ only. On an even number of
    points the highest mode, which has no derivative there, is dropped whenever a series changes its grid.

    **Arguments:**

    - `domain`: the periodic axes.
    - `sizes`: the number of points along each.
    """

    domain: Domain
    sizes: tuple[int, ...]

    @property
    def _axes(self) -> tuple[int, ...]:
        return tuple(range(-len(self.sizes), 0))

    @property
    def highest(self) -> tuple[int, ...]:
        """The highest wavenumber along each axis that has a derivative, counted in periods."""
        return tuple((n - 1) // 2 for n in self.sizes)

    def transform(self, values: Float[Array, "..."]) -> Complex[Array, "..."]:
        """Values on the grid -> coefficients, independent of the number of points."""
        return jnp.fft.rfftn(values, axes=self._axes, norm="forward")

    def inverse(self, series: Complex[Array, "..."]) -> Float[Array, "..."]:
        """Coefficients -> values on the grid: the inverse of `transform`."""
        return jnp.fft.irfftn(series, self.sizes, self._axes, norm="forward")

    def resize(self, series: Complex[Array, "..."], other: "FourierGrid") -> Complex[Array, "..."]:
        """The coefficients on another grid; modes that it can't hold are dropped, new ones are zero."""
        for axis, old, new in zip(self._axes, self.sizes, other.sizes, strict=True):
            k = (min(old, new) - 1) // 2
            low = jnp.take(series, np.arange(k + 1), axis)
            if axis == -1:
                series = _pad(low, new // 2 - k, axis)
            else:
                high = jnp.take(series, np.arange(old - k, old), axis)
                series = jnp.concatenate([_pad(low, new - 2 * k - 1, axis), high], axis)
        return series

    def wavenumbers(self) -> dict[str, Float[np.ndarray, "..."]]:
        """For each axis the angular wavenumbers of the coefficients, shaped to broadcast against them."""
        wavenumbers: dict[str, np.ndarray] = {}
        for i, ((name, axis), n) in enumerate(zip(self.domain.axes, self.sizes, strict=True)):
            last = i == len(self.sizes) - 1
            periods = np.fft.rfftfreq(n, 1 / n) if last else np.fft.fftfreq(n, 1 / n)
            shape = [-1 if i == j else 1 for j in range(len(self.sizes))]
            wavenumbers[name] = (2 * np.pi / axis.length * periods).reshape(shape)
        return wavenumbers

    def derivative_multiplier(self, alpha: MultiIndex) -> Complex[np.ndarray, "..."]:
        """prod_i (1j k_i)^alpha_i: the factor by which the derivative `alpha` multiplies each coefficient."""
        factors = [(1j * k) ** order_along(alpha, name) for name, k in self.wavenumbers().items()]
        return math.prod(factors)  # pyright: ignore[reportReturnType]

    def wavenumber_squared(self) -> Float[np.ndarray, "..."]:
        """|k|^2 of each coefficient: the eigenvalues of minus the Laplacian."""
        return sum(k**2 for k in self.wavenumbers().values())  # pyright: ignore[reportReturnType]

    def multiplicity(self) -> Float[np.ndarray, "..."]:
        """How many modes each coefficient stands for, k and -k or one: the mean square of a series is
        sum multiplicity |v_k|^2."""
        last = np.full(self.sizes[-1] // 2 + 1, 2.0)
        last[0] = 1.0
        if self.sizes[-1] % 2 == 0:
            last[-1] = 1.0
        return last.reshape([1] * (len(self.sizes) - 1) + [-1])


def _pad(series: Array, count: int, axis: int) -> Array:
    widths = [(0, 0)] * series.ndim
    widths[axis] = (0, count)
    return jnp.pad(series, widths)
