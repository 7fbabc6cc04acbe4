"""The telegraph equation: waves on a lossy line that starts with a voltage and a rate of its own."""

import numpy as np

from seponet import Derivative, Domain, Problem, Value
from seponet.functions import SpectralField, as_callable
from seponet.reference import sine_coefficients


class Telegraph(Problem):
    r"""Learn $(u, v) \mapsto s$ where $s_{tt} + a s_t = c^2 s_{xx}$, s = u, $s_t = v$ at t = 0, s = 0 at the ends."""

    a: float = 1.0
    c: float = 1.0
    domain = Domain(t=(0, 1), x=(0, 1))
    space = SpectralField(domain["x"], sigma=30.0, tau=3.0, gamma=4.0)
    inputs = {"u": space, "v": space}
    conditions = [Value({"t": 0}, equals="u"), Derivative({"t": 0}, equals="v"), Value({"x": (0, 1)})]
    reference_resolution = 256

    def equation(self, s_tt, s_t, s_xx):
        return s_tt + self.a * s_t - self.c**2 * s_xx

    def reference(self, inputs, points, resolution):
        u, v = (sine_coefficients(as_callable(inputs[name]), resolution)[:, None] for name in ("u", "v"))
        k, t = np.pi * np.arange(1, resolution + 1), points["t"][:, None]
        omega = np.sqrt((self.c * k) ** 2 - self.a**2 / 4 + 0j)
        s = np.exp(-self.a * t / 2) * (u * np.cos(omega * t) + (v + self.a * u / 2) * np.sin(omega * t) / omega)
        return {"s": s.real @ np.sin(np.outer(k, points["x"]))}
