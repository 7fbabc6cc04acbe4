r"""$s_t = \kappa s_{xx}$, $\kappa = 1/\pi^2$, on $(0, 1]_t \times (0, 1)_x$, $s(0, x) = u(x)$, $s = 0$ at both ends."""

import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Array

from ..domain import Domain
from ..equations.conditions import Value
from ..equations.problem import Problem
from ..functions import Functions, SpectralField, as_callable


class Heat(Problem):
    r"""Learn $u \mapsto s$: the initial state has standard deviations $625\,((k\pi)^2 + 25)^{-2}$ on the sines."""

    diffusivity: float = 1 / math.pi**2

    domain = Domain(t=(0, 1), x=(0, 1))
    inputs = {"u": SpectralField(domain["x"], sigma=625.0, tau=5.0, gamma=4.0)}
    conditions = [Value({"t": 0}, equals="u"), Value({"x": (0, 1)})]
    reference_resolution = 128
    grid_points = 128

    def equation(self, s_t: Array, s_xx: Array) -> Array:
        return s_t - self.diffusivity * s_xx

    def reference(
        self, inputs: Mapping[str, Functions], points: Mapping[str, np.ndarray], resolution: int
    ) -> dict[str, np.ndarray]:
        from ..reference import solve_heat

        u = as_callable(inputs["u"])
        return {"s": solve_heat(u, points["t"], points["x"], diffusivity=self.diffusivity, resolution=resolution)}

    def paper_reference(
        self, inputs: Mapping[str, Functions], points: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        from ..reference import euler_heat

        return {"s": euler_heat(as_callable(inputs["u"]), points["t"], points["x"], diffusivity=self.diffusivity)}
