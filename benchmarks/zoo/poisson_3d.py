"""Poisson's equation in three dimensions."""

from _elliptic import Box

from seponet import Domain, Problem, Value
from seponet.functions import GaussianField, as_callable


class Poisson3D(Problem):
    r"""Learn $u \mapsto s$ where $-\Delta s = u(x, y, z)$ in the unit cube and s = 0 on its boundary."""

    domain = Domain(x=(0, 1), y=(0, 1), z=(0, 1))
    inputs = {"u": GaussianField(domain, length_scale=0.3)}
    conditions = [Value({"x": (0, 1)}), Value({"y": (0, 1)}), Value({"z": (0, 1)})]

    def equation(self, s_xx, s_yy, s_zz, u):
        return -s_xx - s_yy - s_zz - u

    grid_points = 33
    reference_resolution = 32

    def reference(self, inputs, points, resolution):
        box = Box(self.domain, resolution)
        return {"s": box.at(box.invert(box.test(as_callable(inputs["u"])(*box.nodes))), points)}
