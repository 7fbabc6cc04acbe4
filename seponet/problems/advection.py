r"""$s_t + u(x) s_x = 0$ on $(0, 1]_t \times (0, 1]_x$, $s(0, x) = \sin \pi x$, $s(t, 0) = \sin \tfrac{\pi}{2} t$."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..conditions import Value
from ..domain import Domain
from ..functions import Functions, GaussianField, Positive
from ..problem import Problem
from ..reference import as_callable, box_advection, solve_advection


class Advection(Problem):
    r"""Learn $u \mapsto s$: the speed is $u = v - \min v + 1$, $v$ a Gaussian random field (RBF kernel, length 0.2).

    What comes from the initial state and what comes from the inflow meet along the characteristic through the origin,
    where s has a kink.
    """

    domain = Domain(t=(0, 1), x=(0, 1))
    inputs = {"u": Positive(GaussianField(domain["x"], length_scale=0.2), floor=1.0)}
    conditions = [
        Value({"t": 0}, equals=lambda x: jnp.sin(jnp.pi * x)),
        Value({"x": 0}, equals=lambda t: jnp.sin(jnp.pi / 2 * t)),
    ]
    reference_resolution = 128
    grid_points = 128

    def equation(self, s_t: Array, s_x: Array, u: Array) -> Array:
        return s_t + u * s_x

    def reference(
        self, inputs: Mapping[str, Functions], points: Mapping[str, np.ndarray], resolution: int
    ) -> dict[str, np.ndarray]:
        u = as_callable(inputs["u"])
        return {"s": solve_advection(u, _initial, _inflow, points["t"], points["x"], resolution=resolution)}

    def paper_reference(
        self, inputs: Mapping[str, Functions], points: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        return {"s": box_advection(as_callable(inputs["u"]), _initial, _inflow, points["t"], points["x"])}


def _initial(x: Any) -> Any:
    return np.sin(np.pi * x)


def _inflow(t: Any) -> Any:
    return np.sin(np.pi / 2 * t)
