"""Burgers' equation with an initial state and the viscosity as inputs."""

from _solvers import Fourier, evolve

from seponet import Domain, Periodic, Problem, Value
from seponet.functions import Scalar, SpectralField, as_callable


class BurgersViscosity(Problem):
    r"""Learn $(u, \nu) \mapsto s$ where $s_t + s s_x = \nu s_{xx}$, periodic, and s = u at t = 0."""

    domain = Domain(t=(0, 1), x=Periodic(0, 1))
    inputs = {"u": SpectralField(domain["x"], sigma=625.0, tau=5.0, gamma=4.0), "nu": Scalar(0.005, 0.05)}
    conditions = [Value({"t": 0}, equals="u")]
    reference_resolution = 512

    def equation(self, s, s_t, s_x, s_xx, nu):
        return s_t + s * s_x - nu * s_xx

    def reference(self, inputs, points, resolution):
        waves, initial = Fourier(self.domain["x"], resolution), [as_callable(inputs["u"])]
        linear, flux = [-as_callable(inputs["nu"])()[:, None] * waves.k**2], lambda s: [-(s**2) / 2]
        return evolve(self.fields, waves, initial, linear, flux, points, steps=resolution, after=1j * waves.k)
