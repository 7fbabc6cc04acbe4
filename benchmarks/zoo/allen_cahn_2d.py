"""The equation of Allen and Cahn in the plane: two phases separate, and their interfaces move by curvature."""

from _solvers import Cosine, evolve

from seponet import Derivative, Domain, Problem, Value
from seponet.functions import GaussianField, as_callable


class AllenCahn2D(Problem):
    r"""Learn $u \mapsto s$ where $s_t = \epsilon \Delta s + s - s^3$, s = u at t = 0 and insulated walls."""

    epsilon: float = 0.01
    domain = Domain(t=(0, 1), x=(0, 1), y=(0, 1))
    inputs = {"u": GaussianField(domain["x", "y"], length_scale=0.3)}
    conditions = [Value({"t": 0}, equals="u"), Derivative({"x": (0, 1)}), Derivative({"y": (0, 1)})]
    grid_points = 41
    reference_resolution = 64

    def equation(self, s, s_t, s_xx, s_yy):
        return s_t - self.epsilon * (s_xx + s_yy) - s + s**3

    def reference(self, inputs, points, resolution):
        modes, initial = Cosine(self.domain["x", "y"], resolution), [as_callable(inputs["u"])]
        linear = [1 + self.epsilon * modes.laplacian]
        return evolve(self.fields, modes, initial, linear, lambda s: [-(s**3)], points, steps=resolution)
