"""Poisson's equation with ten sine modes along each axis, a label-free task of arXiv 2609.36216."""

import numpy as np

from seponet import Domain, Problem, Value
from seponet.functions import SpectralField, as_callable


class PoissonSines(Problem):
    r"""$-\Delta s = \sum_{i, j = 1}^{10} a_{ij} \sin(i \pi x) \sin(j \pi y)$ on the unit square, s = 0 on its sides.

    The deviation of $a_{ij}$ is proportional to $(i^2 + j^2)^{-1/2}$, a usual choice for this source: the paper's own
    is not known here. The reference is exact.
    """

    domain = Domain(x=(0, 1), y=(0, 1))
    inputs = {"u": SpectralField(domain, sigma=10.0, tau=0.0, gamma=1.0, modes=10)}
    conditions = [Value({"x": (0, 1)}), Value({"y": (0, 1)})]

    def equation(self, s_xx, s_yy, u):
        return -s_xx - s_yy - u

    def reference(self, inputs, points):
        k, grid = np.pi * np.arange(1, 32), np.arange(1, 32) / 32
        waves = np.sin(np.outer(k, grid))  # their products are orthogonal on the grid
        a = waves @ as_callable(inputs["u"])(grid, grid) @ waves.T / 16**2
        at = {axis: np.sin(np.outer(k, points[axis])) for axis in ("x", "y")}
        return {"s": at["x"].T @ (a / np.add.outer(k**2, k**2)) @ at["y"]}
