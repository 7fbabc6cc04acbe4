"""The equation of Fisher, Kolmogorov, Petrovsky and Piskunov: a population that spreads and grows to saturation."""

import jax.numpy as jnp
import numpy as np
from _solvers import Cosine, evolve

from seponet import Derivative, Domain, Problem, Value
from seponet.functions import GaussianField, as_callable


class FisherKPP(Problem):
    r"""Learn $u \mapsto s$ where $s_t = D s_{xx} + r s (1 - s)$, $s = e^u / 4$ at t = 0 and $s_x = 0$ at the walls."""

    D: float = 0.01
    r: float = 3.0
    domain = Domain(t=(0, 1), x=(0, 1))
    inputs = {"u": GaussianField(domain["x"], length_scale=0.3, variance=0.3)}
    conditions = [Value({"t": 0}, equals=lambda u: jnp.exp(u) / 4), Derivative({"x": (0, 1)})]
    reference_resolution = 256

    def equation(self, s, s_t, s_xx):
        return s_t - self.D * s_xx - self.r * s * (1 - s)

    def reference(self, inputs, points, resolution):
        modes, u = Cosine(self.domain["x"], resolution), as_callable(inputs["u"])
        initial, linear = [lambda x: np.exp(u(x)) / 4], [self.r + self.D * modes.laplacian]
        return evolve(self.fields, modes, initial, linear, lambda s: [-self.r * s**2], points, steps=resolution)
