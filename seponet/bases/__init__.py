"""Functions of one variable with exact derivatives: the bricks of function spaces and classical trunks."""

from .base import Basis, Combined
from .cardinal import TrigonometricCardinal
from .fourier_grid import FourierGrid
from .orthonormal import Orthonormal
from .polynomial import Chebyshev, Legendre
from .quadrature import gauss, quadrature
from .spline import Spline
from .trigonometric import Fourier, Sine

__all__ = [
    "Basis",
    "Chebyshev",
    "Combined",
    "Fourier",
    "FourierGrid",
    "Legendre",
    "Orthonormal",
    "Sine",
    "Spline",
    "TrigonometricCardinal",
    "gauss",
    "quadrature",
]
