"""The shallow-water equations: waves of five per cent that run both ways through each other."""

from _solvers import Fourier, evolve

from seponet import Domain, Periodic, Problem, Value
from seponet.functions import SpectralField, as_callable


class ShallowWater(Problem):
    r"""$h_t + (h v)_x = 0$, $v_t + v v_x + g h_x = 0$, periodic; h = 1 + u with waves u of 5%, v = 0 at t = 0."""

    g: float = 1.0
    domain, fields = Domain(t=(0, 1), x=Periodic(0, 1)), ("h", "v")
    inputs = {"u": SpectralField(domain["x"], sigma=2.5e3, tau=8.0, gamma=5.0)}
    conditions = [Value({"t": 0}, equals=lambda u: 1 + u, field="h"), Value({"t": 0}, field="v")]
    reference_resolution = 256

    def equation_h(self, h, v, h_t, h_x, v_x):
        return h_t + h * v_x + v * h_x

    def equation_v(self, v, v_t, v_x, h_x):
        return v_t + v * v_x + self.g * h_x

    def reference(self, inputs, points, resolution):
        waves, u = Fourier(self.domain["x"], resolution), as_callable(inputs["u"])
        initial, flux = [lambda x: 1 + u(x), 0.0], lambda h, v: [-h * v, -(v**2) / 2 - self.g * h]
        steps, d_dx = 4 * resolution, 1j * waves.k
        return evolve(self.fields, waves, initial, [0 * waves.k] * 2, flux, points, steps=steps, after=d_dx)
