"""Spaces of input functions: each is sampled from a key, evaluated with derivatives anywhere, and read at sensors."""

from .bumps import Bumps
from .gaussian import GaussianField
from .interpolant import Interpolant, interpolate
from .parameters import Scalar, Vector
from .positive import Positive
from .resolution import Resolution, resolve
from .sampled import Sampled
from .solenoidal import SolenoidalField
from .space import Expansion, Functions, Space, as_callable, expand, project
from .spectral import SpectralField

__all__ = [
    "Bumps",
    "Expansion",
    "Functions",
    "GaussianField",
    "Interpolant",
    "Positive",
    "Resolution",
    "Sampled",
    "Scalar",
    "SolenoidalField",
    "Space",
    "SpectralField",
    "Vector",
    "as_callable",
    "expand",
    "interpolate",
    "project",
    "resolve",
]
