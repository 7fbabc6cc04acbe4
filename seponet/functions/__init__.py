"""Spaces of input functions: each is sampled from a key, evaluated with derivatives anywhere, and read at sensors."""

from .bumps import Bumps as Bumps
from .gaussian import GaussianField as GaussianField
from .positive import Positive as Positive
from .sampled import Sampled as Sampled
from .solenoidal import SolenoidalField as SolenoidalField
from .space import Expansion as Expansion
from .space import Functions as Functions
from .space import Space as Space
from .space import expand as expand
from .space import project as project
from .spectral import SpectralField as SpectralField
from .values import Scalar as Scalar
from .values import Vector as Vector
