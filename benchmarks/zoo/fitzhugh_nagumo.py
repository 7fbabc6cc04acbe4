"""The equations of FitzHugh and Nagumo: a nerve that is excited and recovers."""

from _solvers import Cosine, evolve

from seponet import Derivative, Domain, Problem, Value
from seponet.functions import GaussianField, as_callable


class FitzHughNagumo(Problem):
    r"""$v_t = D v_{xx} + v - v^3/3 - w$, $w_t = (v + 0.7 - 0.8 w) / 12.5$; v = u, w = 0 at t = 0, insulated walls."""

    D: float = 0.01
    domain, fields = Domain(t=(0, 4), x=(0, 1)), ("v", "w")
    inputs = {"u": GaussianField(domain["x"], length_scale=0.2)}
    initial = [Value({"t": 0}, equals="u", field="v"), Value({"t": 0}, field="w")]
    conditions = [*initial, Derivative({"x": (0, 1)}, field="v")]
    reference_resolution = 256

    def equation_v(self, v, w, v_t, v_xx):
        return v_t - self.D * v_xx - v + v**3 / 3 + w

    def equation_w(self, v, w, w_t):
        return w_t - (v + 0.7 - 0.8 * w) / 12.5

    def reference(self, inputs, points, resolution):
        modes, initial = Cosine(self.domain["x"], resolution), [as_callable(inputs["u"]), 0.0]
        linear, react = [1 + self.D * modes.laplacian, -0.8 / 12.5], lambda v, w: [-(v**3) / 3 - w, (v + 0.7) / 12.5]
        return evolve(self.fields, modes, initial, linear, react, points, steps=2 * resolution)
