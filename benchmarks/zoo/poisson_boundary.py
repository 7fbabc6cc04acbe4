"""Laplace's equation with data on one side that do not vanish at its ends, as the other sides' do."""

import numpy as np
from _elliptic import harmonic

from seponet import Domain, Problem, Value
from seponet.functions import GaussianField, as_callable


class PoissonBoundary(Problem):
    r"""Learn $g \mapsto s$ where $\Delta s = 0$ on the unit square, s = g(x) at y = 1 and 0 on the other sides."""

    domain = Domain(x=(0, 1), y=(0, 1))
    inputs = {"g": GaussianField(domain["x"], length_scale=0.2)}
    conditions = [Value({"x": (0, 1)}), Value({"y": 0}), Value({"y": 1}, equals="g")]

    def equation(self, s_xx, s_yy):
        return s_xx + s_yy

    def grid(self):  # Midpoints: at two corners s jumps and has no value to compare with.
        return {axis: (np.arange(101) + 0.5) / 101 for axis in ("x", "y")}

    reference_resolution = 256

    def reference(self, inputs, points, resolution):
        return {"s": harmonic(as_callable(inputs["g"]), points["x"], points["y"], resolution)}
