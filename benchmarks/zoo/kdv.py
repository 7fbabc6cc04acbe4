"""The equation of Korteweg and de Vries: waves that steepen until dispersion makes solitons of them."""

from _solvers import Fourier, evolve

from seponet import Domain, Periodic, Problem, Value
from seponet.functions import SpectralField, as_callable


class KdV(Problem):
    r"""Learn $u \mapsto s$ where $s_t + s s_x + \delta^2 s_{xxx} = 0$ (Zabusky and Kruskal 1965) and s = u at t = 0."""

    delta: float = 0.05
    domain = Domain(t=(0, 0.5), x=Periodic(0, 2))
    inputs = {"u": SpectralField(domain["x"], sigma=5e3, tau=5.0, gamma=5.0)}
    conditions = [Value({"t": 0}, equals="u")]
    reference_resolution = 256

    def equation(self, s, s_t, s_x, s_xxx):
        return s_t + s * s_x + self.delta**2 * s_xxx

    def reference(self, inputs, points, resolution):
        waves, initial = Fourier(self.domain["x"], resolution), [as_callable(inputs["u"])]
        linear, flux = [1j * self.delta**2 * waves.k**3], lambda s: [-(s**2) / 2]
        return evolve(self.fields, waves, initial, linear, flux, points, steps=4 * resolution, after=1j * waves.k)
