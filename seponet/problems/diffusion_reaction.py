r"""$s_t = D s_{xx} + k s^2 + u(x)$ on $(0, 1]_t \times (0, 1)_x$, $s = 0$ at $t = 0$ and at both ends."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Array

from ..domain import Domain
from ..equations.conditions import Value
from ..equations.problem import Problem
from ..functions import Functions, GaussianField, as_callable


class DiffusionReaction(Problem):
    r"""Learn $u \mapsto s$: the source $u$ is a Gaussian random field with an RBF kernel of length 0.2.

    The source does not vanish at the ends, where s is held at zero, so s has a thin layer there for small t.
    """

    diffusivity: float = 0.01
    rate: float = 0.01

    domain = Domain(t=(0, 1), x=(0, 1))
    inputs = {"u": GaussianField(domain["x"], length_scale=0.2)}
    conditions = [Value({"t": 0}), Value({"x": (0, 1)})]
    reference_resolution = 512
    grid_points = 128

    def equation(self, s: Array, s_t: Array, s_xx: Array, u: Array) -> Array:
        return s_t - self.diffusivity * s_xx - self.rate * s**2 - u

    def reference(
        self, inputs: Mapping[str, Functions], points: Mapping[str, np.ndarray], resolution: int
    ) -> dict[str, np.ndarray]:
        from ..reference import solve_diffusion_reaction

        u = as_callable(inputs["u"])
        solve = solve_diffusion_reaction
        return {"s": solve(self._reaction, self.diffusivity, points["t"], points["x"], u=u, resolution=resolution)}

    def paper_reference(
        self, inputs: Mapping[str, Functions], points: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        from ..reference import crank_nicolson_reaction

        u = as_callable(inputs["u"])
        return {"s": crank_nicolson_reaction(self._reaction, self.diffusivity, points["t"], points["x"], u=u)}

    def _reaction(self, s: np.ndarray, u: np.ndarray) -> np.ndarray:
        return self.rate * s**2 + u
