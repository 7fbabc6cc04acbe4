"""Poisson's equation on seven domains, shapes or sources as inputs: `seponet train .../domains.py:Star`."""

import jax.numpy as jnp
import numpy as np

from seponet import Domain, Mapped, Normal, Periodic, Problem, Value, maps
from seponet.functions import GaussianField, SpectralField

THETA = Domain(theta=Periodic(0, 2 * np.pi))


class Annulus(Problem):
    """Between circles of radius 0.5 and 1, a random source."""

    domain = maps.annulus(0.5, 1.0)
    inputs = {"f": GaussianField(Domain(x=(-1, 1), y=(-1, 1)), length_scale=0.5)}
    conditions = [Value({"rho": (0, 1)})]

    def equation(self, s_xx, s_yy, f):
        return s_xx + s_yy + f


class Star(Problem):
    """A star with a random wall."""

    domain = maps.disk(lambda R: jnp.exp(0.25 * R))
    inputs = {"R": SpectralField(THETA, sigma=1600.0, tau=3.0, gamma=6.0)}
    conditions = [Value({"rho": 1})]

    def equation(self, s_xx, s_yy):
        return s_xx + s_yy + 1.0


class Channel(Problem):
    """A periodic channel: a random insulated wall (soft), a floor at temperature g(x)."""

    domain = maps.channel(lambda h: 0.6 * jnp.exp(0.3 * h), x=Periodic(0, 1))
    inputs = {
        "h": SpectralField(domain["x"], sigma=9000.0, tau=5.0, gamma=5.0),
        "g": SpectralField(domain["x"], sigma=9000.0, tau=5.0, gamma=5.0),
    }
    conditions = [Value({"q": 0}, equals="g"), Normal({"q": 1})]

    def equation(self, s_xx, s_yy):
        return s_xx + s_yy


class Ring(Problem):
    """Between a random inner wall, hot, and an ellipse, cold."""

    domain = maps.ring(lambda R: 0.45 * jnp.exp(0.2 * R), lambda theta: (1.3 * jnp.cos(theta), jnp.sin(theta)))
    inputs = {"R": SpectralField(THETA, sigma=1600.0, tau=3.0, gamma=6.0)}
    conditions = [Value({"rho": 0}, equals=1.0), Value({"rho": 1})]

    def equation(self, s_xx, s_yy):
        return s_xx + s_yy


def parallelogram(degrees: float) -> Mapped:
    """A rhombus of side one with that angle at two of its corners."""
    c, s = float(np.cos(np.radians(degrees))), float(np.sin(np.radians(degrees)))
    return Mapped(Domain(p=(0, 1), q=(0, 1)), x=lambda p, q: p + c * q, y=lambda q: s * q, keep=())


class Corner120(Problem):
    """A rhombus with corners of 120 degrees, a random source."""

    domain = parallelogram(120)
    inputs = {"f": GaussianField(Domain(x=(-0.5, 1), y=(0, 0.87)), length_scale=0.4)}
    conditions = [Value({"p": (0, 1)}), Value({"q": (0, 1)})]

    def equation(self, s_xx, s_yy, f):
        return s_xx + s_yy + f


class Corner150(Problem):
    """A rhombus with corners of 150 degrees, a random source."""

    domain = parallelogram(150)
    inputs = {"f": GaussianField(Domain(x=(-0.87, 1), y=(0, 0.5)), length_scale=0.4)}
    conditions = [Value({"p": (0, 1)}), Value({"q": (0, 1)})]

    def equation(self, s_xx, s_yy, f):
        return s_xx + s_yy + f


class Quadrilateral(Problem):
    """Four curved sides with corners of 57 to 140 degrees, a random source."""

    domain = maps.transfinite(
        lambda p: (p, 0.15 * jnp.sin(np.pi * p)),
        lambda p: (p, 1 + 0.2 * jnp.sin(np.pi * p)),
        lambda q: (-0.1 * jnp.sin(np.pi * q), q),
        lambda q: (1 + 0.2 * jnp.sin(np.pi * q), q),
    )
    inputs = {"f": GaussianField(Domain(x=(-0.2, 1.3), y=(-0.1, 1.3)), length_scale=0.5)}
    conditions = [Value({"p": (0, 1)}), Value({"q": (0, 1)})]

    def equation(self, s_xx, s_yy, f):
        return s_xx + s_yy + f


PROBLEMS = {c.__name__: c for c in (Annulus, Star, Channel, Ring, Corner120, Corner150, Quadrilateral)}
