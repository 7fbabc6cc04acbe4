"""Orthonormal bases of functions that satisfy homogeneous conditions exactly."""

import functools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from ..derivatives import Trace
from ..domain import Interval
from .base import Basis, Combined
from .quadrature import gauss
from .trigonometric import Fourier


@dataclass(frozen=True)
class Orthonormal(Combined):
    """The first `size` functions of a family that satisfy homogeneous conditions exactly: separation of variables.

    The span of the family, restricted to the functions on which every trace vanishes, is given the basis with

        int f_j f_k = delta_jk    and    int f_j' f_k' = energies_k delta_jk,    energies ascending.

    As many raw functions are taken as leave `size` of them: two Dirichlet traces cost Legendre two, Sine none.

    **Arguments:**

    - `family`: the class of the raw basis: `Fourier`, `Sine`, `Legendre` or `Chebyshev`.
    - `axis`, `size`: as for every basis.
    - `traces`: the functionals that vanish.
    """

    family: type[Basis]
    traces: tuple[Trace, ...]

    def __init__(self, family: type[Basis], axis: Interval, size: int, traces: tuple[Trace, ...] = ()) -> None:
        for name, value in {"axis": axis, "size": size, "family": family, "traces": tuple(traces)}.items():
            object.__setattr__(self, name, value)
        self.__post_init__()
        for trace in self.traces:
            if not axis.lower <= trace.at <= axis.upper:
                raise ValueError(
                    f"a trace must be taken on the axis, in [{axis.lower}, {axis.upper}]; got one at {trace.at}"
                )

    @property
    def harmonic(self) -> bool:
        return not self.traces and self.raw.harmonic

    @property
    def raw(self) -> Basis:
        return self.family(self.axis, _orthonormal(self).shape[0])

    @property
    def matrix(self) -> Float64[np.ndarray, "raw size"]:
        return _orthonormal(self)


@functools.cache
def _orthonormal(basis: Orthonormal) -> Float64[np.ndarray, "raw size"]:
    import scipy.linalg  # here and in other modules: it takes long to import, and not every operator needs it

    if basis.family is Fourier and not basis.traces:
        # It is orthonormal already, and rounding would mix the cosine and the sine of equal energy.
        return np.eye(basis.size)
    # The rank of the traces can grow with the number of raw functions (a second derivative sees no linear function),
    # at most to the number of traces, so this ends.
    count, null = basis.size, _null_space(basis, basis.size)
    while null.shape[1] < basis.size:
        count += basis.size - null.shape[1]
        null = _null_space(basis, count)
    # As many nodes as are exact for products of the polynomials, and converged for the highest sine.
    points, weights = gauss(basis.axis, 2 * count + 20)
    values = basis.family(basis.axis, count).table(points, 1) @ null
    mass, stiffness = np.swapaxes(values, 1, 2) @ (weights[:, None] * values)
    _, rotation = scipy.linalg.eigh(stiffness, mass)
    matrix = null @ rotation
    # Eigenvectors are unique up to their sign: the largest entry is made positive, so that the basis is reproducible.
    largest = np.argmax(np.abs(matrix), axis=0)
    return matrix * np.sign(matrix[largest, np.arange(basis.size)])


def _null_space(basis: Orthonormal, count: int) -> np.ndarray:
    if not basis.traces:
        return np.eye(count)
    raw = basis.family(basis.axis, count)
    rows = []
    for trace in basis.traces:
        weights = np.array(trace.weights)
        everywhere = np.abs(raw.table(np.linspace(basis.axis.lower, basis.axis.upper, 4 * count + 1), trace.order))
        # Relative to the functional's size elsewhere on the axis, so that the rounded zeros of sines count as zero.
        size = np.abs(weights) @ everywhere.max(axis=(1, 2))
        rows.append(weights @ raw.table(np.array([trace.at]), trace.order)[:, 0] / size)
    _, singular, right = np.linalg.svd(np.array(rows))
    return right[int(np.sum(singular > 1e-10)) :].T
