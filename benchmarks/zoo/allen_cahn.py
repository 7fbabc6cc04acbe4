"""Allen and Cahn's equation, after a label-free task of arXiv 2609.36216: ten steps of 0.01 on 129 x 129 points."""

import numpy as np
from _splitting import solve_allen_cahn

from seponet import Domain, Periodic, Problem, Value
from seponet.functions import SpectralField, as_callable


class AllenCahn(Problem):
    r"""Learn $u \mapsto s$ where $s_t = \epsilon \Delta s + (s - s^3) / \epsilon$ and s = u at t = 0, periodic.

    Scaling, walls and initial states (deviation 0.5, correlation length 0.16) are our choice: the paper is not here.
    """

    epsilon: float = 0.05
    domain = Domain(t=(0, 0.1), x=Periodic(0, 1), y=Periodic(0, 1))
    inputs = {"u": SpectralField(domain["x", "y"], sigma=3.5e6, tau=15, gamma=6)}
    conditions = [Value({"t": 0}, equals="u")]

    def equation(self, s, s_t, s_xx, s_yy):
        return s_t - self.epsilon * (s_xx + s_yy) - (s - s**3) / self.epsilon

    def grid(self):
        return {"t": np.linspace(0, 0.1, 11), "x": np.linspace(0, 1, 129), "y": np.linspace(0, 1, 129)}

    reference_resolution = 64

    def reference(self, inputs, points, resolution):
        return {"s": solve_allen_cahn(as_callable(inputs["u"]), points, self.epsilon, resolution)}
