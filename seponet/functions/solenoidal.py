"""Divergence-free velocity fields in the plane."""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, PRNGKeyArray

from ..bases.quadrature import quadrature
from ..bases.trigonometric import Fourier
from ..derivatives import MultiIndex, compose, multi_index
from ..domain import Domain
from ..locations import Location
from .space import Functions, Space, expand, normal, project
from .spectral import eigenvalues, truncate

TAIL = 1e-10
"""The share of the kinetic energy, on each axis, that the truncated Fourier series may miss."""


@dataclass(frozen=True)
class SolenoidalField(Space):
    r"""Two-component velocities $(\psi_y, -\psi_x)$ on two periodic axes, with a given maximum speed.

    White noise is filtered to the amplitude $a(k) = p(k) / k$ and Leray-projected, where p is the density of the
    log-normal distribution with mode `peak` and log-variance 1/4,

    $$p(k) \propto k^{-1} \exp(-2 (\ln k - \ln \text{peak} - 1/4)^2),$$

    and 1/k shares it among the wavevectors of that length. In the plane a projected mode has one amplitude left, so
    the same field comes from a stream function whose coefficients in the orthonormal Fourier basis are independent,
    normal, with deviations a(k) / k. Each field is then scaled so that its maximum over a uniform grid is `max_speed`;
    between the points of the 128 x 128 grid the speed may exceed it by 3e-3.

    k is the wavenumber in periods, $k = |\kappa| \sqrt{L_x L_y} / 2 \pi$: equal to the angular one on $[0, 2\pi]^2$.

    **Arguments:**

    - `domain`: two periodic axes. The components are along them, in this order.
    - `max_speed`: the largest speed of every field.
    - `peak`: the mode of p.
    - `modes`: the highest wavenumber on each axis. By default each misses 1e-10 of the energy (26 for `peak=3`).
    - `resolution`: the number of points along each axis of the grid on which the speed is measured.
    """

    domain: Domain
    max_speed: float = 5.0
    peak: float = 3.0
    modes: int | None = None
    resolution: int = 128

    components = 2

    def __post_init__(self) -> None:
        if len(self.domain) != 2 or not all(axis.periodic for _, axis in self.domain.axes):
            raise ValueError(f"a SolenoidalField needs two periodic axes; got {dict(self.domain.axes)}")
        if self.max_speed <= 0 or self.peak <= 0 or (self.modes is not None and self.modes < 1):
            raise ValueError(
                "max_speed, peak and modes must be positive; "
                f"got max_speed={self.max_speed}, peak={self.peak}, modes={self.modes}"
            )

    @property
    def bases(self) -> tuple[Fourier, Fourier]:
        """The bases of the stream function."""
        (_, x), (_, y) = self.domain.axes
        rows, columns = self.deviations.shape
        return Fourier(x, rows), Fourier(y, columns)

    @property
    def deviations(self) -> Float64[np.ndarray, "size size"]:
        """The standard deviations of the stream function's coefficients, before the scaling to the maximum speed."""
        return _deviations(self)

    def draw(self, key: PRNGKeyArray, n: int) -> Float[Array, "n size size"]:
        """The coefficients of `n` stream functions, scaled so that each velocity has the maximum speed."""
        coefficients = normal(key, n, self.deviations)
        grid = self.sensors(self.resolution)

        def speed(coefficients: Float[Array, "size size"]) -> Float[Array, ""]:
            along, across = self.evaluate(coefficients[None], grid, ())
            return jnp.sqrt(jnp.max(along**2 + across**2))

        # One by one: the grids of a large batch would not fit in memory.
        return coefficients * (self.max_speed / jax.lax.map(speed, coefficients))[:, None, None]

    def evaluate(self, parameters: Array, where: Location, alpha: MultiIndex) -> Float[Array, "2 n *places"]:
        x, y = self.domain.names
        along = expand(parameters, self.bases, where, compose(alpha, multi_index(**{y: 1})))
        across = expand(parameters, self.bases, where, compose(alpha, multi_index(**{x: 1})))
        return jnp.stack([along, -across])

    def fit(self, values: Float[Array, "2 n *grid"]) -> Functions:
        """The divergence-free part of `values` without its mean: its stream function solves
        -Laplacian psi = vorticity of `values`."""
        (along, across), (x, y) = (project(v, self.bases) for v in values), (_slope(basis) for basis in self.bases)
        d_x, d_y = (jnp.asarray(d, values.dtype) for d in (x, y))
        vorticity = jnp.einsum("ij,njk->nik", d_x, across, precision="highest")
        vorticity = vorticity - jnp.einsum("ij,nkj->nki", d_y, along, precision="highest")
        return Functions(self, vorticity * jnp.asarray(self.inverse_laplacian, values.dtype)[None])

    @property
    def inverse_laplacian(self) -> Float64[np.ndarray, "size size"]:
        """The inverse of minus the Laplacian on the coefficients of the stream function, 1/|k|^2 for each; zero for the
        constant, which no velocity depends on."""
        sizes = self.deviations.shape
        axes = (axis for _, axis in self.domain.axes)
        square = np.add.outer(*(eigenvalues(axis, n // 2) for axis, n in zip(axes, sizes, strict=True)))
        return np.where(square > 0, 1 / np.where(square > 0, square, 1), 0)


@functools.cache
def _slope(basis: Fourier) -> Float64[np.ndarray, "size size"]:
    """The matrix of d/dx on coefficients, exact since the derivatives of the functions lie in their span."""
    points, weights = quadrature(basis.axis, basis.size)
    values, slopes = basis.table(points, 1)
    return (weights[:, None] * values).T @ slopes


@functools.cache
def _deviations(space: SolenoidalField) -> np.ndarray:
    axes = tuple(axis for _, axis in space.domain.axes)
    unit = np.sqrt(axes[0].length * axes[1].length) / (2 * np.pi)
    # Beyond 20 peaks lies less than 1e-15 of the energy.
    highest = [int(np.ceil(20 * max(space.peak, 1) * axis.length / (2 * np.pi * unit))) for axis in axes]
    counts = tuple(highest) if space.modes is None else (space.modes, space.modes)
    k = unit * np.sqrt(functools.reduce(np.add.outer, map(eigenvalues, axes, counts)))
    varying = k > 0
    k = np.where(varying, k, 1)
    velocity = np.where(varying, np.exp(-2 * (np.log(k / space.peak) - 0.25) ** 2) / k**2, 0)
    if space.modes is None:
        counts = truncate(velocity**2, axes, TAIL)
    velocity, k = (array[: 2 * counts[0] + 1, : 2 * counts[1] + 1] for array in (velocity, k))
    # Free of the overall scale, which the maximum speed sets.
    return velocity / k / np.max(velocity / k)
