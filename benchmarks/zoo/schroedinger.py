"""Schroedinger's equation: a wave packet in a random potential, its real and its imaginary part."""

import jax.numpy as jnp
from _solvers import solve_schroedinger

from seponet import Domain, Periodic, Problem, Value
from seponet.functions import SpectralField, as_callable


class Schroedinger(Problem):
    r"""Learn $V \mapsto \psi = p + iq$ where $i \psi_t = -\psi_{xx}/2 + V \psi$ and $\psi = e^{-x^2 + ix}$ at t = 0."""

    domain, fields = Domain(t=(0, 1), x=Periodic(-5, 5)), ("p", "q")
    inputs = {"V": SpectralField(domain["x"], sigma=30.0, tau=2.0, gamma=4.0)}
    real = Value({"t": 0}, equals=lambda x: jnp.exp(-(x**2)) * jnp.cos(x), field="p")
    conditions = [real, Value({"t": 0}, equals=lambda x: jnp.exp(-(x**2)) * jnp.sin(x), field="q")]
    reference_resolution = 128

    def equation_p(self, p_t, q_xx, q, V):
        return p_t + q_xx / 2 - V * q

    def equation_q(self, q_t, p_xx, p, V):
        return q_t - p_xx / 2 + V * p

    def reference(self, inputs, points, resolution):
        V = as_callable(inputs["V"])
        psi = solve_schroedinger(self.domain["x"], V, lambda x: jnp.exp(-(x**2) + 1j * x), points, resolution)
        return {"p": psi.real, "q": psi.imag}
