r"""$\omega_t + v \cdot \nabla \omega = \nu \Delta \omega$, $\nabla \cdot v = 0$ on $(0, T]_t \times [0, 2\pi)^2$.

Periodic in space. The fields are the velocity $v = (p, q)$ with vorticity $\omega = q_x - p_y$, and $v = u$ at $t = 0$.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Array

from ..conditions import Condition, Value
from ..domain import Domain, Periodic, multi_index
from ..functions import Functions, SolenoidalField
from ..problem import Problem
from ..reference import as_callable, solve_navier_stokes

SPACE = Domain(x=Periodic(0, 2 * math.pi), y=Periodic(0, 2 * math.pi))


class NavierStokes(Problem):
    r"""Learn $u \mapsto (p, q)$: the initial velocity is divergence-free, of maximal speed 5, with its energy around
    wavenumber 3 (see `SolenoidalField`). The paper's windows are `duration` 0.1 and 1.
    """

    duration: float = 0.1
    viscosity: float = 0.01

    fields = ("p", "q")
    inputs = {"u": SolenoidalField(SPACE, max_speed=5.0, peak=3.0)}
    reference_resolution = 192

    @property
    def domain(self) -> Domain:  # pyright: ignore[reportIncompatibleVariableOverride]
        return Domain(t=(0, self.duration)) | SPACE

    @property
    def conditions(self) -> Sequence[Condition]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return [
            Value({"t": 0}, equals=lambda u: u[0], field="p"),
            Value({"t": 0}, equals=lambda u: u[1], field="q"),
        ]

    def equation_vorticity(
        self,
        p: Array,
        q: Array,
        q_tx: Array,
        p_ty: Array,
        q_xx: Array,
        p_xy: Array,
        q_xy: Array,
        p_yy: Array,
        q_xxx: Array,
        q_xyy: Array,
        p_xxy: Array,
        p_yyy: Array,
    ) -> Array:
        advection = p * (q_xx - p_xy) + q * (q_xy - p_yy)
        diffusion = q_xxx + q_xyy - p_xxy - p_yyy
        return q_tx - p_ty + advection - self.viscosity * diffusion

    def equation_divergence(self, p_x: Array, q_y: Array) -> Array:
        return p_x + q_y

    def grid(self) -> dict[str, np.ndarray]:
        space = np.linspace(0, 2 * np.pi, 128, endpoint=False)
        return {"t": np.linspace(0, self.duration, 10), "x": space, "y": space}

    def reference(
        self, inputs: Mapping[str, Functions], points: Mapping[str, np.ndarray], resolution: int
    ) -> dict[str, np.ndarray]:
        slope_x, slope_y = (as_callable(inputs["u"], multi_index(**{axis: 1})) for axis in "xy")

        def vorticity(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            return slope_x(x, y)[1] - slope_y(x, y)[0]

        flow = solve_navier_stokes(
            vorticity, self.viscosity, points["t"], (points["x"], points["y"]), resolution=resolution
        )
        return {"p": flow.velocity[0], "q": flow.velocity[1]}
