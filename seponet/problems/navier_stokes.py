r"""$\omega_t + v \cdot \nabla \omega = \nu \Delta \omega$, $\nabla \cdot v = 0$ on $(0, T]_t \times [0, 2\pi)^2$.

Periodic in space. The fields are the velocity $v = (p, q)$ with vorticity $\omega = q_x - p_y$, and $v = u$ at $t = 0$.
Two functions follow from u: its vorticity w, and the slope $f = v_t$ at $t = 0$.
"""

import math
from collections.abc import Mapping, Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..derivatives import multi_index
from ..domain import Domain, Periodic
from ..equations.conditions import Condition, Derivative, Value
from ..equations.problem import Derived, Problem
from ..functions import Functions, SolenoidalField, as_callable, project
from ..functions.interpolant import Interpolant

SPACE = Domain(x=Periodic(0, 2 * math.pi), y=Periodic(0, 2 * math.pi))
VELOCITY = SolenoidalField(SPACE, max_speed=5.0, peak=3.0)


def _scalars() -> Interpolant:
    return Interpolant(SPACE, VELOCITY.bases)


def _vorticity(inputs: Mapping[str, Functions]) -> Functions:
    u = inputs["u"]
    stream = u if u.space == VELOCITY else VELOCITY.fit(u(VELOCITY.sensors(VELOCITY.bases[0].size)))
    inverse = VELOCITY.inverse_laplacian
    square = np.where(inverse > 0, 1 / np.where(inverse > 0, inverse, 1), 0)
    return Functions(_scalars(), stream.parameters * jnp.asarray(square)[None])


class NavierStokes(Problem):
    r"""Learn $u \mapsto (p, q)$: the initial velocity is divergence-free, of maximal speed 5, with its energy around
    wavenumber 3 (see `SolenoidalField`). The paper's windows are `duration` 0.1 and 1.
    """

    duration: float = 0.1
    viscosity: float = 0.01

    fields = ("p", "q")
    inputs = {"u": VELOCITY}
    reference_resolution = 192

    @property
    def domain(self) -> Domain:  # pyright: ignore[reportIncompatibleVariableOverride]
        return Domain(t=(0, self.duration)) | SPACE

    @property
    def conditions(self) -> Sequence[Condition]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return [
            Value({"t": 0}, equals=lambda u: u[0], field="p"),
            Value({"t": 0}, equals=lambda u: u[1], field="q"),
            Derivative({"t": 0}, equals=lambda f: f[0], field="p", implied=True),
            Derivative({"t": 0}, equals=lambda f: f[1], field="q", implied=True),
        ]

    @property
    def derived(self) -> Mapping[str, Derived]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return {"w": Derived(_scalars(), _vorticity), "f": Derived(VELOCITY, self._slope)}

    def _slope(self, inputs: Mapping[str, Functions]) -> Functions:
        """v_t = (phi_y, -phi_x) with -Laplacian phi = omega_t, products on a grid that is fine enough for them."""
        u = inputs["u"]
        # A product of two series and a test function of |k| <= K needs more than 3 K points.
        grid = VELOCITY.sensors(2 * math.ceil(1.5 * VELOCITY.bases[0].size / 2))
        u_xx, u_xy, u_yy = (u(grid, multi_index(**alpha)) for alpha in ({"x": 2}, {"x": 1, "y": 1}, {"y": 2}))
        velocity = u(grid)
        advection = velocity[0] * (u_xx[1] - u_xy[0]) + velocity[1] * (u_xy[1] - u_yy[0])
        inverse = jnp.asarray(VELOCITY.inverse_laplacian)[None]
        stream = -inverse * project(advection, VELOCITY.bases) - self.viscosity * _vorticity(inputs).parameters
        return Functions(VELOCITY, stream)

    def restart(self, inputs: Mapping[str, Functions], end: Mapping[str, Array]) -> dict[str, Functions]:
        return {"u": VELOCITY.fit(jnp.stack([end["p"], end["q"]]))}

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
        from ..reference import solve_navier_stokes

        slope_x, slope_y = (as_callable(inputs["u"], multi_index(**{axis: 1})) for axis in "xy")

        def vorticity(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            return slope_x(x, y)[1] - slope_y(x, y)[0]

        flow = solve_navier_stokes(
            vorticity, self.viscosity, points["t"], (points["x"], points["y"]), resolution=resolution
        )
        return {"p": flow.velocity[0], "q": flow.velocity[1]}
