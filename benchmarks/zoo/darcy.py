"""Darcy's flow through a log-normal medium."""

import jax.numpy as jnp
import numpy as np
from _elliptic import Box, solve_diffusion

from seponet import Domain, Problem, Value
from seponet.functions import GaussianField, as_callable


class Darcy(Problem):
    r"""Learn $u \mapsto s$ where $\nabla \cdot (e^u \nabla s) = -1$ on the unit square and s = 0 on its boundary."""

    domain = Domain(x=(0, 1), y=(0, 1))
    inputs = {"u": GaussianField(domain, length_scale=0.25)}
    conditions = [Value({"x": (0, 1)}), Value({"y": (0, 1)})]

    def equation(self, s_x, s_y, s_xx, s_yy, u, u_x, u_y):
        return jnp.exp(u) * (s_xx + s_yy + u_x * s_x + u_y * s_y) + 1

    reference_resolution = 40

    def reference(self, inputs, points, resolution):
        box = Box(self.domain, resolution)
        a = np.exp(as_callable(inputs["u"])(*box.nodes))
        return {"s": box.at(solve_diffusion(box, a, np.ones_like(a)), points)}
