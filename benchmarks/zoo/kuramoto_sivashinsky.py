"""The equation of Kuramoto and Sivashinsky, a flame front: long waves grow, steepen, and feed short ones that decay."""

from _solvers import Fourier, evolve

from seponet import Domain, Periodic, Problem, Value
from seponet.functions import SpectralField, as_callable


class KuramotoSivashinsky(Problem):
    r"""Learn $u \mapsto s$ where $s_t + s s_x + s_{xx} + s_{xxxx} = 0$ on a circle of length 22 and s = u at t = 0."""

    domain = Domain(t=(0, 8), x=Periodic(0, 22))
    inputs = {"u": SpectralField(domain["x"], sigma=3.0, tau=1.0, gamma=4.0)}
    conditions = [Value({"t": 0}, equals="u")]
    reference_resolution = 192

    def equation(self, s, s_t, s_x, s_xx, s_xxxx):
        return s_t + s * s_x + s_xx + s_xxxx

    def reference(self, inputs, points, resolution):
        waves, initial = Fourier(self.domain["x"], resolution), [as_callable(inputs["u"])]
        linear, flux = [waves.k**2 - waves.k**4], lambda s: [-(s**2) / 2]
        return evolve(self.fields, waves, initial, linear, flux, points, steps=4 * resolution, after=1j * waves.k)
