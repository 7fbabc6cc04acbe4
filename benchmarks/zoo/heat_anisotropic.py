"""The heat equation in a box that conducts differently along each axis, with cold walls."""

import numpy as np
import scipy.fft

from seponet import Domain, Problem, Value
from seponet.functions import SpectralField, as_callable


class HeatAnisotropic(Problem):
    r"""Learn $u \mapsto s$ where $s_t = a s_{xx} + b s_{yy} + c s_{zz}$, s = u at t = 0 and s = 0 at the six walls."""

    a: float = 0.01
    b: float = 0.03
    c: float = 0.1
    domain = Domain(t=(0, 1), x=(0, 1), y=(0, 1), z=(0, 1))
    inputs = {"u": SpectralField(domain["x", "y", "z"], sigma=2e3, tau=5.0, gamma=5.0)}
    conditions = [Value({"t": 0}, equals="u"), Value({"x": (0, 1)}), Value({"y": (0, 1)}), Value({"z": (0, 1)})]
    grid_points, reference_resolution = 21, 20

    def equation(self, s_t, s_xx, s_yy, s_zz):
        return s_t - self.a * s_xx - self.b * s_yy - self.c * s_zz

    def reference(self, inputs, points, resolution):
        k, n, t = np.arange(1, resolution), resolution, points["t"][:, None, None]
        s = scipy.fft.dstn(as_callable(inputs["u"])(k / n, k / n, k / n), 1, axes=(1, 2, 3))[:, None] / n**3
        for axis, a in {"x": self.a, "y": self.b, "z": self.c}.items():  # from [f, t, k, l, m] to [f, t, x, y, z]
            sines = np.exp(-a * (np.pi * k) ** 2 * t) * np.sin(np.pi * points[axis][:, None] * k)
            s = np.einsum("txk,ftk...->ft...x", sines, s)
        return {"s": s}
