"""The trigonometric cardinal functions: a basis whose coefficients are values on a uniform grid of a periodic axis."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from .base import Combined
from .quadrature import quadrature
from .trigonometric import Fourier


@dataclass(frozen=True)
class TrigonometricCardinal(Combined):
    r"""$D_j(x) = \frac{1}{n} \sum_{|k| < n/2} e^{2 \pi i k (x - x_j) / L}$ for the uniform nodes $x_j$ of an axis.

    The axis is periodic, of length L. A sum of the $D_j$ is the trigonometric interpolant of its coefficients, so the
    core of a decoder over nodal bases is a field on a grid. On an even number of nodes the mode k = n/2, which has no
    derivative there, is left out.
    """

    nodal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.axis.periodic:
            raise ValueError("a nodal basis needs a periodic axis; use legendre or chebyshev on an interval")

    @property
    def raw(self) -> Fourier:
        return Fourier(self.axis, self.size - 1 + self.size % 2)

    @property
    def matrix(self) -> Float64[np.ndarray, "raw size"]:
        nodes, weights = quadrature(self.axis, self.size)
        return (weights[:, None] * self.raw.table(nodes)[0]).T
