"""Helmholtz' equation at ten radians per unit length."""

from _elliptic import Box

from seponet import Domain, Problem, Value
from seponet.functions import GaussianField, as_callable


class Helmholtz(Problem):
    r"""Learn $u \mapsto s$ where $\Delta s + k^2 s = u(x, y)$ on the unit square and s = 0 on its boundary.

    The nearest resonance is at $k^2 = 10 \pi^2 = 98.7$, so that two modes are much larger than the others.
    """

    k: float = 10.0
    domain = Domain(x=(0, 1), y=(0, 1))
    inputs = {"u": GaussianField(domain, length_scale=0.2)}
    conditions = [Value({"x": (0, 1)}), Value({"y": (0, 1)})]

    def equation(self, s, s_xx, s_yy, u):
        return s_xx + s_yy + self.k**2 * s - u

    reference_resolution = 40

    def reference(self, inputs, points, resolution):
        box = Box(self.domain, resolution)
        return {"s": -box.at(box.invert(box.test(as_callable(inputs["u"])(*box.nodes)), self.k**2), points)}
