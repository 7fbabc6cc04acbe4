"""Gaussian random fields whose covariance is a function of the Laplacian."""

import functools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from ..bases.base import Basis
from ..bases.trigonometric import Fourier, Sine
from ..domain import Domain, Interval
from .space import Expansion, leading

TAIL = 1e-12
"""The share of a field's variance that the truncated expansion may miss on one axis."""

PRODUCTS_TAIL = 1e-8
"""The same on several axes: there are ten times fewer products than with 1e-12 on each."""


@dataclass(frozen=True)
class SpectralField(Expansion):
    r"""Gaussian fields with covariance operator $\sigma^2 (-\Delta + \tau^2)^{-\gamma}$, that is

    $$u = \sum_k \sigma (\lambda_k + \tau^2)^{-\gamma/2} \xi_k \phi_k, \qquad -\Delta \phi_k = \lambda_k \phi_k,$$

    with independent standard normal $\xi_k$ and L2-orthonormal $\phi_k$: products of cosines and sines on periodic
    axes, of Dirichlet sines on intervals. If all axes are periodic the constant is left out: the mean is zero.

    In d > 1 dimensions the products that carry the most variance are kept, a ball of wavevectors on a torus or cube.
    A share $\epsilon$ of the variance that is missed is about $\epsilon^{(2\gamma - d - 2m)/(2\gamma - d)}$ of that of
    the m-th derivatives: for $\gamma = 4$ in the plane 1e-8 of the field, 1e-5 of its slopes, 0.4% of its Laplacian.

    **Arguments:**

    - `domain`: its axes.
    - `sigma`, `tau`, `gamma`: the spectrum. Without `modes`, gamma must exceed half the number of axes.
    - `modes`: the highest wavenumber, one for all axes or one for each. By default all but 1e-12 of the variance is
        kept, in several dimensions all but 1e-8, with at most 1024, 64 and 16 wavenumbers along each axis in one, two
        and more dimensions.
    """

    domain: Domain
    sigma: float
    tau: float
    gamma: float
    modes: int | tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        dimensions = len(self.domain)
        if not dimensions:
            raise ValueError("a SpectralField needs at least one axis; got an empty domain")
        if self.sigma <= 0 or self.tau < 0:
            raise ValueError(f"sigma must be positive and tau not negative; got sigma={self.sigma}, tau={self.tau}")
        if self.modes is None:
            if self.gamma <= dimensions / 2:
                raise ValueError(
                    f"a field with gamma={self.gamma} has infinite variance in {dimensions} dimensions: "
                    f"use gamma > {dimensions / 2}, or give the number of `modes`"
                )
        elif isinstance(self.modes, tuple) and len(self.modes) != dimensions:
            raise ValueError(f"modes must be one number or {dimensions} of them; got {self.modes}")
        elif np.min(self.modes) < 1:
            raise ValueError(f"modes must be at least 1; got {self.modes}")

    @property
    def bases(self) -> tuple[Basis, ...]:
        return _spectrum(self)[0]

    @property
    def deviations(self) -> Float64[np.ndarray, "*sizes"]:
        return _spectrum(self)[1]


@functools.cache
def _spectrum(space: SpectralField) -> tuple[tuple[Basis, ...], np.ndarray]:
    axes = tuple(axis for _, axis in space.domain.axes)
    modes = space.modes
    if modes is None:
        modes = (1024, 64, 16)[min(len(axes), 3) - 1]
    counts = modes if isinstance(modes, tuple) else (modes,) * len(axes)
    eigenvalue = functools.reduce(np.add.outer, map(eigenvalues, axes, counts))
    # Only the constant has the eigenvalue zero, and only if all axes are periodic: it is left out.
    shifted = np.where(eigenvalue > 0, eigenvalue + space.tau**2, np.inf)
    deviations = space.sigma * shifted ** (-space.gamma / 2)
    if space.modes is None and len(axes) == 1:
        counts = truncate(deviations**2, axes, TAIL)
    elif space.modes is None:
        deviations = leading(deviations, PRODUCTS_TAIL)
        counts = truncate(deviations**2, axes, 0.0)
    sizes = tuple(map(size, axes, counts))
    return tuple(map(laplacian_basis, axes, sizes)), deviations[tuple(map(slice, sizes))]


def laplacian_basis(axis: Interval, size: int) -> Basis:
    """The eigenfunctions of the Laplacian: Fourier on a periodic axis, Dirichlet sines on an interval."""
    return (Fourier if axis.periodic else Sine)(axis, size)


def size(axis: Interval, count: int) -> int:
    """How many eigenfunctions have wavenumbers up to `count`."""
    return 2 * count + 1 if axis.periodic else count


def eigenvalues(axis: Interval, count: int) -> Float64[np.ndarray, " size"]:
    """The eigenvalues of minus the Laplacian on one axis, for wavenumbers up to `count`, in the order of its basis."""
    if axis.periodic:
        return (2 * np.pi * ((np.arange(size(axis, count)) + 1) // 2) / axis.length) ** 2
    return (np.pi * np.arange(1, count + 1) / axis.length) ** 2


def truncate(variances: Float64[np.ndarray, "*sizes"], axes: tuple[Interval, ...], tail: float) -> tuple[int, ...]:
    """For each axis the wavenumber beyond which no more than the share `tail` of the variance lies."""
    counts = []
    for i, axis in enumerate(axes):
        marginal = variances.sum(axis=tuple(j for j in range(len(axes)) if j != i))
        beyond = marginal[::-1].cumsum()[::-1]
        last = max(int(np.sum(beyond > tail * marginal.sum())), 1) - 1
        counts.append(max((last + 1) // 2, 1) if axis.periodic else last + 1)
    return tuple(counts)
