r"""$s_t + u(x) s_x = 0$ on $(0, 1]_t \times (0, 1]_x$, $s(0, x) = \sin \pi x$, $s(t, 0) = \sin \tfrac{\pi}{2} t$."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..bases.quadrature import quadrature
from ..derivatives import MultiIndex, multi_index
from ..domain import Domain
from ..equations.conditions import Value
from ..equations.problem import Problem
from ..functions import Functions, GaussianField, Positive, as_callable
from ..locations import Evaluable, Grid, Location


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
        from ..reference import solve_advection

        u = as_callable(inputs["u"])
        return {"s": solve_advection(u, _initial, _inflow, points["t"], points["x"], resolution=resolution)}

    def paper_reference(
        self, inputs: Mapping[str, Functions], points: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        from ..reference import box_advection

        return {"s": box_advection(as_callable(inputs["u"]), _initial, _inflow, points["t"], points["x"])}


DAMPING = 10.0
"""The rate at which the singular part decays behind the kink; undamped it would grow, and the network cancel it."""


class AdvectionInformed(Advection):
    r"""Advection whose kink is known: structure-informed, to be reported as such.

    Along the characteristic through the origin, $\eta = t - \tau(x) = 0$ with the travel time $\tau = \int_0^x dx/u$,
    the slope of s jumps by $\pi/2 + \pi u(0)$ and its curvature in $\eta$ by $-\pi u(0) u'(0)$. Functions of $\eta$ are
    carried by the flow, so both jumps are known everywhere, and what is left to learn has two continuous derivatives.
    """

    def singular_part(self, inputs: Mapping[str, Any]) -> dict[str, Evaluable]:
        u = inputs["u"]
        nodes, weights = quadrature(self.domain.axis("x"), 20)

        def kink(where: Location, alpha: MultiIndex) -> Array:
            x = where["x"]
            lines = Grid(("x",), ((x[:, None] * jnp.asarray(nodes, x.dtype)[None]).reshape(-1),))
            slowness = 1 / u(lines, ()).reshape(-1, x.shape[0], len(nodes))
            travel_time = x[None] * jnp.matmul(slowness, jnp.asarray(weights, x.dtype), precision="highest")
            corner = Grid(("x",), (jnp.zeros(1, x.dtype),))
            rank = (-1,) + (1,) * len(where.shape)
            speed, slope = (u(corner, a).reshape(rank) for a in ((), multi_index(x=1)))
            delay = jnp.maximum(where.coordinate("t") - where.spread(travel_time, ("x",)), 0)
            # e^(-a eta) (b eta + c eta^2) for eta > 0, zero before, has the two jumps.
            a, b = DAMPING, jnp.pi / 2 + jnp.pi * speed
            c = a * b - jnp.pi * speed * slope / 2
            decay = jnp.exp(-a * delay)
            if not alpha:
                return decay * delay * (b + c * delay)
            along_t = decay * (b * (delay > 0) + (2 * c - a * b) * delay - a * c * delay**2)
            if alpha == multi_index(t=1):
                return along_t
            if alpha == multi_index(x=1):
                return -along_t / u(where, ())
            raise ValueError(f"the kink of an advected state has first derivatives only; got {alpha}")

        return {"s": kink}


def _initial(x: Any) -> Any:
    return np.sin(np.pi * x)


def _inflow(t: Any) -> Any:
    return np.sin(np.pi / 2 * t)
