"""Poisson's equation with a random source."""

from _elliptic import Box

from seponet import Domain, Problem, Value
from seponet.functions import GaussianField, as_callable


class PoissonSource(Problem):
    r"""Learn $u \mapsto s$ where $-\Delta s = u(x, y)$ on the unit square and s = 0 on its boundary."""

    domain = Domain(x=(0, 1), y=(0, 1))
    inputs = {"u": GaussianField(domain, length_scale=0.2)}
    conditions = [Value({"x": (0, 1)}), Value({"y": (0, 1)})]

    def equation(self, s_xx, s_yy, u):
        return -s_xx - s_yy - u

    reference_resolution = 40

    def reference(self, inputs, points, resolution):
        box = Box(self.domain, resolution)
        return {"s": box.at(box.invert(box.test(as_callable(inputs["u"])(*box.nodes))), points)}
