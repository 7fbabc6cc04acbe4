r"""$s_t = \alpha \nabla \cdot (s \nabla s)$ on $(0, 1]_t \times (-1, 1)^2$, $s = u$ at $t = 0$ and on walls."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Array

from ..domain import Domain
from ..equations.conditions import Value
from ..equations.problem import Problem
from ..functions import Bumps, Functions, as_callable


class NonlinearDiffusion(Problem):
    r"""Learn $u \mapsto s$: the initial state is a sum of three Gaussian bumps.

    The bumps do not vanish on the boundary (up to 0.04 there), and the boundary keeps its initial values, as it does in
    the authors' reference.
    """

    alpha: float = 0.05

    domain = Domain(t=(0, 1), x=(-1, 1), y=(-1, 1))
    inputs = {"u": Bumps(domain["x", "y"], count=3, amplitude=(0.2, 0.5), sharpness=(10.0, 20.0), centre=(-0.5, 0.5))}
    conditions = [Value({"t": 0}, equals="u"), Value({"x": (-1, 1)}, equals="u"), Value({"y": (-1, 1)}, equals="u")]
    reference_resolution = 100

    def equation(self, s: Array, s_t: Array, s_x: Array, s_y: Array, s_xx: Array, s_yy: Array) -> Array:
        return s_t - self.alpha * (s_x**2 + s_y**2 + s * (s_xx + s_yy))

    def reference(
        self, inputs: Mapping[str, Functions], points: Mapping[str, np.ndarray], resolution: int
    ) -> dict[str, np.ndarray]:
        from ..reference import solve_nonlinear_diffusion

        u, plane = as_callable(inputs["u"]), (points["x"], points["y"])
        return {"s": solve_nonlinear_diffusion(u, self.alpha, points["t"], plane, resolution=resolution)}

    def paper_reference(
        self, inputs: Mapping[str, Functions], points: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        from ..reference import adams_nonlinear_diffusion

        u, plane = as_callable(inputs["u"]), (points["x"], points["y"])
        return {"s": adams_nonlinear_diffusion(u, self.alpha, points["t"], plane)}
