r"""$s_t + s s_x = \nu s_{xx}$ on $(0, 1]_t \times [0, 1)_x$, periodic in $x$, $s(0, x) = u(x)$."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Array

from ..domain import Domain, Periodic
from ..equations.conditions import Value
from ..equations.problem import Problem
from ..functions import Functions, SpectralField, as_callable


class Burgers(Problem):
    r"""Learn $u \mapsto s$: the initial state has standard deviations $625\,((2\pi k)^2 + 25)^{-2}$ and zero mean."""

    nu: float = 0.01

    domain = Domain(t=(0, 1), x=Periodic(0, 1))
    inputs = {"u": SpectralField(domain["x"], sigma=625.0, tau=5.0, gamma=4.0)}
    conditions = [Value({"t": 0}, equals="u")]
    reference_resolution = 256

    def equation(self, s: Array, s_t: Array, s_x: Array, s_xx: Array) -> Array:
        return s_t + s * s_x - self.nu * s_xx

    def reference(
        self, inputs: Mapping[str, Functions], points: Mapping[str, np.ndarray], resolution: int
    ) -> dict[str, np.ndarray]:
        from ..reference import solve_burgers

        u = as_callable(inputs["u"])
        return {"s": solve_burgers(u, self.nu, points["t"], points["x"], resolution=resolution)}

    def paper_reference(
        self, inputs: Mapping[str, Functions], points: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        from ..reference import coarse_burgers

        return {"s": coarse_burgers(as_callable(inputs["u"]), self.nu, points["t"], points["x"])}
